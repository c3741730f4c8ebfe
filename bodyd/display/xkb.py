"""XKB: the modifiers and the group that are latched or locked, and what filters keys; read and set.

python-xlib has no XKB; these are the requests needed ("The X Keyboard Extension: Protocol
Specification", chapters 10 and 16.3). The extension is in every X.Org server.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from Xlib import X
from Xlib.protocol import rq

from .connection import XConnection, XObject

_NAME = "XKEYBOARD"
_CORE_KEYBOARD = 0x0100
_ALL_MODIFIERS = 0xFF
_NEW_KEYBOARD, _MAP, _CONTROLS = 0, 1, 3  # event subtypes
_EVENTS = 1 << _NEW_KEYBOARD | 1 << _MAP | 1 << _CONTROLS
_ALL_PARTS = 0xFF

MODIFIER_NAMES = ("shift", "caps_lock", "control", "alt", "num_lock", "level5", "super", "level3")
"""Of the eight modifier bits, in the usual map of X.Org: Shift, Lock, Control, Mod1 to Mod5."""


FILTERS = {
    1 << 1: "slow_keys",
    1 << 2: "bounce_keys",
    1 << 3: "sticky_keys",
    1 << 4: "mouse_keys",
    1 << 6: "access_keys",
    1 << 10: "overlay1",
    1 << 11: "overlay2",
}
"""Controls that swallow key presses or change their meaning after the server has made them."""

_ALL_FILTERS = sum(FILTERS)
_ENABLED = 1 << 31  # the controls' own bit in `change`: which of them are on
_CHANGED_AT = 16  # in an event, after its type and number: which have been turned on or off


class _UseExtension(rq.ReplyRequest):
    _request = rq.Struct(
        rq.Card8("opcode"), rq.Opcode(0), rq.RequestLength(), rq.Card16("major"), rq.Card16("minor")
    )
    _reply = rq.Struct(
        rq.ReplyCode(),
        rq.Card8("supported"),
        rq.Card16("sequence_number"),
        rq.ReplyLength(),
        rq.Card16("major"),
        rq.Card16("minor"),
        rq.Pad(20),
    )


class _SelectEvents(rq.Request):
    _request = rq.Struct(
        rq.Card8("opcode"),
        rq.Opcode(1),
        rq.RequestLength(),
        rq.Card16("device"),
        rq.Card16("affect"),
        rq.Card16("clear"),
        rq.Card16("select_all"),
        rq.Card16("affect_map"),
        rq.Card16("map"),
    )


class _GetState(rq.ReplyRequest):
    _request = rq.Struct(rq.Card8("opcode"), rq.Opcode(4), rq.RequestLength(), rq.Card16("device"), rq.Pad(2))
    _reply = rq.Struct(
        rq.ReplyCode(),
        rq.Card8("device"),
        rq.Card16("sequence_number"),
        rq.ReplyLength(),
        rq.Card8("modifiers"),
        rq.Card8("base_modifiers"),
        rq.Card8("latched_modifiers"),
        rq.Card8("locked_modifiers"),
        rq.Card8("group"),
        rq.Card8("locked_group"),
        rq.Int16("base_group"),
        rq.Int16("latched_group"),
        rq.Pad(12),
    )


class _LatchLockState(rq.Request):
    _request = rq.Struct(
        rq.Card8("opcode"),
        rq.Opcode(5),
        rq.RequestLength(),
        rq.Card16("device"),
        rq.Card8("affect_locks"),
        rq.Card8("locks"),
        rq.Card8("lock_group"),
        rq.Card8("group"),
        rq.Card8("affect_latches"),
        rq.Card8("latches"),
        rq.Pad(1),
        rq.Card8("latch_group"),
        rq.Card16("group_latch"),
    )


class _GetControls(rq.ReplyRequest):
    _request = rq.Struct(rq.Card8("opcode"), rq.Opcode(6), rq.RequestLength(), rq.Card16("device"), rq.Pad(2))
    _reply = rq.Struct(
        rq.ReplyCode(),
        rq.Card8("device"),
        rq.Card16("sequence_number"),
        rq.ReplyLength(),
        rq.Pad(48),
        rq.Card32("enabled"),
        rq.Pad(32),
    )


class _SetControls(rq.Request):
    _request = rq.Struct(
        rq.Card8("opcode"),
        rq.Opcode(7),
        rq.RequestLength(),
        rq.Card16("device"),
        rq.Pad(18),
        rq.Card32("affect"),
        rq.Card32("enabled"),
        rq.Card32("change"),
        rq.Pad(64),
    )


@dataclass(frozen=True, slots=True)
class KeyboardState:
    """Modifier bits that stay without a key held, and the effective group (0 is the first layout)."""

    latched: int
    locked: int
    group: int

    @property
    def clear(self) -> bool:
        return not (self.latched or self.locked or self.group)


def announce(x: XConnection) -> None:
    """Say that this client speaks XKB: the server ignores its requests otherwise."""
    _UseExtension(display=x.core, opcode=x.opcode(_NAME), major=1, minor=0)


def watch(x: XConnection) -> None:
    """Ask to be told of changes of the keyboard's map and controls.

    To a client that speaks XKB, the server sends these in place of MappingNotify.
    """
    _SelectEvents(
        display=x.core,
        opcode=x.opcode(_NAME),
        device=_CORE_KEYBOARD,
        affect=_EVENTS,
        clear=0,
        select_all=_EVENTS,
        affect_map=_ALL_PARTS,
        map=_ALL_PARTS,
    )


def tells_of_map(x: XConnection, event: XObject) -> bool:
    """Whether *event* says that the map may have changed. Switching devices says so, too."""
    return event.type == X.MappingNotify or (
        event.type == x.first_event(_NAME) and event.detail in (_NEW_KEYBOARD, _MAP)
    )


def tells_of_filter(x: XConnection, event: XObject) -> bool:
    """Whether *event* says that a control of FILTERS was turned on or off."""
    if event.type != x.first_event(_NAME) or event.detail != _CONTROLS:
        return False
    (changed,) = struct.unpack_from("=I", bytes(event.data), _CHANGED_AT)
    return bool(changed & _ALL_FILTERS)


def filters(x: XConnection) -> tuple[str, ...]:
    """The names of FILTERS that are on."""
    controls: XObject = _GetControls(display=x.core, opcode=x.opcode(_NAME), device=_CORE_KEYBOARD)
    return tuple(name for bit, name in FILTERS.items() if controls.enabled & bit)


def clear_filters(x: XConnection) -> None:
    """Turn all of FILTERS off. Not acknowledged: read back."""
    _SetControls(
        display=x.core,
        opcode=x.opcode(_NAME),
        device=_CORE_KEYBOARD,
        affect=_ALL_FILTERS,
        enabled=0,
        change=_ENABLED,
    )


def read(x: XConnection) -> KeyboardState:
    state: XObject = _GetState(display=x.core, opcode=x.opcode(_NAME), device=_CORE_KEYBOARD)
    return KeyboardState(state.latched_modifiers, state.locked_modifiers, state.group)


def clear(x: XConnection) -> None:
    """Unlatch and unlock every modifier, lock the first group. Not acknowledged: read back."""
    _LatchLockState(
        display=x.core,
        opcode=x.opcode(_NAME),
        device=_CORE_KEYBOARD,
        affect_locks=_ALL_MODIFIERS,
        locks=0,
        lock_group=1,
        group=0,
        affect_latches=_ALL_MODIFIERS,
        latches=0,
        latch_group=1,
        group_latch=0,
    )


def names(modifiers: int) -> tuple[str, ...]:
    """The names of the bits set in *modifiers*."""
    return tuple(name for bit, name in enumerate(MODIFIER_NAMES) if modifiers >> bit & 1)
