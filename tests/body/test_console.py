"""The owner's console in a real browser: the body live, taken over, driven by hand, handed back, stopped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio

from bodyd.client import BodyClient

from .world import World

pytest.importorskip("playwright", reason="Playwright is not installed")
from playwright.sync_api import sync_playwright

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # Playwright's own loop and pipes
PATIENCE_MS = 30_000


async def browse(link: str, scenario: Callable[[Any], None], **options: Any) -> None:
    """Run *scenario* on the page behind *link*, in a thread of its own."""

    def run() -> None:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
            )
            try:
                page = browser.new_page(viewport={"width": 1500, "height": 950}, **options)
                page.set_default_timeout(PATIENCE_MS)
                errors: list[str] = []
                page.on("pageerror", lambda error: errors.append(str(error)))
                page.goto(link)
                scenario(page)
                assert errors == []
            finally:
                browser.close()

    await trio.to_thread.run_sync(run)


async def link_of(client: BodyClient, world: World) -> str:
    ticket = (await client._json("POST", "/v1/tickets", {}))["ticket"]
    return f"{world.url}/#ticket={ticket}"


async def test_an_owner_watches_takes_over_types_and_hands_back(world: World, client: BodyClient):
    """What is typed into the canvas reaches the page in the body; an agent waits meanwhile, and goes on."""
    assert await world.page.until(lambda page: page.origin is not None, within=20)
    agent = await client.acquire("an-agent")
    await agent.screenshot()
    world.page.clear()
    x, y = world.page.at(200, 60)

    def scenario(page: Any) -> None:
        page.wait_for_selector("#live:visible")
        assert page.inner_text("#state") == "being driven"
        page.click("#takeover")
        page.wait_for_selector("#handback:visible")
        box = page.locator("#live").bounding_box()
        scale = box["width"] / 1280
        page.mouse.click(box["x"] + x * scale, box["y"] + y * scale)
        page.keyboard.type("by hand")
        page.fill("#text", " größer 漢")
        page.click("#typing button")
        assert trio.from_thread.run(_arrives, world, "by hand größer 漢"), world.page.entries("value")[-1:]
        page.click("#handback")
        page.wait_for_selector("#takeover:visible")
        page.wait_for_selector("#handback", state="hidden")

    await browse(await link_of(client, world), scenario)
    status = await client.status()
    assert (status["lease"]["state"], status["lease"]["claim"]["conversation_id"]) == ("held", "an-agent")


async def _arrives(world: World, text: str) -> bool:
    return await world.page.until(lambda page: any(e["value"] == text for e in page.entries("value")))


async def test_escape_twice_stops(world: World, client: BodyClient):
    """From anywhere on the page; then the owner lets drivers in again."""
    await client.acquire("an-agent")

    def scenario(page: Any) -> None:
        page.wait_for_selector("#live:visible")
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")
        page.wait_for_selector("#resume:visible")
        assert page.inner_text("#state") == "stopped"
        page.click("#resume")
        page.wait_for_selector("#takeover:visible")

    await browse(await link_of(client, world), scenario)
    assert (await client.status())["lease"]["state"] == "vacant"


async def test_a_phone_has_everything_within_its_width(world: World, client: BodyClient):
    """Nothing is cut off at 390 pixels."""

    def scenario(page: Any) -> None:
        page.set_viewport_size({"width": 390, "height": 844})
        page.wait_for_selector("#live:visible")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.is_visible("#stop")

    await browse(await link_of(client, world), scenario)
