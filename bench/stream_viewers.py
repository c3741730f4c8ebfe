"""Two viewers in one Chromium: our page's module and noVNC, and a probe that reads their canvases.

A frame says which one it is by six blocks of black or white, which survive any codec.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

BLOCK = 16
BITS = 6
AREA = (320, 192, 640, 360)
"""Where the video plays: left, top, width, height."""

SPOT = (600, 700)
"""Where a key's glyph appears."""

_OURS = """
async ({token}) => {
  document.body.replaceChildren();
  document.body.style.margin = "0";
  const canvas = document.createElement("canvas");
  document.body.append(canvas);
  const ticket = async () => (await (await fetch("/v1/tickets/stream", {
    method: "POST", headers: { authorization: `Bearer ${token}` } })).json()).ticket;
  const { connect } = await import("/view.js");
  globalThis.began = performance.now();
  globalThis.first = null;
  globalThis.view = connect("/", canvas, { ticket, frame: (stats) => {
    globalThis.first ??= performance.now() - globalThis.began;
    globalThis.mode = stats.mode;
  } });
}
"""

_PROBE = """
() => {
  const canvas = document.querySelector("canvas");
  const context = canvas.getContext("2d");
  const at = (x, y) => context.getImageData(x, y, 1, 1).data;
  const wall = () => performance.timeOrigin + performance.now();
  globalThis.keys = [];
  let pressed = null, before = null;
  globalThis.arm = (x, y) => { before = at(x, y).join(); pressed = null; globalThis.spot = [x, y]; };
  addEventListener("keydown", () => { pressed = performance.now(); }, true);
  const watch = new MessageChannel();
  watch.port1.onmessage = () => {
    if (globalThis.spot) {
      if (pressed !== null && at(...globalThis.spot).join() !== before) {
        globalThis.keys.push(performance.now() - pressed);
        globalThis.spot = null;
      }
      watch.port2.postMessage(0);
    }
  };
  globalThis.go = () => watch.port2.postMessage(0);
  globalThis.frames = [];
  let last = -1;
  globalThis.count = (x, y, bits, block) => {
    const { data } = context.getImageData(x, y, bits * block, 1);
    let number = 0;
    for (let bit = 0; bit < bits; bit += 1) number |= (data[4 * (bit + 0.5) * block] > 127 ? 1 : 0) << bit;
    if (number !== last) { last = number; globalThis.frames.push([number, wall()]); }
  };
  globalThis.follow = (x, y, bits, block) => {
    globalThis.frames = [];
    globalThis.timer = setInterval(() => globalThis.count(x, y, bits, block), 2);
  };
  globalThis.unfollow = () => { clearInterval(globalThis.timer); return globalThis.frames; };
}
"""


class Viewer:
    """One page that shows a screen."""

    def __init__(self, page: Page, name: str) -> None:
        self.page = page
        self.name = name

    def type(self, count: int, spot: tuple[int, int], pause_ms: int = 150) -> list[float]:
        """Press *count* keys; milliseconds from each to its pixels in the canvas."""
        self.page.evaluate("globalThis.keys = []")
        for _ in range(count):
            self.page.evaluate("([x, y]) => { arm(x, y); go(); }", list(spot))
            self.page.keyboard.press("x")
            self.page.wait_for_timeout(pause_ms)
        return [float(x) for x in self.page.evaluate("globalThis.keys")]

    def follow(self, place: tuple[int, int], seconds: float) -> list[tuple[int, float]]:
        """The numbers of the frames shown during *seconds*, and when (Unix ms)."""
        self.page.evaluate("([x, y, b, s]) => follow(x, y, b, s)", [*place, BITS, BLOCK])
        self.page.wait_for_timeout(1000 * seconds)
        return [(int(n), float(at)) for n, at in self.page.evaluate("unfollow()")]


@contextmanager
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        try:
            yield found
        finally:
            found.close()


@contextmanager
def ours(found: Browser, port: int, token: str, *, drive: bool = True) -> Iterator[Viewer]:
    page = found.new_page(viewport={"width": 1300, "height": 850})
    try:
        page.goto(f"http://127.0.0.1:{port}/view.js")  # of its origin, and runs nothing
        page.evaluate(_OURS, {"token": token})
        until(page, "globalThis.first !== null")
        page.evaluate(_PROBE)
        if drive:
            page.evaluate("view.takeOver()")
        yield Viewer(page, "bodyd")
    finally:
        page.close()


@contextmanager
def novnc(found: Browser, port: int) -> Iterator[Viewer]:
    page = found.new_page(viewport={"width": 1300, "height": 850})
    try:
        page.goto(f"http://127.0.0.1:{port}/vnc_lite.html?path=websockify")
        until(page, "document.querySelector('canvas')?.width > 1000")
        page.wait_for_timeout(1000)
        page.evaluate(_PROBE)
        page.evaluate("document.querySelector('canvas').focus()")
        yield Viewer(page, "noVNC")
    finally:
        page.close()


def until(page: Page, condition: str, seconds: float = 60) -> Any:  # noqa: ANN401
    end = time.monotonic() + seconds
    while not (value := page.evaluate(condition)):
        if time.monotonic() > end:
            raise TimeoutError(condition)
        page.wait_for_timeout(10)
    return value
