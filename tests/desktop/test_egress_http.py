"""The parser of the one request that a proxy connection carries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bodyd.desktop.egress_http import BadRequest, parse


def test_connect():
    """A tunnel has a host and a port, as raw bytes."""
    request = parse(b"CONNECT Example.org:443 HTTP/1.1\r\nHost: other.test")
    assert (request.tunnel, request.host, request.port) == (True, b"Example.org", b"443")


def test_the_head_is_composed_anew():
    """The server sees the name that was judged, no proxy or hop-by-hop header, and one request."""
    request = parse(
        b"POST http://example.org:81/a?b=c HTTP/1.1\r\nHost: evil.test\r\nProxy-Authorization: x\r\n"
        b"Connection: keep-alive, X-Secret\r\nX-Secret: 1\r\nContent-Length: 3\r\nAccept: */*\r\nUpgrade: h2c"
    )
    assert (request.host, request.port, request.body_length) == (b"example.org", b"81", 3)
    assert request.upstream_head("example.org", 81) == (
        b"POST /a?b=c HTTP/1.1\r\nHost: example.org:81\r\nContent-Length: 3\r\nAccept: */*\r\n"
        b"Connection: close\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("target", "host", "port", "path"),
    [
        (b"http://example.org", b"example.org", b"", b"/"),
        (b"HTTP://example.org/", b"example.org", b"", b"/"),
        (b"http://example.org?x", b"example.org", b"", b"/?x"),
        (b"http://u:p@example.org/", b"u", b"p@example.org", b"/"),
        (b"http:///x", b"", b"", b"/x"),
    ],
)
def test_absolute_targets(target, host, port, path):
    """The authority is all up to the path, and is left for the rules to judge."""
    request = parse(b"GET " + target + b" HTTP/1.1")
    assert (request.host, request.port, request.path) == (host, port, path)


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"GET / HTTP/1.1",
        b"GET https://example.org/ HTTP/1.1",
        b"GET ftp://example.org/ HTTP/1.1",
        b"GET http://example.org/#a HTTP/1.1",
        b"GET http://example.org/ HTTP/2.0",
        b"GET  http://example.org/ HTTP/1.1",
        b"GET http://example.org/\tHTTP/1.1",
        b"GET http://example.org/\x00 HTTP/1.1",
        b"GET http://example.org/ HTTP/1.1\nX: y",
        b"GET http://example.org/ HTTP/1.1\r\nA : b",
        b"GET http://example.org/ HTTP/1.1\r\n folded",
        b"GET http://example.org/ HTTP/1.1\r\nA: b\rC: d",
        b"GET http://example.org/ HTTP/1.1\r\nA: b\x00",
        b"POST http://example.org/ HTTP/1.1\r\nTransfer-Encoding: chunked",
        b"POST http://example.org/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1",
        b"POST http://example.org/ HTTP/1.1\r\nContent-Length: +1",
        b"POST http://example.org/ HTTP/1.1\r\nContent-Length: 1, 1",
        b"\x16\x03\x01\x02\x00\x01",
    ],
)
def test_what_is_ambiguous_is_refused(head):
    """Anything that two parsers could read differently is not passed on."""
    with pytest.raises(BadRequest):
        parse(head)


@given(st.binary(max_size=300))
def test_random_heads_never_break_the_parser(head):
    """Random bytes are refused, or parse into a head without stray line ends."""
    for data in (head, b"GET http://a.test/ HTTP/1.1\r\n" + head):
        try:
            request = parse(data)
        except BadRequest:
            continue
        lines = request.upstream_head("a.test", 80).split(b"\r\n")
        assert not any(b"\r" in line or b"\n" in line for line in lines)
