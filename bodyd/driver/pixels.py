"""Binding "pixels": whether a neighbourhood still looks as it did in a screenshot. Pure."""

from __future__ import annotations

from io import BytesIO

from PIL import Image

from bodyd.contract.geometry import Point
from bodyd.contract.screenshots import Screenshot

NEIGHBOURHOOD = 12
"""Pixels of the image each way around the point."""


def same_neighbourhood(then: bytes, now: bytes, shot: Screenshot, point: Point) -> bool:
    """Compare two PNGs of *shot*'s bounds and size around *point*, a pixel of the body's screen.

    Both were made by this daemon. Takes some 20 ms of CPU at 1280x800: run it in a thread.
    """
    x = (point.x - shot.bounds.x) * shot.width // shot.bounds.width
    y = (point.y - shot.bounds.y) * shot.height // shot.bounds.height
    box = (
        max(0, x - NEIGHBOURHOOD),
        max(0, y - NEIGHBOURHOOD),
        min(shot.width, x + NEIGHBOURHOOD + 1),
        min(shot.height, y + NEIGHBOURHOOD + 1),
    )
    return _crop(then, box) == _crop(now, box)


def _crop(png: bytes, box: tuple[int, int, int, int]) -> bytes:
    with Image.open(BytesIO(png)) as image:
        return image.convert("RGB").crop(box).tobytes()
