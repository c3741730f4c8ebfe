"""Quiescence: nothing held, latched, locked or swapped; brought about, and proved by reading.

Releasing runs on the sender's connection, proof on another: a lost request can't vouch for itself.
What counts is the server's state, whoever caused it; the daemon's own memory of what it holds is
never believed here. Everything blocks in a lane's thread.
"""

from __future__ import annotations

from dataclasses import dataclass

from Xlib import X
from Xlib.ext import xtest

from bodyd.errors import DisplayUnavailable

from . import xinput, xkb
from .connection import XConnection
from .input import codes_down

_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Quiescence:
    """What a look at the whole input state found; `reasons` is empty exactly if quiet.

    Attributes:
        keys: Keycodes that are down.
        buttons: Buttons that are down.
        reasons: "held_keys", "held_buttons", "latched_modifiers", a locked modifier's name, "group",
            one of xkb.FILTERS, "pointer_mapping", "other_devices" (further pointers and keyboards).
    """

    keys: tuple[int, ...]
    buttons: tuple[int, ...]
    reasons: tuple[str, ...]

    @property
    def quiet(self) -> bool:
        return not self.reasons


def look(x: XConnection) -> Quiescence:
    """Read everything; several round trips, so all that *x* or anyone sent before was processed."""
    xinput.use_core_devices(x)
    keys = tuple(codes_down(x.display.query_keymap()))
    buttons = tuple(sorted(xinput.buttons_down(x)))
    reasons = [
        *(["held_keys"] if keys else []),
        *(["held_buttons"] if buttons else []),
        *_leanings(x),
        *(["other_devices"] if xinput.other_pointers(x) or not xinput.uses_core_devices(x) else []),
    ]
    return Quiescence(keys, buttons, tuple(reasons))


def _leanings(x: XConnection) -> list[str]:
    """What bends the meaning of later input without a key being down."""
    state = xkb.read(x)
    mapping = list(x.display.get_pointer_mapping())
    return [
        *(["latched_modifiers"] if state.latched else []),
        *xkb.names(state.locked),
        *(["group"] if state.group else []),
        *xkb.filters(x),
        *(["pointer_mapping"] if mapping != sorted(mapping) or 0 in mapping else []),
    ]


def release(x: XConnection) -> None:
    """Lift every key and button that is down, whoever pressed it, and straighten the rest.

    Raises:
        DisplayUnavailable: something is still down or bent after several attempts: someone holds on.
    """
    for _ in range(_ATTEMPTS):
        found = look(x)
        if found.quiet:
            return
        for pointer in xinput.other_pointers(x):
            xinput.remove(x, pointer)
        for code in found.keys:
            xtest.fake_input(x.display, X.KeyRelease, code)
        if found.buttons:  # logical ones: under a swapped mapping, no telling which was pressed
            for button in range(1, len(x.display.get_pointer_mapping()) + 1):
                xtest.fake_input(x.display, X.ButtonRelease, button)
        _straighten(x)
    left = look(x).reasons
    if left:
        raise DisplayUnavailable(f"input state can't be cleared: {', '.join(left)}")


def normalise(x: XConnection) -> list[str]:
    """Undo locks, latches, a foreign group, key filters, a swapped pointer; held keys stay.

    Returns:
        What was found, by the names of Quiescence.reasons.
    Raises:
        DisplayUnavailable: it could not be undone.
    """
    xinput.use_core_devices(x)
    found = _leanings(x)
    if not found:
        return found
    for _ in range(_ATTEMPTS):
        _straighten(x)
        left = _leanings(x)
        if not left:
            return found
    raise DisplayUnavailable(f"input state can't be restored: {', '.join(left)}")


def _straighten(x: XConnection) -> None:
    xkb.clear(x)
    xkb.clear_filters(x)
    mapping = list(x.display.get_pointer_mapping())
    straight = list(range(1, len(mapping) + 1))
    if mapping != straight:
        x.display.set_pointer_mapping(straight)  # refused while a button is down: hence attempts
