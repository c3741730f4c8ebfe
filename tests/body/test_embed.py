"""`<bodyd-view>` in a page of another origin: the example of docs/how-to/embed.md, in a real browser."""

from __future__ import annotations

import base64
import io
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio
from PIL import Image

from bodyd.contract.lease import Scope
from bodyd.http.tokens import read_token

from .world import World, folder, running_world

pytest.importorskip("playwright", reason="Playwright is not installed")
from playwright.sync_api import Browser, Page, sync_playwright

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # Playwright's own loop and pipes
EXAMPLE = Path(__file__).resolve().parents[2] / "examples/embed/host.py"
PATIENCE_MS, LOOK_MS, LOOKS = 30_000, 50, 600

PIXELS = """
(view) => {
  const canvas = view.shadowRoot.querySelector("canvas");
  const { data, width, height } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let text = "";
  const step = 32768;
  for (let at = 0; at < data.length; at += step) text += String.fromCharCode(...data.subarray(at, at + step));
  return { width, height, data: btoa(text) };
}
"""

WATCH = """
(view) => {
  globalThis.heard = { driver: [], status: [], refused: [] };
  for (const [name, told] of Object.entries(heard))
    view.addEventListener(name, ({ detail }) => told.push(detail));
}
"""


@dataclass
class Site:
    """The example, running; `localhost` is let in by the body, `127.0.0.1` is not."""

    port: int
    world: World

    @property
    def allowed(self) -> str:
        return f"http://localhost:{self.port}"

    @property
    def stranger(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def token(self, scope: Scope = Scope.OWNER) -> str:
        return read_token(self.world.config.state / "private", scope)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with open_site() as site:
        yield site


@contextmanager
def open_site() -> Iterator[Site]:
    """A body, and the example before it."""
    with folder() as root:
        port = free_port()
        http = {"port": 0, "allowed_origins": [f"http://localhost:{port}"]}
        with running_world(root, http=http) as world:
            site = Site(port, world)
            with running_example(site):
                yield site


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running_example(site: Site) -> Iterator[None]:
    with subprocess.Popen(
        [sys.executable, str(EXAMPLE), "--body", site.world.url, "--port", str(site.port)],
        env={**os.environ, "BODYD_TOKEN": site.token()},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as example:
        try:
            assert example.stdout is not None
            assert f":{site.port}/" in example.stdout.readline()
            yield
        finally:
            example.terminate()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        try:
            yield browser
        finally:
            browser.close()


@pytest.fixture
def page(browser: Browser, site: Site) -> Iterator[Page]:
    """A tab; afterwards nobody has the body."""
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    page.set_default_timeout(PATIENCE_MS)
    try:
        yield page
    finally:
        page.close()
        trio.run(vacate, site)


async def vacate(site: Site) -> None:
    """Free, and in an epoch that is no person's: of theirs no picture is kept."""
    async with site.world.client() as client:
        if (await client.status())["lease"]["state"] != "vacant":
            await client.revoke(reason="the test is over")
        await (await client.acquire("next")).release()


def until(page: Page, condition: str) -> None:
    """Until *condition*, of `view` and `heard`, is true. (Playwright's own wait needs unsafe-eval.)"""
    script = f"() => {{ const view = document.querySelector('bodyd-view'); return {condition}; }}"
    for _ in range(LOOKS):
        if page.evaluate(script):
            return
        page.wait_for_timeout(LOOK_MS)
    raise AssertionError(f"never came true: {condition}")


def shows_the_body(page: Page, site: Site) -> bool:
    """Whether the canvas comes to have the body's own pixels, every one of them."""
    for _ in range(LOOKS):
        told: dict[str, Any] = page.eval_on_selector("bodyd-view", PIXELS)
        raw = np.frombuffer(base64.b64decode(told["data"]), np.uint8)
        shown = raw.reshape(told["height"], told["width"], 4)[:, :, :3]
        if np.array_equal(shown, trio.run(screenshot, site)):
            return True
        page.wait_for_timeout(LOOK_MS)
    return False


async def screenshot(site: Site) -> Any:
    async with site.world.client() as client:
        shot = await client.screenshot()
        png = await client.image(shot.screenshot_id)
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))


