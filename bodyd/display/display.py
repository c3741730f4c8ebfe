"""The display, as the driver's room sees it: one thin facade over the modules beside it.

Connections, each with its owner thread: the sender's (input, keymap), the reader's (state, proof of
quiescence), the scenery's (windows), the camera's, the watch's, the clipboard's. Every call is
cancellable in bounded time, and a stopped server raises DisplayUnavailable within seconds; it never
blocks Trio.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import trio

from bodyd.contract.atoms import Atom
from bodyd.contract.geometry import Bounds, Point, Size
from bodyd.contract.inventory import Window
from bodyd.contract.ports import Permit, XEndpoint
from bodyd.contract.screenshots import Cursor
from bodyd.errors import DisplayUnavailable

from . import capture as camera
from . import quiescence, resize, windows, xinput, xkb
from .capture import Album, Camera, Capture
from .clipboard import CLIPBOARD, PRIMARY, Clipboard
from .connection import PATIENCE, Wire, XConnection, XObject
from .damage import Mark, Settled
from .hand import Hand, answer
from .input import SendReport
from .lane import Lane
from .lens import Lens, open_lens
from .probes import ManagerProbe
from .quiescence import Quiescence
from .scenery import Scenery
from .watch import Watch
from .windows import Scene, Under

__all__ = [
    "Capture",
    "Display",
    "Mark",
    "Quiescence",
    "Scene",
    "SendReport",
    "Settled",
    "Under",
    "open_display",
]

_MANAGER_LOOKS = 50  # a second
_CLOSING = 3.0
_HEARING_SECONDS = 10.0  # an app that retitles its window all the time makes some KB of events in it


@asynccontextmanager
async def open_display(endpoint: XEndpoint) -> AsyncIterator[Display]:
    """The display behind *endpoint*, ready once its server has answered.

    Raises:
        DisplayUnavailable: it doesn't answer, refuses the cookie, or lacks an extension.
    """
    display = Display(endpoint)
    failed: Exception | None = None
    try:
        await display.start()
        async with trio.open_nursery() as nursery:
            display.serve(nursery)
            try:
                yield display
            except Exception as exc:  # kept out of the nursery's exception group: it is the caller's
                failed = exc
            nursery.cancel_scope.cancel(reason="the display is being closed")
    finally:
        with trio.move_on_after(_CLOSING, shield=True):
            await display.aclose()
    if failed is not None:
        raise failed


class Display:
    """Use `open_display`.

    Attributes:
        size: Of the screen, now; follows resizes by anyone.
        geometry: Grows by one with each resize and each new server: older screenshots are void.
    """

    def __init__(self, endpoint: XEndpoint) -> None:
        self.size = Size(width=1, height=1)
        self.geometry = 0
        self._endpoint = endpoint
        self._album = Album()
        self._reader: Lane[XConnection] = Lane(endpoint, _open_reader, patience=None)
        self._scenery: Lane[Scenery] = Lane(endpoint, Scenery, patience=None)
        self._camera: Lane[Camera] = Lane(endpoint, Camera, patience=PATIENCE)
        self._watch = Watch(endpoint, self._sized)
        self._clipboard = Clipboard(endpoint)
        self._hand = Hand(endpoint, self._reader, self._watch, self._clipboard)

    @property
    def keymap_changes(self) -> int:
        """How many changes of the server's keymap texts have cost."""
        return self._hand.typist.changes

    @property
    def keymap_restores(self) -> int:
        """How often the keymap was put back as it was found."""
        return self._hand.typist.restores

    async def start(self) -> None:
        await self._watch.look()
        await self._hand.start()

    def serve(self, nursery: trio.Nursery) -> None:
        nursery.start_soon(self._watch.run, name="display watch")
        nursery.start_soon(self._clipboard.run, name="display clipboard")
        nursery.start_soon(self._hand.tidy, name="display keymap")
        nursery.start_soon(self._hear_out, name="display scenery")

    async def aclose(self) -> None:
        for part in (self._hand, self._reader, self._scenery, self._camera, self._watch, self._clipboard):
            await part.aclose()

    # -- input ------------------------------------------------------------------------------------

    async def send(
        self,
        atoms: Sequence[Atom],
        permit: Permit,
        note: Callable[[int], None] | None = None,
        focus: int | None = None,
    ) -> SendReport:
        """Send *atoms* in order, each under a permit seen valid right before it.

        Nothing is released here after a failure: `release_all` is the caller's. Text with more new
        symbols than there are spare keys is pasted; its characters count as sent once taken.

        Args:
            note: Told the units sent, after each, from the sending thread: it must be quick.
            focus: The X client that a text is meant for: it ends once another has the keyboard.
        Cancellation:
            Stops at the next atom; what was sent by then is not known to the caller.
        """
        return await self._hand.send(atoms, permit, note, focus)

    async def follow(self, atoms: Sequence[Atom], permit: Permit) -> SendReport:
        """As `send`, for a person who watches: each atom under the permit, all acknowledged together.

        No interference is looked for and no readback made; text that can't be typed at once takes the
        way of `send`.

        Raises:
            DisplayUnavailable: what was sent is not known.
        Cancellation:
            As of `send`.
        """
        return await self._hand.follow(atoms, permit)

    async def paste(self, text: str, permit: Permit) -> SendReport:
        """Put *text* on the clipboard, press the paste keys, restore the clipboard: one unit.

        Cancellation:
            The clipboard is restored, bounded.
        """
        return await self._hand.paste(text, permit)

    async def release_all(self) -> None:
        """Lift every key and button that is down, clear locks and latches, straighten the rest.

        The typist's bindings stay. Waits for a send that is under way.

        Raises:
            DisplayUnavailable: no answer, or something can't be lifted.
        """
        await self._hand.release()

    async def prove_quiescent(self) -> Quiescence:
        """Read the whole input state over the reader's connection.

        Raises:
            DisplayUnavailable: no answer; nothing is proved.
        """
        return await self._reader.run(quiescence.look)

    async def normalise(self) -> list[str]:
        """Before a batch: undo locks, latches, a foreign group or pointer mapping; returns what was found.

        What this daemon still holds, since a release failed, is lifted, too; what others hold is not.

        Raises:
            DisplayUnavailable: no answer, or it can't be undone.
        """
        return await self._hand.normalise()

    # -- seeing -----------------------------------------------------------------------------------

    async def capture(
        self, bounds: Bounds | None = None, size: Size | None = None, *, cursor: bool = False
    ) -> Capture:
        """A picture of *bounds* (default: the screen), scaled to *size*; `cursor` draws the pointer in.

        Raises:
            OutOfBounds: *bounds* is wholly off-screen (partly: clipped).
            DisplayUnavailable.
        """
        return await self._camera.run(lambda c: self._album.take(c, bounds, size, cursor=cursor))

    async def pixels(self, bounds: Bounds) -> bytes:
        """Tight RGB rows of *bounds*, clipped to the screen.

        Raises:
            OutOfBounds, DisplayUnavailable.
        """
        return await self._camera.run(lambda c: camera.raw(c, bounds))

    def lens(self) -> Lane[Lens]:
        """A connection of its own for whoever shows the screen live; the caller closes it."""
        return open_lens(self._endpoint)

    def activity(self) -> Mark:
        """A mark of the screen's activity so far, to settle on after an input."""
        return self._watch.mark()

    async def settle(self, mark: Mark, *, quiet: float = 0.05, cap: float = 1.0) -> Settled:
        """Wait until nothing but what was busy at *mark* has changed for *quiet* s, at most *cap* s.

        Raises:
            DisplayUnavailable.
        """
        return await self._watch.settle(mark, quiet=quiet, cap=cap)

    async def windows(self) -> tuple[Window, ...]:
        """The managed windows, bottom to top.

        Raises:
            DisplayUnavailable.
        """
        return (await self.scene()).windows

    async def scene(self) -> Scene:
        """The managed windows, and the popups that nobody manages, with the X client of each.

        Raises:
            DisplayUnavailable.
        """
        return await self._scenery.run(Scenery.look)

    async def scene_at(self, point: Point) -> tuple[Scene, int]:
        """The scene, and the id of what the server would give a click at *point*; 0: the root.

        Raises:
            DisplayUnavailable.
        """
        return await self._scenery.run(lambda x: x.look_at(point))

    async def popups(self) -> tuple[Window, ...]:
        """Menus, tooltips and the like: visible windows that nobody manages, bottom to top."""
        return (await self.scene()).popups

    async def window_under(self, point: Point) -> Under:
        """What would get a pointer event at *point*."""
        return await self._reader.run(lambda x: windows.under(x, point))

    async def pointer(self) -> Cursor:
        seen = await self._reader.run(_core_pointer)
        return Cursor(x=seen.root_x, y=seen.root_y)

    async def ping(self) -> float:
        """Seconds for a round trip.

        Raises:
            DisplayUnavailable.
        """
        return await self._reader.run(_round_trip)

    # -- acting beside the keyboard and pointer ---------------------------------------------------

    async def activate(self, window_id: int) -> None:
        """Ask for *window_id* to be raised and focused.

        Raises:
            NotFound, DisplayUnavailable.
        """
        await self._reader.run(lambda x: windows.activate(x, window_id))

    async def close(self, window_id: int) -> None:
        """Ask for *window_id* to be closed, as by its close button.

        Raises:
            NotFound, DisplayUnavailable.
        """
        await self._reader.run(lambda x: windows.close(x, window_id))

    async def resize(self, size: Size) -> None:
        """Resize the screen; `size` and `geometry` have followed when this returns.

        Raises:
            InvalidRequest: the server can't.
            DisplayUnavailable.
        """
        await self._reader.run(lambda x: resize.resize(x, size))
        await self._watch.look()

    async def window_manager_answers(self) -> bool:
        """Whether a window manager runs and handles events; a hung one is given a second.

        Raises:
            DisplayUnavailable.
        """
        probe = await self._reader.run(ManagerProbe)
        await self._reader.run(lambda x: probe.ask())
        return await answer(self._reader, probe, _MANAGER_LOOKS)

    async def read_clipboard(self) -> str:
        """The clipboard's text; "" if it has none.

        Raises:
            Unavailable: its owner doesn't answer.
            TooLarge, DisplayUnavailable.
        """
        return await self._clipboard.read()

    async def clear_clipboard(self) -> None:
        """Leave nothing on the clipboard, nor in the primary selection, whoever owned them.

        Raises:
            Unavailable: another client keeps taking them. DisplayUnavailable.
        """
        for selection in (CLIPBOARD, PRIMARY):
            await self._clipboard.write("", selection)
            await self._clipboard.restore(selection, None)

    async def write_clipboard(self, text: str) -> None:
        """Own the clipboard with *text*, for as long as nobody else takes it.

        Raises:
            TooLarge, Unavailable, DisplayUnavailable.
        """
        await self._clipboard.write(text)

    # -- below ------------------------------------------------------------------------------------

    async def _hear_out(self) -> None:
        """Keep the server from storing up what it tells of windows while nobody looks at them."""
        while True:
            await trio.sleep(_HEARING_SECONDS)
            with contextlib.suppress(DisplayUnavailable):
                await self._scenery.run(Scenery.hear)

    def _sized(self, size: Size, fresh: bool) -> None:
        if size != self.size or fresh:
            self.size = size
            self.geometry += 1


def _open_reader(wire: Wire) -> XConnection:
    connection = XConnection(wire)
    xkb.announce(connection)
    xinput.announce(connection)
    return connection


def _core_pointer(x: XConnection) -> XObject:
    xinput.use_core_devices(x)
    return x.root.query_pointer()


def _round_trip(x: XConnection) -> float:
    start = time.perf_counter()
    x.display.sync()
    return time.perf_counter() - start
