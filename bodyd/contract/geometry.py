"""Sizes, rectangles, and the one mapping from image pixels to the body's pixels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from bodyd.errors import OutOfBounds

Pixel = Annotated[int, Field(strict=True, ge=-32768, le=32767)]
Length = Annotated[int, Field(strict=True, ge=1, le=32767)]


class Size(BaseModel):
    """Width and height in pixels."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    width: Length
    height: Length


class Point(BaseModel):
    """A pixel, origin top left; 0 is a coordinate."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    x: Pixel
    y: Pixel


class Bounds(BaseModel):
    """A rectangle of the body's screen: x, y inclusive, width and height at least 1."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    x: Pixel
    y: Pixel
    width: Length
    height: Length

    @property
    def right(self) -> int:
        return self.x + self.width

    @property
    def bottom(self) -> int:
        return self.y + self.height

    def contains(self, point: Point) -> bool:
        return self.x <= point.x < self.right and self.y <= point.y < self.bottom

    def intersection(self, other: Bounds) -> Bounds | None:
        x, y = max(self.x, other.x), max(self.y, other.y)
        right, bottom = min(self.right, other.right), min(self.bottom, other.bottom)
        return Bounds(x=x, y=y, width=right - x, height=bottom - y) if right > x and bottom > y else None

    def union(self, other: Bounds) -> Bounds:
        x, y = min(self.x, other.x), min(self.y, other.y)
        return Bounds(
            x=x, y=y, width=max(self.right, other.right) - x, height=max(self.bottom, other.bottom) - y
        )


def bounding_box(rects: Iterable[Bounds]) -> Bounds | None:
    """The smallest rectangle around all of *rects*; None for none."""
    box: Bounds | None = None
    for rect in rects:
        box = rect if box is None else box.union(rect)
    return box


def image_to_body(x: int, y: int, image: Size, bounds: Bounds, *, param: str | None = None) -> Point:
    """Map a pixel of a (perhaps downscaled) image of *bounds* to the body's screen.

    The centre of the image pixel is mapped: `bounds.x + floor((x + .5) * bounds.width / width)`,
    in integers, so that no rounding of floats moves a click.

    Raises:
        OutOfBounds: the pixel is outside the image.
    """
    if not (0 <= x < image.width and 0 <= y < image.height):
        raise OutOfBounds(
            f"({x}, {y}) is outside the screenshot's {image.width}x{image.height} pixels; "
            "coordinates count from 0 at the top left",
            param=param,
        )
    return Point(
        x=bounds.x + (2 * x + 1) * bounds.width // (2 * image.width),
        y=bounds.y + (2 * y + 1) * bounds.height // (2 * image.height),
    )


def fit_within(source: Size, max_width: int | None, max_height: int | None) -> Size:
    """The size of *source* scaled down, never up, to fit, keeping its proportions."""
    width, height = source.width, source.height
    if max_width is not None and width > max_width:
        width, height = max_width, max(1, height * max_width // width)
    if max_height is not None and height > max_height:
        width, height = max(1, width * max_height // height), max_height
    return Size(width=width, height=height)
