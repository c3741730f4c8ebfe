"""The name in a TLS hello: read from real ones, in any pieces; refused where it is not one plain hello."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bodyd.desktop.egress_tls import MAX_RAW, MAX_RECORDS, BadHello, is_tls, server_name

from . import hello


@pytest.mark.parametrize("name", ["example.org", "a.b.example.net"])
def test_a_real_hello_has_its_name(name):
    """What a TLS client sends is understood, whole and in records of any size."""
    assert server_name(hello.real(name)) == name.encode()
    assert server_name(hello.in_records(hello.real(name), 20)) == name.encode()


def test_without_a_name_it_is_empty():
    """A client that was given no name, or an old one without extensions."""
    assert server_name(hello.real(None)) == b""
    assert server_name(hello.made()) == b""


def test_a_part_says_how_much_is_missing():
    """Never asked again before there is more; asked with just that, it always ends."""
    whole = hello.in_records(hello.real("example.org"), 50)
    size, asked = 1, 0
    while isinstance(found := server_name(whole[:size]), int):
        assert size < found <= len(whole)
        size, asked = found, asked + 1
    assert found == b"example.org"
    assert asked <= 2 * MAX_RECORDS


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n",
        hello.record(b"\x02" + bytes(40)),
        hello.record(b"\x01\x00\x00\x30")[:9] + b"\x17\x03\x03\x00\x01\x00",
        b"\x16\x02\x00\x00\x05",
        b"\x16\x03\x01\x00\x00",
        b"\x16\x03\x01\x40\x01" + bytes(50),
        hello.record(b"\x01\x00\x50\x00"),
        hello.made(behind=b"x"),
        hello.made(hello.names(b"a.test", b"b.test")),
        hello.made(hello.names(b"a.test") + hello.names(b"b.test")),
        hello.made(hello.names(b"")),
        hello.made(hello.names(b"a.test", kind=1)),
        hello.made(hello.extension(0, b"")),
        hello.made(hello.extension(0, hello.sized(b"\0" + hello.sized(b"a.test")) + b"x")),
        hello.made(b"\0\0\0\x09ab"),
        hello.record(b"\x01\x00\x00\x03\x03\x03\x00"),
        hello.in_records(hello.made(hello.extension(21, bytes(200))), 1),
    ],
)
def test_what_is_not_one_hello_with_one_name_is_refused(data):
    """Two names, a name twice, lengths that disagree, another record or message, too many pieces."""
    with pytest.raises(BadHello):
        server_name(data)


@given(st.binary(max_size=300))
def test_random_bytes_never_break_the_reader(data):
    """Random bytes are refused, want more, or have a name; whatever comes behind the first byte."""
    for attempt in (data, b"\x16\x03\x01" + data, hello.record(b"\x01" + hello.sized(data, 3))):
        try:
            found = server_name(attempt)
        except BadHello:
            continue
        assert isinstance(found, bytes) or len(attempt) < found <= MAX_RAW


def test_one_byte_tells_tls():
    """Enough to know that a name is to come."""
    assert is_tls(b"\x16")
    assert not is_tls(b"G")
    assert not is_tls(b"")
