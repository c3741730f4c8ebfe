"""Segmentation: letters come out as fragments, outlines and carets do not touch them."""

from __future__ import annotations

import numpy as np
import pytest
from bodyd_adapters.scripted.ink import Box, components, fragments, without_carets
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


@pytest.mark.parametrize("gap", [0, 1, 2])
@pytest.mark.parametrize("em", [14, 18, 24])
def test_a_caret_is_painted_over(em: int, gap: int) -> None:
    """Behind the last letter, or touching it: what is left is the letters, but for a faint rim."""
    sheet = Sheet().write("pen", (40, 60), em=em)
    bare = sheet.gray
    edge = int(np.flatnonzero((bare < 200).any(axis=0))[-1])
    sheet.box((edge + 1 + gap, 60, edge + 1 + gap, 59 + round(1.17 * em)), outline="black")
    assert np.abs(sheet.gray - bare).max() == 255
    assert np.abs(without_carets(sheet.gray) - bare).max() <= 55


@pytest.mark.parametrize("em", [12, 14, 16, 18, 22, 26])
def test_letters_are_left_alone(em: int) -> None:
    """No stem is taken for a caret, at any size of type."""
    gray = Sheet().write("Illdhbpqg||", (40, 60), em=em).write("filters", (40, 120), em=em, bold=True).gray
    assert (without_carets(gray)[:, :200] == gray[:, :200]).mean() > 0.999
