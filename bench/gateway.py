"""What the Responses gateway adds to a call of the model's server: the same request with and without it.

Beside it in the same run: agentic-api, the vLLM project's gateway, which stores responses as ours does.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bodyd.contract.lease import Scope
from bodyd.http.tokens import read_token
from bodyd.journal.documents import GATEWAY_FILE

from .peers import PeerFailed, installed

NAME = "gateway"
AGENTIC = "agentic-api"
PINS = ("agentic-api==0.9.0",)
ROUNDS = 60
TURNS = 40
SHOT = 180_000
"""Bytes of a 1280x800 screenshot of a web page."""
BUDGET = 2_097_152
START_SECONDS = 60.0
STREAMS, EACH = 50, 4

Json = dict[str, Any]
Ask = Callable[[Json], Any]


@dataclass(frozen=True)
class Side:
    """A gateway that is measured: its port and key, its process, and the files of its store."""

    port: int
    key: str
    process: subprocess.Popen[str]
    store: str

    def client(self) -> Ask:
        return _client(self.port, self.key)

    @property
    def resident(self) -> float:
        """MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    @property
    def cpu(self) -> float:
        """ms of processor time so far, the kernel's included."""
        spent = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
        return sum(map(int, spent)) * 1000 / os.sysconf("SC_CLK_TCK")

    @property
    def stored(self) -> float:
        """MB."""
        base = Path(self.store)
        return sum(path.stat().st_size for path in base.parent.glob(f"{base.name}*")) / 1e6


def rows() -> list[Json]:
    with tempfile.TemporaryDirectory() as folder, _model() as port, _ours(Path(folder), port) as ours:
        try:
            with _agentic(Path(folder), port) as peer:
                return _measured(port, ours, peer)
        except PeerFailed as exc:
            return _measured(port, ours, str(exc))


