"""The display alone, on an X server of its own: grab, PNG, pointer, typing, windows, proof, idling.

Peers are measured in the same run, turn by turn: a memory copy for the grab, Pillow for the PNG.
"""

from __future__ import annotations

import io
import itertools
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import trio
from PIL import Image

from bodyd.contract.atoms import Char, MoveTo
from bodyd.contract.geometry import Size
from bodyd.display.capture import Camera
from bodyd.display.connection import connect
from bodyd.display.display import Display, open_display
from tests.display import fields
from tests.display.conftest import AnyTime
from tests.display.recorder import Recorder
from tests.display.test_typing import mixed
from tests.display.world import XServer, start_window_manager

NAME = "display"
ROUNDS = 60
MOVES = 1000
Rows = list[dict[str, Any]]


def rows() -> Rows:
    with tempfile.TemporaryDirectory() as place:
        server = XServer(Path(place))
        try:
            start_window_manager(server)
            painter = Recorder(server.connect())
            desktop(painter)
            found = grab(server)
            found += trio.run(seen_and_sent, server, painter)
            painter.close()
            return found + trio.run(typed, server)
        finally:
            server.stop()


def desktop(painter: Recorder) -> None:
    """A page of text with a photograph, about as compressible as a real one."""
    choose = random.Random(1)
    painter.fill(0, 0, 1280, 800, 0xF8F8F8)
    pen = painter.window.create_gc(
        foreground=0x101030, background=0xF8F8F8, font=painter.x.display.open_font("fixed")
    )
    for line in range(14, 800, 14):
        text = "".join(choose.choice("abcdefghij klmnop qrstuvwxyz ,.") for _ in range(200))
        painter.window.draw_text(pen, 4, line, text.encode())
    shades = np.linspace(0, 200, 400)[None, :, None] + np.random.default_rng(1).integers(0, 12, (300, 400, 3))
    painter.window.put_pil_image(pen, 700, 300, Image.fromarray(shades.astype(np.uint8)))
    painter.x.display.sync()


def grab(server: XServer) -> Rows:
    """In one thread, cold: each grab after a copy of other memory of the same size."""
    camera = Camera(connect(server.endpoint))
    sources = [np.ones(1280 * 800 * 4, np.uint8) for _ in range(8)]
    target = np.empty_like(sources[0])
    grabs, copies, trips = [], [], []
    for turn in range(ROUNDS * 2):
        copies.append(timed(lambda turn=turn: np.copyto(target, sources[turn % 8])))
        trips.append(timed(camera.screen_size))
        grabs.append(timed(lambda: camera.grab(None)))
    camera.close()
    copy, trip, value = map(statistics.median, (copies, trips, grabs))
    return [
        {
            **row("grab 1280x800, p50", value, 2 * copy + 2 * trip),
            "peer": {"name": f"memory copy (a round trip is {trip:.2f})", "value": round(copy, 2)},
        }
    ]


async def seen_and_sent(server: XServer, painter: Recorder) -> Rows:
    async with open_display(server.endpoint) as display:
        return [
            *await pictures(display, painter),
            *await pointer(display),
            row("windows(), none open, p50", await p50(display.windows), 2.0),
            row("release_all + prove_quiescent, p50", await p50(lambda: proved(display)), 250.0),
            await idling(display),
        ]


