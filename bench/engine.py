"""The engine beside what people drive a desktop with today, in one run on one X server.

bodyd's display room, in this process, against pyautogui, xdotool and scrot, mss and Pillow, pynput, and
cua's computer-server over its own HTTP API (peers.py). All act turn by turn, in rounds, so whatever else
the machine does meets them alike; figures are medians. The door around it (lease, journal, HTTP) has a
benchmark of its own: door.py.
"""

from __future__ import annotations

import io
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import trio
from PIL import Image

from bench import targets
from bench.comparison import Actor, Comparison, row
from bench.display import desktop, pillow, timed
from bench.peers import PINS, Peer, PeerFailed, Took, install_packages
from bench.targets import Target, Terminal
from bench.witness import Seen, Witness, flickering
from bench.xserver import Server
from bodyd.contract.atoms import Atom, ButtonDown, ButtonUp, Char, MoveTo
from bodyd.display.capture import Camera
from bodyd.display.connection import connect
from bodyd.display.display import Display, open_display
from tests.display.conftest import AnyTime
from tests.display.recorder import Recorder

NAME = "engine"
SHOT_ROUNDS = 15
INPUT_ROUNDS = 20
TEXT_ROUNDS = 5
MOVES = 1000
FRAMES = 5000
SHORT = "the quick brown fox jumps over a lazy dog and rests"
WATCHED_SECONDS = 12.0
TYPING_SECONDS = 45.0
RUN_SECONDS = 300.0
CAPTURING = ("pyautogui", "xdotool + scrot", "mss + Pillow", "cua-computer-server")
TYPING = ("pyautogui", "xdotool + scrot", "pynput", "cua-computer-server")
CLICKING = (*TYPING, "pyautogui, PAUSE = 0")
Rows = list[dict[str, Any]]


class Ours:
    """bodyd's display, called as the door calls it."""

    name = "bodyd"

    def __init__(self, display: Display) -> None:
        self.display = display
        self.png = b""

    async def call(self, do: str, *, within: float = 30.0, x: int = 0, y: int = 0, text: str = "") -> Took:
        atoms: list[Atom] = [Char(character) for character in text]
        if do == "click":
            atoms = [MoveTo(x, y), ButtonDown(1), ButtonUp(1)]
        used, begun = time.process_time(), time.perf_counter()
        if do == "screenshot":
            self.png = (await self.display.capture()).png
        else:
            report = await self.display.send(atoms, AnyTime())
            assert report.sent == len(atoms), report
        ended = time.perf_counter()
        return Took(begun, ended, time.process_time() - used)


def rows() -> Rows:
    install_packages()
    with tempfile.TemporaryDirectory(prefix="bodyd-bench-") as place:
        server = Server(Path(place))
        try:
            peers = {name: Peer(name, server) for name in PINS}
            return trio.run(measure, server, peers)
        finally:
            server.stop()


async def measure(server: Server, peers: dict[str, Peer]) -> Rows:
    end = time.monotonic() + RUN_SECONDS
    painter = Recorder(server.connect())
    desktop(painter)
    found = grabs(server)
    async with open_display(server.endpoint) as display:
        ours = Ours(display)
        found += await screenshots(server, ours, [peers[name] for name in CAPTURING], painter)
        painter.close()
        found.append(torn(server))
        found.append(await pointer(display))
        witness = Witness(server)
        found += await inputs(ours, peers, witness)
        with targets.browser(server) as page:
            for target in (page(display), Terminal(server, display)):
                found += await typed(server, ours, [peers[name] for name in TYPING], target, witness, end)
    return found


# -- seeing ---------------------------------------------------------------------------------------


def grabs(server: Server) -> Rows:
    """In one thread, cold: each grab after a copy of other memory of the same size."""
    camera = Camera(connect(server.endpoint))
    sources = [np.ones(1280 * 800 * 4, np.uint8) for _ in range(8)]
    target = np.empty_like(sources[0])
    taken: dict[str, list[float]] = defaultdict(list)
    for turn in range(120):
        taken["copy"].append(timed(partial(np.copyto, target, sources[turn % 8])))
        taken["trip"].append(timed(camera.screen_size))
        taken["grab"].append(timed(lambda: camera.grab(None)))
    camera.close()
    copy, trip, value = (statistics.median(taken[what]) for what in ("copy", "trip", "grab"))
    peer = {"name": f"cold memory copy (a round trip: {trip:.2f} ms)", "value": round(copy, 3)}
    return [{**row("raw grab, 1280x800", value, "ms", 2 * copy + trip), "peer": peer}]


