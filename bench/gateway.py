"""What the Responses gateway adds to a call of the model's server: the same request with and without it."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import trio

from bodyd.contract.adapters import AdapterContext
from bodyd.contract.gateway import GatewaySettings
from bodyd.contract.lease import Scope
from bodyd.http.adapters import open_adapters
from bodyd.http.app import create_app
from bodyd.http.listener import serve
from bodyd.http.services import Services
from bodyd.http.tokens import Tokens
from bodyd.journal.documents import GATEWAY_FILE, Documents, open_documents
from tests.http.fake_body import FakeBody

NAME = "gateway"
ROUNDS = 60
TURNS = 40
SHOT = 180_000
"""Bytes of a 1280x800 screenshot of a web page."""

Json = dict[str, Any]


def rows() -> list[Json]:
    with (
        _model() as port,
        tempfile.TemporaryDirectory() as folder,
        _gateway(Path(folder), port) as (mine, token),
    ):
        direct, through = _client(port, ""), _client(mine, token)
        small = {"model": "m", "input": "hello", "tools": [{"type": "computer"}]}
        lowered = {**small, "tools": [], "input": [_said("hello")]}
        picture = _picture(2_000_000, 0)
        large = {"model": "m", "input": [_said("look", picture)]}
        found = [
            _compared("small request, p50 over direct", direct, lowered, through, small, 6.0),
            _compared("the same, store: false", direct, lowered, through, {**small, "store": False}),
            _compared(
                "streamed, p50 over direct",
                direct,
                {**lowered, "stream": True},
                through,
                {**small, "stream": True},
            ),
            _compared("2 MB image, p50 over direct", direct, large, through, large, 15.0),
        ]
        turns = _chain(through)
        sent = {**lowered, "input": [_said("look", _picture(2_097_152 * 3 // 4, 1))]}
        base = _median(lambda: direct(sent))
        found += [
            _row("turn 4 of a screenshot chain at 2 MiB, over direct", statistics.median(turns[3:8]) - base),
            _row("turn 40 of it, over direct", statistics.median(turns[35:40]) - base, 25.0),
        ]
        before = _size(folder)
        for number in range(110):
            through({**large, "metadata": {"n": str(number)}})
        grown = (_size(folder) - before) / 1e6
        found.append(_row("store growth, 110 requests sharing the 2 MB image", grown, 4.0, "MB"))
        found += _concurrent(mine, token, small)
        return found


def _compared(
    name: str,
    direct: Callable[[Json], Any],
    a: Json,
    through: Callable[[Json], Any],
    b: Json,
    bar: float | None = None,
) -> Json:
    """Measured in turns, so that a busy machine meets both."""
    ours, theirs = [], []
    for number in range(ROUNDS):
        theirs.append(_timed(lambda: direct(a)))
        ours.append(_timed(lambda n=number: through({**b, "metadata": {"n": str(n)}})))
    return _row(name, statistics.median(ours) - statistics.median(theirs), bar)


def _chain(through: Callable[[Json], Any]) -> list[float]:
    """Each turn answers the last message with a new screenshot; the time of each."""
    times, previous = [], None
    for number in range(TURNS):
        body = {
            "model": "m",
            "input": [_said("next", _picture(SHOT, number))],
            "previous_response_id": previous,
        }
        begun = time.perf_counter()
        previous = through(body)["id"]
        times.append((time.perf_counter() - begun) * 1000)
    return times


def _concurrent(port: int, token: str, body: Json) -> list[Json]:
    """Fifty streams at once, several times over: errors, and what the process grew by."""
    errors: list[Exception] = []

    def one(number: int) -> None:
        try:
            ask = _client(port, token)
            for turn in range(4):
                ask({**body, "stream": True, "metadata": {"n": f"{number}.{turn}"}})
        except Exception as exc:
            errors.append(exc)

    grown = []
    for _ in range(2):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        threads = [threading.Thread(target=one, args=(number,)) for number in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        grown.append((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
    return [
        _row("errors in 400 responses on 50 streams at once", len(errors), 0, ""),
        _row("growth of the process in the second 200 of them", grown[1], unit="MB"),
    ]


def _client(port: int, token: str) -> Callable[[Json], Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port)

    def ask(body: Json) -> Any:  # noqa: ANN401 (None for a stream)
        headers = {
            "authorization": f"Bearer {token}",
            "content-type": "application/json",
            "host": "localhost",
        }
        connection.request("POST", "/v1/responses", json.dumps(body, separators=(",", ":")), headers)
        response = connection.getresponse()
        raw = response.read()
        if response.status != 200:
            raise RuntimeError(raw[:500])
        return None if body.get("stream") else json.loads(raw)

    return ask


def _said(text: str, url: str | None = None) -> Json:
    content: list[Json] = [{"type": "input_text", "text": text}]
    if url is not None:
        content.append({"type": "input_image", "image_url": url})
    return {"type": "message", "role": "user", "content": content}


def _picture(size: int, seed: int) -> str:
    data = seed.to_bytes(4, "big") + os.urandom(1024) * (size // 1024)
    return "data:image/png;base64," + base64.b64encode(data).decode()


def _median(call: Callable[[], Any]) -> float:
    return statistics.median(_timed(call) for _ in range(20))


def _timed(call: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    call()
    return (time.perf_counter() - begun) * 1000


def _size(folder: str) -> int:
    return sum(path.stat().st_size for path in Path(folder).glob(f"{GATEWAY_FILE}*"))


def _row(name: str, value: float, bar: float | None = None, unit: str = "ms") -> Json:
    row: Json = {"name": name, "value": round(value, 2), "unit": unit}
    return row if bar is None else {**row, "bar": bar, "ok": value <= bar}


@contextlib.contextmanager
def _model() -> Iterator[int]:
    command = [sys.executable, "-m", "bench.gateway_model"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield int(process.stdout.readline())
        process.stdin.close()


@contextlib.contextmanager
def _gateway(folder: Path, upstream: int) -> Iterator[tuple[int, str]]:
    """A gateway in a thread: its own loop, the real store, the real listener."""
    ready, outcome = threading.Event(), {}
    settings = {"kind": "responses", "url": f"http://127.0.0.1:{upstream}/v1", "budget_bytes": 2_097_152}

    async def main() -> None:
        tokens = Tokens.fresh()
        body = FakeBody()
        async with (
            open_documents(folder, now_ms=lambda: time.time_ns() // 1_000_000) as store,
            open_adapters({"gateway": _context(body, store, settings)}) as adapters,
            trio.open_nursery() as nursery,
        ):
            app = create_app(Services(body=body, tokens=tokens, adapters=adapters))
            bound = await nursery.start(partial(serve, app, port=0))
            outcome.update(port=bound.port, token=tokens.token(Scope.DRIVER), scope=nursery.cancel_scope)
            outcome["trio"] = trio.lowlevel.current_trio_token()
            ready.set()

    thread = threading.Thread(target=trio.run, args=(main,))
    thread.start()
    ready.wait(30)
    try:
        yield outcome["port"], outcome["token"]
    finally:
        outcome["trio"].run_sync_soon(outcome["scope"].cancel)
        thread.join(20)


def _context(body: FakeBody, store: Documents, upstream: Json) -> AdapterContext:
    settings = GatewaySettings.model_validate({"upstream": upstream})
    return AdapterContext(
        body=body, store=store, settings=settings, now_ms=lambda: time.time_ns() // 1_000_000
    )
