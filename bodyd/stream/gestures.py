"""From what a person's page says to what the display is sent: atoms. Pure.

A character is typed as itself, whatever layout the person has: it comes with its own Shift, and one
that the person holds is lifted before it. Keys are taps, repeated as the page repeats them, so that
none can stick when a link breaks; modifiers are pressed only once something is done under them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bodyd.contract.actions import BUTTONS
from bodyd.contract.atoms import (
    TAP_SECONDS,
    Atom,
    ButtonDown,
    ButtonUp,
    Char,
    KeyDown,
    KeyUp,
    MoveTo,
    Pause,
)
from bodyd.contract.geometry import Size
from bodyd.contract.keys import key as key_named

from .protocol import Button, Input, KeyPress, LetGo, Pointer, Text, Wheel

_MODIFIERS = {"Control": 0xFFE3, "Shift": 0xFFE1, "Alt": 0xFFE9, "Meta": 0xFFEB}
_TAPPED_ALONE = frozenset(("Alt", "Meta"))
"""Those that mean something by themselves: a menu opens."""

_IGNORED = frozenset(
    "AltGraph CapsLock NumLock ScrollLock Fn FnLock Symbol SymbolLock Hyper Super Dead Process "
    "Unidentified Compose".split()
)
"""Keys that only change what other keys mean, which the page has worked out already (W3C UI Events)."""

_WHEEL = {"up": 4, "down": 5, "left": 6, "right": 7}


def latest(inputs: Sequence[Input]) -> list[Input]:
    """*inputs* without the moves of the pointer that the next move makes void."""
    kept: list[Input] = []
    for said in inputs:
        if isinstance(said, Pointer) and kept and isinstance(kept[-1], Pointer):
            kept.pop()
        kept.append(said)
    return kept


class Gestures:
    """One person's keyboard and pointer, as the body should see them."""

    def __init__(self) -> None:
        self._wanted: dict[str, bool] = {}  # modifiers that the person holds: whether anything came of it
        self._pressed: list[str] = []
        self._buttons: set[int] = set()

    def atoms(self, said: Input, screen: Size) -> list[Atom]:
        """What to send for *said*; LetGo is not made of atoms, and counts as done.

        Raises:
            UnknownKey: no such key; nothing is to be sent.
        """
        match said:
            case Pointer():
                return [_place(said, screen)]
            case Button():
                return self._button(said, screen)
            case Wheel():
                return [*self._press(), _place(said, screen), *_notches(said)]
            case KeyPress():
                return self._key(said)
            case Text():
                return [*self._lift(), *(Char(c) for c in said.text)]
            case LetGo():
                self.forget()
                return []

    def forget(self) -> None:
        """Everything has been lifted."""
        self._wanted.clear()
        self._pressed.clear()
        self._buttons.clear()

    def _button(self, said: Button, screen: Size) -> list[Atom]:
        button = BUTTONS[said.button]
        if said.down:
            before = self._press()
            self._buttons.add(button)
            return [*before, _place(said, screen), ButtonDown(button)]
        if button not in self._buttons:
            return []
        self._buttons.discard(button)
        return [_place(said, screen), ButtonUp(button)]

    def _key(self, said: KeyPress) -> list[Atom]:
        if said.key in _IGNORED:
            return []
        if said.key in _MODIFIERS:
            return self._modifier(said.key, down=said.down)
        named = key_named(said.key)
        if not said.down:
            return []
        if len(said.key) == 1 and not self._wanted.keys() - {"Shift"}:
            return [*self._lift(), Char(said.key)]
        keysym = named.keysym
        if len(said.key) == 1:
            keysym = key_named(said.key.lower()).keysym if len(said.key.lower()) == 1 else keysym
        return [*self._press(), KeyDown(keysym), Pause(TAP_SECONDS), KeyUp(keysym)]

    def _modifier(self, name: str, *, down: bool) -> list[Atom]:
        if down:
            self._wanted.setdefault(name, False)
            return []
        used = self._wanted.pop(name, None)
        if name in self._pressed:
            self._pressed.remove(name)
            return [KeyUp(_MODIFIERS[name])]
        if used is False and name in _TAPPED_ALONE:
            keysym = _MODIFIERS[name]
            return [KeyDown(keysym), Pause(TAP_SECONDS), KeyUp(keysym)]
        return []

    def _press(self) -> list[Atom]:
        """Press the modifiers that the person holds."""
        new = [name for name in self._wanted if name not in self._pressed]
        self._wanted = dict.fromkeys(self._wanted, True)
        self._pressed += new
        return [KeyDown(_MODIFIERS[name]) for name in new]

    def _lift(self) -> list[Atom]:
        """Lift those that are pressed; they count as used."""
        up: Iterable[str] = reversed(self._pressed)
        atoms: list[Atom] = [KeyUp(_MODIFIERS[name]) for name in up]
        self._pressed.clear()
        self._wanted = dict.fromkeys(self._wanted, True)
        return atoms


def _place(said: Pointer | Button | Wheel, screen: Size) -> MoveTo:
    """Where the pointer goes: a drag may leave the picture, the pointer stays at its edge."""
    return MoveTo(min(said.x, screen.width - 1), min(said.y, screen.height - 1))


def _notches(said: Wheel) -> Iterable[Atom]:
    turns = [
        (_WHEEL["down" if said.dy > 0 else "up"], abs(said.dy)),
        (_WHEEL["right" if said.dx > 0 else "left"], abs(said.dx)),
    ]
    return [
        edge
        for button, count in turns
        for _ in range(count)
        for edge in (ButtonDown(button), ButtonUp(button))
    ]
