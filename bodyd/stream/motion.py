"""Motion: what of the screen keeps moving, and whether it is dear to send as tiles. Pure.

Times are seconds of one monotonic clock, handed in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .regions import Rect
from .tiles import CELL

WINDOW_SECONDS = 0.6
THIN_WINDOW_SECONDS = 1.2
FEWEST = 5
"""Changes in the window below which nothing moves."""

THIN_FEWEST = 3
DEAR = 200_000
"""Bytes a second as tiles from which on video is worth its trouble."""

DEAR_ON_THIN = 40_000
SMALLEST = 64
_REST_SECONDS = 0.5
_REST_CHANGES = 3


class Motion:
    """The changes of the last second or so, in cells."""

    def __init__(self) -> None:
        self._changes: deque[tuple[float, NDArray[np.bool_]]] = deque(maxlen=128)
        self._costs: deque[tuple[float, int]] = deque(maxlen=256)

    def note(self, now: float, rects: Sequence[Rect], cells: tuple[int, ...]) -> None:
        """These have changed; *cells*: rows and columns of cells of the screen."""
        mask = np.zeros(cells, np.bool_)
        for rect in rects:
            mask[rect.top // CELL : -(-rect.bottom // CELL), rect.left // CELL : -(-rect.right // CELL)] = (
                True
            )
        self._changes.append((now, mask))

    def cost(self, now: float, size: int) -> None:
        """So many bytes of tiles were made."""
        if size:
            self._costs.append((now, size))

    def forget_cost(self) -> None:
        """What it has cost so far led to a decision; what it costs from now on is another matter."""
        self._costs.clear()

    def hot(self, now: float, *, thin: bool) -> Rect | None:
        """What keeps moving, if it is dear; in whole cells."""
        window = THIN_WINDOW_SECONDS if thin else WINDOW_SECONDS
        spent = sum(size for at, size in self._costs if at > now - window)
        if spent < (DEAR_ON_THIN if thin else DEAR) * window:
            return None
        masks = [mask for at, mask in self._changes if at > now - window]
        if len(masks) < (THIN_FEWEST if thin else FEWEST):
            return None
        often = np.sum(masks, axis=0) >= max(2, len(masks) // 3)
        rows, columns = np.flatnonzero(often.any(axis=1)), np.flatnonzero(often.any(axis=0))
        if not rows.size:
            return None
        found = Rect(
            int(columns[0]) * CELL,
            int(rows[0]) * CELL,
            (int(columns[-1]) + 1) * CELL,
            (int(rows[-1]) + 1) * CELL,
        )
        return found if found.area > SMALLEST * SMALLEST else None

    def rests(self, now: float, region: Rect) -> bool:
        """Hardly anything has changed in *region* lately."""
        rows = slice(region.top // CELL, -(-region.bottom // CELL))
        columns = slice(region.left // CELL, -(-region.right // CELL))
        lately = sum(
            bool(mask[rows, columns].any()) for at, mask in self._changes if at > now - _REST_SECONDS
        )
        return lately < _REST_CHANGES
