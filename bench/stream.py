"""The live view beside Xvnc with noVNC, in one browser: keys, video, scrolling, a thin link, stillness.

Each screen is drawn on by the same client; what a viewer shows is read from its canvas. Ours is a daemon
of its own without the sandboxes. The browser and all servers share the machine's cores.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import trio
from playwright.sync_api import Browser

from bench.comparison import row
from bench.link import Link
from bench.stream_viewers import AREA, BITS, SPOT, browser, novnc, ours
from bodyd.client import BodyClient
from tests.display.world import XServer, start_window_manager

NAME = "stream"
KEYS = 40
SECONDS = 6.0
THIN_SECONDS = 60.0
SETTLE_SECONDS = 2.5
TICK = os.sysconf("SC_CLK_TCK")
Rows = list[dict[str, Any]]


class Painter:
    """The client that draws on one screen (stream_painter.py).

    Attributes:
        drawn: Of the last work: frame number to when it was drawn, Unix ms.
    """

    def __init__(self, given: dict[str, Any]) -> None:
        self.drawn: dict[int, float] = {}
        self._process = program("bench.stream_painter", given)
        assert self._hear() == "ready"

    @contextmanager
    def working(self, work: str) -> Iterator[None]:
        """Let it draw until the context is left."""
        self._say(work)
        try:
            yield
        finally:
            self._say("stop")
            self.drawn = {int(n): at for n, at in json.loads(self._hear()).items()}

    def close(self) -> None:
        end(self._process)

    def _say(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()

    def _hear(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


def program(module: str, given: dict[str, Any]) -> subprocess.Popen[str]:
    """A program of this package that has been given its first line."""
    process = subprocess.Popen(
        [sys.executable, "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(given) + "\n")
    process.stdin.flush()
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()


class Side:
    """A screen, the server that shows it, and how a viewer is opened."""

    def __init__(
        self, name: str, painter: Painter, port: int, pids: Sequence[int], open_: Callable[[int], Any]
    ) -> None:
        self.name, self.painter, self.port, self.pids = name, painter, port, pids
        self.open = open_

    def cpu(self) -> float:
        """Seconds that the server has computed for so far."""
        return sum(_cpu(pid) for pid in self.pids)


def rows() -> Rows:
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        found = stack.enter_context(browser())
        our, token = stack.enter_context(_our_side(place, found))
        peer = stack.enter_context(_their_side(place, found)) if shutil.which("Xtigervnc") else None
        sides = [our, *([peer] if peer else [])]
        measured: Rows = []
        measured += _keys(sides)
        measured += _motion(sides, "video", "video area at 30 fps", (30, 200, 45))
        measured += _motion(sides, "scroll", "scrolling at 15 fps", (30, None, None))
        measured += _thin(sides)
        measured += _still(our)
        measured += trio.run(_connecting, our, token)
        return measured


def _keys(sides: Sequence[Side]) -> Rows:
    took: dict[str, list[float]] = {}
    cost: dict[str, float] = {}
    for side in sides:
        link = Link(side.port)
        with side.painter.working("keys"), side.open(side.port) as viewer:
            viewer.page.wait_for_timeout(1000 * SETTLE_SECONDS)
            took[side.name] = viewer.type(KEYS, SPOT)
        with side.painter.working("keys"), side.open(link.port) as viewer:
            viewer.page.wait_for_timeout(1000 * SETTLE_SECONDS)
            before = link.down
            viewer.type(KEYS // 2, SPOT)
            cost[side.name] = (link.down - before) / (KEYS // 2)
        link.close()
    return [
        _row("key in viewer to pixels in viewer, p50", "ms", {k: _share(v, 50) for k, v in took.items()}, 12),
        _row("key in viewer to pixels in viewer, p95", "ms", {k: _share(v, 95) for k, v in took.items()}, 20),
        _row("typing, sent for each key", "B", cost, 512),
    ]


def _motion(sides: Sequence[Side], what: str, name: str, bars: tuple[float | None, ...]) -> Rows:
    late: dict[str, float] = {}
    rate: dict[str, float] = {}
    core: dict[str, float] = {}
    fps: dict[str, float] = {}
    for side in sides:
        link = Link(side.port)
        with side.open(link.port) as viewer, side.painter.working(what):
            viewer.page.wait_for_timeout(1000 * SETTLE_SECONDS)
            down, cpu, start = link.down, side.cpu(), time.monotonic()
            shown = viewer.follow(AREA[:2], SECONDS)
            took = time.monotonic() - start
            rate[side.name] = (link.down - down) / took / 1000
            core[side.name] = 100 * (side.cpu() - cpu) / took
        delays = _delays(side.painter.drawn, shown)
        late[side.name], fps[side.name] = _share(delays, 50), len(shown) / took
        link.close()
    return [
        _row(f"{name}: drawn to shown, p50", "ms", late, bars[0]),
        _row(f"{name}: frames shown", "fps", fps, None),
        _row(f"{name}: sent", "KB/s", rate, bars[1]),
        _row(f"{name}: server", "% of a core", core, bars[2]),
    ]


def _thin(sides: Sequence[Side]) -> Rows:
    late: dict[str, float] = {}
    fps: dict[str, float] = {}
    growth: dict[str, float] = {}
    for side in sides:
        link = Link(side.port, rate=100_000, delay=0.02)
        with side.open(link.port) as viewer:
            viewer.page.wait_for_timeout(6000)
            with side.painter.working("video"):
                viewer.page.wait_for_timeout(4000)
                shown = viewer.follow(AREA[:2], THIN_SECONDS)
        delays = _delays(side.painter.drawn, shown)
        third = len(delays) // 3
        late[side.name], fps[side.name] = _share(delays, 50), len(shown) / THIN_SECONDS
        growth[side.name] = _share(delays[-third:], 50) - _share(delays[:third], 50)
        link.close()
    return [
        _row("100 KB/s, 40 ms: frames shown", "fps", fps, 12, least=True),
        _row("100 KB/s, 40 ms: drawn to shown, p50", "ms", late, 200),
        _row(f"100 KB/s, 40 ms: growth of that in {THIN_SECONDS:.0f} s", "ms", growth, 20),
    ]


def _still(side: Side) -> Rows:
    link = Link(side.port)
    with side.open(link.port) as viewer:
        viewer.page.wait_for_timeout(3000)
        down, cpu = link.down, side.cpu()
        viewer.page.wait_for_timeout(10_000)
        sent, busy = (link.down - down) / 10, 10 * (side.cpu() - cpu)
    link.close()
    return [
        _row("nothing changes: sent", "B/s", {side.name: sent}, 10),
        _row("nothing changes: server", "% of a core", {side.name: busy}, 0.5),
    ]


async def _connecting(side: Side, token: str) -> Rows:
    """First frame, take-over to first input, and ten watchers beside one."""
    firsts, takes = [], []
    async with BodyClient(url=f"http://127.0.0.1:{side.port}", token=token) as client:
        for _ in range(10):
            start = time.monotonic()
            async with client.stream(video=False) as view:
                await view.until(lambda v: v.frames > 0)
                firsts.append(1000 * (time.monotonic() - start))
                start = time.monotonic()
                await view.take_over()
                await view.move(100, 100)
                await view.until(lambda v: v.pointer == (100, 100))
                takes.append(1000 * (time.monotonic() - start))
                await view.move(700, 500)
                await view.until(lambda v: v.pointer == (700, 500))
                await view.hand_back()
        one = await _cost_of(client, side, 1)
        ten = await _cost_of(client, side, 10)
    return [
        _row("first frame after connecting, p95", "ms", {side.name: _share(firsts, 95)}, 500),
        _row("take-over to the first own input, p95", "ms", {side.name: _share(takes, 95)}, 400),
        _row("ten watchers instead of one", "% of a core more", {side.name: ten - one}, 10),
    ]


async def _cost_of(client: BodyClient, side: Side, watchers: int) -> float:
    async with trio.open_nursery() as nursery:

        async def watch() -> None:
            async with client.stream() as view:
                view.blind = True
                await trio.sleep_forever()

        for _ in range(watchers):
            nursery.start_soon(watch)
        await trio.sleep(SETTLE_SECONDS)
        with side.painter.working("video"):
            await trio.sleep(SETTLE_SECONDS)
            cpu, start = side.cpu(), time.monotonic()
            await trio.sleep(SECONDS)
            used = 100 * (side.cpu() - cpu) / (time.monotonic() - start)
        nursery.cancel_scope.cancel()
    return used


# -- the two sides ---------------------------------------------------------------------------------


@contextmanager
def _our_side(place: Path, found: Browser) -> Iterator[tuple[Side, str]]:
    (place / "ours").mkdir()
    (place / "state").mkdir()
    server = XServer(place / "ours")
    start_window_manager(server)  # a body has one, and the daemon asks for it more often where none answers
    reach = {
        "socket_path": server.endpoint.socket_path,
        "cookie": server.endpoint.cookie.hex(),
        "uid": server.endpoint.uid,
    }
    daemon = program("bench.stream_daemon", {**reach, "place": str(place / "state")})
    try:
        assert daemon.stdout is not None
        told = json.loads(daemon.stdout.readline())
        painter = Painter(reach)
        port, token = told["port"], told["token"]
        yield Side("bodyd", painter, port, [daemon.pid], lambda at: ours(found, at, token)), token
        painter.close()
    finally:
        end(daemon)
        server.stop()


@contextmanager
def _their_side(place: Path, found: Browser) -> Iterator[Side]:
    number = next(n for n in range(200, 300) if not Path(f"/tmp/.X11-unix/X{n}").exists())
    vnc, port = _free_port(), _free_port()
    options = f"-geometry 1280x800 -depth 24 -SecurityTypes None -localhost -rfbport {vnc} -ac".split()
    quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    server = subprocess.Popen(["Xtigervnc", f":{number}", *options], **quiet)
    relay = subprocess.Popen(
        ["websockify", "--web", "/usr/share/novnc", f"127.0.0.1:{port}", f"127.0.0.1:{vnc}"],
        start_new_session=True,
        **quiet,
    )
    try:
        for at in (vnc, port):
            _wait_for(at)
        painter = Painter({"display": f":{number}"})
        yield Side("noVNC", painter, port, [server.pid, relay.pid], lambda at: novnc(found, at))
        painter.close()
    finally:
        os.killpg(relay.pid, signal.SIGTERM)
        server.terminate()
        relay.wait()
        server.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


def _wait_for(port: int) -> None:
    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(port)


def _cpu(pid: int) -> float:
    """Of a process and its children that still run (websockify has one for each client)."""
    total = 0.0
    for entry in [pid, *_children(pid)]:
        fields = Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()
        total += (int(fields[11]) + int(fields[12])) / TICK
    return total


def _children(pid: int) -> list[int]:
    return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


# -- figures ---------------------------------------------------------------------------------------


def _delays(drawn: dict[int, float], shown: Sequence[tuple[int, float]]) -> list[float]:
    """Milliseconds from each frame's drawing to its showing; numbers come round every 2**BITS."""
    found = []
    numbers = sorted(drawn)
    for mark, at in shown:
        candidates = [n for n in numbers if n % 2**BITS == mark and drawn[n] <= at]
        if candidates:
            found.append(at - drawn[candidates[-1]])
    return found


def _share(values: Sequence[float], percent: int) -> float:
    if len(values) < 2:
        return float(values[0]) if values else float("nan")
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def _row(
    name: str, unit: str, values: dict[str, float], bar: float | None, *, least: bool = False
) -> dict[str, Any]:
    found = row(name, values["bodyd"], unit, bar)
    if least and bar is not None:
        found["ok"] = values["bodyd"] >= bar
    if "noVNC" in values:
        found["peer"] = {"name": "noVNC", "value": round(values["noVNC"], 1)}
    return found
