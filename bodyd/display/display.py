"""The display, as the driver's room sees it: one thin facade over the modules beside it.

Connections, each with its owner thread: the sender's (input, keymap), the reader's (windows, state,
proof of quiescence), the camera's, the watch's, the clipboard's. Every call is cancellable in bounded
time, and a stopped server raises DisplayUnavailable within seconds; it never blocks Trio.
"""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import groupby

import trio

from bodyd.contract.atoms import Atom, Char, KeyDown, KeyUp, Pause, count
from bodyd.contract.geometry import Bounds, Point, Size
from bodyd.contract.inventory import Window
from bodyd.contract.ports import Permit, XEndpoint
from bodyd.contract.screenshots import Cursor
from bodyd.errors import DisplayUnavailable

from . import capture as camera
from . import quiescence, resize, windows, xinput, xkb
from .capture import Album, Camera, Capture
from .clipboard import CLIPBOARD, PRIMARY, Clipboard
from .connection import PATIENCE, Wire, XConnection, connect
from .damage import Mark, Settled
from .input import Held, Sender, SendReport, untypable
from .lane import Lane
from .quiescence import Quiescence
from .typist import Readiness, Typist
from .watch import Watch
from .windows import Question, Scene, Under
from .xinput import SenderConnection

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

IDLE_SECONDS = 2.0
"""After so long without typing, the keymap is put back as it was found."""

TAKEN_SECONDS = 2.0
"""How long a pasted text is offered before the clipboard is restored all the same."""

_LOOK_SECONDS = 0.02  # between two looks for an answer that no event announces here
_MANAGER_LOOKS = 50
_APP_LOOKS = 250
_SHOWN_SECONDS = 0.5
_CALM = 0.3
"""Seconds without another taker after the last: Chromium asks twice, and drops the paste if the
clipboard has changed in between."""

_QUIET = 0.05
_CLOSING = 3.0
_STILL_SECONDS = 1.0
_WIPE_PATIENCE = 3.0
_LONG_ENOUGH = 60.0
"""Seconds after which key presses are taken as understood on a screen that is never still."""