def _measured(port: int, ours: Side, peer: Side | str) -> list[Json]:
    small = {"model": "m", "input": "hello", "tools": [{"type": "computer"}]}
    plain = {"model": "m", "input": [_said("hello")]}
    large = {"model": "m", "input": [_said("look", _picture(2_000_000, 0))]}
    unstored = {"store": False}
    streamed = {"stream": True}
    direct = _client(port, "")
    found = [
        _over("small request", direct, plain, ours, small, peer, 6.0),
        _over("the same, store: false", direct, plain, ours, small | unstored, peer),
        _over("streamed", direct, plain | streamed, ours, small | streamed, peer),
        _over("2 MB image", direct, large, ours, large, peer, 15.0),
    ]
    for name, body in (("small request", small), ("2 MB image", large)):
        row = _row(f"{name}, CPU of the gateway", _cpu(ours, body))
        found.append(row | _beside(peer, _tried(partial(_cpu, body=body), peer)))
    base = _median(lambda: direct({"model": "m", "input": [_said("look", _picture(BUDGET * 3 // 4, 1))]}))
    turns, theirs = _chain(ours), _chain(peer)
    for name, at, bar in (("turn 4 of a screenshot chain", 3, None), ("turn 40 of it", 35, 25.0)):
        row = _row(f"{name}, 2 MiB at most sent, over direct", _part(turns, at) - base, bar)
        found.append(row | _beside(peer, theirs if isinstance(theirs, str) else _part(theirs, at) - base))
    row = _row("store growth, 110 requests sharing the 2 MB image", _grown(ours, large), 4.0, "MB")
    found.append(row | _beside(peer, _tried(lambda side: _grown(side, large), peer)))
    return found + _concurrent(ours, peer, small)


# -- measuring -----------------------------------------------------------------------------------------


def _over(
    name: str, direct: Ask, a: Json, ours: Side, b: Json, peer: Side | str, bar: float | None = None
) -> Json:
    """p50 over direct; all three in turns, so that a busy machine meets each."""
    through = ours.client()
    beside = None if isinstance(peer, str) else peer.client()
    times: dict[str, list[float]] = {"direct": [], "ours": [], "peer": []}
    note: str | None = None
    for number in range(ROUNDS):
        told = {**b, "metadata": {"n": str(number)}}
        times["direct"].append(_timed(partial(direct, a)))
        times["ours"].append(_timed(partial(through, told)))
        if beside is not None and note is None:
            try:
                times["peer"].append(_timed(partial(beside, told)))
            except (RuntimeError, OSError, http.client.HTTPException) as exc:
                note = str(exc)[:60]
    median = {which: statistics.median(found) for which, found in times.items() if found}
    row = _row(f"{name}, p50 over direct", median["ours"] - median["direct"], bar)
    value = note or median.get("peer", 0.0) - median["direct"]
    return row | _beside(peer, value)


def _beside(peer: Side | str, value: float | str) -> Json:
    if isinstance(peer, str) or isinstance(value, str):
        note = peer if isinstance(peer, str) else str(value)
        return {"peer": {"name": AGENTIC, "value": None, "note": note}}
    return {"peer": {"name": AGENTIC, "value": round(value, 2)}}


def _tried(measure: Callable[[Side], float], peer: Side | str) -> float | str:
    if isinstance(peer, str):
        return peer
    try:
        return measure(peer)
    except (RuntimeError, OSError, http.client.HTTPException) as exc:
        return str(exc)[:60]


def _chain(side: Side | str) -> list[float] | str:
    """Each turn answers the last message with a new screenshot; the time of each."""
    if isinstance(side, str):
        return side
    times, previous, ask = [], None, side.client()
    try:
        for number in range(TURNS):
            body = {"model": "m", "input": [_said("next", _picture(SHOT, number))]}
            body |= {"previous_response_id": previous} if previous else {}
            begun = time.perf_counter()
            previous = ask(body)["id"]
            times.append((time.perf_counter() - begun) * 1000)
    except (RuntimeError, OSError, http.client.HTTPException) as exc:
        return f"turn {len(times) + 1}: {exc}"[:60]
    return times


def _part(turns: list[float] | str, start: int) -> float:
    if isinstance(turns, str):
        raise RuntimeError(turns)
    return statistics.median(turns[start : start + 5])


def _cpu(side: Side, body: Json) -> float:
    before, ask = side.cpu, side.client()
    for number in range(ROUNDS):
        ask({**body, "metadata": {"cpu": str(number)}})
    return (side.cpu - before) / ROUNDS


def _grown(side: Side, body: Json) -> float:
    before, ask = side.stored, side.client()
    for number in range(110):
        ask({**body, "metadata": {"n": str(number)}})
    return side.stored - before


def _concurrent(ours: Side, peer: Side | str, body: Json) -> list[Json]:
    """Fifty streams at once, several times over: errors, and what the process grew by once warm."""
    _flooded(ours, body)
    before = ours.resident
    errors = _flooded(ours, body) + _flooded(ours, body)
    grown = ours.resident - before
    theirs = "" if isinstance(peer, Side) else peer
    many = f"{2 * STREAMS * EACH} responses on {STREAMS} streams at once"
    beside = _tried(lambda side: float(_flooded(side, body) + _flooded(side, body)), peer)
    return [
        _row(f"errors in {many}", errors, 0, "") | _beside(theirs or peer, beside),
        _row("growth of the process meanwhile, once warm", grown, 8.0, "MB"),
    ]


def _flooded(side: Side, body: Json) -> int:
    failed: list[Exception] = []

    def one(number: int) -> None:
        try:
            ask = side.client()
            for turn in range(EACH):
                ask({**body, "stream": True, "metadata": {"n": f"{number}.{turn}"}})
        except Exception as exc:
            failed.append(exc)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(STREAMS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(failed)


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
def _ours(folder: Path, upstream: int) -> Iterator[Side]:
    """`bodyd gateway` as a user starts it; the body that it names is never asked for."""
    (folder / "token").write_text("none")
    config = folder / "bench.toml"
    config.write_text(
        f'state_dir = "{folder}/state"\nrun_dir = "{folder}/run"\n[http]\nport = 0\n[gateway.upstream]\n'
        f'kind = "responses"\nurl = "http://127.0.0.1:{upstream}/v1"\nbudget_bytes = {BUDGET}\n'
    )
    command = [sys.executable, "-m", "bodyd", "--config", str(config), "gateway"]
    command += ["--body", str(folder / "none.sock"), "--token-file", str(folder / "token")]
    with _process(command, "Ctrl-C ends it") as (process, said):
        port = int(said.split("http://127.0.0.1:")[1].split("/")[0])
        private = folder / "state/gateway"
        yield Side(port, read_token(private, Scope.DRIVER), process, str(private / GATEWAY_FILE))


@contextlib.contextmanager
def _agentic(folder: Path, upstream: int) -> Iterator[Side]:
    """Raises PeerFailed where it can't be installed or started."""
    server = Path(installed(PINS)).parent / "agentic-server"
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = int(found.getsockname()[1])
    store = folder / "agentic.db"
    command = [str(server), "--llm-api-base", f"http://127.0.0.1:{upstream}", "--openai-api-key", "none"]
    command += ["--gateway-host", "127.0.0.1", "--gateway-port", str(port), "--skip-llm-ready-check"]
    command += ["--db-url", f"sqlite://{store}"]
    with _process(command, "listening on") as (process, _):
        yield Side(port, "none", process, str(store))


@contextlib.contextmanager
def _process(command: list[str], ready: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """*command* once it has said that it is *ready*; what it says goes on into a thread that drops it."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        said, end = "", time.monotonic() + START_SECONDS
        try:
            while ready not in said:
                left = max(0.0, end - time.monotonic())
                heard = select.select([process.stdout], [], [], left)[0]
                piece = os.read(process.stdout.fileno(), 65536).decode() if heard else ""
                if not piece:
                    raise PeerFailed(f"did not start: {said.strip()[-60:]}")
                said += piece
            threading.Thread(target=process.stdout.read, daemon=True).start()
            yield process, said
        finally:
            process.terminate()
            process.wait(20)