async def pictures(display: Display, painter: Recorder) -> Rows:
    first = await display.capture()
    await display.capture()
    unchanged = await p50(display.capture)
    small, full = [], []
    for turn in range(ROUNDS):
        painter.fill(100 + turn * 8, 100, 4, 14, turn)
        small.append(await atimed(display.capture))
    for stripe in range(1, ROUNDS // 2):
        for band in range(13):  # every band differs, by one pixel
            painter.paint(stripe, band * 64 + 1, 1, 1, stripe * 7)
        painter.x.display.sync()
        full.append(await atimed(display.capture))
    picture = Image.open(io.BytesIO(first.png)).convert("RGB")
    peers = [timed(lambda: pillow(picture)) for _ in range(5)]
    half = Size(width=640, height=400)
    peer = {"name": "Pillow, level 1", "value": round(statistics.median(peers), 2)}
    return [
        {**row("screenshot to PNG, every band changed, p50", statistics.median(full), 10.0), "peer": peer},
        row("screenshot to PNG, one small change, p50", statistics.median(small), 4.0),
        row("screenshot to PNG, nothing changed, p50", unchanged, 2.0),
        row("screenshot to PNG at half size, p50", await p50(lambda: display.capture(None, half))),
        {
            **row("PNG size, by Pillow's", len(first.png) / len(pillow(picture)), 1.1),
            "unit": "ratio",
        },
    ]


async def pointer(display: Display) -> Rows:
    """From the event to its acknowledgement, echo and readback, within a batch; and a batch of one."""
    path = [MoveTo(turn % 1280, turn % 800) for turn in range(MOVES)]
    stamps: list[float] = []
    report = await display.send(path, AnyTime(), lambda sent: stamps.append(time.perf_counter()))
    assert report.sent == MOVES
    gaps = [1000 * (later - earlier) for earlier, later in itertools.pairwise(stamps)]
    alone = await p50(lambda: display.send([MoveTo(5, 5)], AnyTime()))
    return [
        row("pointer event to acknowledgement, p50", statistics.median(gaps), 0.2),
        row("a send of one pointer event, thread and all, p50", alone),
    ]


async def proved(display: Display) -> None:
    await display.release_all()
    assert (await display.prove_quiescent()).quiet


async def idling(display: Display) -> dict[str, Any]:
    await display.settle(display.activity())
    begun, used = time.perf_counter(), time.process_time()
    await trio.sleep(3)
    share = 100 * (time.process_time() - used) / (time.perf_counter() - begun)
    return {**row("CPU on a still screen", share, 0.5), "unit": "%"}


async def typed(server: XServer) -> Rows:
    """1,000 mixed characters with 81 new symbols into each app: how many arrive, and how fast."""
    text = mixed(1000)
    found: Rows = []
    for name, open_field in fields.ALL.items():
        async with open_display(server.endpoint) as display, open_field(server, display) as field:
            before = cpu_of("openbox")
            begun = time.perf_counter()
            report = await display.send([Char(c) for c in text], AnyTime())
            took = time.perf_counter() - begun
            got, _ = await field.type("")
            busy = cpu_of("openbox") - before
        exact = sum(a == b for a, b in zip(text, got, strict=False))
        found.append({**row(f"1,000 mixed characters into {name}", took, 1.0), "unit": "s"})
        found.append({"name": f"arrived exactly in {name}", "value": exact, "unit": "of 1000"})
        found[-1] |= {"bar": 1000, "ok": got == text and report.sent == 1000}
        found.append({**row(f"window manager's CPU for {name}", busy, 1.0), "unit": "s"})
        found.append({"name": f"keymap changes for {name}", "value": display.keymap_changes, "unit": ""})
        found[-1] |= {"bar": 1, "ok": display.keymap_changes <= 1}
    return found


def cpu_of(program: str) -> float:
    """Seconds of CPU that all processes of that name have used."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        if name == program:
            ticks += sum(map(int, rest.split()[11:13]))
    return ticks / 100


def pillow(picture: Image.Image) -> bytes:
    out = io.BytesIO()
    picture.save(out, "png", compress_level=1)
    return out.getvalue()


def timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) * 1000


async def atimed(work: Callable[[], Awaitable[object]]) -> float:
    begun = time.perf_counter()
    await work()
    return (time.perf_counter() - begun) * 1000


async def p50(work: Callable[[], Awaitable[object]]) -> float:
    await work()
    return statistics.median([await atimed(work) for _ in range(ROUNDS)])


def row(name: str, value: float, bar: float | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "value": round(value, 3), "unit": "ms"}
    return found if bar is None else {**found, "bar": round(bar, 3), "ok": value <= bar}