_CONTROL, _SHIFT, _INSERT, _V = 0xFFE3, 0xFFE1, 0xFF63, 0x76
_TERMINALS = frozenset("xterm uxterm urxvt rxvt st st-256color kitty alacritty gnome-terminal".split())
"""Apps (WM_CLASS) in which Control+V is not paste: they get Shift+Insert and the primary selection."""


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
        self._typist = Typist()
        self._held = Held()
        self._album = Album()
        self._sender: Lane[SenderConnection] = Lane(endpoint, self._open_sender, patience=None)
        self._reader: Lane[XConnection] = Lane(endpoint, _open_reader, patience=None)
        self._camera: Lane[Camera] = Lane(endpoint, Camera, patience=PATIENCE)
        self._watch = Watch(endpoint, self._sized)
        self._clipboard = Clipboard(endpoint)
        self._typed = trio.Event()
        self._typed_at = self._restore_at = 0.0
        self._idle = trio.CancelScope()

    @property
    def keymap_changes(self) -> int:
        """How many changes of the server's keymap texts have cost."""
        return self._typist.changes

    @property
    def keymap_restores(self) -> int:
        """How often the keymap was put back as it was found."""
        return self._typist.restores

    async def start(self) -> None:
        await self._watch.look()
        if await self._sender.run(self._typist.adopt):
            self._typed_at = trio.current_time()
            self._restore_at = self._typed_at + IDLE_SECONDS
            self._typed.set()

    def serve(self, nursery: trio.Nursery) -> None:
        nursery.start_soon(self._watch.run, name="display watch")
        nursery.start_soon(self._clipboard.run, name="display clipboard")
        nursery.start_soon(self._tidy, name="display keymap")

    async def aclose(self) -> None:
        for part in (self._sender, self._reader, self._camera, self._watch, self._clipboard):
            await part.aclose()

    # -- input ------------------------------------------------------------------------------------

    async def send(
        self, atoms: Sequence[Atom], permit: Permit, note: Callable[[int], None] | None = None
    ) -> SendReport:
        """Send *atoms* in order, each under a permit seen valid right before it.

        Nothing is released here after a failure: `release_all` is the caller's. Text with more new
        symbols than there are spare keys is pasted; its characters count as sent once taken.

        Args:
            note: Told the units sent, after each, from the sending thread: it must be quick.
        Cancellation:
            Stops at the next atom; what was sent by then is not known to the caller.
        """
        report = SendReport(of=count(tuple(atoms)))
        for index, atom in enumerate(a for a in atoms if not isinstance(a, Pause)):
            if isinstance(atom, Char) and untypable(atom.character):
                report.failure, report.untypable_at = "untypable", index
                return report
        if await self._play(atoms, permit, report, note) is Readiness.TOO_MANY:
            await self._play_in_runs(atoms, permit, report, note)
        return report

    async def paste(self, text: str, permit: Permit) -> SendReport:
        """Put *text* on the clipboard, press the paste keys, restore the clipboard: one unit.

        Cancellation:
            The clipboard is restored, bounded.
        """
        report = SendReport(of=1)
        await self._paste(text, permit, report, units=1)
        return report

    async def release_all(self) -> None:
        """Lift every key and button that is down, clear locks and latches, straighten the rest.

        The typist's bindings stay. Waits for a send that is under way.

        Raises:
            DisplayUnavailable: no answer, or something can't be lifted.
        """
        await self._sender.run(quiescence.release)
        self._held.clear()

    async def prove_quiescent(self) -> Quiescence:
        """Read the whole input state over the reader's connection.

        Raises:
            DisplayUnavailable: no answer; nothing is proved.
        """
        return await self._reader.run(quiescence.look)

    async def normalise(self) -> list[str]:
        """Before a batch: undo locks, latches, a foreign group or pointer mapping; returns what was found.

        Raises:
            DisplayUnavailable: no answer, or it can't be undone.
        """
        return await self._sender.run(quiescence.normalise)

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
        return (await self._reader.run(windows.read)).windows

    async def scene(self) -> Scene:
        """The managed windows, and the popups that nobody manages, with the X client of each.

        Raises:
            DisplayUnavailable.
        """
        return await self._reader.run(windows.scene)

    async def popups(self) -> tuple[Window, ...]:
        """Menus, tooltips and the like: visible windows that nobody manages, bottom to top."""
        return (await self.scene()).popups

    async def window_under(self, point: Point) -> Under:
        """What would get a pointer event at *point*."""
        return await self._reader.run(lambda x: windows.under(x, point))

    async def pointer(self) -> Cursor:
        seen = await self._reader.run(lambda x: x.root.query_pointer())
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
        probe = await self._reader.run(windows.ManagerProbe)
        await self._reader.run(lambda x: probe.ask())
        return await self._answered(probe, _MANAGER_LOOKS)

    async def read_clipboard(self) -> str:
        """The clipboard's text; "" if it has none.

        Raises:
            Unavailable: its owner doesn't answer.
            TooLarge, DisplayUnavailable.
        """
        return await self._clipboard.read()

    async def write_clipboard(self, text: str) -> None:
        """Own the clipboard with *text*, for as long as nobody else takes it.

        Raises:
            TooLarge, Unavailable, DisplayUnavailable.
        """
        await self._clipboard.write(text)

    # -- below ------------------------------------------------------------------------------------

    def _open_sender(self, wire: Wire) -> SenderConnection:
        self._typist.distrust()
        return SenderConnection(wire, connect(self._endpoint))

    def _sized(self, size: Size, fresh: bool) -> None:
        if size != self.size or fresh:
            self.size = size
            self.geometry += 1

    async def _play(
        self,
        atoms: Sequence[Atom],
        permit: Permit,
        report: SendReport,
        note: Callable[[int], None] | None,
        *,
        may_wipe: bool = False,
    ) -> Readiness:
        """Send in one hop; wipe the spare keys first if they are full, once the screen is quiet."""
        stop = threading.Event()

        def play(x: SenderConnection) -> Readiness:
            sender = Sender(x, self._held, self._typist, report, note)
            return sender.play(atoms, permit, stop, may_wipe=may_wipe)

        try:
            readiness = await self._sender.run(play, interrupt=stop.set)
        except DisplayUnavailable:
            report.failure = "display_lost"
            return Readiness.READY
        finally:
            if self._typist.bound:
                self._typed_at = trio.current_time()
                self._idle.deadline = self._restore_at = self._typed_at + IDLE_SECONDS
                self._typed.set()
        if readiness is Readiness.FULL:
            if not await self._keys_are_read(_WIPE_PATIENCE):
                return Readiness.TOO_MANY
            return await self._play(atoms, permit, report, note, may_wipe=True)
        return readiness

    async def _keys_are_read(self, patience: float) -> bool:
        """Whether every key press has been read and understood: spare keys may then change meaning.

        The active app answers a ping, if it is one that does, and nobody has drawn for a while: a
        browser answers long before it has worked through a thousand key presses.
        """
        with trio.move_on_after(patience) as waiting:
            await self._watch.still(_STILL_SECONDS, self._typed_at)
        ping = await self._reader.run(windows.Ping)
        answered = await self._answered(ping, _APP_LOOKS)
        return answered and not (waiting.cancelled_caught and patience < _LONG_ENOUGH)

    async def _answered(self, asked: Question, looks: int) -> bool:
        try:
            for _ in range(looks):
                if await self._reader.run(lambda x: asked.answered()):
                    return True
                await trio.sleep(_LOOK_SECONDS)
            return False
        finally:
            with trio.move_on_after(PATIENCE, shield=True):
                await self._reader.run(lambda x: asked.close())

    async def _play_in_runs(
        self, atoms: Sequence[Atom], permit: Permit, report: SendReport, note: Callable[[int], None] | None
    ) -> None:
        """Send texts apart from the rest, and paste those that can't be typed."""
        for typed, group in groupby(atoms, key=lambda atom: isinstance(atom, Char)):
            run = list(group)
            if await self._play(run, permit, report, note) is Readiness.TOO_MANY:
                if not typed:
                    report.failure, report.untypable_at = "untypable", report.sent
                else:
                    text = "".join(atom.character for atom in run if isinstance(atom, Char))
                    await self._paste(text, permit, report, units=len(run))
                    if note is not None:
                        note(report.sent)
            if report.failure is not None or not report.certain:
                return

    async def _paste(self, text: str, permit: Permit, report: SendReport, *, units: int) -> None:
        app = await self._reader.run(windows.focused_app)
        selection, modifier, key = (
            (PRIMARY, _SHIFT, _INSERT) if app in _TERMINALS else (CLIPBOARD, _CONTROL, _V)
        )
        mark = self.activity()
        before = await self._clipboard.snapshot(selection)
        served = self._clipboard.served
        keys = SendReport(of=4)
        try:
            await self._clipboard.write(text, selection)
            chord = (KeyDown(modifier), KeyDown(key), Pause(0.01), KeyUp(key), KeyUp(modifier))
            await self._play(chord, permit, keys, None)
            if keys.sent == keys.of:
                await self._until_taken(served)
                await self._until_shown(mark)
        finally:
            with trio.move_on_after(PATIENCE, shield=True):
                await self._clipboard.restore(selection, before)
        report.interference |= keys.interference
        report.readback_ok &= keys.readback_ok
        if keys.sent < keys.of:
            report.failure = keys.failure
            report.certain = keys.sent == 0 and keys.certain
        elif units == 1 or self._clipboard.served > served:
            report.sent += units
        else:
            report.failure, report.certain = "untypable", False

    async def _until_taken(self, since: int) -> None:
        """Wait for the app to take the text, and for it to be done with asking."""
        with trio.move_on_after(TAKEN_SECONDS):
            await self._clipboard.taken(since)
            while True:
                since = self._clipboard.served
                with trio.move_on_after(_CALM) as calm:
                    await self._clipboard.taken(since)
                if calm.cancelled_caught:
                    return

    async def _until_shown(self, mark: Mark) -> None:
        """Wait for the app to draw what it took: browsers insert it some time after asking."""
        with trio.move_on_after(_SHOWN_SECONDS):
            await self._watch.drawn(mark, trio.current_time() - _CALM)
        await self.settle(mark, quiet=_QUIET, cap=_SHOWN_SECONDS)

    async def _tidy(self) -> None:
        """Put the keymap back once nobody has typed for a while."""
        while True:
            await self._typed.wait()
            with trio.CancelScope(deadline=self._restore_at) as idle:
                self._idle = idle  # every text moves the deadline
                await trio.sleep_forever()
            self._typed = trio.Event()
            try:
                read = await self._keys_are_read(_LONG_ENOUGH)
                if self._typed.is_set():  # somebody has typed meanwhile
                    continue
                if read:
                    await self._sender.run(self._typist.restore)
                else:
                    self._restore_at = trio.current_time() + _LONG_ENOUGH
                    self._typed.set()
            except DisplayUnavailable:
                continue  # a lost connection; the next text reads the map anew


def _open_reader(wire: Wire) -> XConnection:
    connection = XConnection(wire)
    xkb.announce(connection)
    xinput.announce(connection)
    return connection


def _round_trip(x: XConnection) -> float:
    start = time.perf_counter()
    x.display.sync()
    return time.perf_counter() - start