async def lease(site: Site) -> dict[str, Any]:
    async with site.world.client() as client:
        return (await client.status())["lease"]


def test_a_page_of_another_origin_shows_the_bodys_pixels(page: Page, site: Site):
    """By a ticket of the host's server; no token of the body is in anything that the page gets or sends."""
    seen: list[str] = []
    page.on("request", lambda request: seen.append(f"{request.url} {request.headers} {request.post_data}"))
    page.on("response", lambda response: seen.append(response.text() if response.ok else ""))
    page.goto(site.allowed)
    until(page, "view.status === 'open' && view.state?.driver === 'nobody'")
    assert shows_the_body(page, site)
    assert page.get_by_role("status").inner_text() == "Nobody has the body."
    assert page.get_by_role("button").count() == 0
    assert page.get_by_label("The desk's screen").count() == 1
    told = "".join([*seen, page.content()])
    assert f"{site.world.url}/bodyd-view.js" in told
    assert not [scope for scope in Scope if site.token(scope) in told]


def test_a_page_of_an_origin_that_is_not_allowed_shows_nothing(page: Page, site: Site):
    """It gets neither the module nor a connection, even with a ticket that is good elsewhere."""
    page.goto(site.stranger)
    page.wait_for_load_state("networkidle")
    assert page.evaluate("customElements.get('bodyd-view') === undefined")
    knock = """
    async ([url, ticket]) => new Promise((resolve) => {
      const socket = new WebSocket(url, ["bodyd.stream.v1", `bodyd.ticket.${ticket}`]);
      socket.onmessage = ({ data }) => resolve(data);
      socket.onclose = ({ code }) => resolve(code);
    })
    """
    url, ticket = f"ws{site.world.url[4:]}/v1/stream", mint(site)
    assert page.evaluate(knock, [url, ticket]) == 1006
    page.goto(site.allowed)
    until(page, "view?.status === 'open'")
    assert '"unauthorized"' in page.evaluate(knock, [url, "bodyd_stream_guessed"])


def mint(site: Site, scope: Scope = Scope.OWNER) -> str:
    async def ask() -> str:
        async with site.world.client(scope) as client:
            return str((await client._json("POST", "/v1/tickets/stream", {}))["ticket"])

    return trio.run(ask)


def test_a_viewers_ticket_does_not_act(page: Page, site: Site):
    """Whatever the page claims of itself: the body refuses, in words, and nothing of it has changed."""
    page.goto(site.allowed)
    until(page, "view?.status === 'open' && view.state !== null")
    page.eval_on_selector("bodyd-view", WATCH)
    own = "(view) => view.takeOver().then(() => 'taken', (error) => error.message)"
    assert "attribute `drive`" in page.eval_on_selector("bodyd-view", own)
    page.eval_on_selector("bodyd-view", "(view) => view.setAttribute('drive', '')")
    assert page.get_by_role("button").count() == 0
    forced = "(view) => view.takeOver().then(() => 'taken', (error) => `${error.code}: ${error.message}`)"
    assert page.eval_on_selector("bodyd-view", forced).startswith("forbidden: this connection watches")
    page.eval_on_selector("bodyd-view", "(view) => view.sendText('no')")
    until(page, "heard.refused.some((error) => error.of === 'text' && error.code === 'forbidden')")
    assert trio.run(lease, site)["state"] == "vacant"


