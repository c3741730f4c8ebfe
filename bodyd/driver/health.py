"""Looks after the body: tells a frozen X server, a hung window manager, a dead capture and a blank
screen apart, and has them mended.

A look every few seconds, and at once when somebody asks; after a failed one, sooner. What failed
three times in a row, for long enough, is mended by the desktop's supervised restarts, the gentlest
first; a look that came late counts for nothing, since the machine, not the body, was slow. Programs
that *end* are no matter of this: desktop/ starts them again at once. Composed by body.py, since
display/ and desktop/ don't know each other. The judgement is in vitals.py.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog
import trio

from bodyd.contract.geometry import Bounds
from bodyd.display.display import Display
from bodyd.errors import BodydError, DisplayUnavailable

from .live import LiveDisplay
from .vitals import BLANK, DEAD, HUNG, READY, UNKNOWN, Escalation, Patience, Vitals

log = structlog.get_logger("bodyd.health")

PERIOD, SOONER = 5.0, 1.0
"""Seconds between two looks; the latter after a failed one."""

FRESH = 1.0
"""Seconds for which a look answers for the present, and that a caller waits for one."""

LATE = 1.0
"""A look that begins so many seconds late was made on a machine too busy to judge by."""

ANSWER_SECONDS = 3.0
MEND_SECONDS = 60.0
_STRIPS = (20, 50, 110)
"""Rows looked at first for a blank screen; a browser's own are among them."""


class Mender(Protocol):
    """What mending needs of desktop/."""

    @property
    def generation(self) -> int: ...

    @property
    def x_runs(self) -> bool: ...

    async def restart_window_manager(self) -> None: ...

    async def restart_apps(self) -> None: ...

    async def restart_display(self, screen: tuple[int, int] | None = None) -> None: ...


