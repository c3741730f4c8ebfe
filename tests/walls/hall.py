"""A site on a unix socket of the host, whose pages report to it: what the browser was made to run, tells."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from urllib.parse import parse_qsl, urlsplit

import trio

NAME = "hall.bodyd.test"
URL = f"http://{NAME}/"
_PAGE = b"""<!doctype html><html lang="en"><meta charset="utf-8"><title>hall</title>
<body style="background:#cde;height:100vh;margin:0" tabindex="0">hall<script>
const tell = (what, more) => fetch('/told?' + new URLSearchParams({what, ...more}));
const size = () => tell('size', {width: innerWidth, height: innerHeight});
addEventListener('resize', size);
const ready = () => { size(); tell('ready', {path: location.pathname}); };
requestAnimationFrame(() => requestAnimationFrame(ready));
</script></html>"""


class Hall(ThreadingMixIn, UnixStreamServer):
    """Serves `files` ({path: (type, content)}), and keeps what pages told. Read from any thread."""

    daemon_threads = True

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), _Handler)
        self.files: dict[str, tuple[str, bytes]] = {"/": ("text/html", _PAGE)}
        self.told: list[dict[str, str]] = []

    def clear(self) -> None:
        self.told.clear()

    def heard(self, what: str) -> list[dict[str, str]]:
        return [one for one in list(self.told) if one["what"] == what]

    async def until(self, what: str, *, within: float = 60.0) -> list[dict[str, str]]:
        """What was told of *what*, once there is any; waits for it, bounded."""
        with trio.move_on_after(within):
            while not self.heard(what):  # noqa: ASYNC110 (told in another thread)
                await trio.sleep(0.02)
        return self.heard(what)


class _Handler(BaseHTTPRequestHandler):
    server: Hall

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path == "/told":
            self.server.told.append(dict(parse_qsl(url.query)))
        kind, content = self.server.files.get(url.path, ("text/plain", b""))
        self.send_response(200 if url.path in ("/told", *self.server.files) else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Access-Control-Allow-Origin", "*")  # a page of a file may tell, too
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass

    def address_string(self) -> str:
        return "body"


@contextmanager
def open_hall(path: Path) -> Iterator[Hall]:
    """Serve from a thread until the context is left."""
    hall = Hall(path)
    thread = threading.Thread(target=hall.serve_forever, kwargs={"poll_interval": 0.05}, name="hall")
    thread.start()
    try:
        yield hall
    finally:
        hall.shutdown()
        thread.join()
        hall.server_close()
