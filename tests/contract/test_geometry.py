"""Coordinates: every pixel is mapped to the pixel it shows, or refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bodyd.contract.geometry import Bounds, Point, Size, bounding_box, fit_within, image_to_body
from bodyd.errors import OutOfBounds

lengths = st.integers(1, 4000)


def test_the_identity_is_exact_at_every_edge():
    """0 is a coordinate, and so is the last pixel."""
    bounds = Bounds(x=0, y=0, width=1280, height=800)
    size = Size(width=1280, height=800)
    for x, y in [(0, 0), (1279, 799), (640, 1)]:
        assert image_to_body(x, y, size, bounds) == Point(x=x, y=y)


@pytest.mark.parametrize(("x", "y"), [(-1, 0), (0, -1), (640, 0), (0, 400), (10**6, 0)])
def test_outside_is_refused_never_clamped(x, y):
    """A click beyond the image goes nowhere."""
    with pytest.raises(OutOfBounds):
        image_to_body(x, y, Size(width=640, height=400), Bounds(x=0, y=0, width=1280, height=800))


@given(lengths, lengths, lengths, lengths, st.data())
def test_a_scaled_pixel_lands_inside_and_within_one_pixel_of_its_centre(iw, ih, bw, bh, data):
    """bounds.x + floor((x + .5) * bounds.width / width), exactly."""
    x, y = data.draw(st.integers(0, iw - 1)), data.draw(st.integers(0, ih - 1))
    bounds = Bounds(x=-7, y=11, width=bw, height=bh)
    point = image_to_body(x, y, Size(width=iw, height=ih), bounds)
    assert bounds.contains(point)
    assert abs(point.x - (bounds.x + (x + 0.5) * bw / iw)) <= 1
    assert abs(point.y - (bounds.y + (y + 0.5) * bh / ih)) <= 1


@given(lengths, lengths, st.one_of(st.none(), lengths), st.one_of(st.none(), lengths))
def test_fitting_never_enlarges_and_never_vanishes(width, height, max_width, max_height):
    """Downscaling keeps at least a pixel each way."""
    size = fit_within(Size(width=width, height=height), max_width, max_height)
    assert 1 <= size.width <= min(width, max_width or width)
    assert 1 <= size.height <= min(height, max_height or height)


def test_rectangles_meet_and_join():
    """Intersection and union, and none where there is none."""
    one, two = Bounds(x=0, y=0, width=10, height=10), Bounds(x=5, y=6, width=10, height=10)
    assert one.intersection(two) == Bounds(x=5, y=6, width=5, height=4)
    assert one.union(two) == Bounds(x=0, y=0, width=15, height=16)
    assert one.intersection(Bounds(x=10, y=0, width=1, height=1)) is None
    assert bounding_box([]) is None
    assert bounding_box([one, two]) == one.union(two)
