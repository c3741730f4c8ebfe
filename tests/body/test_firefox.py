"""The owner's console and `<bodyd-view>` in Firefox: the body's pixels, a person's hands, no complaint."""

from __future__ import annotations

import base64
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio
from PIL import Image

from bodyd.client import BodyClient

from .firefox import FIREFOX, Tab, firefox
from .test_embed import open_site
from .world import World

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(FIREFOX is None, reason="firefox-esr is not installed"),
]
LOOKS, LOOK_SECONDS = 400, 0.1

PIXELS = """
(() => {
  const canvas = CANVAS;
  const { data, width, height } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let text = "";
  const step = 32768;
  for (let at = 0; at < data.length; at += step) text += String.fromCharCode(...data.subarray(at, at + step));
  return `${width} ${height} ${btoa(text)}`;
})()
"""


@pytest.fixture
async def tab(tmp_path: Path) -> AsyncIterator[Tab]:
    async with firefox(tmp_path) as tab:
        yield tab


async def shows_the_body(tab: Tab, client: BodyClient, canvas: str) -> bool:
    """Whether the canvas comes to have the body's own pixels, every one of them."""
    for _ in range(LOOKS):
        width, height, data = (await tab.evaluate(PIXELS.replace("CANVAS", canvas))).split()
        shown = np.frombuffer(base64.b64decode(data), np.uint8).reshape(int(height), int(width), 4)
        if np.array_equal(shown[:, :, :3], await picture(client)):
            return True
        await trio.sleep(LOOK_SECONDS)
    return False


async def picture(client: BodyClient) -> Any:
    shot = await client.screenshot()
    png = await client.image(shot.screenshot_id)
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))


async def test_an_owner_watches_takes_over_types_and_hands_back(world: World, client: BodyClient, tab: Tab):
    """The console: the screen is the body's, keys and mouse reach it, and nothing is logged as an error."""
    assert await world.page.until(lambda page: page.origin is not None, within=30)
    ticket = (await client._json("POST", "/v1/tickets", {}))["ticket"]
    await tab.goto(f"{world.url}/#ticket={ticket}")
    await drive(world, client, tab, "document")
    assert tab.errors == []


async def test_a_page_of_another_origin_does_the_same(tab: Tab):
    """`<bodyd-view>`, in the example's page."""
    with open_site() as site:
        world = site.world
        assert await world.page.until(lambda page: page.origin is not None, within=30)
        await tab.goto(f"{site.allowed}/drive")
        async with world.client() as client:
            await drive(world, client, tab, "document.querySelector('bodyd-view').shadowRoot")
    assert tab.errors == []


async def drive(world: World, client: BodyClient, tab: Tab, root: str) -> None:
    """See the body's pixels, take over, click, type, hand back; *root* has the canvas and the buttons."""
    canvas = f"{root}.querySelector('canvas')"
    await tab.until(f"{canvas}?.checkVisibility() && {canvas}.width === 1280")
    assert await shows_the_body(tab, client, canvas)
    await press(tab, root, "Take over")
    await tab.until(f"{button(root, 'Hand back')} !== undefined")
    x, y = world.page.at(200, 60)
    left, top, width, _ = await tab.box(canvas)
    await tab.click_at(left + x * width / 1280, top + y * width / 1280)
    await tab.type("By hand: größer!")
    assert await world.page.until(
        lambda page: any(e["value"] == "By hand: größer!" for e in page.entries("value"))
    ), world.page.entries("value")[-1:]
    await press(tab, root, "Hand back")
    await tab.until(f"{button(root, 'Take over')} !== undefined")
    assert (await client.status())["lease"]["state"] == "vacant"


async def press(tab: Tab, root: str, name: str) -> None:
    await tab.until(f"{button(root, name)} !== undefined")
    await tab.click(button(root, name))


def button(root: str, name: str) -> str:
    """The one of that name that shows; a script."""
    named = f"(b) => b.checkVisibility() && b.textContent.trim() === '{name}'"
    return f"[...{root}.querySelectorAll('button')].find({named})"
