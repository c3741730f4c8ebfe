"""XInput 2: the echo of every device event, the state of all buttons, and whose devices are meant.

A raw event reaches a client that asked for it once for every press, release and motion that the
server makes of any fake or real input, whatever is grabbed: so the sender sees each of its own
atoms come back, in order and before the reply to its next request, and sees everybody else's too.
Source: XI2proto.txt 2.2, "Raw events"; delivery during grabs needs 2.1.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from Xlib import X
from Xlib.ext import xinput
from Xlib.protocol import rq

from bodyd.errors import DisplayUnavailable

from . import xkb
from .connection import Wire, XConnection, XObject
from .overhear import Overhearing

_NAME = "XInputExtension"
_GENERIC_EVENT = 35
_MASTER_POINTER, _MASTER_KEYBOARD = 2, 3  # the virtual core ones: every server has them
_ALL_MASTERS = 1
_POINTER = 1  # of a device's uses: a master pointer
_REMOVE_MASTER, _ATTACH = 2, 1
_DEVICE, _CLASS = struct.Struct("=HHHHHBx"), struct.Struct("=HH")  # XIDeviceInfo, the head of a class
_RAW_TO_CORE = {
    xinput.RawKeyPress: X.KeyPress,
    xinput.RawKeyRelease: X.KeyRelease,
    xinput.RawButtonPress: X.ButtonPress,
    xinput.RawButtonRelease: X.ButtonRelease,
    xinput.RawMotion: X.MotionNotify,
}
_RAW_MASK = sum(1 << kind for kind in _RAW_TO_CORE)


class Echo(NamedTuple):
    """One device event: its core type (X.KeyPress, …) and keycode or physical button, 0 for motion."""

    kind: int
    detail: int


class _Generic:
    """A generic event, kept as bytes: python-xlib's own class spends 50 µs on each."""

    __slots__ = ("binary", "sequence_number", "type")

    def __init__(self, display: XObject = None, binarydata: XObject = b"") -> None:
        self.binary = bytes(binarydata)
        self.type = _GENERIC_EVENT
        self.sequence_number = struct.unpack_from("=H", self.binary, 2)[0]


class _QueryPointer(rq.ReplyRequest):
    _request = rq.Struct(
        rq.Card8("opcode"),
        rq.Opcode(40),
        rq.RequestLength(),
        rq.Window("window"),
        rq.Card16("device"),
        rq.Pad(2),
    )
    _reply = rq.Struct(
        rq.ReplyCode(),
        rq.Pad(1),
        rq.Card16("sequence_number"),
        rq.ReplyLength(),
        rq.Card32("root"),
        rq.Card32("child"),
        rq.Int32("root_x"),
        rq.Int32("root_y"),
        rq.Int32("win_x"),
        rq.Int32("win_y"),
        rq.Card8("same_screen"),
        rq.Pad(1),
        rq.LengthOf("buttons", 2),
        rq.Card32("base_modifiers"),
        rq.Card32("latched_modifiers"),
        rq.Card32("locked_modifiers"),
        rq.Card32("effective_modifiers"),
        rq.Pad(4),
        rq.List("buttons", rq.Card32Obj),
    )


class _SetClientPointer(rq.Request):
    _request = rq.Struct(
        rq.Card8("opcode"),
        rq.Opcode(44),
        rq.RequestLength(),
        rq.Card32("window"),
        rq.Card16("device"),
        rq.Pad(2),
    )


class _GetClientPointer(rq.ReplyRequest):
    _request = rq.Struct(rq.Card8("opcode"), rq.Opcode(45), rq.RequestLength(), rq.Card32("window"))
    _reply = rq.Struct(
        rq.ReplyCode(),
        rq.Pad(1),
        rq.Card16("sequence_number"),
        rq.ReplyLength(),
        rq.Card8("set"),
        rq.Pad(1),
        rq.Card16("device"),
        rq.Pad(20),
    )


class _QueryDevice(rq.ReplyRequest):
    _request = rq.Struct(
        rq.Card8("opcode"), rq.Opcode(48), rq.RequestLength(), rq.Card16("device"), rq.Pad(2)
    )
    _reply = rq.Struct(
        rq.ReplyCode(),
        rq.Pad(1),
        rq.Card16("sequence_number"),
        rq.ReplyLength(),
        rq.Card16("count"),
        rq.Pad(22),
        rq.Binary("devices"),
    )


class _RemoveMaster(rq.Request):
    _request = rq.Struct(
        rq.Card8("opcode"),
        rq.Opcode(43),
        rq.RequestLength(),
        rq.Card8("changes"),
        rq.Pad(3),
        rq.Card16("kind"),
        rq.Card16("length"),
        rq.Card16("device"),
        rq.Card8("mode"),
        rq.Pad(1),
        rq.Card16("pointer"),
        rq.Card16("keyboard"),
    )


