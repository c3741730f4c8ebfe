"""TLS hellos: real ones, as Python's own client makes them, and ones put together by hand."""

from __future__ import annotations

import ssl


def real(name: str | None) -> bytes:
    """What a TLS client sends first when it wants *name* (None: it says no name)."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    out = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        return out.read()
    raise AssertionError("a handshake without a server")


def sized(data: bytes, width: int = 2) -> bytes:
    return len(data).to_bytes(width) + data


def made(extensions: bytes = b"", *, behind: bytes = b"") -> bytes:
    """A hello message with these extensions, in one record."""
    body = b"\x03\x03" + bytes(32) + sized(b"", 1) + sized(b"\x13\x01") + sized(b"\0", 1) + sized(extensions)
    return record(b"\x01" + sized(body + behind, 3))


def record(fragment: bytes, kind: int = 22) -> bytes:
    return bytes([kind]) + b"\x03\x01" + sized(fragment)


def extension(kind: int, content: bytes) -> bytes:
    return kind.to_bytes(2) + sized(content)


def names(*entries: bytes, kind: int = 0) -> bytes:
    """A server_name extension."""
    return extension(0, sized(b"".join(bytes([kind]) + sized(entry) for entry in entries)))


def in_records(hello: bytes, size: int) -> bytes:
    """The same hello, in records of *size* bytes."""
    message = hello[5:]
    return b"".join(record(message[at : at + size]) for at in range(0, len(message), size))
