"""Reading D-Bus messages that a hostile bus may have made: bounded in size, depth and count. Pure.

jeepney writes our own messages; its reader is not used, since it trusts
what it reads (an array of empty structs keeps it busy for ever, nested variants exhaust the stack).
Source: D-Bus specification 0.43, "Marshalling". Its counterpart is dbus.py.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

MAX_MESSAGE = 4 * 1024 * 1024  # bytes: a cache of 20,000 nodes
MAX_DEPTH = 16
"""Arrays, structs and variants within each other; AT-SPI needs 5."""

MAX_VALUES = 400_000
"""Values of one message: what its reading may cost, whatever its size."""

MAX_SIGNATURE = 64
MAX_FIELDS = 16

_FIXED: Final = {"y": "B", "b": "I", "n": "h", "q": "H", "i": "i", "u": "I", "x": "q", "t": "Q", "d": "d"}
_SIZE: Final = {"y": 1, "b": 4, "n": 2, "q": 2, "i": 4, "u": 4, "x": 8, "t": 8, "d": 8, "h": 4}
_ALIGNED: Final = {**_SIZE, "s": 4, "o": 4, "g": 1, "v": 1, "a": 4, "(": 8, "{": 8}
RETURN, ERROR, SIGNAL = 2, 3, 4
_PATH, _INTERFACE, _MEMBER, _ERROR_NAME, _REPLY_SERIAL, _SENDER, _SIGNATURE = 1, 2, 3, 4, 5, 7, 8
_HEADER_SIGNATURES: Final = {1: "o", 2: "s", 3: "s", 4: "s", 5: "u", 6: "s", 7: "s", 8: "g", 9: "u"}


class Malformed(Exception):
    """Not a message that a sound bus sends; the connection can't be used any more."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """One message, read.

    `kind` is RETURN, ERROR, SIGNAL or another; `body` has tuples for structs, lists for arrays,
    (signature, value) for variants.
    """

    kind: int
    sender: str
    path: str
    interface: str
    member: str
    error: str
    reply_to: int
    signature: str
    body: tuple[Any, ...]


def size_of(head: bytes) -> int:
    """The whole size of the message that begins with these 16 bytes.

    Raises:
        Malformed: it is not D-Bus, or larger than MAX_MESSAGE.
    """
    order = _order(head)
    body, _serial, fields = struct.unpack_from(order + "III", head, 4)
    size = 16 + int(fields) + -int(fields) % 8 + int(body)
    if size > MAX_MESSAGE:
        raise Malformed(f"a message of {size} bytes")
    return size


def read_message(data: bytes) -> Incoming:
    """Read one whole message.

    Raises:
        Malformed: anything about it is not as it should be.
    """
    order = _order(data)
    try:
        kind = data[1]
        reader = _Reader(data, order)
        fields, at = reader.fields()
        signature = fields.get(_SIGNATURE, "")
        body, at = reader.sequence(signature, at, MAX_DEPTH)
        if at != len(data):
            raise Malformed("its body is of another size than its signature says")
    except (ValueError, IndexError, struct.error) as exc:
        raise Malformed(str(exc)) from None
    return Incoming(
        kind,
        sender=fields.get(_SENDER, ""),
        path=fields.get(_PATH, ""),
        interface=fields.get(_INTERFACE, ""),
        member=fields.get(_MEMBER, ""),
        error=fields.get(_ERROR_NAME, ""),
        reply_to=fields.get(_REPLY_SERIAL, 0),
        signature=signature,
        body=tuple(body),
    )


def split(signature: str) -> list[str]:
    """The complete types of *signature*, in order.

    Raises:
        Malformed: unbalanced, empty structs, or too long.
    """
    if len(signature) > MAX_SIGNATURE:
        raise Malformed("a long signature")
    found, at = [], 0
    while at < len(signature):
        end = _end(signature, at, MAX_DEPTH)
        found.append(signature[at:end])
        at = end
    return found


def _end(signature: str, at: int, depth: int) -> int:
    """Where the complete type that begins at *at* ends."""
    if depth == 0 or at >= len(signature):
        raise Malformed("a signature that is deep or cut off")
    code = signature[at]
    if code == "a":
        return _end(signature, at + 1, depth - 1)
    if code not in "({":
        if code not in _ALIGNED:
            raise Malformed(f"no type {code!r}")
        return at + 1
    close, inner = (")" if code == "(" else "}"), at + 1
    while inner < len(signature) and signature[inner] != close:
        inner = _end(signature, inner, depth - 1)
    if inner >= len(signature) or inner == at + 1:
        raise Malformed("a struct that is empty or not closed")
    return inner + 1


def _order(data: bytes) -> str:
    if data[:1] not in (b"l", b"B"):
        raise Malformed("neither byte order")
    return "<" if data[:1] == b"l" else ">"


class _Reader:
    def __init__(self, data: bytes, order: str) -> None:
        self._data = data
        self._fixed = {code: struct.Struct(order + form) for code, form in _FIXED.items()}
        self._left = MAX_VALUES
        self._splits: dict[str, list[str]] = {}

    def fields(self) -> tuple[dict[int, Any], int]:
        """The header's fields by code, those that are known, and where the body begins."""
        length, at = self._number("u", 12)
        end = at + length
        found: dict[int, Any] = {}
        while at < end:
            at += -at % 8
            code = self._data[at]
            signature, at = self._signature(at + 1)
            if signature not in ("s", "o", "g", "u") or len(found) >= MAX_FIELDS:
                raise Malformed("header fields that there are not")
            value, at = self.value(signature, at, 2)
            if _HEADER_SIGNATURES.get(code, signature) != signature:
                raise Malformed("a header field of another type")
            found[code] = value
        return found, at + -at % 8

    def sequence(self, signature: str, at: int, depth: int) -> tuple[list[Any], int]:
        """Values of all the types of *signature*, one after the other."""
        types = self._splits.get(signature)
        if types is None:
            types = self._splits[signature] = split(signature)
        values = []
        for each in types:
            value, at = self.value(each, at, depth)
            values.append(value)
        return values, at

    def value(self, signature: str, at: int, depth: int) -> tuple[Any, int]:
        """One value of one complete type, and where the next begins."""
        self._left -= 1
        if depth == 0 or self._left < 0:
            raise Malformed("values that are too many or too deep")
        code = signature[0]
        if code in _FIXED:
            return self._number(code, at)
        match code:
            case "s" | "o":
                return self._string(at)
            case "g":
                return self._signature(at)
            case "a":
                return self._array(signature[1:], at, depth)
            case "(" | "{":
                values, at = self.sequence(signature[1:-1], at + -at % 8, depth - 1)
                return tuple(values), at
            case "v":
                inner, at = self._signature(at)
                if len(split(inner)) != 1:
                    raise Malformed("a variant of none or several")
                value, at = self.value(inner, at, depth - 1)
                return (inner, value), at
            case _:  # "h": descriptors are not taken
                raise Malformed(f"a value of type {code!r}")

    def _number(self, code: str, at: int) -> tuple[Any, int]:
        at += -at % _SIZE[code]
        return self._fixed[code].unpack_from(self._data, at)[0], at + _SIZE[code]

    def _string(self, at: int) -> tuple[str, int]:
        length, at = self._number("u", at)
        end = at + length
        if end >= len(self._data):
            raise Malformed("a string beyond the end")
        return self._data[at:end].decode("utf-8", "replace"), end + 1

    def _signature(self, at: int) -> tuple[str, int]:
        end = at + 1 + self._data[at]
        if end >= len(self._data):
            raise Malformed("a signature beyond the end")
        return self._data[at + 1 : end].decode("ascii"), end + 1

    def _array(self, inner: str, at: int, depth: int) -> tuple[list[Any], int]:
        length, at = self._number("u", at)
        at += -at % _ALIGNED[inner[0]]
        end = at + length
        if end > len(self._data):
            raise Malformed("an array beyond the end")
        values = []
        while at < end:
            value, at = self.value(inner, at, depth - 1)
            values.append(value)
        if at != end:
            raise Malformed("an array of another size than it says")
        return values, at