def torn(server: Server) -> dict[str, Any]:
    """Grabs while another client paints the whole screen in two colours, as fast as it can."""
    camera = Camera(connect(server.endpoint))
    broken, colours = 0, set()
    with flickering(server):
        for _ in range(FRAMES):
            pixels, _ = camera.grab(None)
            column = np.frombuffer(pixels, np.uint32).reshape(800, 1280)[:, 640] & 0xFFFFFF
            broken += int((column != column[0]).any())
            colours.add(int(column[0]))
    camera.close()
    assert len(colours) >= 2, "the painter did not paint"
    return row(f"torn frames of {FRAMES:,}, while the screen is repainted", broken, "", 0)


async def screenshots(server: Server, ours: Ours, peers: Sequence[Peer], painter: Recorder) -> Rows:
    def whole(turn: int) -> None:
        for band in range(13):  # every band of the encoder's differs
            painter.paint(turn + 1, band * 64 + 1, 1, 1, turn * 7 + 1)
        painter.x.display.sync()

    def small(turn: int) -> None:
        painter.fill(100 + turn * 8, 100, 4, 14, turn)

    changes: dict[str, Callable[[int], None]] = {
        "all changed": whole,
        "one small change": small,
        "nothing changed": lambda turn: None,
    }
    seen = Comparison("screenshot", ours, peers)
    for turn in range(SHOT_ROUNDS):
        for what, change in changes.items():
            for place, actor in enumerate(seen.actors):
                if actor is ours:  # what changed meanwhile for the others is no part of it
                    await ours.call("screenshot")
                change(turn * len(seen.actors) + place)
                used = server.cpu()
                took = await seen.attempt(actor)
                if took is not None:
                    seen.add(what, actor, took.ms)
                    seen.add(f"{what}: CPU", actor, (took.cpu + server.cpu() - used) * 1000)
    found: Rows = []
    for what, bar in zip(changes, (10.0, 4.0, 2.0), strict=True):
        found += seen.rows(what, f"screenshot to PNG, {what}", "ms", bar)
    slow, fast = seen.median("all changed", peers[0]), seen.median("all changed", ours)
    if slow is not None and fast is not None:
        times = row(f"the same, all changed: times as fast as {peers[0].name}", slow / fast, "x")
        found.append({**times, "bar": ">= 10", "ok": slow >= 10 * fast})
    found += seen.rows("all changed: CPU", "CPU per screenshot, all changed, X server's included", "ms")
    return [*found, await same_picture(server, ours, peers)]


async def same_picture(server: Server, ours: Ours, peers: Sequence[Peer]) -> dict[str, Any]:
    """Every picture shows the same; the size of ours."""
    await ours.call("screenshot")
    picture = Image.open(io.BytesIO(ours.png)).convert("RGB")
    for peer in peers:
        path = server.place / "peer.png"
        try:
            await peer.call("screenshot")
            await peer.call("save", path=str(path))
        except PeerFailed:
            continue
        shot = Image.open(path).convert("RGB")
        assert shot.size == picture.size, (peer.name, shot.size)
        differing = (np.asarray(shot) != np.asarray(picture)).any(axis=2).sum()
        assert differing < 1000, (peer.name, differing)  # some draw the pointer in
    size = len(pillow(picture)) / 1000
    size_row = row("size of the PNG", round(len(ours.png) / 1000, 1), "KB", round(size * 1.1, 1))
    return {**size_row, "peer": {"name": "Pillow, level 1", "value": round(size, 1)}}


# -- acting ---------------------------------------------------------------------------------------


async def pointer(display: Display) -> dict[str, Any]:
    """From one event to the next within a batch: sent, acknowledged, read back."""
    path = [MoveTo(turn % 1280, turn % 800) for turn in range(MOVES)]
    stamps: list[float] = []
    report = await display.send(path, AnyTime(), lambda sent: stamps.append(time.perf_counter()))
    assert report.sent == MOVES
    gaps = [1000 * (later - earlier) for earlier, later in pairwise(stamps)]
    return row("pointer event to acknowledgement", statistics.median(gaps), "ms", 0.2)


