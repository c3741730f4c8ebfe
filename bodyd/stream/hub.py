"""The hub: looks at the screen while someone watches, and shares each encoding among all who miss it.

Nothing is looked at while nothing changes or nobody has room: damage waits in the X server, and the
latest picture is what is sent. A watcher is never waited for. Counterparts: painter.py in the lens's
thread, session.py for one client.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio

from bodyd.contract.geometry import Size
from bodyd.display.lane import Lane
from bodyd.display.lens import CursorImage, Lens
from bodyd.driver.live import LiveDisplay
from bodyd.errors import DisplayUnavailable

from . import h264, tiles
from .painter import Group, Painted, Painter, Step, flags
from .protocol import Codec, Kind, Part, Said, pack, say
from .regions import Rect, add
from .watcher import Watcher

FASTEST = 1 / 60
"""Seconds between two looks."""

KEY_LOOK_SECONDS = 0.1
SETTLE_SECONDS = 0.1
"""Between two looks for what is still, as long as something was sent roughly."""

RETRY_SECONDS = 0.2
CLOSE_SECONDS = 3.0
_FULL = Rect(0, 0, 32767, 32767)


class Hub:
    """The screen of one body, for all who watch it.

    Args:
        epoch: The lease's, of which each picture is said to be.
    """

    def __init__(self, live: LiveDisplay, *, epoch: Callable[[], int]) -> None:
        self._live = live
        self._epoch = epoch
        self._watchers: list[Watcher] = []
        self._changed = trio.Event()
        self._collected = trio.Event()
        self._damaged = self._pending = False
        self._settles_at: float | None = None
        self._last_look = -math.inf
        self._sequence = 0
        self._size: Size | None = None
        self._cursor: bytes | None = None
        self._pointer: str | None = None
        self._open_encoder: h264.OpenEncoder | None = None
        self._looked_for_video = False

    @property
    def watchers(self) -> int:
        return len(self._watchers)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Show the screen to whoever watches, over new connections where old ones are lost."""
        task_status.started()
        while True:
            await self._until(lambda: bool(self._watchers))
            try:
                await self._show()
            except* DisplayUnavailable:
                await trio.sleep(RETRY_SECONDS)  # nothing can say when a dead server is back

    @contextmanager
    def watching(self, watcher: Watcher) -> Iterator[None]:
        """*watcher* is sent the screen for as long as this lasts."""
        watcher.missing = (_FULL,)
        self._greet(watcher)
        self._watchers.append(watcher)
        self.poke()
        try:
            yield
        finally:
            self._watchers.remove(watcher)
            self.poke()

    def poke(self) -> None:
        """Something is other than it was: room, watchers, or who may see."""
        self._changed.set()
        self._changed = trio.Event()

    def veil(self) -> None:
        """Who may see has changed: what waits for those who may not is forgotten, in this tick."""
        for watcher in self._watchers:
            if not watcher.sees():
                watcher.forget_frames()
                watcher.missing, watcher.rough, watcher.chained = (_FULL,), (), False
        self.poke()

    # -- looking ---------------------------------------------------------------------------------

    async def _show(self) -> None:
        """Until nobody watches any more, or the connection is lost."""
        await self._look_for_video()
        lane = self._live.current.lens()
        painter = Painter(self._open_encoder)
        try:
            watched = await lane.run(Lens.descriptor)
            try:
                async with trio.open_nursery() as nursery:
                    self._damaged = True
                    nursery.start_soon(self._listen, watched)
                    while self._watchers:
                        await self._look(lane, painter)
                    nursery.cancel_scope.cancel(reason="nobody watches")
            finally:
                os.close(watched)
        finally:
            self._size = None
            with trio.move_on_after(CLOSE_SECONDS, shield=True):
                await lane.aclose()

    async def _look_for_video(self) -> None:
        if not self._looked_for_video and any(w.video for w in self._watchers):
            self._looked_for_video = True
            self._open_encoder = await trio.to_thread.run_sync(h264.load)

    async def _listen(self, watched: int) -> None:
        while True:
            await trio.lowlevel.wait_readable(watched)
            self._damaged, collected = True, self._collected
            self.poke()
            await collected.wait()

    async def _look(self, lane: Lane[Lens], painter: Painter) -> None:
        """Wait until there is something to do for someone, and do one step of it."""
        if not await self._until_due():
            return
        await trio.sleep_until(self._last_look + FASTEST)
        await self._look_for_video()
        painter.open_encoder = self._open_encoder
        served = {w: _group(w) for w in self._ready()}
        groups = list(dict.fromkeys(served.values()))
        self._last_look = trio.current_time()
        self._damaged = False
        step = await lane.run(lambda lens: painter.step(lens, groups))
        self._pending = step.pending
        collected, self._collected = self._collected, trio.Event()
        collected.set()
        self._hand_out(step, served, dict(zip(groups, step.painted, strict=True)))

    async def _until_due(self) -> bool:
        """True: there is something to do. False: nobody watches any more."""
        await trio.lowlevel.checkpoint()
        while self._watchers:
            now, due = trio.current_time(), math.inf
            ready = self._ready()
            if ready:
                if self._damaged or self._pending:
                    return True
                due = min((w.not_before for w in ready if w.missing), default=math.inf)
                if self._settles_at is not None and any(w.rough for w in ready):
                    due = min(due, self._settles_at)
                if due <= now:
                    return True
            changed = self._changed
            with trio.move_on_at(due):
                await changed.wait()
        return False

    def _ready(self) -> list[Watcher]:
        return [w for w in self._watchers if w.has_room and w.sees()]

    # -- handing out -----------------------------------------------------------------------------

    def _hand_out(self, step: Step, served: dict[Watcher, Group], painted: dict[Group, Painted]) -> None:
        """Synchronous: who may see is asked here, and what they may see is theirs from here on."""
        now = trio.current_time()
        self._settles_at = now + SETTLE_SECONDS if step.rough else None
        frames: dict[Group, tuple[int, bytes]] = {}
        self._note_pointer(step)
        for watcher in self._watchers:
            if step.resized:
                watcher.missing, watcher.rough, watcher.chained = (_FULL,), (), False
                self._tell_size(watcher)
            group = served.get(watcher)
            if group is None or not watcher.sees():
                watcher.missing = add(watcher.missing, step.changed)
                watcher.chained &= not step.video
                continue
            result = painted[group]
            watcher.missing, watcher.rough, watcher.chained = result.missing, result.rough, result.chained
            watcher.not_before = now + KEY_LOOK_SECONDS if result.missing else 0.0
            if result.parts:
                if group not in frames:
                    self._sequence += 1
                    frame = pack(Kind.FRAME, self._sequence, self._epoch(), result.parts, flags(result))
                    frames[group] = self._sequence, frame
                watcher.deliver(*frames[group])

    def _note_pointer(self, step: Step) -> None:
        if step.resized:
            self._size = step.size
        if step.pointer is not None:
            pointer = say(Said.POINTER, x=step.pointer.x, y=step.pointer.y)
            if pointer != self._pointer:
                self._pointer = pointer
                self._each(lambda w: w.say(pointer, latest="pointer"))
        if step.cursor is not None:
            cursor = self._cursor = _cursor_picture(step.cursor, self._epoch())
            self._each(lambda w: w.show_cursor(cursor))

    def _each(self, tell: Callable[[Watcher], None]) -> None:
        for watcher in self._watchers:
            if watcher.sees():
                tell(watcher)

    def _greet(self, watcher: Watcher) -> None:
        self._tell_size(watcher)
        if watcher.sees():
            if self._cursor is not None:
                watcher.show_cursor(self._cursor)
            if self._pointer is not None:
                watcher.say(self._pointer, latest="pointer")

    def _tell_size(self, watcher: Watcher) -> None:
        if self._size is not None:
            size = {"width": self._size.width, "height": self._size.height}
            watcher.say(say(Said.SCREEN, **size), latest="screen")

    async def _until(self, met: Callable[[], bool]) -> None:
        await trio.lowlevel.checkpoint()
        while not met():
            await self._changed.wait()


def _group(watcher: Watcher) -> Group:
    return Group(watcher.missing, watcher.rough, watcher.video, watcher.chained, watcher.thin)


def _cursor_picture(cursor: CursorImage, epoch: int) -> bytes:
    height, width = cursor.pixels.shape
    part = Part(Codec.PNG, cursor.hot_x, cursor.hot_y, width, height, tiles.png_rgba(cursor.pixels))
    return pack(Kind.CURSOR, 0, epoch, (part,))
