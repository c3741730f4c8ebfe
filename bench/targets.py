"""What is typed into: a browser's text area and a terminal, and what they say that they got.

Both are read back by something typed after the text, which X delivers in order: whatever an app has got
by then is what arrived.
"""

from __future__ import annotations

import json
import os
import queue
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple, Protocol

import trio

from bench.xserver import Server
from bodyd.contract.atoms import ButtonDown, ButtonUp, Char, KeyDown, KeyUp, MoveTo, Pause
from bodyd.display.display import Display
from tests.display.conftest import AnyTime

F9 = 0xFFC6
READ_SECONDS = 30.0
FOCUS_SECONDS = 20.0
PAGE = b"""<!doctype html>
<meta charset="utf-8">
<title>bench area</title>
<body style="margin: 0">
<textarea id="area" style="width: 100%; height: 500px; font: 12px sans-serif" spellcheck="false"></textarea>
<script>
  const area = document.getElementById("area");
  area.addEventListener("keydown", (event) => {
    if (event.key !== "F9") return;
    event.preventDefault();
    fetch("/said", {method: "POST", body: JSON.stringify(area.value)});
  });
  new EventSource("/turns").onmessage = () => { area.value = ""; area.focus(); };
</script>
"""


class Got(NamedTuple):
    text: str
    at: float  # CLOCK_MONOTONIC


class Target(Protocol):
    name: str

    async def ready(self) -> None:
        """Make it empty, and focused."""

    async def read(self) -> Got:
        """What it got since.

        Raises:
            trio.TooSlowError.
        """


class Terminal:
    """`cat > file` in an xterm, a new one each time."""

    name = "xterm"

    def __init__(self, server: Server, display: Display) -> None:
        self._server, self._display, self._turn = server, display, 0

    async def ready(self) -> None:
        self._turn += 1
        title = f"bench terminal {self._turn}"
        command = ["xterm", "-u8", "-T", title, "-geometry", "90x30+560+40", "-e", "sh", "-c"]
        self._file = self._server.place / f"typed-{self._turn}"
        self._process = self._server.run(*command, f"exec cat > {self._file}")
        await focus(self._display, title)

    async def read(self) -> Got:
        try:
            with trio.fail_after(READ_SECONDS):
                await self._display.send([Char("\n")], AnyTime())
                while not (data := self._file.read_bytes()).endswith(b"\n"):  # noqa: ASYNC110
                    await trio.sleep(0.002)
            return Got(data[:-1].decode("utf-8", "replace"), time.perf_counter())
        finally:
            self._process.kill()
            self._process.wait()


class Browser:
    """A text area of a page in Chromium, on the screen."""

    name = "Chromium"

    def __init__(self, display: Display, site: Site) -> None:
        self._display, self._site = display, site

    async def ready(self) -> None:
        with trio.fail_after(FOCUS_SECONDS * 2):
            while not self._site.turns:  # noqa: ASYNC110
                await trio.sleep(0.05)
        for turn in self._site.turns:
            turn.put("clear")
        await focus(self._display, "bench area")
        while not self._site.said.empty():
            self._site.said.get_nowait()

    async def read(self) -> Got:
        await self._display.send([KeyDown(F9), Pause(0.01), KeyUp(F9)], AnyTime())
        with trio.fail_after(READ_SECONDS):
            while self._site.said.empty():  # noqa: ASYNC110
                await trio.sleep(0.002)
        return self._site.said.get_nowait()


class Site:
    """The page's server."""

    def __init__(self) -> None:
        self.said: queue.SimpleQueue[Got] = queue.SimpleQueue()
        self.turns: list[queue.SimpleQueue[str]] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.server.daemon_threads = True


def _handler(site: Site) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            events = self.path == "/turns"
            self.send_header("content-type", "text/event-stream" if events else "text/html")
            self.end_headers()
            if not events:
                self.wfile.write(PAGE)
                return
            turn: queue.SimpleQueue[str] = queue.SimpleQueue()
            site.turns.append(turn)
            while word := turn.get():
                self.wfile.write(f"data: {word}\n\n".encode())
                self.wfile.flush()

        def do_POST(self) -> None:
            at = time.perf_counter()
            body = self.rfile.read(int(self.headers["content-length"]))
            site.said.put(Got(json.loads(body), at))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    return Handler


@contextmanager
def browser(server: Server) -> Iterator[Callable[[Display], Browser]]:
    """Chromium on the server, with its page."""
    site = Site()
    thread = threading.Thread(target=site.server.serve_forever, daemon=True)
    thread.start()
    flags = (
        f"--app=http://127.0.0.1:{site.server.server_port}/ --user-data-dir={server.place / 'profile'} "
        "--no-first-run --no-default-browser-check --disable-gpu --disable-background-networking "
        "--password-store=basic --window-size=540,640 --window-position=0,20"
    ).split()
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    server.run("chromium", *flags, *sandbox)
    try:
        yield lambda display: Browser(display, site)
    finally:
        for turn in site.turns:
            turn.put("")
        site.server.shutdown()
        site.server.server_close()
        thread.join()


async def focus(display: Display, title: str) -> None:
    """Click into the window of that title, and wait until it is the active one."""
    with trio.fail_after(FOCUS_SECONDS):
        while True:
            window = next((w for w in await display.windows() if title in w.title), None)
            if window is not None:
                break
            await trio.sleep(0.02)
        box = window.bounds
        middle = MoveTo(box.x + box.width // 2, box.y + box.height // 2)
        while True:
            await display.send([middle, ButtonDown(1), Pause(0.01), ButtonUp(1)], AnyTime())
            await display.settle(display.activity(), quiet=0.2, cap=2)
            if any(w.active and title in w.title for w in await display.windows()):
                return


def text_of(count: int) -> str:
    """A quarter of it of 59 symbols that no western keyboard has, the rest printable ASCII."""
    choose = random.Random(7)
    strange = [
        *map(chr, range(0x430, 0x442)),
        *map(chr, range(0x3B1, 0x3BF)),
        *map(chr, range(0x4E00, 0x4E0F)),
        *map(chr, range(0x1F600, 0x1F60C)),
    ]
    plain = [*map(chr, range(0x20, 0x7F))]
    return "".join(choose.choice(strange if place % 4 == 3 else plain) for place in range(count))


def arrived(text: str, got: str) -> int:
    """How many of *text*'s characters arrived in their order: the longest common subsequence."""
    row = [0] * (len(got) + 1)
    for wanted in text:
        before = 0
        for place, character in enumerate(got, 1):
            best = before + 1 if character == wanted else max(row[place], row[place - 1])
            before, row[place] = row[place], best
    return row[-1]
