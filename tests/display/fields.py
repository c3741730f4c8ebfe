"""Text fields of real toolkits: type into one, press Return, and learn what it got."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from bodyd.contract.atoms import ButtonDown, ButtonUp, Char, MoveTo, Pause
from bodyd.display.display import Display, SendReport

from .conftest import AnyTime
from .world import APPS, SYSTEM_PYTHON, XServer, until, window_titled

PAGE = APPS / "page.html"


class Field:
    """A focused text field of some app."""

    def __init__(self, display: Display, lines: Callable[[], list[str]]) -> None:
        self._display = display
        self._lines = lines
        self._seen = 0

    async def type(self, text: str) -> tuple[str, SendReport]:
        """Type *text* and Return; what the app has got, and the report."""
        report = await self._display.send([Char(c) for c in text], AnyTime())
        await self._display.send([Char("\n")], AnyTime())
        await until(lambda: len(self._lines()) > self._seen, 60)
        got = self._lines()[self._seen]
        self._seen += 1
        return got, report


def _file_lines(path: Path) -> Callable[[], list[str]]:
    def lines() -> list[str]:
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    return lines


async def _focus(display: Display, title: str) -> None:
    window = await window_titled(display, title)
    box = window.bounds
    middle = MoveTo(box.x + box.width // 2, box.y + box.height // 2 + 8)
    await display.send([middle, ButtonDown(1), Pause(0.01), ButtonUp(1)], AnyTime())
    await display.settle(display.activity(), quiet=0.2, cap=5)


@asynccontextmanager
async def xterm(server: XServer, display: Display) -> AsyncIterator[Field]:
    """A terminal in raw mode, that speaks UTF-8 whatever the locale is."""
    log = server.place / "xterm.json"
    script = [SYSTEM_PYTHON, str(APPS / "raw_terminal.py"), str(log)]
    server.run("xterm", "-u8", "+lc", "-geometry", "100x30", "-e", *script)
    await _focus(display, "raw terminal")
    yield Field(display, _file_lines(log))


@asynccontextmanager
async def gtk(server: XServer, display: Display) -> AsyncIterator[Field]:
    """A GTK 3 entry."""
    async with _printing(server, display, "gtk_entry.py", "gtk entry") as field:
        yield field


@asynccontextmanager
async def qt(server: XServer, display: Display) -> AsyncIterator[Field]:
    """A Qt 5 line edit."""
    async with _printing(server, display, "qt_line.py", "qt line") as field:
        yield field


@asynccontextmanager
async def tk(server: XServer, display: Display) -> AsyncIterator[Field]:
    """A Tk 8.6 entry."""
    async with _printing(server, display, "tk_entry.py", "tk entry") as field:
        yield field


@asynccontextmanager
async def _printing(server: XServer, display: Display, script: str, title: str) -> AsyncIterator[Field]:
    log = server.place / f"{script}.json"
    with log.open("wb") as output:
        server.run(SYSTEM_PYTHON, str(APPS / script), stdout=output)
    await _focus(display, title)
    yield Field(display, _file_lines(log))


@asynccontextmanager
async def chromium(server: XServer, display: Display) -> AsyncIterator[Field]:
    """A textarea of a page."""
    said: list[str] = []

    class Site(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(PAGE.read_bytes())

        def do_POST(self) -> None:
            said.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    site = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    thread = threading.Thread(target=site.serve_forever, daemon=True)
    thread.start()
    flags = (
        f"--app=http://127.0.0.1:{site.server_port}/ --user-data-dir={server.place / 'profile'} "
        "--no-first-run --no-default-browser-check --disable-gpu --disable-background-networking "
        "--password-store=basic --window-size=900,600 --window-position=20,20"
    ).split()
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    server.run("chromium", *flags, *sandbox)
    try:
        await _focus(display, "page field ready")
        yield Field(display, lambda: said)
    finally:
        site.shutdown()
        site.server_close()
        thread.join()


OpenField = Callable[[XServer, Display], AbstractAsyncContextManager[Field]]
ALL: dict[str, OpenField] = {"xterm": xterm, "chromium": chromium, "gtk": gtk, "qt": qt, "tk": tk}
