"""Settling on damage: quiet screens, late changes, and things that never stop."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio

from bodyd.display.display import Display

from .recorder import Recorder
from .world import until


async def blink(recorder: Recorder, every: float, paint: Callable[[Recorder, int], None]) -> None:
    step = 0
    while True:
        paint(recorder, step)
        step += 1
        await trio.sleep(every)


def caret(recorder: Recorder, step: int) -> None:
    recorder.fill(200, 200, 2, 18, 0xFFFFFF if step % 2 else 0)


def video(recorder: Recorder, step: int) -> None:
    recorder.fill(600, 400, 320, 240, step * 0x030507 & 0xFFFFFF)


async def test_a_still_screen_settles_after_the_quiet_time(display: Display, recorder: Recorder) -> None:
    """Nothing changed, nothing is reported, and it takes at least the quiet time."""
    mark = display.activity()
    start = trio.current_time()
    settled = await display.settle(mark)
    assert settled.quiet
    assert settled.changed == ()
    assert trio.current_time() - start >= 0.05


async def test_a_change_is_reported_and_waited_for(
    display: Display, recorder: Recorder, nursery: trio.Nursery
) -> None:
    """Changes that go on for a while are all in, and the screen has been still since."""
    await display.settle(display.activity())
    mark = display.activity()
    painted = 0.0

    async def paint() -> None:
        nonlocal painted
        for step in range(6):
            recorder.fill(100 + 20 * step, 100, 20, 20, 0xABCDEF)
            painted = trio.current_time()
            await trio.sleep(0.02)

    nursery.start_soon(paint)
    settled = await display.settle(mark, quiet=0.2, cap=20)
    assert settled.quiet
    assert trio.current_time() - painted >= 0.2
    (changed,) = settled.changed
    assert (changed.x, changed.y, changed.right, changed.bottom) == (100, 100, 220, 120)


async def test_slow_reactions_are_waited_for(
    display: Display, recorder: Recorder, nursery: trio.Nursery
) -> None:
    """An app that needs longer than the quiet time is known for it after some inputs."""

    async def react() -> None:
        await trio.sleep(0.12)
        recorder.fill(100, 100, 20, 20, 0xABCDEF)

    await display.settle(display.activity())
    for _ in range(30):
        mark = display.activity()
        nursery.start_soon(react)
        settled = await display.settle(mark)
        if settled.changed:
            return
        await trio.sleep(0.2)
    raise AssertionError("the change is still missed after many inputs")


async def test_an_endless_change_meets_the_cap(
    display: Display, recorder: Recorder, nursery: trio.Nursery
) -> None:
    """An animation that the input itself started: the cap ends the wait, and says so."""
    await display.settle(display.activity())
    mark = display.activity()
    nursery.start_soon(blink, recorder, 0.01, video)
    settled = await display.settle(mark, quiet=0.5, cap=0.7)
    assert not settled.quiet
    assert settled.changed
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("paint", "every"), [(caret, 0.25), (video, 0.03)])
async def test_what_was_restless_before_is_ignored(
    display: Display,
    recorder: Recorder,
    nursery: trio.Nursery,
    paint: Callable[[Recorder, int], None],
    every: float,
) -> None:
    """A caret or a video keeps nobody waiting, and a change beside it still counts."""
    nursery.start_soon(blink, recorder, every, paint)

    await until(lambda: display.activity().busy)
    mark = display.activity()
    assert (await display.settle(mark, quiet=0.5, cap=1.5)).quiet
    mark = display.activity()
    recorder.fill(900, 100, 30, 30, 0x00FF00)
    settled = await display.settle(mark, quiet=0.5, cap=1.5)
    assert settled.quiet
    assert [(c.x, c.y, c.width, c.height) for c in settled.changed] == [(900, 100, 30, 30)]
    nursery.cancel_scope.cancel()


async def test_the_watch_never_loses_a_change(display: Display, recorder: Recorder) -> None:
    """Two hundred changes, each settled on by itself: none is missed."""
    await display.settle(display.activity())
    for step in range(200):
        mark = display.activity()
        recorder.fill(step * 6, 500, 5, 5, 0x00FF00)
        assert (await display.settle(mark, quiet=0, cap=5)).changed
