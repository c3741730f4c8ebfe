"""One xcffib client on a connected wire, for what python-xlib can't do: descriptors and regions.

Its waits are libxcb's own and end only with the connection: lane.py cuts the wire.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import Any

import xcffib
import xcffib.xproto
import xcffib.xtest

from .connection import COOKIE_NAME, Wire

_library: Any = xcffib  # its types leave out most of what it has


class _Client(_library.Connection):  # type: ignore[misc]
    """xcffib's connection, over a descriptor and a cookie.

    The base class takes "name:cookie" as one string and splits it at every colon, which one random
    cookie in 16 contains.
    """

    def __init__(self, wire: Wire) -> None:
        name, data = (_library.ffi.new("char[]", part) for part in (COOKIE_NAME, wire.cookie))
        auth = _library.ffi.new("xcb_auth_info_t *")
        auth.name, auth.namelen = name, len(COOKIE_NAME)
        auth.data, auth.datalen = data, len(wire.cookie)
        self.pref_screen = 0
        self._conn = _library.lib.xcb_connect_to_fd(os.dup(wire.fileno()), auth)  # closes it itself
        try:
            self.invalid()
            self._init_x()
        except BaseException:
            self.disconnect()
            raise

    @property
    def address(self) -> int:
        """Of libxcb's xcb_connection_t."""
        return int(_library.ffi.cast("uintptr_t", self._conn))


class XcbConnection:
    """A connection of one purpose: subclasses check in `ready` what they need."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.xcb: Any = _Client(wire)
        self.core: Any = self.xcb.core
        self.screen: Any = self.xcb.setup.roots[0]
        self.xcb(xcffib.xtest.key).GrabControl(True)  # as in connection.py
        try:
            self.ready()
        except BaseException:
            self.close()
            raise

    def ready(self) -> None:
        """Query versions, make resources."""

    def events(self) -> Iterator[Any]:
        """Events that have arrived, without waiting. Those that can't be read are made up: left out.

        Raises:
            XcffibException: the server's complaint about an earlier request.
        """
        while True:
            try:
                event = self.xcb.poll_for_event()
            except (IndexError, ValueError, struct.error, UnicodeError):
                continue
            if event is None:
                return
            yield event

    def close(self) -> None:
        """Hang up. The server frees what this client owned."""
        self.xcb.disconnect()
        self.wire.close()