class EchoListener:
    """Turns the echo on and off on one connection, and reads it."""

    _codes: ClassVar[struct.Struct] = struct.Struct("=xBHIHHII")  # extension … evtype, device, time, detail

    def __init__(self, x: XConnection) -> None:
        self._x = x
        self._opcode = x.opcode(_NAME)
        self._echoes: list[Echo] = []
        self._remapped = self._disturbed = False
        announce(x)
        core: XObject = x.core
        core.event_classes[_GENERIC_EVENT] = _Generic

    def listen(self) -> None:
        """From here on. Off while idle, so that nobody's input piles up unread."""
        self._x.root.xinput_select_events([(xinput.AllMasterDevices, _RAW_MASK)])

    def ignore(self) -> None:
        self._x.root.xinput_select_events([(xinput.AllMasterDevices, 0)])

    def read(self) -> list[Echo]:
        """The echoes that have arrived since the last time."""
        self._collect()
        echoes, self._echoes = self._echoes, []
        return echoes

    def remapped(self) -> bool:
        """Whether the keymap may have changed since the last time."""
        self._collect()
        remapped, self._remapped = self._remapped, False
        return remapped

    def disturbed(self) -> bool:
        """Whether, since the last time, key filters were turned on or off, or other devices used than
        the core ones: an app can make some, and make them any client's.
        """
        self._collect()
        disturbed, self._disturbed = self._disturbed, False
        return disturbed

    def _collect(self) -> None:
        for event in pending(self._x):
            if xkb.tells_of_map(self._x, event):
                self._remapped = True
            elif xkb.tells_of_filter(self._x, event):
                self._disturbed = True
            elif event.type == _GENERIC_EVENT:
                extension, _, _, kind, device, _, detail = self._codes.unpack_from(event.binary)
                if extension == self._opcode and kind in _RAW_TO_CORE:
                    self._disturbed |= device not in (_MASTER_POINTER, _MASTER_KEYBOARD)
                    self._echoes.append(Echo(_RAW_TO_CORE[kind], detail))


class SenderConnection(XConnection):
    """A connection prepared for sending, with all that tells what became of it."""

    def __init__(self, wire: Wire, second: Wire) -> None:
        """*second*: another connected wire, for what is overheard; closed with the first."""
        wire.companion = second
        super().__init__(wire)
        xkb.announce(self)
        xkb.watch(self)
        self.echo = EchoListener(self)
        self.overhearing = Overhearing(self, XConnection(second))


def announce(x: XConnection) -> None:
    """Ask for XI 2.2.

    Raises:
        DisplayUnavailable: the server is older than 2.1.
    """
    version: XObject = xinput.XIQueryVersion(
        display=x.core, opcode=x.opcode(_NAME), major_version=2, minor_version=2
    )
    if (version.major_version, version.minor_version) < (2, 1):
        raise DisplayUnavailable("the X server's XInput is older than 2.1")


def buttons_down(x: XConnection) -> frozenset[int]:
    """The logical buttons that are held, all of them (the core mask ends at 5)."""
    reply: XObject = _QueryPointer(
        display=x.core, opcode=x.opcode(_NAME), window=x.root, device=_MASTER_POINTER
    )
    mask = sum(word << 32 * index for index, word in enumerate(reply.buttons))
    return frozenset(button for button in range(1, mask.bit_length()) if mask >> button & 1)


def use_core_devices(x: XConnection) -> None:
    """From here on, *x* acts with the core pointer and keyboard, and reads theirs. Not acknowledged.

    Any client can give any other one another pair, by XISetClientPointer.
    """
    _SetClientPointer(display=x.core, opcode=x.opcode(_NAME), window=0, device=_MASTER_POINTER)


def uses_core_devices(x: XConnection) -> bool:
    """Whether *x* still does."""
    found: XObject = _GetClientPointer(display=x.core, opcode=x.opcode(_NAME), window=0)
    return int(found.device) == _MASTER_POINTER


def other_pointers(x: XConnection) -> list[int]:
    """Master pointers beside the core one: apps have made them."""
    found: XObject = _QueryDevice(display=x.core, opcode=x.opcode(_NAME), device=_ALL_MASTERS)
    data, at, pointers = bytes(found.devices), 0, []
    for _ in range(found.count):
        device, use, _, classes, name, _ = _DEVICE.unpack_from(data, at)
        at += _DEVICE.size + (name + 3) // 4 * 4
        for _ in range(classes):
            at += 4 * _CLASS.unpack_from(data, at)[1]
        if use == _POINTER and device != _MASTER_POINTER:
            pointers.append(device)
    return pointers


def remove(x: XConnection, pointer: int) -> None:
    """Remove a master pointer and its keyboard. Not acknowledged: read back."""
    _RemoveMaster(
        display=x.core,
        opcode=x.opcode(_NAME),
        changes=1,
        kind=_REMOVE_MASTER,
        length=3,
        device=pointer,
        mode=_ATTACH,
        pointer=_MASTER_POINTER,
        keyboard=_MASTER_KEYBOARD,
    )


def pending(x: XConnection) -> Iterator[XObject]:
    """Events that have arrived, without waiting."""
    while x.display.pending_events():
        yield x.display.next_event()
