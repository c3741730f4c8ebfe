"""The daemon's one clock: Trio's for deadlines, the wall for what people read.

Deadlines, ttls and waits are monotonic seconds; Unix milliseconds are only ever shown or stored.
Tests run it under Trio's MockClock and hand in a wall of their own.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import trio

_STEP_MS = 500
"""A wall that moved this far from where it should be was set by someone, not merely slewed."""


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


class Clock:
    """Monotonic seconds and Unix milliseconds, and the way from one to the other.

    Args:
        wall: The time of day in Unix milliseconds.
    """

    def __init__(self, wall: Callable[[], int] = _wall_ms) -> None:
        self._wall = wall
        self._anchor: tuple[float, int] | None = None

    def monotonic(self) -> float:
        """Seconds on Trio's clock: never goes back, counts from an arbitrary start. Needs a Trio task."""
        return trio.current_time()

    def wall_ms(self) -> int:
        """The time of day, in Unix milliseconds; it jumps when someone sets it."""
        return self._wall()

    def to_wall_ms(self, monotonic: float) -> int:
        """Unix milliseconds of a moment of the monotonic clock.

        The same moment keeps the same answer until the wall clock is set.
        """
        now, wall = self.monotonic(), self.wall_ms()
        if self._anchor is None or abs(self._expected(now) - wall) > _STEP_MS:
            self._anchor = (now, wall)
        return self._expected(monotonic)

    def _expected(self, monotonic: float) -> int:
        assert self._anchor is not None
        then, wall = self._anchor
        return wall + round((monotonic - then) * 1000)
