"""What is kept of a worker's words, whatever they are."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from bodyd.contract.code import MAX_IMAGE_BYTES, MAX_ITEMS, MAX_TEXT_BYTES
from bodyd.contract.ports import CodeItem
from bodyd.execution.code_output import Outcome, is_png

HEADER = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR"
DOT = HEADER + struct.pack(">II", 1, 1) + bytes(9)


def test_text_is_cut_between_characters() -> None:
    """The head stays, what is left out is counted in bytes, and a lone surrogate hurts nobody."""
    outcome = Outcome("c")
    outcome.say("\ud800")
    outcome.say("漢" * MAX_TEXT_BYTES)
    (item,) = outcome.output
    assert item["text"] == "?" + "漢" * ((MAX_TEXT_BYTES - 1) // 3)
    assert len(item["text"].encode()) + outcome.omitted_bytes == 1 + 3 * MAX_TEXT_BYTES


def test_pieces_join_and_pictures_part_them() -> None:
    """In order; each piece is told as it is kept."""
    told: list[CodeItem] = []
    outcome = Outcome("c", tell=told.append)
    for say in ("a", "b"):
        outcome.say(say)
    outcome.show(DOT)
    outcome.say("c")
    assert [item.get("text") for item in outcome.output] == ["ab", None, "c"]
    assert [item.kind for item in told] == ["text", "text", "image", "text"]


def test_items_and_pictures_are_bounded() -> None:
    """Text of an item too many is left out as a picture is."""
    outcome = Outcome("c")
    for _ in range(MAX_ITEMS):
        outcome.show(DOT)
    outcome.say("more")
    outcome.show(DOT)
    assert (len(outcome.output), outcome.omitted_bytes, outcome.omitted_images) == (MAX_ITEMS, 4, 1)
    large = Outcome("c")
    large.show(DOT + bytes(MAX_IMAGE_BYTES))
    large.show(DOT + bytes(MAX_IMAGE_BYTES - len(DOT)))
    large.show(DOT)
    assert (len(large.output), large.omitted_images) == (1, 2)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        DOT[:32],
        b"GIF89a" + bytes(40),
        HEADER[:12] + b"IDAT" + bytes(40),
        HEADER + struct.pack(">II", 0, 1) + bytes(9),
        HEADER + struct.pack(">II", 1, 2**31) + bytes(9),
    ],
)
def test_what_is_no_picture(data: bytes) -> None:
    """By its header alone."""
    assert is_png(DOT)
    assert not is_png(data)


@pytest.mark.parametrize("claim", [None, -1, 1.5, "9", True, [1], {}])
def test_a_false_count_counts_nothing(claim: Any) -> None:
    """A worker may claim anything to be left out; the sum stays a number that JSON has."""
    outcome = Outcome("c")
    outcome.omit(3, 1)
    outcome.omit(claim, claim)
    assert (outcome.omitted_bytes, outcome.omitted_images) == (3, 1)
    outcome.omit(10**30)
    assert outcome.omitted_bytes == 2**53
