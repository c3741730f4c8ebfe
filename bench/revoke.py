"""Revoke to quiescent: the owner ends a drag, a chord or a text half way, under load, and it is proved."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import trio

from bodyd.client import ClientLease
from bodyd.display.connection import XConnection
from bodyd.errors import BodydError
from tests.body.outsider import input_state, x_server
from tests.body.world import World, folder, running_world

NAME = "revoke"
RUNS = 200
HOGS = 2
UNDER_WAY_SECONDS = 0.1
PATH_ROWS = 3
ANIMATED = "http://page.bodyd.test/?animated"
BAR_MS = 250.0


def rows() -> list[dict[str, Any]]:
    with folder() as root, running_world(root, desktop={"start_url": ANIMATED}) as world:
        taken = trio.run(measure, world, RUNS)
    load = f"{HOGS} busy programs and an animated page, {RUNS} runs"
    p99 = statistics.quantiles(taken, n=100)[98]
    return [
        {"name": f"revoke to quiescent, p50 ({load})", "value": statistics.median(taken), "unit": "ms"},
        {"name": "the same, p99", "value": p99, "unit": "ms", "bar": BAR_MS, "ok": p99 <= BAR_MS},
        {"name": "the same, max", "value": max(taken), "unit": "ms"},
    ]


async def measure(world: World, runs: int) -> list[float]:
    """Milliseconds from the owner's call to its answer, which comes once the body is proved quiet."""
    assert await world.page.until(lambda page: page.origin is not None, within=30)
    taken = []
    async with world.client() as client:
        x = (await x_server(world, client)).connect()
        with _busy():
            for run in range(runs):
                lease = await client.acquire(f"run-{run}")
                await lease.screenshot()
                start = world.page.at(60 + run % 400, 150 if run % 3 == 0 else 60)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_act, lease, _batch(*start, run))
                    await _until_under_way(x, start)
                    begun = time.perf_counter()
                    view = await client.revoke()
                    taken.append((time.perf_counter() - begun) * 1000)
                assert view.state == "vacant", view
                assert input_state(x).clear
        x.close()
    return taken


async def _until_under_way(x: XConnection, start: tuple[int, int]) -> None:
    """The pointer has come to where the batch begins; what comes next takes seconds: let a little pass."""
    with trio.fail_after(30):
        while True:
            seen = x.root.query_pointer()
            if seen.root_x >= start[0] and 0 <= seen.root_y - start[1] <= PATH_ROWS:
                break
            await trio.sleep(0.001)
    await trio.sleep(UNDER_WAY_SECONDS)


def _batch(x: int, y: int, run: int) -> list[dict[str, object]]:
    """One of the three, in turns, beginning with the pointer at (x, y)."""
    drag = {"type": "drag", "path": [{"x": x + n % 300, "y": y + n // 300} for n in range(300 * PATH_ROWS)]}
    hold = {"type": "hold", "keys": ["CTRL", "SHIFT"], "duration_ms": 10_000}
    text = {"type": "type", "text": "THE QUICK BROWN FOX " * 1000}
    click = {"type": "click", "x": x, "y": y}
    return [[drag], [click, hold], [click, text]][run % 3]


async def _act(lease: ClientLease, inputs: list[dict[str, object]]) -> None:
    with suppress(BodydError):
        await lease.input(inputs)


@contextmanager
def _busy() -> Iterator[None]:
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(HOGS)]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
