"""From nothing to a painted page, and back to nothing: cold starts and stops of a whole body."""

from __future__ import annotations

import statistics
import time
from typing import Any

from tests.body.world import folder, running_world

NAME = "startup"
STARTS = 5


def rows() -> list[dict[str, Any]]:
    ready, painted, stopped = [], [], []
    for _ in range(STARTS):
        with folder() as root:
            begun = time.perf_counter()
            with running_world(root) as world:
                ready.append(time.perf_counter() - begun)
                while not world.page.entries("ready"):
                    if time.perf_counter() - begun > 60:
                        raise RuntimeError("no page was painted within 60 s")
                    time.sleep(0.005)
                painted.append(time.perf_counter() - begun)
                leaving = time.perf_counter()
            stopped.append(time.perf_counter() - leaving)
    return [
        _row("cold start to serving", ready),
        _row("cold start to first page painted", painted, 5.0),
        _row("stop, browser first, to nothing left", stopped),
    ]


def _row(name: str, values: list[float], bar: float | None = None) -> dict[str, Any]:
    value = statistics.median(values)
    row = {"name": f"{name} (median of {len(values)})", "value": round(value, 2), "unit": "s"}
    return row if bar is None else {**row, "bar": bar, "ok": value <= bar}
