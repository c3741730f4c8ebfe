"""The door, whole: a click over HTTP on the unix socket, journalled, receipt and all, against a real body.

Its browser shows an empty page: one that reported every press, as the tests' does, would send it through
the daemon's own proxy while the receipt is waited for.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

import trio

from tests.body.world import World, folder, running_world

NAME = "door"
CLICKS = 120
SETTLE_MS = 50.0


def rows() -> list[dict[str, Any]]:
    with folder() as root, running_world(root, desktop={"start_url": "about:blank"}) as world:
        return trio.run(_measure, world)


async def _measure(world: World) -> list[dict[str, Any]]:
    async with world.client() as client:
        while not (await client.inventory()).windows:  # noqa: ASYNC110
            await trio.sleep(0.1)
        lease = await client.acquire("bench")
        await lease.screenshot()
        # Nothing repaints there, so settling takes its minimum.
        click = {"type": "click", "button": "left", "x": 640, "y": 400}
        for _ in range(10):
            await lease.input([click])
        clicks = [await _timed(lambda: lease.input([click])) for _ in range(CLICKS)]
        waits = [await _timed(lambda: lease.input([{"type": "wait", "ms": 0}])) for _ in range(CLICKS)]
        status = [await _timed(client.ready) for _ in range(CLICKS)]
        shots = [await _timed(lease.screenshot) for _ in range(60)]
        await lease.release()
    return [
        _row(
            "click over HTTP with receipt, p50, beyond 50 ms of settle",
            statistics.median(clicks) - SETTLE_MS,
            8.0,
        ),
        _row("the same, p95", _p95(clicks) - SETTLE_MS),
        _row("a wait of 0 ms through the door, p50", statistics.median(waits)),
        _row("GET /readyz, p50", statistics.median(status)),
        _row("POST /v1/screenshots, p50", statistics.median(shots)),
    ]


async def _timed(call: Callable[[], Awaitable[object]]) -> float:
    begun = time.perf_counter()
    await call()
    return (time.perf_counter() - begun) * 1000


def _p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]


def _row(name: str, value: float, bar: float | None = None) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name, "value": round(value, 2), "unit": "ms"}
    return row if bar is None else {**row, "bar": bar, "ok": value <= bar}
