"""A page that reports every event it gets: the receiving app's own log, kept outside the body."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from quart import Response, request
from quart_trio import QuartTrio

LOOK_SECONDS = 0.02

HTML = """<!doctype html><html lang="en"><meta charset="utf-8"><title>event log</title>
<style>
  body { margin: 0; font: 16px "DejaVu Sans"; background: #fff; }
  #field { position: absolute; left: 40px; top: 40px; width: 600px; height: 40px; font: inherit; }
  #box { position: absolute; left: 40px; top: 120px; width: 200px; height: 120px; background: #c33; }
  #dead { position: absolute; left: 300px; top: 120px; width: 200px; height: 120px; background: #eee; }
  #long { position: absolute; left: 40px; top: 280px; width: 400px; height: 200px; overflow: auto; }
  #pick { position: absolute; left: 540px; top: 220px; width: 200px; height: 40px; font: inherit; }
  #open { position: absolute; left: 540px; top: 120px; width: 200px; height: 60px; }
</style>
<textarea id="field"></textarea><div id="box"></div><div id="dead"></div>
<button id="open" onclick="document.title = 'opened'">retitle</button>
<select id="pick"><option>one</option><option>two</option><option>three</option></select>
<div id="long"><div style="height: 4000px; background: linear-gradient(#fff, #36c)"></div></div>
<script>
  const load = performance.timeOrigin, unread = [];
  let count = 0, telling = false;
  const tell = async () => {  // one report at a time, and again until it has arrived
    if (telling) return;
    telling = true;
    while (unread.length) {
      const entries = unread.slice();
      const answer = await fetch('/log', {method: 'POST', body: JSON.stringify(entries)}).catch(() => null);
      if (answer?.ok) unread.splice(0, entries.length);
    }
    telling = false;
  };
  const send = (entry) => { unread.push({load, n: count++, ...entry}); tell(); };
  for (const name of ['mousedown', 'mouseup', 'click', 'dblclick', 'auxclick', 'contextmenu'])
    document.addEventListener(name, (e) => send({name, x: e.clientX, y: e.clientY, button: e.button,
      clicks: e.detail, target: e.target.id, ctrl: e.ctrlKey, shift: e.shiftKey, trusted: e.isTrusted}),
      true);
  document.addEventListener('mousemove', (e) => e.buttons &&
    send({name: 'drag', x: e.clientX, y: e.clientY}));
  document.addEventListener('keydown', (e) => send({name: 'keydown', key: e.key, code: e.code,
    ctrl: e.ctrlKey, shift: e.shiftKey, alt: e.altKey}), true);
  document.addEventListener('keyup', (e) => send({name: 'keyup', key: e.key}), true);
  const on = (id, event, entry) =>
    document.getElementById(id).addEventListener(event, (e) => send(entry(e.target)));
  on('field', 'input', (field) => ({name: 'value', value: field.value}));
  document.getElementById('field').addEventListener('input', (e) => {
    if (e.target.value.startsWith('title:')) document.title = e.target.value.slice(6);
  });
  on('pick', 'change', (list) => ({name: 'picked', value: list.value}));
  on('long', 'scroll', (area) => ({name: 'scroll', top: area.scrollTop}));
  window.addEventListener('contextmenu', (e) => e.preventDefault());
  const where = () => send({name: 'ready', screenX: window.screenX, screenY: window.screenY,
    screen: [screen.width, screen.height], outer: [window.outerWidth, window.outerHeight],
    inner: [window.innerWidth, window.innerHeight]});
  requestAnimationFrame(() => requestAnimationFrame(where));
  window.addEventListener('resize', where);
  const turn = (time) => {
    document.getElementById('long').style.background = `hsl(${time / 10 % 360} 50% 50%)`;
    requestAnimationFrame(turn);
  };
  if (location.search === '?animated') requestAnimationFrame(turn);
</script></html>"""


def _maximised(entry: dict[str, Any]) -> bool:
    """By now: the outer size comes before the inner one, and a maximised window has no border."""
    return bool(entry["outer"] == entry["screen"] and entry["outer"][0] == entry["inner"][0])


class Page:
    """Serves the page on a unix socket, and keeps what it reports. Read from any thread."""

    def __init__(self, socket_path: Path) -> None:
        self.socket_path = socket_path
        self._entries: list[dict[str, Any]] = []
        self._told: set[tuple[Any, Any]] = set()
        self._lock = threading.Lock()
        self.origin: tuple[int, int] | None = None

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        app = QuartTrio("page")

        @app.get("/")
        async def index() -> Response:
            self._note({"name": "visit", "cookie": request.cookies.get("seen")})
            response = Response(HTML, content_type="text/html; charset=utf-8")
            response.headers["cache-control"] = "no-store"
            response.set_cookie("seen", "once", max_age=86_400)
            return response

        @app.get("/favicon.ico")
        async def icon() -> Response:
            return Response(b"", status=204)

        @app.post("/log")
        async def log() -> Response:
            for entry in json.loads(await request.get_data()):
                if entry["name"] == "ready" and _maximised(entry):
                    self.origin = (entry["screenX"], entry["screenY"] + entry["outer"][1] - entry["inner"][1])
                self._note(entry)
            return Response(b"", status=204)

        config = Config()
        config.bind = [f"unix:{self.socket_path}"]
        config.umask = 0o177
        config.graceful_timeout = 0.1
        config.accesslog = config.errorlog = None
        async with trio.open_nursery() as nursery:
            await nursery.start(lambda task_status: serve(app, config, task_status=task_status))
            task_status.started()

    def _note(self, entry: dict[str, Any]) -> None:
        """Keep *entry*; what the page has told twice counts once."""
        which = (entry.get("load"), entry.get("n"))
        with self._lock:
            if which == (None, None) or which not in self._told:
                self._told.add(which)
                self._entries.append(entry)

    def entries(self, *names: str) -> list[dict[str, Any]]:
        """What has arrived so far, in the page's own order."""
        with self._lock:
            found = [e for e in self._entries if not names or e["name"] in names]
        return sorted(found, key=lambda e: (e.get("load", 0), e.get("n", 0)))

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()

    async def until(self, met: Any, *, within: float = 10.0) -> bool:
        """Wait, bounded, until *met(self)*: the page's reports come when they come."""
        for _ in range(int(within / LOOK_SECONDS)):
            if met(self):
                return True
            await trio.sleep(LOOK_SECONDS)
        return bool(met(self))

    def at(self, x: int, y: int) -> tuple[int, int]:
        """The body's pixel of a page coordinate."""
        assert self.origin is not None, "the page has not reported yet"
        return self.origin[0] + x, self.origin[1] + y
