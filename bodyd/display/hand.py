"""The hand: sends atoms and texts, pastes what can't be typed, tidies the keymap up afterwards.

The async side of input.py and typist.py, together with the clipboard and the watch. All waits for
apps are bounded, and end at once when the permit does.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import groupby
from typing import TypeVar

import trio

from bodyd.contract.atoms import Atom, Char, KeyDown, KeyUp, Pause, count
from bodyd.contract.ports import Permit, XEndpoint
from bodyd.errors import DisplayUnavailable, TooLarge, Unavailable

from . import quiescence, windows
from .clipboard import CLIPBOARD, PRIMARY, Clipboard
from .connection import PATIENCE, Wire, XConnection, connect
from .damage import Mark
from .input import Held, Sender, SendReport, untypable
from .lane import Lane
from .probes import Ping, Question
from .quick import QuickSender
from .typist import Readiness, Typist
from .watch import Watch
from .xinput import SenderConnection

IDLE_SECONDS = 2.0
"""After so long without typing, the keymap is put back as it was found."""

TAKEN_SECONDS = 2.0
"""How long a pasted text is offered before the clipboard is restored all the same."""

LOOK_SECONDS = 0.02
"""Between two looks for what no event announces here: an app's answer, the end of a permit."""

_CALM_SECONDS = 0.3
"""Without another taker after the last: Chromium asks twice, and drops the paste if the clipboard has
changed in between."""

_SHOWN_SECONDS = 0.5
_QUIET_SECONDS = 0.05
_APP_LOOKS = 250
_STILL_SECONDS = 1.0
_WIPE_PATIENCE = 3.0
_LONG_ENOUGH = 60.0
"""Seconds after which key presses are taken as understood on a screen that is never still."""

_CONTROL, _SHIFT, _INSERT, _V = 0xFFE3, 0xFFE1, 0xFF63, 0x76
_TERMINALS = frozenset("xterm uxterm urxvt rxvt st st-256color kitty alacritty gnome-terminal".split())
"""Apps (WM_CLASS) in which Control+V is not paste: they get Shift+Insert and the primary selection."""

Note = Callable[[int], None]
T = TypeVar("T")


