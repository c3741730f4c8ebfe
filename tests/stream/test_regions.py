"""Rectangles: lists stay short and cover enough; holes are cut exactly."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bodyd.stream.regions import Rect, add, area, inside, split, without

rects = st.builds(
    lambda x, y, w, h: Rect(x, y, x + w, y + h),
    st.integers(0, 40),
    st.integers(0, 40),
    st.integers(1, 12),
    st.integers(1, 12),
)


def pixels(some) -> set[tuple[int, int]]:
    return {(x, y) for r in some for x in range(r.left, r.right) for y in range(r.top, r.bottom)}


@given(st.lists(rects, max_size=60))
def test_a_list_stays_short_and_covers_all(some: list[Rect]) -> None:
    """Whatever is added is covered, by few rectangles."""
    found = add((), some)
    assert len(found) <= 24
    assert pixels(some) <= pixels(found)


@given(st.lists(rects, max_size=8), rects)
def test_a_hole_is_cut_exactly(some: list[Rect], hole: Rect) -> None:
    """What is left is what lies outside; what is inside is the rest."""
    assert pixels(without(some, hole)) == pixels(some) - pixels([hole])
    assert pixels(inside(some, hole)) == pixels(some) & pixels([hole])


@given(rects, st.integers(1, 200))
def test_bands_make_up_the_whole(rect: Rect, most: int) -> None:
    """Bands cover it once."""
    bands = tuple(split(rect, most))
    assert area(bands) == rect.area
    assert pixels(bands) == pixels([rect])


def test_of_too_many_the_last_are_joined() -> None:
    """Forty dots far apart are at most 24 rectangles, which cover them."""
    dots = [Rect(50 * n, 50 * n, 50 * n + 1, 50 * n + 1) for n in range(40)]
    found = add((), dots)
    assert len(found) <= 24
    assert all(any(rect.holds(dot) for rect in found) for dot in dots)


def test_holding() -> None:
    """A rectangle holds what lies within it."""
    assert Rect(0, 0, 10, 10).holds(Rect(2, 2, 10, 10))
    assert not Rect(0, 0, 10, 10).holds(Rect(2, 2, 11, 10))
