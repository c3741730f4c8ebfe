"""From pixels to fragments of text: the first half of reading a screenshot.

Pure, numpy only. Text is found by local contrast, so that neither colours nor polarity matter:
pixels where the brightness steps are marked, what can't be a letter's stroke (long borders) is dropped,
and what still hangs together is a fragment: a letter, or a few that touch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Gray = npt.NDArray[np.int16]
Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

STEP = 16  # brightness (0-255) between neighbours that counts as an edge
LONGEST_ACROSS = 90  # pixels; a longer level edge belongs to a box: those of `filters` at 24 px nearly join
LONGEST_DOWN = 34  # pixels; a longer upright edge is no letter's stem
CARETS = (15, 48)  # pixels; height of a caret: upright strokes one pixel wide are of smaller type
CARET_CONTRAST = 24
SAME = 8  # brightness by which pixels of one colour may differ
HEIGHTS = (5, 64)  # of a fragment, in pixels
WIDEST = 400  # pixels


class Box(NamedTuple):
    """A rectangle of pixels; right and bottom are exclusive."""

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
    def centre(self) -> tuple[int, int]:
        return (self.left + self.right) // 2, (self.top + self.bottom) // 2

    def contains(self, x: int, y: int) -> bool:
        return self.left <= x < self.right and self.top <= y < self.bottom


def fragments(gray: Gray) -> list[Box]:
    """Every fragment that could be of a letter, from left to right."""
    edges = edge_mask(gray)
    edges &= ~_long_runs(edges, LONGEST_ACROSS)
    edges &= ~_long_runs(edges.T, LONGEST_DOWN).T
    found = [
        box
        for box in components(_spread(edges))
        if HEIGHTS[0] <= box.height <= HEIGHTS[1] and box.width <= WIDEST
    ]
    return sorted(found)


def without_carets(gray: Gray) -> Gray:
    """*gray* with text carets painted over: they stand so close to a last letter that they change it.

    A caret is one crisp column. Beside its ends both neighbours are ground; beside its middle one may
    be the letter that it touches. A box's thin upright outline can look like that, too.
    """
    clean = gray.copy()
    for side in (1, -1):
        columns, tops, bottoms = _runs(_one_sided(gray, side).T)
        tall = (bottoms - tops >= CARETS[0] - 1) & (bottoms - tops <= CARETS[1])
        for x, top, bottom in zip(columns[tall] + 1, tops[tall], bottoms[tall] + 1, strict=True):
            ends = gray[[top, top + 1, bottom - 2, bottom - 1], x - 1 : x + 2]
            if (np.abs(ends[:, 0] - ends[:, 2]) <= SAME).all():
                clean[top:bottom, x] = gray[top, x + 1]
    return clean


def _one_sided(gray: Gray, side: int) -> Mask:
    """Pixels (of all but the outer columns) with ground on one side and their own colour below them."""
    middle = gray[:, 1:-1]
    ground = gray[:, 2:] if side > 0 else gray[:, :-2]
    sharp: Mask = np.abs(middle - ground) >= CARET_CONTRAST
    mask: Mask = np.zeros(sharp.shape, dtype=np.bool_)
    mask[:-1] = sharp[:-1] & sharp[1:] & (np.abs(np.diff(middle, axis=0)) <= SAME)
    return mask


def edge_mask(gray: Gray) -> Mask:
    """Pixels on either side of a step in brightness."""
    mask = np.zeros(gray.shape, dtype=np.bool_)
    across = np.abs(np.diff(gray, axis=1)) >= STEP
    down = np.abs(np.diff(gray, axis=0)) >= STEP
    mask[:, :-1] |= across
    mask[:, 1:] |= across
    mask[:-1] |= down
    mask[1:] |= down
    return mask


def _long_runs(mask: Mask, longest: int) -> Mask:
    """The part of *mask* in horizontal runs longer than *longest*."""
    rows, starts, ends = _runs(mask)
    keep = ends - starts > longest
    marks = np.zeros((mask.shape[0], mask.shape[1] + 1), dtype=np.int8)
    marks[rows[keep], starts[keep]] = 1
    marks[rows[keep], ends[keep]] = -1
    return np.cumsum(marks, axis=1, dtype=np.int8)[:, :-1].astype(np.bool_)


def _spread(mask: Mask) -> Mask:
    """*mask* with the pixel to the right and the pixel below of each: joins i to its dot."""
    spread = mask.copy()
    spread[:, 1:] |= mask[:, :-1]
    spread[1:] |= spread[:-1].copy()
    return spread


def _runs(mask: Mask) -> tuple[Ints, Ints, Ints]:
    """Row, start and end (exclusive) of every horizontal run, in reading order."""
    height, width = mask.shape
    padded = np.zeros((height, width + 2), dtype=np.bool_)
    padded[:, 1:-1] = mask
    turns = np.flatnonzero((padded[:, 1:] != padded[:, :-1]).ravel())
    starts, ends = turns[::2], turns[1::2]
    return starts // (width + 1), starts % (width + 1), ends % (width + 1)


def components(mask: Mask) -> list[Box]:
    """Bounding boxes of the connected parts of *mask*: runs joined where they overlap."""
    rows, starts, ends = _runs(mask)
    if not len(rows):
        return []
    stride = mask.shape[1] + 1
    first = np.searchsorted(rows * stride + ends, (rows + 1) * stride + starts, side="right")
    last = np.searchsorted(rows * stride + starts, (rows + 1) * stride + ends, side="left")
    counts = np.maximum(last - first, 0)
    upper = np.repeat(np.arange(len(rows)), counts)
    lower = np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(len(upper))
    labels = _joined(len(rows), upper, lower)
    roots, index = np.unique(labels, return_inverse=True)
    edges = np.full((4, len(roots)), np.iinfo(np.int64).max)
    np.minimum.at(edges[0], index, starts)
    np.minimum.at(edges[1], index, rows)
    np.minimum.at(edges[2], index, -ends)
    np.minimum.at(edges[3], index, -(rows + 1))
    edges[2:] *= -1
    return [Box(*map(int, box)) for box in edges.T]


def _joined(count: int, left: Ints, right: Ints) -> Ints:
    """The smallest member of each one's group, for *count* things of which *left* touch *right*."""
    parent = np.arange(count)
    while True:
        a, b = parent[left], parent[right]
        low, high = np.minimum(a, b), np.maximum(a, b)
        if np.array_equal(low, high):
            return parent
        np.minimum.at(parent, high, low)
        while not np.array_equal(parent, above := parent[parent]):
            parent = above