class Hand:
    """What acts on the body by keys and pointer; one at a time, in the order of the calls."""

    def __init__(
        self, endpoint: XEndpoint, reader: Lane[XConnection], watch: Watch, clipboard: Clipboard
    ) -> None:
        self.typist = Typist()
        self._endpoint = endpoint
        self._held = Held()
        self._lane: Lane[SenderConnection] = Lane(endpoint, self._open, patience=None)
        self._reader, self._watch, self._clipboard = reader, watch, clipboard
        self._typed = trio.Event()
        self._typed_at = self._restore_at = 0.0
        self._idle = trio.CancelScope()

    async def start(self) -> None:
        """Connect, and take over what an earlier hand has left bound.

        Raises:
            DisplayUnavailable.
        """
        if await self._lane.run(self.typist.adopt):
            self._will_restore(IDLE_SECONDS)

    async def aclose(self) -> None:
        await self._lane.aclose()

    async def send(
        self, atoms: Sequence[Atom], permit: Permit, note: Note | None, focus: int | None = None
    ) -> SendReport:
        report = SendReport(of=count(tuple(atoms)))
        for index, atom in enumerate(a for a in atoms if not isinstance(a, Pause)):
            if isinstance(atom, Char) and untypable(atom.character):
                report.failure, report.untypable_at = "untypable", index
                return report
        if await self._play(atoms, permit, report, note, focus) is Readiness.TOO_MANY:
            await self._play_in_runs(atoms, permit, report, note, focus)
        return report

    async def follow(self, atoms: Sequence[Atom], permit: Permit) -> SendReport:
        """As `send`, for someone who sees what comes of it: acknowledged as a whole, nothing read back."""
        report, stop = SendReport(of=count(tuple(atoms))), threading.Event()

        def play(x: SenderConnection) -> Readiness:
            return QuickSender(x, self._held, self.typist, report).play(atoms, permit, stop, may_wipe=False)

        try:
            readiness = await self._lane.run(play, interrupt=stop.set)
        finally:
            self._typed_at = trio.current_time()
            if self.typist.bound:
                self._will_restore(IDLE_SECONDS)
        return report if readiness is Readiness.READY else await self.send(atoms, permit, None)

    async def paste(self, text: str, permit: Permit) -> SendReport:
        report = SendReport(of=1)
        await self._paste(text, permit, report, units=1)
        return report

    async def release(self) -> None:
        """See quiescence.release."""
        await self._lane.run(quiescence.release)
        self._held.clear()

    async def normalise(self) -> list[str]:
        """See quiescence.normalise. What is held is left over from a release that failed: it is lifted."""
        left = [
            *(["held_keys"] if self._held.keys else []),
            *(["held_buttons"] if self._held.buttons else []),
        ]
        if left:
            await self.release()
        return left + await self._lane.run(quiescence.normalise)

    async def tidy(self) -> None:
        """Put the keymap back once nobody has typed for a while; until cancelled."""
        while True:
            await self._typed.wait()
            with trio.CancelScope(deadline=self._restore_at) as self._idle:  # every text moves it
                await trio.sleep_forever()
            self._typed = trio.Event()
            uses = self.typist.uses
            try:
                if await self._keys_are_read(_LONG_ENOUGH):
                    await self._lane.run(partial(self.typist.restore, uses=uses))
                else:
                    self._will_restore(_LONG_ENOUGH)
            except DisplayUnavailable:
                continue  # a lost connection; the next text reads the map anew

    # -- sending ----------------------------------------------------------------------------------

    def _open(self, wire: Wire) -> SenderConnection:
        self.typist.distrust()
        return SenderConnection(wire, connect(self._endpoint))

    def _will_restore(self, seconds: float) -> None:
        self._restore_at = trio.current_time() + seconds
        self._idle.deadline = self._restore_at
        self._typed.set()

    async def _play(
        self,
        atoms: Sequence[Atom],
        permit: Permit,
        report: SendReport,
        note: Note | None,
        focus: int | None = None,
        *,
        may_wipe: bool = False,
    ) -> Readiness:
        """Send in one hop; wipe the spare keys first if they are full and no app needs them any more."""
        stop = threading.Event()

        def play(x: SenderConnection) -> Readiness:
            sender = Sender(x, self._held, self.typist, report, note, focus)
            return sender.play(atoms, permit, stop, may_wipe=may_wipe)

        try:
            readiness = await self._lane.run(play, interrupt=stop.set)
        except DisplayUnavailable:
            report.failure = "display_lost"
            return Readiness.READY
        finally:
            self._typed_at = trio.current_time()
            if self.typist.bound:
                self._will_restore(IDLE_SECONDS)
        if readiness is not Readiness.FULL:
            return readiness
        try:
            read = await _while_valid(permit, lambda: self._keys_are_read(_WIPE_PATIENCE))
        except DisplayUnavailable:
            report.failure = "display_lost"
            return Readiness.READY
        if read is False:
            return Readiness.TOO_MANY
        return await self._play(atoms, permit, report, note, focus, may_wipe=True)

    async def _play_in_runs(
        self,
        atoms: Sequence[Atom],
        permit: Permit,
        report: SendReport,
        note: Note | None,
        focus: int | None,
    ) -> None:
        """Send texts apart from the rest, and paste those that can't be typed."""
        for typed, group in groupby(atoms, key=lambda atom: isinstance(atom, Char)):
            run = list(group)
            if await self._play(run, permit, report, note, focus) is Readiness.TOO_MANY:
                if not typed:
                    report.failure, report.untypable_at = "untypable", report.sent
                else:
                    text = "".join(atom.character for atom in run if isinstance(atom, Char))
                    await self._paste(text, permit, report, units=len(run))
                    if note is not None:
                        note(report.sent)
            if report.failure is not None or not report.certain:
                return

    async def _keys_are_read(self, patience: float) -> bool:
        """Whether every key press has been read and understood: spare keys may then change meaning.

        The active app answers a ping, if it is one that does, and nobody has drawn for a while: a
        browser answers long before it has worked through a thousand key presses.
        """
        with trio.move_on_after(patience) as waiting:
            await self._watch.still(_STILL_SECONDS, self._typed_at)
        answered = await answer(self._reader, await self._reader.run(Ping), _APP_LOOKS)
        return answered and not (waiting.cancelled_caught and patience < _LONG_ENOUGH)

    # -- pasting ----------------------------------------------------------------------------------

    async def _paste(self, text: str, permit: Permit, report: SendReport, *, units: int) -> None:
        if not permit.valid:
            report.failure = "interrupted"
            return
        try:
            await self._offer(text, permit, report, units)
        except DisplayUnavailable:
            report.failure, report.certain = "display_lost", report.failure is not None
        except (Unavailable, TooLarge):
            report.failure = "untypable"  # the clipboard can't be had, or can't hold so much

    async def _offer(self, text: str, permit: Permit, report: SendReport, units: int) -> None:
        """Offer *text*, press the keys, and put back what was offered before."""
        app = await self._reader.run(windows.focused_app)
        terminal = app in _TERMINALS
        selection = PRIMARY if terminal else CLIPBOARD
        modifier, key = (_SHIFT, _INSERT) if terminal else (_CONTROL, _V)
        mark = self._watch.mark()
        before = await _while_valid(permit, lambda: self._clipboard.snapshot(selection))
        if not permit.valid:
            report.failure = "interrupted"
            return
        served = self._clipboard.served
        keys = SendReport(of=4)
        try:
            await self._clipboard.write(text, selection)
            chord = (KeyDown(modifier), KeyDown(key), Pause(0.01), KeyUp(key), KeyUp(modifier))
            await self._play(chord, permit, keys, None)
            if keys.sent == keys.of:
                await _while_valid(permit, lambda: self._until_shown(served, mark))
        finally:
            with trio.move_on_after(PATIENCE, shield=True), contextlib.suppress(Unavailable):
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

    async def _until_shown(self, since: int, mark: Mark) -> None:
        """Wait for the app to take the text, to be done with asking, and to have drawn it.

        Browsers insert a text some time after they have asked for it.
        """
        with trio.move_on_after(TAKEN_SECONDS):
            await self._clipboard.taken(since)
            taken_at = trio.current_time()
            calm = False
            while not calm:
                since = self._clipboard.served
                with trio.move_on_after(_CALM_SECONDS) as lull:
                    await self._clipboard.taken(since)
                calm = lull.cancelled_caught
            with trio.move_on_after(_SHOWN_SECONDS):
                await self._watch.drawn(mark, taken_at)
            await self._watch.settle(mark, quiet=_QUIET_SECONDS, cap=_SHOWN_SECONDS)


