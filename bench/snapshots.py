"""A home of 500 MB: copied, put back, reset; beside a plain `cp -a` of it in the same run."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import trio

from bodyd.config import parse
from bodyd.desktop.layout import Layout, open_layout
from bodyd.desktop.snapshots import Snapshots

NAME = "snapshots"
FILES = 5000
BYTES = 100_000


def rows() -> list[dict[str, Any]]:
    place = Path(tempfile.mkdtemp(prefix="bodyd-bench-", dir="/var/tmp"))
    place.chmod(0o755)
    try:
        config = parse({"state_dir": place / "state", "run_dir": place / "run"})
        with open_layout(config) as layout:
            _furnish(layout)
            begun = time.perf_counter()
            subprocess.run(["cp", "-a", str(layout.home), str(place / "copy")], check=True)
            os.sync()
            plain = time.perf_counter() - begun
            shutil.rmtree(place / "copy")
            return trio.run(_measured, layout, plain)
    finally:
        shutil.rmtree(place, ignore_errors=True)


async def _measured(layout: Layout, plain: float) -> list[dict[str, Any]]:
    kept = Snapshots(layout, now_ms=lambda: 0)
    took = {
        "create": await _timed(lambda: kept.create("bench")),
        "restore": await _timed(lambda: kept.restore("bench")),
        "sweep": await _timed(kept.sweep),
        "reset": await _timed(kept.reset),
    }
    peer = {"name": "cp -a, sync", "value": round(plain, 2)}
    size = FILES * BYTES // 1_000_000
    return [
        {
            "name": f"restore of a home of {size} MB, without the apps' end and start",
            "value": round(took["restore"], 2),
            "unit": "s",
            "bar": 10.0,
            "ok": took["restore"] <= 10.0,
            "peer": peer,
        },
        {"name": "create, the same", "value": round(took["create"], 2), "unit": "s", "peer": peer},
        {"name": "reset, the same", "value": round(took["reset"], 2), "unit": "s"},
        {
            "name": "the old home's removal, while apps run again",
            "value": round(took["sweep"], 2),
            "unit": "s",
        },
    ]


async def _timed(call: Callable[[], Awaitable[object]]) -> float:
    begun = time.perf_counter()
    await call()
    return time.perf_counter() - begun


def _furnish(layout: Layout) -> None:
    chance = random.Random(1)
    for number in range(FILES):
        folder = layout.home / f"{number % 100}"
        folder.mkdir(exist_ok=True)
        (folder / str(number)).write_bytes(chance.randbytes(BYTES))
    if layout.uids.drop:
        for path in (layout.home, *layout.home.rglob("*")):
            os.chown(path, layout.uids.apps, layout.uids.apps)
