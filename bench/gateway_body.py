"""How fast a response is stopped: cancelled in the middle of a drag, a command, or the model's own answer.

On a real body, from the request to cancel until its answer, which comes once the body is proved empty-handed.
"""

from __future__ import annotations

import http.client
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import trio

from bodyd.contract.lease import Scope
from bodyd.http.tokens import read_token
from tests.adapters.responses.model_server import Answer, ModelServer
from tests.adapters.responses.world import function
from tests.body.world import World, folder, running_world

NAME = "gateway-cancel"
TIMES = 20
BAR = 250.0
SOON = 60.0
LOOK_SECONDS = 0.01

Json = dict[str, Any]
LOOK = {"actions": [{"type": "screenshot"}]}


def rows() -> list[Json]:
    return trio.run(_measure)


async def _measure() -> list[Json]:
    server = ModelServer([])
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, server.handle, 0, host="127.0.0.1"))
        server.port = listeners[0].socket.getsockname()[1]
        gateway = {"computer": "body", "shell": "body", "upstream": {"kind": "responses", "url": server.url}}
        shell = {"enabled": True, "policy": {"default": "allow"}}
        with folder() as root, running_world(root, gateway=gateway, shell=shell) as world:
            assert await world.page.until(lambda page: page.origin is not None, within=SOON)
            found = await _each(world, server)
        nursery.cancel_scope.cancel(reason="measured")
    return found


async def _each(world: World, server: ModelServer) -> list[Json]:
    x, y = world.page.at(300, 130)
    path = [{"x": x + n % 150, "y": y + n % 100} for n in range(1000)]
    drags = {"actions": [{"type": "drag", "path": path, "keys": ["SHIFT"]}] * 6}
    sleeps = {"commands": ["setsid sleep 7194 & sleep 7194"]}

    def dragging(before: int) -> bool:
        return len(world.page.entries("drag")) > before

    found = []
    cases: list[tuple[str, list[Answer], Callable[[int], bool]]] = [
        (
            "a drag, button and modifier held",
            [_answer("computer", LOOK), _answer("computer", drags)],
            dragging,
        ),
        ("a command", [_answer("shell", sleeps)], lambda before: _sleeping()),
        ("the model's answer", [Answer({}, hang=True)], lambda before: len(server.seen) > before),
    ]
    for name, answers, begun in cases:
        times = []
        for _ in range(TIMES):
            server.answers[:] = answers
            before = len(server.seen) if "model" in name else len(world.page.entries("drag"))
            times.append(await _cancelled(world, partial(begun, before)))
        found.append(_row(f"cancel in the middle of {name}: p50", statistics.median(times)))
        found.append(_row(f"the slowest of {TIMES}", max(times)))
    return found


async def _cancelled(world: World, begun: Callable[[], bool]) -> float:
    """Milliseconds."""
    ask = _client(world)
    tools = [{"type": "computer"}, {"type": "shell"}]
    body = {"model": "m", "input": "go", "tools": tools, "background": True}
    body["metadata"] = {"n": str(time.monotonic_ns())}  # the same body again would find the cancelled one
    response = await trio.to_thread.run_sync(ask, "POST", "/v1/responses", body)
    for _ in range(int(SOON / LOOK_SECONDS)):
        if begun():
            break
        await trio.sleep(LOOK_SECONDS)
    else:
        raise RuntimeError("nothing was begun that could be cancelled")
    start = time.perf_counter()
    path = f"/v1/responses/{response['id']}/cancel"
    ended = await trio.to_thread.run_sync(ask, "POST", path, {})
    took = (time.perf_counter() - start) * 1000
    status = await trio.to_thread.run_sync(ask, "GET", "/v1/status", None)
    if ended["status"] != "cancelled" or status["lease"]["state"] != "vacant":
        raise RuntimeError(f"{ended['status']}, {status['lease']}")
    return took


def _client(world: World) -> Callable[[str, str, Json | None], Json]:
    connection = http.client.HTTPConnection("127.0.0.1", int(world.url.rpartition(":")[2]))
    token = read_token(world.config.state / "private", Scope.DRIVER)
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}

    def ask(method: str, path: str, body: Json | None) -> Json:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        made: Json = json.loads(connection.getresponse().read())
        return made

    return ask


def _answer(name: str, arguments: Json) -> Answer:
    return Answer({"id": "r", "status": "completed", "output": [function(name, arguments)]})


def _sleeping() -> bool:
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and b"sleep\x007194" in (entry / "cmdline").read_bytes():
                return True
        except OSError:
            continue
    return False


def _row(name: str, value: float) -> Json:
    return {"name": name, "value": round(value, 1), "unit": "ms", "bar": BAR, "ok": value <= BAR}
