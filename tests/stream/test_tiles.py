"""Tiles: differences are found, exact ones are exact, rough ones are small."""

from __future__ import annotations

import io

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from bodyd.client_view import _painted
from bodyd.stream import tiles
from bodyd.stream.protocol import Codec
from bodyd.stream.regions import Rect


def rgb(pixels: np.ndarray) -> np.ndarray:
    return pixels.view(np.uint8).reshape(*pixels.shape, 4)[:, :, 2::-1]


@given(
    st.integers(1, 200), st.integers(1, 150), st.lists(st.tuples(st.integers(0), st.integers(0)), max_size=6)
)
def test_every_difference_is_covered(width: int, height: int, spots: list[tuple[int, int]]) -> None:
    """Each changed pixel lies in a rectangle; the fourth byte never counts."""
    old = np.zeros((height, width), np.uint32)
    new = np.full((height, width), 0xAB000000, np.uint32)
    changed = {(x % width, y % height) for x, y in spots}
    for x, y in changed:
        new[y, x] = 0x010000
    found = tiles.differing(old, new, 1000, 2000)
    assert bool(found) == bool(changed)
    for x, y in changed:
        spot = Rect(1000 + x, 2000 + y, 1001 + x, 2001 + y)
        assert any(rect.holds(spot) for rect in found)


def test_what_changes_in_several_rows_of_cells_is_one_rectangle() -> None:
    """Cells below each other are joined."""
    old = np.zeros((200, 200), np.uint32)
    new = old.copy()
    new[10:180, 70:100] = 7
    assert tiles.differing(old, new, 0, 0) == (Rect(70, 10, 100, 180),)


def test_exact_tiles_are_exact() -> None:
    """PNG and palette give back the very pixels."""
    noise = np.random.default_rng(1).integers(0, 2**32, (37, 53), dtype=np.uint32)
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(tiles.png(noise)))), rgb(noise))
    few = np.random.default_rng(2).integers(0, 3, (20, 9), dtype=np.uint32) * np.uint32(0x112233)
    for picture in (few, np.full((20, 9), 0x445566, np.uint32)):
        part = tiles.encode(picture, Rect(0, 0, 9, 20), exact=False)
        assert part.codec is Codec.PALETTE
        assert np.array_equal(_painted(part), rgb(picture))


def test_what_is_large_and_noisy_is_rough_unless_told() -> None:
    """Noise over the whole screen is JPEG, or PNG where it has to be exact; flat colour is always PNG."""
    noise = np.random.default_rng(1).integers(0, 2**24, (300, 400), dtype=np.uint32)
    assert tiles.encode(noise[:32, :32], Rect(0, 0, 32, 32), exact=False).codec is Codec.PNG
    whole = Rect(0, 0, 400, 300)
    assert tiles.encode(noise, whole, exact=False).codec is Codec.JPEG
    assert tiles.encode(noise, whole, exact=True).codec is Codec.PNG
    assert tiles.encode(np.zeros_like(noise), whole, exact=False).codec is Codec.PNG


def test_a_cursor_keeps_its_transparency() -> None:
    """Premultiplied in, straight out."""
    cursor = np.array([[0x80402010, 0xFF112233], [0x00000000, 0x40404040]], np.uint32)
    shown = np.asarray(Image.open(io.BytesIO(tiles.png_rgba(cursor))))
    assert shown.tolist() == [[[128, 64, 32, 128], [17, 34, 51, 255]], [[0, 0, 0, 0], [255, 255, 255, 64]]]
