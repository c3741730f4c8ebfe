"""Rectangles of the screen, and short lists of them. Pure: plain integers, no pixels.

A list that is added to stays short: rectangles that hardly grow by it are joined, and of too many the
last two. Joined ones cover too much, never too little.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

_MOST = 24


class Rect(NamedTuple):
    """Left and top are inside, right and bottom are not."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def width(self) -> int:
        return self.right - self.left

    @property
    def height(self) -> int:
        return self.bottom - self.top

    @property
    def area(self) -> int:
        return self.width * self.height

    def meets(self, other: Rect) -> Rect | None:
        """What both cover; None for nothing."""
        both = Rect(
            max(self.left, other.left),
            max(self.top, other.top),
            min(self.right, other.right),
            min(self.bottom, other.bottom),
        )
        return both if both.left < both.right and both.top < both.bottom else None

    def join(self, other: Rect) -> Rect:
        """The smallest around both."""
        return Rect(
            min(self.left, other.left),
            min(self.top, other.top),
            max(self.right, other.right),
            max(self.bottom, other.bottom),
        )

    def holds(self, other: Rect) -> bool:
        return self.join(other) == self


Rects = tuple[Rect, ...]


def add(rects: Rects, more: Iterable[Rect]) -> Rects:
    """All of *rects* and *more*, as a short list."""
    found = list(rects)
    for rect in more:
        _add(found, rect)
    return tuple(found)


def _add(rects: list[Rect], rect: Rect) -> None:
    while True:
        for index, other in enumerate(rects):
            both = other.join(rect)
            if both.area <= (other.area + rect.area) * 5 // 4:
                del rects[index]
                rect = both
                break
        else:
            rects.append(rect)
            if len(rects) <= _MOST:
                return
            rect = rects.pop().join(rects.pop())


def without(rects: Iterable[Rect], hole: Rect) -> Rects:
    """What of *rects* lies outside *hole*."""
    return tuple(piece for rect in rects for piece in _cut(rect, hole))


def _cut(rect: Rect, hole: Rect) -> Iterator[Rect]:
    both = rect.meets(hole)
    if both is None:
        yield rect
        return
    for piece in (
        Rect(rect.left, rect.top, rect.right, both.top),
        Rect(rect.left, both.bottom, rect.right, rect.bottom),
        Rect(rect.left, both.top, both.left, both.bottom),
        Rect(both.right, both.top, rect.right, both.bottom),
    ):
        if piece.left < piece.right and piece.top < piece.bottom:
            yield piece


def inside(rects: Iterable[Rect], frame: Rect) -> Rects:
    """What of *rects* lies within *frame*."""
    return tuple(both for rect in rects if (both := rect.meets(frame)) is not None)


def split(rect: Rect, pixels: int) -> Iterator[Rect]:
    """*rect* in bands of at most about *pixels* each, top to bottom."""
    rows = max(8, pixels // max(1, rect.width))
    for top in range(rect.top, rect.bottom, rows):
        yield Rect(rect.left, top, rect.right, min(rect.bottom, top + rows))


def area(rects: Iterable[Rect]) -> int:
    """The pixels of all; those covered twice count twice."""
    return sum(rect.area for rect in rects)
