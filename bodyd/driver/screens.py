"""Taking screenshots: ids, facts, pixels kept once, and which one the driver's input is bound to."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from bodyd.clock import Clock
from bodyd.contract.elements import AccessibilityState
from bodyd.contract.geometry import Bounds, Size, fit_within
from bodyd.contract.inventory import Window
from bodyd.contract.ports import AccessibilityPort
from bodyd.contract.screenshots import (
    RegionTarget,
    Screenshot,
    ScreenshotRequest,
    WindowTarget,
)
from bodyd.display.display import Display
from bodyd.errors import AccessibilityUnavailable, InvalidRequest, NotFound, PersonDriving
from bodyd.journal.journal import Journal

from .admission import Sight
from .live import LiveDisplay

UNSTORED = 4
"""Pictures of a person's turn that are kept in memory."""

ATTEMPTS = 3
"""Captures until picture and windows are of one moment; on a screen that never rests, the last counts, and
input is refused where its windows changed."""


class Screens:
    """The screenshots of one body, and the latest that was given to its driver."""

    def __init__(
        self,
        *,
        live: LiveDisplay,
        journal: Journal,
        clock: Clock,
        private: Callable[[], bool],
        accessibility: AccessibilityPort | None = None,
    ) -> None:
        """
        Args:
            private: Whether a person drives: what is seen then is never stored, and soon forgotten.
        """
        self._private = private
        self._accessibility = accessibility
        self._unstored: OrderedDict[str, bytes] = OrderedDict()
        self._live = live
        self._journal = journal
        self._clock = clock
        self._sequence = 0
        self._sight: Sight | None = None

    @property
    def sight(self) -> Sight | None:
        """The latest screenshot given to the driver; its epoch and screen are checked at use."""
        return self._sight

    async def take(
        self, request: ScreenshotRequest, *, epoch: int, bind: bool, still_allowed: Callable[[], object]
    ) -> Screenshot:
        """Capture, keep, and (with *bind*) make it the one that the driver's next input is meant for.

        Args:
            still_allowed: Asked once the picture is made, before it is kept: it raises if the body was
                taken meanwhile, since the picture may show what is another's to see.
        Raises:
            NotFound: the target window is gone.
            InvalidRequest: the region or window is off the screen.
            DisplayUnavailable, JournalUnavailable.
        Cancellation:
            Nothing is bound; a kept image may stay until its retention ends.
        """
        display = self._live.current
        screen = self._live.screen
        private = self._private()
        scene = await display.scene()
        for _ in range(ATTEMPTS):
            bounds = _bounds(request, scene.windows, display)
            size = fit_within(
                Size(width=bounds.width, height=bounds.height), request.max_width, request.max_height
            )
            pointer = await display.pointer()
            capture = await display.capture(bounds, size, cursor=request.cursor)
            before, scene = scene, await display.scene()
            if scene is before:  # nothing was told of meanwhile, not even what was undone again
                break
        told = await self._elements(capture.bounds) if request.elements else {}
        still_allowed()
        self._sequence += 1
        shot = Screenshot(
            screenshot_id=f"shot_{secrets.token_hex(10)}",
            sequence=self._sequence,
            captured_at=self._clock.wall_ms(),
            epoch=epoch,
            width=capture.size.width,
            height=capture.size.height,
            bounds=capture.bounds,
            target=request.target,
            cursor=pointer,
            windows=scene.windows,
            sha256=capture.sha256,
            input_ready=bind,
        )
        await self._keep(shot, capture.png, private=private)
        shot = shot.model_copy(update=told)
        if bind:
            self._sight = Sight(
                shot,
                screen,
                scene.popups,
                scene.focus,
                scene.grabbed,
                None if scene.same_places(before) else (*before.windows, *before.popups),
            )
        return shot

    async def _elements(self, view: Bounds) -> dict[str, Any]:
        """What the screenshot says of elements; they are not kept, as they are of the moment."""
        if self._accessibility is None:
            return {"accessibility": AccessibilityState.OFF}
        try:
            seen = await self._accessibility.elements(view)
        except AccessibilityUnavailable:
            return {"accessibility": self._accessibility.state}
        return {
            "accessibility": AccessibilityState.READY,
            "elements": seen.elements,
            "elements_truncated": seen.truncated,
        }

    async def _keep(self, shot: Screenshot, png: bytes, *, private: bool) -> None:
        """In the journal, or in memory alone where it shows what is a person's.

        Raises:
            PersonDriving: the person's turn has begun or ended while the picture was made.
        """
        if private != self._private():
            raise PersonDriving("the body changed hands while the picture was made; ask again")
        if not private and await self._journal.put_screenshot(shot, png):
            return  # else nobody has had the body since a person, whose epoch keeps nothing
        self._unstored[shot.screenshot_id] = png
        while len(self._unstored) > UNSTORED:
            self._unstored.popitem(last=False)

    def forget_private(self) -> None:
        """The body changes hands: what a person saw is gone."""
        self._unstored.clear()

    async def image(self, screenshot_id: str) -> bytes:
        """The PNG of a kept screenshot.

        Raises:
            NotFound: never taken, or its retention ended.
        """
        if (unstored := self._unstored.get(screenshot_id)) is not None:
            return unstored
        shot = await self._journal.screenshot(screenshot_id)
        png = await self._journal.image(shot.sha256) if shot is not None else None
        if png is None:
            raise NotFound(f"no screenshot {screenshot_id!r} is kept; take a new one", param="screenshot_id")
        return png


def _bounds(request: ScreenshotRequest, windows: tuple[Window, ...], display: Display) -> Bounds:
    screen = Bounds(x=0, y=0, width=display.size.width, height=display.size.height)
    match request.target:
        case WindowTarget(id=wanted):
            window = next((w for w in windows if w.id == wanted), None)
            if window is None:
                raise NotFound(
                    f"no window has the id {wanted}; GET /v1/inventory lists them", param="target.id"
                )
            area = window.bounds
        case RegionTarget(bounds=area):
            pass
        case _:
            return screen
    visible = area.intersection(screen)
    if visible is None:
        raise InvalidRequest("the target lies off the screen", param="target")
    return visible
