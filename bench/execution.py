"""Shell and code: a command over HTTP in its own sandbox, a flood, the end of stubborn trees, exec_py."""

from __future__ import annotations

import http.client
import json
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import trio

from bodyd.contract.lease import Scope
from bodyd.http.tokens import read_token
from tests.body.world import World, bare_world, folder
from tests.desktop.conftest import descendants
from tests.execution.trees import BOMB, TREE
from tests.execution.world import chunks_until
from tests.execution.world import world as shell_world

NAME = "execution"
CALLS = 100
CANCELS = 100
FLOOD_S = 5
POLICY = {"default": "allow", "unparsed": "allow"}
BWRAP = (
    "bwrap --unshare-all --die-with-parent --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib "
    "--symlink usr/lib64 /lib64 --proc /proc --dev /dev bash -c true"
).split()


def rows() -> list[dict[str, Any]]:
    shell = {"enabled": True, "policy": POLICY, "limits": {"output_bytes": 1 << 40}}
    with folder() as root, bare_world(root, shell=shell) as world:
        ask = _client(world)
        for _ in range(5):
            ask("true")
        ours, bwrap, bare = _in_turns(
            CALLS, lambda: ask("true"), lambda: _run(BWRAP), lambda: _run(["bash", "-c", "true"])
        )
        first, warm, clicks = _code(ask)
        begun = _peak(world)
        grown = _flood(world, ask, begun)
    ends = {name: trio.run(_cancelled, command, sign) for name, command, sign in _TREES}
    every = [took for times in ends.values() for took in times]
    p50 = statistics.median(ours)
    peers = [("bwrap … bash -c true", bwrap), ("subprocess: bash -c true", bare)]
    return [
        *(
            {
                "name": "shell `true` over HTTP, audited, p50",
                **_figure(p50, 60.0),
                "peer": {"name": name, "value": round(statistics.median(times), 2)},
            }
            for name, times in peers
        ),
        {"name": "the same, p95", "value": round(_quantile(ours, 95), 2), "unit": "ms"},
        {"name": "exec_py, first call of a conversation, p50", **_figure(first, 400.0)},
        {"name": "exec_py `1+1`, warm, p50", **_figure(warm, 15.0)},
        {"name": "100 ui.click in one exec_py, p50", **_figure(clicks, 1500.0)},
        {"name": f"growth of the daemon by {FLOOD_S} s of `yes`", **_figure(grown, 20.0, "MB")},
        {"name": f"cancel to tree dead, p99 of {len(every)}", **_figure(_quantile(every, 99), 500.0)},
        *(
            {"name": f"the same, {name}, p50", "value": round(statistics.median(times), 2), "unit": "ms"}
            for name, times in ends.items()
        ),
    ]


_TREES = (("eight that ignore SIGTERM", TREE, "up"), ("a fork bomb of 128", BOMB, "full"))


async def _cancelled(command: str, sign: str) -> list[float]:
    """Milliseconds from leaving the call to all of it being gone, half of CANCELS times."""
    took = []
    async with shell_world() as w:
        for _ in range(CANCELS // 2):
            async with w.call(command) as output:
                await chunks_until(output, sign)
                begun = time.perf_counter()
            took.append((time.perf_counter() - begun) * 1000)
            assert descendants() == []
    return took


def _code(ask: _Asking) -> tuple[float, float, float]:
    """Milliseconds: of a first call, of a warm one, of a hundred clicks on the bare desktop."""
    run = ask.code
    (first,) = _in_turns(10, lambda: run("1+1", reset=True))
    run("1+1")
    (warm,) = _in_turns(CALLS, lambda: run("1+1"))
    run("ui.screenshot()")
    (clicks,) = _in_turns(5, lambda: run("for _ in range(100): ui.click(640, 400)"))
    return statistics.median(first), statistics.median(warm), statistics.median(clicks)


def _flood(world: World, ask: Callable[..., Any], before: float) -> float:
    """How much the daemon's peak of memory grew, in MB."""
    (flooded,) = ask("yes", timeout_ms=FLOOD_S * 1000)
    assert flooded["outcome"] == {"type": "timeout"}
    assert flooded["omitted_bytes"] > 10_000_000
    return _peak(world) - before


class _Asking:
    """The two tools, over one connection."""

    def __init__(self, post: Callable[[str, dict[str, Any]], Any]) -> None:
        self._post = post

    def __call__(self, command: str, **more: object) -> Any:  # noqa: ANN401 (whatever JSON it is)
        return self._post("/v1/tools/shell", {"commands": [command], **more})["output"]

    def code(self, code: str, **more: object) -> Any:  # noqa: ANN401
        return self._post("/v1/tools/exec_py", {"code": code, **more})


def _client(world: World) -> _Asking:
    where = urlsplit(world.url)
    connection = http.client.HTTPConnection(str(where.hostname), where.port)
    token = read_token(world.config.state / "private", Scope.OWNER)
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}

    def post(path: str, body: dict[str, Any]) -> Any:  # noqa: ANN401 (whatever JSON it is)
        connection.request("POST", path, json.dumps(body), headers)
        answer = json.loads(connection.getresponse().read())
        if answer.get("error"):
            raise RuntimeError(answer)
        return answer

    headers["bodyd-lease"] = post("/v1/lease/acquire", {"conversation_id": "bench"})["lease_token"]
    return _Asking(post)


def _in_turns(count: int, *calls: Callable[[], object]) -> list[list[float]]:
    """Milliseconds of each, measured in turns, so that a busy machine meets all of them."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(count):
        for call, taken in zip(calls, times, strict=True):
            begun = time.perf_counter()
            call()
            taken.append((time.perf_counter() - begun) * 1000)
    return times


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True)


def _peak(world: World) -> float:
    assert world.process is not None
    status = Path(f"/proc/{world.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def _quantile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100)[percent - 1]


def _figure(value: float, bar: float, unit: str = "ms") -> dict[str, Any]:
    return {"value": round(value, 2), "unit": unit, "bar": bar, "ok": value <= bar}
