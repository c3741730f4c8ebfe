"""The name in a TLS ClientHello: what the server of a tunnel will take the client to want. Pure.

RFC 8446 4.1.2 and 5.1, RFC 6066 3. Read and not answered: the tunnel stays end to end. A hello may come in
any number of segments and records, so what is here is asked again with more until it knows; whatever is not
exactly one hello with at most one name is refused, for two readers could see two names in it.
"""

from __future__ import annotations

MAX_RAW = 32 * 1024
"""Bytes looked at before a hello that is still not whole is refused."""

MAX_RECORDS = 64

UNRECOGNIZED_NAME = b"\x15\x03\x03\x00\x02\x02\x70"
"""The fatal alert (RFC 6066 3) that tells the client why its tunnel ends."""

_HANDSHAKE, _CLIENT_HELLO, _SERVER_NAME, _HOST_NAME = 0x16, 1, 0, 0
_MAX_RECORD, _MAX_HELLO = 1 << 14, 16 * 1024


class BadHello(Exception):
    """Not one well-formed ClientHello; the text says what is wrong."""


class _More(Exception):
    """It may become one once *size* bytes are there."""

    def __init__(self, size: int) -> None:
        self.size = size


def is_tls(data: bytes) -> bool:
    """Whether a stream that begins with *data* (one byte is enough) is TLS."""
    return data[:1] == bytes([_HANDSHAKE])


def server_name(data: bytes) -> bytes | int:
    """The name that the hello at the start of *data* asks for, b"" for none.

    While it is not whole, an int instead: ask again when that many bytes are there, and not before.

    Raises:
        BadHello: it is none, or MAX_RAW bytes or MAX_RECORDS records do not hold one.
    """
    try:
        hello = _Reader(_message(data))
        hello.take(2 + 32)  # legacy_version, random
        hello.vector(1, 32)  # legacy_session_id
        hello.vector(2)  # cipher_suites
        hello.vector(1)  # legacy_compression_methods
        extensions = _Reader(hello.vector(2)) if hello.left else _Reader(b"")
        hello.end()
    except _More as more:
        if more.size > MAX_RAW:
            raise BadHello("a TLS hello that does not end") from None
        return more.size
    found = b""
    seen: set[int] = set()
    while extensions.left:
        kind, content = extensions.number(2), extensions.vector(2)
        if kind in seen:
            raise BadHello("a TLS extension given twice")
        seen.add(kind)
        if kind == _SERVER_NAME:
            found = _host_name(content)
    return found


def _message(data: bytes) -> bytes:
    """The body of the hello, put together from its records."""
    message, at = b"", 0
    for _ in range(MAX_RECORDS):
        if not is_tls(data[at : at + 1] or b"\x16") or data[at + 1 : at + 2] not in (b"", b"\x03"):
            raise BadHello("no TLS handshake")
        header = data[at : at + 5]
        if len(header) < 5:
            raise _More(at + 5)
        length = int.from_bytes(header[3:])
        if not 0 < length <= _MAX_RECORD:
            raise BadHello("a TLS record of a size that there is not")
        message += data[at + 5 : at + 5 + length]
        at += 5 + length
        if message[:1] not in (b"", bytes([_CLIENT_HELLO])):
            raise BadHello("a TLS handshake that does not begin with a hello")
        if len(message) >= 4:
            size = int.from_bytes(message[1:4])
            if size > _MAX_HELLO:
                raise BadHello("a TLS hello over 16 KiB")
            if len(message) >= 4 + size:
                return message[4 : 4 + size]
        if at > len(data):
            raise _More(at)
    raise BadHello("a TLS hello in too many pieces")


def _host_name(extension: bytes) -> bytes:
    """The one name in a server_name extension."""
    outer = _Reader(extension)
    names = _Reader(outer.vector(2))
    outer.end()
    kind, name = names.number(1), names.vector(2)
    names.end()
    if kind != _HOST_NAME or not name:
        raise BadHello("a TLS server name of a kind that there is not")
    return name


class _Reader:
    """Numbers and length-prefixed vectors of a message that is whole."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, count: int) -> bytes:
        if count > self.left:
            raise BadHello("a TLS hello whose lengths contradict each other")
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width))

    def vector(self, width: int, most: int = 1 << 16) -> bytes:
        length = self.number(width)
        if length > most:
            raise BadHello("a TLS hello with a field that is too long")
        return self.take(length)

    def end(self) -> None:
        if self.left:
            raise BadHello("a TLS hello with something behind its end")
