"""Debian's Chromium, driven by Playwright from a thread of its own, looking at the body through view.js."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import Page, sync_playwright

PATIENCE_MS, LOOK_MS = 60_000, 20

_OPEN = """
async ({token, options}) => {
  document.body.replaceChildren();
  const canvas = document.createElement("canvas");
  canvas.id = "screen";
  document.body.append(canvas);
  const seen = { states: [], frames: 0, stats: null, refused: [], copied: [], words: [] };
  const { connect } = await import("/view.js");
  const ticket = async () => {
    const headers = { authorization: `Bearer ${token}` };
    const response = await fetch("/v1/tickets/stream", { method: "POST", headers });
    return (await response.json()).ticket;
  };
  if (options.noVideo) delete globalThis.VideoDecoder;
  globalThis.seen = seen;
  globalThis.view = connect("/", canvas, {
    ticket,
    status: (word) => seen.words.push(word),
    state: (state) => seen.states.push(state),
    frame: (stats) => { seen.frames += 1; seen.stats = stats; },
    refused: (error) => seen.refused.push(error),
    clipboard: (text) => seen.copied.push(text),
  });
}
"""

_PIXELS = """
() => {
  const canvas = document.getElementById("screen");
  const { data, width, height } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let text = "";
  const step = 32768;
  for (let at = 0; at < data.length; at += step) text += String.fromCharCode(...data.subarray(at, at + step));
  return { width, height, data: btoa(text) };
}
"""


@contextmanager
def browser_page(url: str, token: str, **options: bool) -> Iterator[Page]:
    """The daemon's page, with a view in it and nothing else."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        try:
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            page.set_default_timeout(PATIENCE_MS)
            page.goto(f"{url}view.js")  # a page of that origin which runs nothing
            page.evaluate(_OPEN, {"token": token, "options": options})
            yield page
        finally:
            browser.close()


def pixels(page: Page) -> NDArray[np.uint8]:
    """What the canvas shows, RGB."""
    told: dict[str, Any] = page.evaluate(_PIXELS)
    raw = np.frombuffer(base64.b64decode(told["data"]), np.uint8)
    return raw.reshape(told["height"], told["width"], 4)[:, :, :3]


def wait(page: Page, condition: str) -> None:
    """Until *condition*, of `seen` and `view`, is true. (Playwright's own wait needs unsafe-eval.)"""
    for _ in range(PATIENCE_MS // LOOK_MS):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(LOOK_MS)
    raise AssertionError(f"never came true: {condition}; {page.evaluate('seen')}")