async def answer(reader: Lane[XConnection], asked: Question, looks: int) -> bool:
    """Look for the answer to *asked*, at most *looks* times; then, or when cancelled, forget it.

    Raises:
        DisplayUnavailable: the server doesn't answer; nor will whoever was asked.
    """

    def look(x: XConnection) -> bool:
        if x is not asked.x:
            raise DisplayUnavailable("the connection that the question was asked on is lost")
        return asked.answered()

    def forget(x: XConnection) -> None:
        if x is asked.x:
            asked.close()

    try:
        for _ in range(looks):
            if await reader.run(look):
                return True
            await trio.sleep(LOOK_SECONDS)
        return False
    finally:
        with trio.move_on_after(PATIENCE, shield=True), contextlib.suppress(DisplayUnavailable):
            await reader.run(forget)


async def _while_valid(permit: Permit, work: Callable[[], Awaitable[T]]) -> T | None:
    """Do *work*, cut short when the permit ends (it can't tell: it is looked at); None then."""
    result: T | None = None
    failed: Exception | None = None
    async with trio.open_nursery() as nursery:

        async def look() -> None:
            while True:
                if not permit.valid:
                    nursery.cancel_scope.cancel(reason="the permit has ended")
                await trio.sleep(LOOK_SECONDS)

        nursery.start_soon(look)
        try:
            result = await work()
        except Exception as exc:  # kept out of the nursery's exception group
            failed = exc
        nursery.cancel_scope.cancel(reason="done")
    if failed is not None:
        raise failed
    return result
