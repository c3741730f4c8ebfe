"""Connections to the body's X server: the safe way in, and one python-xlib client on it.

Counterpart of desktop/, which starts the server; knows its socket, owner and cookie alone. Nothing
here reads DISPLAY or an Xauthority file. Everything blocks, within PATIENCE: lane.py runs it.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import stat
from collections import deque
from typing import Any, TypeAlias

import xcffib
import Xlib.threaded  # noqa: F401  must come first: python-xlib's locks are dummies without it (#279)
from Xlib import display as xlib_display
from Xlib import error as xlib_error
from Xlib.protocol import display as protocol_display
from Xlib.protocol import event

from bodyd.contract.ports import XEndpoint
from bodyd.errors import DisplayUnavailable

XObject: TypeAlias = Any
"""A reply, event or resource of python-xlib, which has no types for its fields."""

PATIENCE = 2.0
"""Seconds that one reply may take: a server that is silent for longer is frozen."""

COOKIE_NAME = b"MIT-MAGIC-COOKIE-1"

LOST = (
    xlib_error.ConnectionClosedError,
    xlib_error.DisplayConnectionError,
    xcffib.ConnectionException,
    OSError,
)
"""What a dying connection raises; translated to DisplayUnavailable in lane.py alone."""

SPOILT = (xlib_error.XError, xcffib.XcffibException)
"""What a connection raises that another client has spoilt: any of them can destroy any window, region or
context, whoever made it. A new connection makes all of its own anew."""


class Silent(OSError):
    """The server has not answered within PATIENCE."""


class Wire(socket.socket):
    """A connected, non-blocking socket to the X server, with the cookie that opens it."""

    cookie: bytes = b""
    companion: Wire | None = None  # a second one for the same purpose: they end together

    def send(self, data: XObject, flags: int = 0, /) -> int:
        """As usual, but a full buffer is 0 bytes sent: python-xlib takes any error for a hang-up."""
        try:
            return super().send(data, flags)
        except BlockingIOError:
            return 0

    def close(self) -> None:
        """As usual, but also wakes whoever waits on a duplicate of the descriptor."""
        self.abort()
        super().close()
        if self.companion is not None:
            self.companion.close()

    def abort(self) -> None:
        """Wake whoever waits on this socket, with an error. Callable from any thread, any time."""
        with contextlib.suppress(OSError):  # never connected, or closed already: nobody waits
            self.shutdown(socket.SHUT_RDWR)
        if self.companion is not None:
            self.companion.abort()


def connect(endpoint: XEndpoint) -> Wire:
    """Connect to the endpoint's socket if it is a socket, not a link, and of the right owner.

    What was checked is what is connected to: the path is opened once (O_PATH) and dialled through
    that descriptor, so nobody can swap it in between.

    Raises:
        DisplayUnavailable: anything else is at that path, or nobody answers there.
    """
    try:
        place = os.open(endpoint.socket_path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as exc:
        raise DisplayUnavailable(f"the X socket can't be opened: {exc.strerror}") from exc
    wire = Wire(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        found = os.fstat(place)
        if not stat.S_ISSOCK(found.st_mode):
            raise DisplayUnavailable("the X socket's path holds something that is not a socket")
        if found.st_uid != endpoint.uid:
            raise DisplayUnavailable(f"the X socket belongs to uid {found.st_uid}, not {endpoint.uid}")
        wire.settimeout(PATIENCE)
        wire.connect(f"/proc/self/fd/{place}")
        wire.setblocking(False)
        wire.cookie = endpoint.cookie
    except OSError as exc:
        wire.close()
        raise DisplayUnavailable(f"the X server does not accept connections: {exc}") from exc
    except DisplayUnavailable:
        wire.close()
        raise
    finally:
        os.close(place)
    return wire


class XConnection:
    """One python-xlib client. Used by one thread at a time; `abort` by any."""

    def __init__(self, wire: Wire) -> None:
        """Shake hands over *wire*.

        Raises:
            DisplayConnectionError, OSError: refused (a wrong cookie, too many clients) or silent.
        """
        self.wire = wire
        self.errors: deque[xlib_error.XError] = deque(maxlen=16)
        self.display = xlib_display.Display(_Name(wire))
        self.display.set_error_handler(lambda error, _request: self.errors.append(error))
        self.core = self.display.display
        self.core.error_classes = _true_errors(self.core.error_classes)
        self.core.event_classes = _Events(self.core.event_classes)
        self.screen = self.display.screen()
        self.root = self.screen.root
        self._opcodes: dict[str, int] = {}
        self._first_events: dict[str, int] = {}
        self.display.xtest_grab_control(True)  # an app that grabs the server does not stop this client

    def close(self) -> None:
        """Hang up. The server frees what this client owned."""
        self.wire.close()

    def opcode(self, extension: str) -> int:
        """The major opcode of *extension*.

        Raises:
            DisplayUnavailable: the server does not have it.
        """
        if extension not in self._opcodes:
            found = self.display.query_extension(extension)
            if found is None:
                raise DisplayUnavailable(f"the X server lacks the extension {extension}")
            self._opcodes[extension] = int(found.major_opcode)
            self._first_events[extension] = int(found.first_event)
        return self._opcodes[extension]

    def first_event(self, extension: str) -> int:
        """The type of the first of its events; its opcode was asked for before."""
        return self._first_events[extension]

    def atom(self, name: str) -> int:
        return int(self.core.get_atom(name))

    def atom_name(self, atom: int) -> str:
        """The name of *atom*; "" if there is none."""
        try:
            return str(self.display.get_atom_name(atom))
        except xlib_error.BadAtom:
            return ""

    def client_of(self, resource: int) -> int:
        """The X client that made *resource*, as the base of its ids."""
        return resource & ~int(self.core.info.resource_id_mask)


def _true_errors(known: XObject) -> XObject:
    """*known* without what python-xlib's randr puts in the place of BadRequest and BadValue.

    It takes that extension's errors for codes 0 to 2, and for classes that are no X errors: each such
    error would be a crash in the reader.
    """
    true = {code: kind for code, kind in known.items() if issubclass(kind, xlib_error.XError)}
    return {**true, 1: xlib_error.BadRequest, 2: xlib_error.BadValue}


class _Events(dict[int, XObject]):
    """python-xlib's classes by event type; what a class can't read, being made up, is an AnyEvent.

    Any client can send any other an event of any type, with any bytes in it.
    """

    def get(self, kind: int, default: XObject = event.AnyEvent) -> XObject:
        known: XObject = super().get(kind, default)

        def read(display: XObject, binarydata: XObject) -> XObject:
            try:
                made = known[binarydata[1]] if isinstance(known, dict) else known
                return made(display=display, binarydata=binarydata)
            except Exception:
                return event.AnyEvent(display=display, binarydata=binarydata)

        return read


# -- the seam ------------------------------------------------------------------------------------
# python-xlib finds its own socket and cookie from a display *name*, waits without end, and waits by
# select(2), which fails on descriptors above 1023. It has no public way around any of the three, so
# here, and nowhere else, its private module globals `connect` and `select` are replaced, once. Names
# and sockets that are not ours are passed on untouched (pynput, on the owner's own desktop).


class _Name(str):
    """A display name that brings its connected socket along."""

    __slots__ = ("wire",)
    wire: Wire

    def __new__(cls, wire: Wire) -> _Name:
        name = super().__new__(cls, ":0")
        name.wire = wire
        return name


class _Connect:
    def __init__(self, original: XObject) -> None:
        self._original = original

    def get_display(self, name: str | None) -> XObject:
        return (name, None, "", 0, 0) if isinstance(name, _Name) else self._original.get_display(name)

    def get_socket(self, name: str, *rest: XObject) -> XObject:
        return name.wire if isinstance(name, _Name) else self._original.get_socket(name, *rest)

    def get_auth(self, sock: XObject, name: str, *rest: XObject) -> XObject:
        if isinstance(name, _Name):
            return COOKIE_NAME, name.wire.cookie
        return self._original.get_auth(sock, name, *rest)


class _Select:
    error = OSError

    def select(self, read: XObject, write: XObject, exceptional: XObject, wait: float | None) -> XObject:
        wire = read[0]
        if not isinstance(wire, Wire):
            return select.select(read, write, exceptional, wait)
        poll = select.poll()
        poll.register(wire, select.POLLIN | (select.POLLOUT if write else 0))
        ready = poll.poll((PATIENCE if wait is None else wait) * 1000)
        if not ready and wait is None:
            raise Silent(f"the X server has not answered for {PATIENCE:g} s")
        mask = ready[0][1] if ready else 0
        readable = mask & (select.POLLIN | select.POLLHUP | select.POLLERR)
        return (read if readable else [], write if mask & select.POLLOUT else [], [])


_seam: XObject = protocol_display
_seam.connect = _Connect(_seam.connect)
_seam.select = _Select()
