"""Atoms: the smallest things that are sent to the display, and the plan of an action as atoms.

Every atom but a Pause is a unit of `sent {units, of}`. The epoch is checked before each. Pure: the
counterpart that sends them is display/input.py; waits and screenshots are the dispatcher's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from . import actions as a
from .geometry import Point
from .keys import Key, chord, modifiers

TAP_SECONDS = 0.010
"""Between down and up of a pressed key: shorter taps are missed by some toolkits."""


@dataclass(frozen=True, slots=True)
class MoveTo:
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class ButtonDown:
    button: int


@dataclass(frozen=True, slots=True)
class ButtonUp:
    button: int


@dataclass(frozen=True, slots=True)
class KeyDown:
    keysym: int


@dataclass(frozen=True, slots=True)
class KeyUp:
    keysym: int


@dataclass(frozen=True, slots=True)
class Char:
    """One code point, typed into whatever has the focus."""

    character: str


@dataclass(frozen=True, slots=True)
class Pause:
    """Time between two atoms; not a unit."""

    seconds: float


Atom = MoveTo | ButtonDown | ButtonUp | KeyDown | KeyUp | Char | Pause
ToBody = Callable[[int, int], Point]

_SCROLL_BUTTONS = {"up": 4, "down": 5, "left": 6, "right": 7}  # X convention: a press is a notch
_PRESSES = {"click": 1, "double_click": 2, "triple_click": 3}


def plan(action: a.Action, to_body: ToBody) -> tuple[Atom, ...]:
    """The atoms of *action* in order; *to_body* maps image pixels to the body's.

    Empty for `wait`, `screenshot` and `paste`, which are not made of X input alone.
    """
    match action:
        case a.Click() | a.DoubleClick() | a.TripleClick():
            button = a.BUTTONS[action.button]
            press = (ButtonDown(button), ButtonUp(button))  # the readback between them is pause enough
            # But not between presses: Chromium takes two of one millisecond for one.
            more = (Pause(TAP_SECONDS), *press) * (_PRESSES[action.type] - 1)
            return _held(modifiers(action.keys), (_move(action, to_body), *press, *more))
        case a.ClickElement():  # whoever knows where it is plans the click there
            return plan(action.at(0, 0), to_body)
        case a.Move():
            return _held(modifiers(action.keys), (_move(action, to_body),))
        case a.ButtonDown():
            return _held(
                modifiers(action.keys), (_move(action, to_body), ButtonDown(a.BUTTONS[action.button]))
            )
        case a.ButtonUp():
            return _held(modifiers(action.keys), (_move(action, to_body), ButtonUp(a.BUTTONS[action.button])))
        case a.Scroll():
            return _held(modifiers(action.keys), (_move(action, to_body), *_wheel(action)))
        case a.Drag():
            stops = [MoveTo(p.x, p.y) for p in (to_body(point.x, point.y) for point in action.path)]
            middle = [atom for stop in stops[1:] for atom in (stop, Pause(TAP_SECONDS))]
            path = (stops[0], ButtonDown(1), Pause(TAP_SECONDS), *middle, ButtonUp(1))
            return _held(modifiers(action.keys), path)
        case a.Keypress():
            return _held(chord(action.keys), (Pause(TAP_SECONDS),))
        case a.Hold():
            return _held(chord(action.keys), (Pause(action.duration_ms / 1000),))
        case a.Type():
            return tuple(Char(c) for c in action.text)
        case a.Paste() | a.Wait() | a.TakeScreenshot():
            return ()


def units(action: a.Action) -> int:
    """How many units *action* has, known before it runs: a wait's are its 50 ms slices."""
    match action:
        case a.Wait():
            return -(-action.ms // 50)
        case a.Paste() | a.TakeScreenshot():
            return 1
        case _:
            return count(plan(action, lambda x, y: Point(x=0, y=0)))


def count(atoms: tuple[Atom, ...]) -> int:
    return sum(not isinstance(atom, Pause) for atom in atoms)


def _move(
    action: a.Click | a.DoubleClick | a.TripleClick | a.Move | a.Scroll | a.ButtonDown | a.ButtonUp,
    to_body: ToBody,
) -> MoveTo:
    point = to_body(action.x, action.y)
    return MoveTo(point.x, point.y)


def _held(keys: tuple[Key, ...], inner: tuple[Atom, ...]) -> tuple[Atom, ...]:
    downs = tuple(KeyDown(k.keysym) for k in keys)
    return (*downs, *inner, *(KeyUp(k.keysym) for k in reversed(keys)))


def _wheel(action: a.Scroll) -> tuple[Atom, ...]:
    turns = [
        ("down" if action.scroll_y > 0 else "up", a.notches(action.scroll_y)),
        ("right" if action.scroll_x > 0 else "left", a.notches(action.scroll_x)),
    ]
    return tuple(
        edge
        for way, notches in turns
        for _ in range(notches)
        for edge in (ButtonDown(_SCROLL_BUTTONS[way]), ButtonUp(_SCROLL_BUTTONS[way]))
    )