async def inputs(ours: Ours, peers: dict[str, Peer], witness: Witness) -> Rows:
    """Clicks and key presses into the witness's window."""
    clicks = Comparison("click", ours, [peers[name] for name in CLICKING])
    keys = Comparison("type", ours, [peers[name] for name in TYPING])
    witness.show()
    for turn in range(INPUT_ROUNDS):
        for actor in clicks.actors:
            took = await clicks.attempt(actor, x=100 + turn * 20, y=200 + turn * 10)
            keep(clicks, actor, took, witness.seen(), "press")
        for actor in keys.actors:
            took = await keys.attempt(actor, text="abcde"[turn % 5])
            keep(keys, actor, took, witness.seen(), "key")
    for _ in range(TEXT_ROUNDS):
        for actor in keys.actors:
            took = await keys.attempt(actor, text=SHORT)
            if took is not None:
                keys.add("each", actor, took.ms / len(SHORT))
            witness.seen()
    witness.hide()
    return [
        *clicks.rows("seen", "click, from the call to the event in an app", "ms"),
        *clicks.rows("call", "click, the whole call", "ms"),
        *keys.rows("seen", "one key, from the call to the event in an app", "ms"),
        *keys.rows("call", "one key, the whole call", "ms"),
        *keys.rows("each", f"each key of {len(SHORT)} plain ones", "ms"),
    ]


def keep(made: Comparison, actor: Actor, took: Took | None, seen: Sequence[Seen], kind: str) -> None:
    """The call's time, and that of the event it caused."""
    if took is None:
        return
    made.add("call", actor, took.ms)
    stamp = next((event.stamp for event in seen if event.kind == kind), None)
    if stamp is not None:
        made.add("seen", actor, (stamp - took.begun) * 1000)


async def typed(
    server: Server, ours: Ours, peers: Sequence[Peer], target: Target, witness: Witness, end: float
) -> Rows:
    """1,000 mixed characters into *target*, by each peer once and by us before each."""
    made = Comparison("type", ours, peers)
    for peer in peers:
        if time.monotonic() > end:
            peer.notes.setdefault("type", "no time was left for it")
        for actor in (ours, peer):
            print(f"  typing into {target.name}: {actor.name}", flush=True)
            restores = ours.display.keymap_restores
            try:
                await one_text(server, actor, target, witness, made)
            except (PeerFailed, trio.TooSlowError) as exc:
                why = str(exc) if isinstance(exc, PeerFailed) else "what it typed could not be read back"
                print(f"    {why}", flush=True)
                if actor is ours:
                    made.add("right", ours, 0)
            if actor is ours:
                await restored(ours.display, restores)
            await server.put_back()
    name = f"1,000 mixed characters into {target.name}"
    first, *others = made.rows("right", f"{name}: right", "")
    worst = made.worst("right")
    return [
        {**first, "value": worst, "bar": ">= 1000", "ok": worst == 1000},
        *others,
        *made.rows("call", f"{name}: the call", "s", 1.0),
        *made.rows("read", f"{name}: until the app has them", "s"),
        *made.rows("cpu", f"{name}: CPU, X server's included", "ms"),
        *made.rows("changes", f"{name}: changes of the keymap", "", 1),
        *made.rows("manager", f"{name}: window manager's CPU", "s", 1.0),
    ]


async def one_text(server: Server, actor: Actor, target: Target, witness: Witness, made: Comparison) -> None:
    text = targets.text_of(1000)
    await target.ready()
    await server.manager_calm(WATCHED_SECONDS)
    witness.seen()
    used, busy = server.cpu(), server.manager_cpu()
    took = await actor.call("type", within=TYPING_SECONDS, text=text)
    cpu = took.cpu + server.cpu() - used
    changes = sum(event.kind == "mapping" for event in witness.seen())
    got = await target.read()
    await server.manager_calm(WATCHED_SECONDS)
    made.add("right", actor, targets.arrived(text, got.text))
    made.add("call", actor, took.ms / 1000)
    made.add("read", actor, got.at - took.begun)
    made.add("cpu", actor, cpu * 1000)
    made.add("changes", actor, changes)
    made.add("manager", actor, server.manager_cpu() - busy)


async def restored(display: Display, before: int) -> None:
    """Wait until the display has put the keymap back as it was found: after two idle seconds."""
    with trio.move_on_after(5):
        while display.keymap_restores == before:  # noqa: ASYNC110  nothing tells
            await trio.sleep(0.05)
