"""A page on a unix socket of the host, which the body reaches by `[egress.local]`; it says what it saw."""

from __future__ import annotations

import re
import socket
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

URL = "http://page.bodyd.test/"
_PAGE = b"""<!doctype html><meta charset="utf-8"><title>page</title><body style="background:#7cf">hello
<script>
localStorage.visits = 1 + Number(localStorage.visits || 0);
document.cookie = "seen=yes; max-age=86400; path=/";
requestAnimationFrame(() => requestAnimationFrame(() => fetch("/painted?" + localStorage.visits)));
</script>"""


@dataclass
class Site:
    """What the browser asked for: `painted` holds the visit count that each painted page reported."""

    path: str
    heads: list[bytes] = field(default_factory=list)
    painted: list[int] = field(default_factory=list)
    changed: trio.Event = field(default_factory=trio.Event)

    @property
    def config(self):
        return {"local": {"page.bodyd.test:80": self.path}}

    async def paint(self, count):
        """Wait until *count* pages have been painted in all."""
        while len(self.painted) < count:
            await self.changed.wait()
        return self.painted[count - 1]

    async def handle(self, stream):
        head = b""
        while b"\r\n\r\n" not in head:
            piece = await stream.receive_some(4096)
            if not piece:
                return
            head += piece
        self.heads.append(head)
        if found := re.match(rb"GET /painted\?(\d+)", head):
            self.painted.append(int(found[1]))
            self.changed.set()
            self.changed = trio.Event()
        body = _PAGE if head.startswith(b"GET / ") else b""
        answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(body)
        await stream.send_all(answer + body)
        await stream.aclose()


@asynccontextmanager
async def open_site(place):
    """Serve the page until the context is left."""
    site = Site(str(place / "page.sock"))
    listening = trio.socket.socket(socket.AF_UNIX)
    await listening.bind(site.path)
    listening.listen(16)
    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, site.handle, [trio.SocketListener(listening)])
        yield site
        nursery.cancel_scope.cancel()
