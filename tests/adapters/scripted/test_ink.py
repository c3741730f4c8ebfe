"""Segmentation: letters come out as fragments, outlines and carets do not touch them."""

from __future__ import annotations

import numpy as np
import pytest
from bodyd_adapters.scripted.ink import Box, components, fragments
from hypothesis import given
from hypothesis import strategies as st

from .sheets import Sheet


def naive(mask: np.ndarray) -> set[Box]:
    """Bounding boxes of the 4-connected parts, by flood fill."""
    left = {(int(y), int(x)) for y, x in np.argwhere(mask)}
    boxes = set()
    while left:
        part, queue = set(), [left.pop()]
        while queue:
            y, x = queue.pop()
            part.add((y, x))
            near = {(y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)} & left
            left -= near
            queue += near
        rows, columns = [y for y, _ in part], [x for _, x in part]
        boxes.add(Box(min(columns), min(rows), max(columns) + 1, max(rows) + 1))
    return boxes


@given(st.integers(1, 12), st.integers(1, 12), st.randoms(use_true_random=False))
def test_components_are_those_of_a_flood_fill(height: int, width: int, rng) -> None:
    """Joining runs by numpy finds the same parts as the plainest way of looking."""
    mask = np.array([[rng.random() < 0.55 for _ in range(width)] for _ in range(height)])
    assert set(components(mask)) == naive(mask)


def test_an_empty_picture_has_no_fragments() -> None:
    """A flat picture, and one of a single pixel's height, hold nothing."""
    assert fragments(Sheet().gray) == []
    assert components(np.zeros((1, 5), dtype=np.bool_)) == []


@pytest.mark.parametrize(("ground", "fill"), [("white", "#777"), ("#203030", "#8a9a9a"), ("#0a6", "white")])
def test_words_come_out_whatever_their_colours(ground: str, fill: str) -> None:
    """Dark on light and light on dark: the fragments cover the word, and it alone."""
    gray = Sheet(ground=ground).write("Search", (40, 60), em=20, fill=fill).gray
    found = fragments(gray)
    assert found
    assert found == sorted(found)
    assert min(box.left for box in found) in range(38, 43)
    assert max(box.right for box in found) in range(108, 116)
    assert all(box.top >= 60 and box.bottom <= 84 for box in found)


def test_an_outline_does_not_swallow_its_text() -> None:
    """A word in a round-cornered button is found as it would be without the button."""
    bare = fragments(Sheet().write("Show", (100, 60), em=14).gray)
    boxed = fragments(Sheet().write("Show", (100, 60), em=14).box((88, 50, 160, 84), radius=17).gray)
    assert set(bare) <= set(boxed)


def test_a_caret_is_no_letter() -> None:
    """A caret right after the last letter neither joins it nor stands as a fragment of its own."""
    sheet = Sheet().write("pen", (40, 60), em=16)
    bare = fragments(sheet.gray)
    edge = max(box.right for box in bare)
    sheet.box((edge, 58, edge, 77), outline="black")
    assert fragments(sheet.gray) == bare
