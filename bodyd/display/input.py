"""Input: atoms sent as XTEST events, each acknowledged, echoed and read back.

An atom is sent once the permit was seen valid, and counts once the server has answered a question
asked after it: where the pointer is, which keys are down. The echo of its own events (xinput.py)
and those answers tell what was really done, and whether somebody else's hand was in it. Runs in the
thread of the sender's lane; counterpart of contract/atoms.py.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from Xlib import X
from Xlib.ext import xtest
from Xlib.protocol import request

from bodyd.contract.atoms import Atom, ButtonDown, ButtonUp, Char, KeyDown, KeyUp, MoveTo, Pause
from bodyd.contract.keys import character_keysym
from bodyd.contract.ports import Permit

from . import xkb
from .connection import LOST, SPOILT, XObject
from .keymap import Stroke
from .typist import Readiness, Typist
from .windows import client_of_focus
from .xinput import Echo, SenderConnection, use_core_devices

SLICE = 0.005
"""Seconds between two looks at the permit during a pause."""

THAW = 1.0
"""Seconds that frozen devices may take, in one send, to show what was sent to them."""

THAW_WHEN_FENCED = 0.1

LOOK_AGAIN = 0.0005
"""Seconds between two looks at devices that a window manager may have frozen."""

T = TypeVar("T")

SHIFT_L, SHIFT_R = 0xFFE1, 0xFFE2

Failure = Literal["interrupted", "untypable", "display_lost", "refused", "focus_moved"]


@dataclass(slots=True)
class SendReport:
    """What became of some atoms; units are all atoms but pauses.

    Attributes:
        sent: Units acknowledged by the server, in order.
        of: Units there were.
        failure: Why not all: the permit ended, a character that can't be typed, the connection or
            the server gone, an event that the server did not make, or another app that took the
            keyboard in the middle of a text.
        certain: `sent` is exact. False when the connection died with a unit in flight, or before it was
            known whether anybody else had a hand in it.
        interference: Pointer or keyboard activity that was not ours was seen.
        readback_ok: After each unit, pointer, buttons and keys were as they should be.
        untypable_at: Index of the unit at fault, for `untypable`.
    """

    of: int
    sent: int = 0
    failure: Failure | None = None
    certain: bool = True
    interference: bool = False
    readback_ok: bool = True
    untypable_at: int | None = None


def untypable(character: str) -> bool:
    """Control characters but newline and tab, surrogates and non-characters: no key makes them."""
    code = ord(character)
    if character in "\n\r\t":
        return False
    return code < 0x20 or 0x7F <= code < 0xA0 or 0xD800 <= code < 0xE000 or code & 0xFFFE == 0xFFFE


def keysyms(atoms: Sequence[Atom]) -> list[int]:
    """Every keysym that sending *atoms* takes."""
    wanted = [SHIFT_L]
    for atom in atoms:
        match atom:
            case Char(character=character):
                wanted.append(character_keysym(character))
            case KeyDown(keysym=keysym) | KeyUp(keysym=keysym):
                wanted.append(keysym)
            case _:
                pass
    return wanted


@dataclass(slots=True)
class Held:
    """What this daemon holds down: keysym → its stroke, and buttons. Outlives a connection."""

    keys: dict[int, Stroke] = field(default_factory=dict)
    buttons: set[int] = field(default_factory=set)

    def clear(self) -> None:
        self.keys.clear()
        self.buttons.clear()


class Sender:
    """Sends one list of atoms. One instance per call; `held` and `typist` are the display's."""

    def __init__(
        self,
        x: SenderConnection,
        held: Held,
        typist: Typist,
        report: SendReport,
        note: Callable[[int], None] | None = None,
        focus: int | None = None,
    ) -> None:
        """*focus*: the X client that the keys are meant for; a text ends where another has the keyboard."""
        self._x = x
        self._held = held
        self._typist = typist
        self._report = report
        self._note = note
        self._focus = focus
        self._expected: list[Echo] = []
        self._down = [0] * 32  # the key vector as it should be
        self._pointer: tuple[int, int] | None = None
        self._thaw_left = THAW
        self._paused = False
        self._may_go_on: Callable[[], bool] = lambda: True

    def play(
        self, atoms: Sequence[Atom], permit: Permit, stop: threading.Event, *, may_wipe: bool
    ) -> Readiness:
        """Send *atoms*; the report says how far it came.

        Returns:
            READY: sent, as far as the report says. Anything else: nothing was sent, and why.
        """
        self._may_go_on = lambda: permit.valid and not stop.is_set()
        try:
            readiness = self._typist.prepare(self._x, keysyms(atoms), may_wipe=may_wipe)
            if readiness is not Readiness.READY:
                return readiness
            self._begin(typing=any(isinstance(atom, Char) for atom in atoms))
            for index, atom in enumerate(atoms):
                if not self._allowed(permit, stop) or not self._send(atom, atoms[index:], permit, stop):
                    break
            self._end()
        except (*LOST, *SPOILT):
            self._report.failure = "display_lost"
            raise
        return readiness

    def _allowed(self, permit: Permit, stop: threading.Event) -> bool:
        if permit.valid and not stop.is_set():
            return True
        self._report.failure = "interrupted"
        return False

    def _send(self, atom: Atom, rest: Sequence[Atom], permit: Permit, stop: threading.Event) -> bool:
        """One atom; False ends the list."""
        if isinstance(atom, Pause):
            return self._wait(atom.seconds, permit, stop)
        if self._paused and isinstance(atom, MoveTo):
            self._look_for_other_hands()
        self._paused = False
        self._report.certain = False
        self._make(atom)
        focus = request.GetInputFocus(display=self._x.core, defer=True)  # answered with the next question
        done = self._acknowledge(atom)
        self._report.certain = True
        if not done:
            self._report.failure = "refused"
            return False
        self._report.sent += 1
        if self._note is not None:
            self._note(self._report.sent)
        return self._remapped(rest) and not self._focus_moved(focus, rest)

    def _focus_moved(self, answer: XObject, rest: Sequence[Atom]) -> bool:
        """Whether another app has the keyboard, and there are characters left that were not meant for it."""
        answer.reply()
        if self._focus is None or not isinstance(rest[0], Char) or len(rest) == 1:
            return False
        if client_of_focus(self._x, answer) == self._focus:
            return False
        self._report.failure = "focus_moved"
        return True

    def _remapped(self, rest: Sequence[Atom]) -> bool:
        """If someone changed the keymap, bind again what the rest needs."""
        if not self._typist.recheck(self._x):
            return True
        self._report.interference = True
        if self._typist.prepare(self._x, keysyms(rest[1:])) is Readiness.READY:
            return True
        self._report.failure = "untypable"
        self._report.untypable_at = self._report.sent
        return False

    def _look_for_other_hands(self) -> None:
        """After a pause, before we move the pointer on: a client that warps it makes no event to hear.

        Elsewhere the readback after each atom compares the place anyway.
        """
        if self._pointer is None:
            return
        seen = self._x.root.query_pointer()
        self._report.interference |= (seen.root_x, seen.root_y) != self._pointer

    def _wait(self, seconds: float, permit: Permit, stop: threading.Event) -> bool:
        """Let *seconds* pass, looking at the permit."""
        self._paused = True
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            stop.wait(min(left, SLICE)) if seconds > 2 * SLICE else time.sleep(left)
            if not self._allowed(permit, stop):
                return False
        return True

    # -- atoms as events --------------------------------------------------------------------------

    def _make(self, atom: Atom) -> None:
        """Ask for the events of *atom*."""
        match atom:
            case MoveTo(x=x, y=y):
                self._move(x, y)
            case ButtonDown(button=button):
                self._button(button, down=True)
            case ButtonUp(button=button):
                self._button(button, down=False)
            case KeyDown(keysym=keysym):
                self._key_down(keysym)
            case KeyUp(keysym=keysym):
                self._key_up(keysym)
            case Char(character=character):
                self._character(character)
            case Pause():
                pass

    def _move(self, x: int, y: int) -> None:
        self._fake(X.MotionNotify, 0, x=x, y=y)
        self._pointer = (x, y)

    def _button(self, button: int, *, down: bool) -> None:
        self._fake(X.ButtonPress if down else X.ButtonRelease, button)
        (self._held.buttons.add if down else self._held.buttons.discard)(button)

    def _key_down(self, keysym: int) -> None:
        stroke = self._stroke(keysym)
        if stroke.shift and any(shift in self._held.keys for shift in (SHIFT_L, SHIFT_R)):
            stroke = Stroke(stroke.code, shift=False)  # Shift is down already, and not ours to lift
        self._held.keys[keysym] = stroke
        if stroke.shift:
            self._key(self._shift_code(), down=True)
        self._key(stroke.code, down=True)

    def _key_up(self, keysym: int) -> None:
        stroke = self._held.keys.pop(keysym, None) or Stroke(self._stroke(keysym).code, shift=False)
        self._key(stroke.code, down=False)
        if stroke.shift:
            self._key(self._shift_code(), down=False)

    def _character(self, character: str) -> None:
        stroke = self._stroke(character_keysym(character))
        if stroke.shift:
            self._key(self._shift_code(), down=True)
        self._key(stroke.code, down=True)
        self._key(stroke.code, down=False)
        if stroke.shift:
            self._key(self._shift_code(), down=False)

    def _stroke(self, keysym: int) -> Stroke:
        stroke = self._typist.find(keysym)
        assert stroke is not None, "prepare() has bound every keysym"
        return stroke

    def _shift_code(self) -> int:
        return self._stroke(SHIFT_L).code

    def _key(self, code: int, *, down: bool) -> None:
        self._fake(X.KeyPress if down else X.KeyRelease, code)
        if down:
            self._down[code >> 3] |= 1 << (code & 7)
        else:
            self._down[code >> 3] &= ~(1 << (code & 7))

    def _fake(self, kind: int, detail: int, *, x: int = 0, y: int = 0) -> None:
        xtest.fake_input(self._x.display, kind, detail, x=x, y=y)
        self._expected.append(Echo(kind, detail))

    # -- acknowledgement --------------------------------------------------------------------------

    def _begin(self, *, typing: bool) -> None:
        """Know the state that the atoms start from, and listen from here on."""
        use_core_devices(self._x)
        if typing and not xkb.read(self._x).clear:
            xkb.clear(self._x)  # Caps Lock would turn every letter round
        if self._x.echo.disturbed() and xkb.filters(self._x):  # turned on since the batch began
            xkb.clear_filters(self._x)
            self._x.display.sync()
            self._x.echo.disturbed()
        self._x.echo.read()  # what an earlier send left, if the server failed in it
        self._x.echo.listen()
        self._x.overhearing.start()
        self._down = list(self._x.display.query_keymap())
        ours = {stroke.code for stroke in self._held.keys.values()}
        if any(stroke.shift for stroke in self._held.keys.values()):
            ours.add(self._shift_code())
        if any(code not in ours for code in codes_down(self._down)):
            self._report.interference = True

    def _acknowledge(self, atom: Atom) -> bool:
        """One round trip; whether the server made every event that was asked for."""
        if isinstance(atom, KeyDown | KeyUp | Char):
            self._compare_keys()
        else:
            self._compare_pointer(moved=isinstance(atom, MoveTo))
        echoes = self._x.echo.read()
        expected, self._expected = self._expected, []
        if echoes != expected:
            for echo in expected:
                if echo not in echoes:
                    return False
                echoes.remove(echo)
            self._report.interference = True
        self._report.interference |= self._x.echo.disturbed()  # what was echoed may not have been heard
        return True

    def _compare_keys(self) -> None:
        def read() -> tuple[list[int], bool]:
            vector = list(self._x.display.query_keymap())
            return vector, vector == self._down

        vector = self._thawed(read)
        down, wanted = set(codes_down(vector)), set(codes_down(self._down))
        self._report.readback_ok &= wanted <= down
        self._report.interference |= bool(down - wanted)

    def _compare_pointer(self, *, moved: bool) -> None:
        """*moved*: just now, by us; a pointer that is elsewhere was then clamped, not taken away."""
        held = {button for button in self._held.buttons if button <= 5}

        def read() -> tuple[tuple[tuple[int, int], set[int]], bool]:
            seen = self._x.root.query_pointer()
            down = {button for button in range(1, 6) if seen.mask & (X.Button1Mask << (button - 1))}
            place = (seen.root_x, seen.root_y)
            return (place, down), down == held and self._pointer in (None, place)

        place, down = self._thawed(read)
        if down != held:
            self._report.readback_ok = False
        if self._pointer is not None and place != self._pointer:
            self._report.readback_ok = False
            self._report.interference |= not moved
            self._pointer = place

    def _thawed(self, read: Callable[[], tuple[T, bool]]) -> T:
        """Read until it is as it should be, for what is left of THAW.

        A window manager's synchronous grab (click to focus) freezes the devices from a press until
        it has looked at it: what was sent meanwhile is queued in the server, and shows up then.
        """
        state, as_expected = read()
        if as_expected:
            return state
        start = time.monotonic()
        end = start + self._thaw_left
        while True:
            now = time.monotonic()
            if as_expected or now >= end:
                self._thaw_left -= now - start
                return state
            if not self._may_go_on():
                end = min(end, now + THAW_WHEN_FENCED)
            time.sleep(LOOK_AGAIN)
            state, as_expected = read()

    def _end(self) -> None:
        """A last look: nothing foreign since the last atom, the pointer still where it was put."""
        self._report.certain = False  # should the server be lost now, nobody knows who else had a hand in it
        self._x.echo.ignore()
        self._compare_pointer(moved=False)
        echoes = self._x.echo.read()
        self._report.interference |= bool(echoes)
        self._report.interference |= self._x.overhearing.stop()
        self._report.certain = True


def codes_down(vector: Sequence[int]) -> list[int]:
    """The keycodes set in a QueryKeymap vector."""
    return [8 * index + bit for index, byte in enumerate(vector) for bit in range(8) if byte >> bit & 1]
