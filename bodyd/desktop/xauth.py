"""Xauthority files (xauth(1), libXau): big-endian records of family, address, number, name, data. Pure."""

from __future__ import annotations

import struct

_NAME = b"MIT-MAGIC-COOKIE-1"
_FAMILY_LOCAL, _FAMILY_WILD = 256, 65535


def authority(cookie: bytes, *, hostname: str, display: str = "0") -> bytes:
    """The file for *cookie*: for *hostname*, and for any host.

    Both, because python-xlib does not honour wildcard entries and other clients may see another name.
    """
    local = _record(_FAMILY_LOCAL, hostname.encode(), display.encode(), cookie)
    return local + _record(_FAMILY_WILD, b"", display.encode(), cookie)


def _record(family: int, address: bytes, number: bytes, cookie: bytes) -> bytes:
    fields = (address, number, _NAME, cookie)
    return struct.pack(">H", family) + b"".join(struct.pack(">H", len(f)) + f for f in fields)
