"""The one request that a proxy connection may carry: parsed strictly, written anew. Pure.

Whatever is ambiguous is refused: bare line feeds, folded lines, two lengths, chunked request bodies
(no browser sends one over HTTP/1.1). What goes upstream is composed here, so that the name which was
judged is the name that the server sees.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_HEAD = 16 * 1024

_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_REQUEST = re.compile(rb"(" + _TOKEN + rb") ([\x21-\x7e]+) HTTP/1\.[01]")
_HEADER = re.compile(rb"(" + _TOKEN + rb"):[ \t]*([\x20-\x7e\x80-\xff\t]*)")
_ABSOLUTE = re.compile(rb"http://([^/?#]*)(/[^#]*|\?[^#]*)?", re.IGNORECASE)
_LENGTH = re.compile(rb"[0-9]{1,15}")
_HOP_BY_HOP = frozenset(
    b"host connection keep-alive proxy-connection proxy-authorization te trailer upgrade".split()
)


class BadRequest(Exception):
    """Not one well-formed proxy request; the text says what is wrong."""


@dataclass(frozen=True, slots=True)
class ProxyRequest:
    """A request to be judged: raw authority, and for plain HTTP what is to be sent on.

    Attributes:
        tunnel: CONNECT; then `path`, `headers` and `body_length` mean nothing.
        port: b"" where the client gave none.
    """

    tunnel: bool
    method: bytes
    host: bytes
    port: bytes
    path: bytes = b"/"
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body_length: int = 0

    def upstream_head(self, host: str, port: int) -> bytes:
        """The request as the server gets it: our Host, no proxy headers, one request a connection."""
        authority = host if port == 80 else f"{host}:{port}"
        lines = [self.method + b" " + self.path + b" HTTP/1.1", b"Host: " + authority.encode("ascii")]
        lines += [name + b": " + value for name, value in self.headers]
        return b"\r\n".join([*lines, b"Connection: close", b"", b""])


def parse(head: bytes) -> ProxyRequest:
    """Parse a head, without its closing empty line.

    Raises:
        BadRequest: anything that is not exactly one proxy request.
    """
    first, *lines = head.split(b"\r\n")
    request = _REQUEST.fullmatch(first)
    if request is None:
        raise BadRequest("not a proxy request")
    method, target = request.groups()
    headers = tuple(_header(line) for line in lines)
    if method.upper() == b"CONNECT":
        host, _, port = target.rpartition(b":")
        return ProxyRequest(True, b"CONNECT", host, port)
    absolute = _ABSOLUTE.fullmatch(target)
    if absolute is None:
        raise BadRequest("only http:// and CONNECT go through this proxy")
    host, _, port = absolute[1].partition(b":")
    path = absolute[2] or b"/"
    if path.startswith(b"?"):
        path = b"/" + path
    return ProxyRequest(False, method, host, port, path, _forwarded(headers), _body_length(headers))


def _header(line: bytes) -> tuple[bytes, bytes]:
    match = _HEADER.fullmatch(line)
    if match is None:
        raise BadRequest("a malformed header")
    return match[1], match[2]


def _forwarded(headers: tuple[tuple[bytes, bytes], ...]) -> tuple[tuple[bytes, bytes], ...]:
    named = {n.strip().lower() for k, v in headers if k.lower() == b"connection" for n in v.split(b",")}
    dropped = _HOP_BY_HOP | (named - {b"content-length"})
    return tuple((k, v) for k, v in headers if k.lower() not in dropped)


def _body_length(headers: tuple[tuple[bytes, bytes], ...]) -> int:
    if any(k.lower() == b"transfer-encoding" for k, _ in headers):
        raise BadRequest("a chunked request body")
    lengths = [v.strip() for k, v in headers if k.lower() == b"content-length"]
    if len(lengths) > 1 or (lengths and not _LENGTH.fullmatch(lengths[0])):
        raise BadRequest("an ambiguous body length")
    return int(lengths[0]) if lengths else 0