class Health:
    """One body's.

    Args:
        in_use: Whether somebody has the body: a blank screen is then theirs to judge.
        tell: Told of each mend, before it is done: what was wrong, and what is restarted.
    """

    def __init__(
        self,
        live: LiveDisplay,
        desktop: Mender,
        *,
        in_use: Callable[[], bool],
        tell: Callable[[str, str], Awaitable[None]],
    ) -> None:
        self._live = live
        self._desktop = desktop
        self._in_use = in_use
        self._tell = tell
        self._vitals = Vitals(READY, READY, READY, READY)  # of the last whole look
        self._present: Vitals | None = None  # of the look under way
        self._looked_at = float("-inf")
        self._looked_on: object = None  # which server, and which connections to it
        self._asked = trio.Event()
        self._looked = trio.Event()  # set, and replaced, at the end of each look
        self._manager_answers_in = 0  # the generation in which it ever did: not every one can
        self._x = Patience(8.0)
        self._manager = Patience(5.0)
        self._capture = Patience(5.0)
        self._blank = Patience(30.0)
        self._manager_again = Escalation(60.0)
        self._capture_again = Escalation(60.0)

    async def run(self) -> None:
        """Look and mend until cancelled."""
        pause = 0.0
        while True:
            late = await self._pause(pause)
            await self._look()
            well = self._vitals.trouble() is None
            pause = PERIOD if well else SOONER
            if late < LATE or well:
                with trio.move_on_after(MEND_SECONDS):
                    await self._mend()

    def vitals(self) -> Vitals:
        """As last seen: some seconds ago, if all was well then."""
        return self._vitals

    async def fresh(self) -> Vitals:
        """As of at most FRESH seconds ago; what has not answered FRESH seconds after that is not well.

        A look at a server that has a successor by now answers for nothing.
        """
        if trio.current_time() - self._looked_at > FRESH or self._looked_on != self._here():
            looked = self._looked
            self._asked.set()
            with trio.move_on_after(FRESH):
                await looked.wait()
        return self._present or self._vitals

    # -- looking ---------------------------------------------------------------------------------

    async def _pause(self, seconds: float) -> float:
        """Wait, unless someone asks; returns how late it ended."""
        due = trio.current_time() + seconds
        with trio.move_on_at(due):
            await self._asked.wait()
        self._asked = trio.Event()
        return max(0.0, trio.current_time() - due)

    async def _look(self) -> None:
        vitals, here = Vitals(), self._here()
        self._present = vitals
        try:
            with trio.move_on_after(ANSWER_SECONDS):
                display = self._live.current
                vitals.round_trip = await display.ping()
                vitals.x = READY
        except DisplayUnavailable:
            pass
        if vitals.x == READY:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._look_at_manager, display, vitals)
                nursery.start_soon(self._look_at_screen, display, vitals)
        self._vitals, self._present = vitals, None
        self._looked_at, self._looked_on = trio.current_time(), here
        self._looked.set()
        self._looked = trio.Event()

    def _here(self) -> object:
        return self._desktop.generation, self._live.screen

    async def _look_at_manager(self, display: Display, vitals: Vitals) -> None:
        """One that has never answered in this generation may not be able to: no judgement is passed."""
        generation = self._desktop.generation
        try:
            answers = await display.window_manager_answers()
        except DisplayUnavailable:
            vitals.window_manager = UNKNOWN
            return
        if answers:
            self._manager_answers_in = generation
        vitals.window_manager = READY if answers or self._manager_answers_in != generation else HUNG

    async def _look_at_screen(self, display: Display, vitals: Vitals) -> None:
        try:
            with trio.move_on_after(ANSWER_SECONDS):
                blank = await _is_blank(display)
                vitals.capture = READY
                vitals.screen = BLANK if blank else READY
        except DisplayUnavailable:
            vitals.capture = DEAD

    # -- mending ---------------------------------------------------------------------------------

    async def _mend(self) -> None:
        now, vitals = trio.current_time(), self._vitals
        states = vitals.states()
        if self._x.note(vitals.x == READY or not self._desktop.x_runs, now):
            await self._restart_display("x frozen")
            return
        if self._manager.note(states["window_manager"] != HUNG, now):
            if self._manager_again.strong(now):
                await self._do("window_manager hung", "apps", self._desktop.restart_apps)
            else:
                await self._do("window_manager hung", "window_manager", self._desktop.restart_window_manager)
        if self._capture.note(states["capture"] != DEAD, now):
            if self._capture_again.strong(now):
                await self._restart_display("capture dead")
            else:
                await self._do("capture dead", "connections", self._live.reconnect)
        # A page in full screen may be black for good reasons; nobody's work is ended for that.
        if self._blank.note(states["screen"] != BLANK or self._in_use(), now):
            await self._do("screen blank", "apps", self._desktop.restart_apps)

    async def _restart_display(self, why: str) -> None:
        async def restart() -> None:
            generation = self._desktop.generation
            await self._desktop.restart_display()
            await self._live.opened_after(generation)

        await self._do(why, "display", restart)

    async def _do(self, why: str, what: str, work: Callable[[], Awaitable[None]]) -> None:
        log.warning("health.mending", wrong=why, restart=what)
        try:
            await self._tell(why, what)
            await work()
        except BodydError as exc:  # a restart is under way already, or the journal is full: look again
            log.error("health.not_mended", wrong=why, restart=what, error=exc.message)


async def _is_blank(display: Display) -> bool:
    """Whether every pixel is the same though a window is open. Mostly answered by a few rows."""
    width, height = display.size.width, display.size.height
    for row in _STRIPS:
        if row < height and not _uniform(await display.pixels(Bounds(x=0, y=row, width=width, height=1))):
            return False
    if not _uniform(await display.pixels(Bounds(x=0, y=0, width=width, height=height))):
        return False
    return any(not window.minimised for window in await display.windows())


def _uniform(rows: bytes) -> bool:
    return rows == rows[:3] * (len(rows) // 3)
