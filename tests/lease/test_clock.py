"""The daemon's one clock."""

from __future__ import annotations

import time

import trio

from bodyd.clock import Clock


async def test_it_is_trios_clock_and_the_systems_wall(autojump_clock):
    """Deadlines follow Trio, what people read follows the wall."""
    clock = Clock()
    before = clock.monotonic()
    await trio.sleep(60)
    assert clock.monotonic() - before == 60
    assert abs(clock.wall_ms() - time.time() * 1000) < 60_000


async def test_a_moment_keeps_its_time_of_day(autojump_clock):
    """A wall that is slewed by a little moves no moment that was shown before."""
    wall = 1_000_000
    clock = Clock(lambda: wall)
    then = clock.monotonic()
    assert clock.to_wall_ms(then) == 1_000_000
    await trio.sleep(10)
    wall += 10_400
    assert clock.to_wall_ms(then) == 1_000_000
    assert clock.to_wall_ms(then + 60) == 1_060_000


async def test_a_wall_that_was_set_is_followed(autojump_clock):
    """A jump is no drift."""
    wall = 1_000_000
    clock = Clock(lambda: wall)
    then = clock.monotonic()
    clock.to_wall_ms(then)
    wall += 3_600_000
    assert clock.to_wall_ms(then) == 4_600_000