@pytest.mark.parametrize("kind", ["used", "unknown"])
def test_a_ticket_that_is_no_longer_good_is_refused_in_words(page: Page, site: Site, kind: str):
    """The page is told, and shows it; with a good one it is let in by itself.

    One that has expired is not told apart from these (tests/http/test_tickets.py).
    """
    page.goto(site.allowed)
    until(page, "view?.status === 'open'")
    stale = "bodyd_stream_of_long_ago"
    if kind == "used":
        stale = mint(site)
        use = "(view, ticket) => { view.ticket = async () => ticket; }"
        page.eval_on_selector("bodyd-view", use, stale)
        until(page, "view.status === 'open' && view.state !== null")
    page.eval_on_selector("bodyd-view", WATCH)
    again = """
    async (view, stale) => {
      const tickets = [stale];
      const fresh = async () => (await (await fetch("/ticket", { method: "POST" })).json()).ticket;
      view.remove();
      await new Promise((resolve) => setTimeout(resolve));
      view.ticket = async () => tickets.pop() ?? await fresh();
      globalThis.shown = [];
      const wrong = view.shadowRoot.querySelector("[role=alert]");
      new MutationObserver(() => shown.push(wrong.textContent)).observe(wrong, { childList: true });
      document.body.append(view);
    }
    """
    page.eval_on_selector("bodyd-view", again, stale)
    until(page, "view.status === 'open' && view.state !== null")
    (refused,) = page.evaluate("heard.refused")
    assert refused["code"] == "unauthorized"
    assert "used already or is too old" in refused["message"]
    assert refused["message"] in page.evaluate("shown")
    assert page.get_by_role("alert").count() == 0


def test_a_person_drives_by_the_keyboard_alone_and_hands_back(page: Page, site: Site):
    """Tab to the button, type, leave by Ctrl+Alt+Home, go in again by Enter; the page hears who drives."""
    assert trio.run(arrived, site, None)
    page.goto(f"{site.allowed}/drive")
    until(page, "view?.status === 'open' && view.state !== null")
    page.eval_on_selector("bodyd-view", WATCH)
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    until(page, "view.driving")
    click_the_field(page, site)
    page.keyboard.type("by ")
    page.keyboard.press("Control+Alt+Home")
    assert focused(page) == "screen"
    page.keyboard.type("none of this")
    page.keyboard.press("Enter")
    page.keyboard.type("hand")
    assert trio.run(arrived, site, "by hand"), site.world.page.entries("value")[-1:]
    page.keyboard.press("Control+Alt+Home")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    until(page, "!view.driving && view.state.driver === 'nobody'")
    assert focused(page) == "screen"
    drivers = [(told["driver"], told["yours"]) for told in page.evaluate("heard.driver")]
    assert ("person", True) in drivers
    assert drivers[-1] == ("nobody", False)
    assert page.evaluate("heard.refused") == []


def focused(page: Page) -> str:
    return str(page.evaluate("document.querySelector('bodyd-view').shadowRoot.activeElement?.id"))


def click_the_field(page: Page, site: Site) -> None:
    x, y = site.world.page.at(200, 60)
    box = page.locator("bodyd-view canvas").first.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + x * box["width"] / 1280, box["y"] + y * box["width"] / 1280)


async def arrived(site: Site, text: str | None) -> bool:
    """Until the page in the body has that text; or, with none, until it is there at all."""

    def there(page: Any) -> bool:
        return (
            page.origin is not None
            if text is None
            else any(e["value"] == text for e in page.entries("value"))
        )

    return await site.world.page.until(there)


def test_a_view_that_is_taken_away_leaves_the_body_free(page: Page, site: Site):
    """Moved in the page, it goes on; removed while it drives, it hands back and its connection ends."""
    page.goto(f"{site.allowed}/drive")
    until(page, "view?.status === 'open' && view.state !== null")
    page.eval_on_selector("bodyd-view", WATCH)
    page.eval_on_selector("bodyd-view", "(view) => document.querySelector('h1').before(view)")
    page.eval_on_selector("bodyd-view", "(view) => view.takeOver('to test')")
    assert page.evaluate("heard.status") == []
    assert trio.run(lease, site)["claim"]["kind"] == "person"
    page.eval_on_selector("bodyd-view", "(view) => { globalThis.gone = view; view.remove(); }")
    for _ in range(LOOKS):
        if trio.run(lease, site)["state"] == "vacant":
            break
        page.wait_for_timeout(LOOK_MS)
    assert trio.run(lease, site)["state"] == "vacant"
    assert page.evaluate("gone.status") == "closed"
    page.evaluate("gone.addEventListener('frame', () => { globalThis.again = true; })")
    page.evaluate("document.body.append(gone)")
    until(page, "view.status === 'open' && view.state?.driver === 'nobody' && globalThis.again")
