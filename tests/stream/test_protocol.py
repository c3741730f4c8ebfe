"""The wire, byte by byte, and what is refused of it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bodyd.errors import InvalidRequest
from bodyd.stream import protocol as p

parts = st.builds(
    p.Part,
    codec=st.sampled_from(p.Codec),
    x=st.integers(0, 65535),
    y=st.integers(0, 65535),
    width=st.integers(1, 65535),
    height=st.integers(1, 65535),
    data=st.binary(max_size=60),
    flags=st.integers(0, 255),
)


@given(
    st.sampled_from(p.Kind), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.lists(parts, max_size=4)
)
def test_pictures_survive_the_wire(kind: p.Kind, sequence: int, epoch: int, some: list[p.Part]) -> None:
    """What is packed is unpacked the same."""
    picture = p.unpack(p.pack(kind, sequence, epoch, some, p.EXACT))
    assert picture == p.Picture(kind, sequence, epoch, tuple(some), p.EXACT)


def test_a_picture_has_the_bytes_of_the_reference() -> None:
    """Header and part are laid out as docs/reference/stream.md says, little-endian."""
    part = p.Part(p.Codec.PNG, 1, 2, 3, 4, b"xy", 5)
    assert p.pack(p.Kind.FRAME, 7, 9, [part], 1) == bytes.fromhex(
        "01 01 0100 07000000 09000000  00 05 0100 0200 0300 0400 0000 02000000 7879"
    )


@pytest.mark.parametrize("message", [b"", b"\x01", p.pack(p.Kind.FRAME, 1, 1, [])[:-1], b"\x09" + bytes(11)])
def test_cut_off_pictures_are_no_pictures(message: bytes) -> None:
    """A message that ends too early, or is of no kind, is a ValueError."""
    with pytest.raises(ValueError, match=r".+"):
        p.unpack(message)


def test_a_part_longer_than_its_message_is_refused() -> None:
    """A length that lies is found out."""
    with pytest.raises(ValueError, match="longer"):
        p.unpack(p.pack(p.Kind.FRAME, 1, 1, [p.Part(p.Codec.PNG, 0, 0, 1, 1, b"abc")])[:-1])


def test_what_clients_say_is_read_strictly() -> None:
    """A known message is read; unknown fields, types, ranges and binary messages are refused unrepeated."""
    said = p.parse('{"type": "wheel", "x": 1, "y": 2, "dy": -3}')
    assert said == p.Wheel(type="wheel", x=1, y=2, dy=-3)
    for wrong in (
        "{",
        '{"type": "secret"}',
        '{"type": "pointer", "x": -1, "y": 0}',
        '{"type": "pointer", "x": 1.5, "y": 0}',
        '{"type": "text", "text": ""}',
        '{"type": "hand_back", "more": "secret"}',
        b"\0",
    ):
        with pytest.raises(InvalidRequest) as refused:
            p.parse(wrong)
        assert "secret" not in str(refused.value)


def test_the_server_speaks_json() -> None:
    """A word is an object with its type."""
    assert json.loads(p.say(p.Said.DONE, of="é")) == {"type": "done", "of": "é"}


def test_palettes() -> None:
    """One colour needs no indices; several need one for each pixel."""
    assert p.pack_palette(b"abc", b"\0\0\0") == b"\0abc"
    assert p.pack_palette(b"abcdef", b"\0\1") == b"\1abcdef\0\1"
