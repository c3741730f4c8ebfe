"""The eyes on real Chromium pictures: each target where the page has it, on any seed and in any window."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest
import trio
from bodyd_adapters.scripted.eyes import Sight, Unreadable, look
from bodyd_adapters.scripted.ink import Box

from tests.fixtures_site.browser import Page, browsing
from tests.fixtures_site.screen import screen

from .sheets import Sheet

SEEDS = (2, 7, 11, 19, 26, 30, 31, 38)
SIZES = ((1280, 660), (1024, 628), (1600, 760))


def within(box: Box | None, outer: tuple[float, ...], offset: tuple[int, int] = (0, 0)) -> bool:
    """Whether the middle of *box* lies in a rectangle of the page."""
    if box is None:
        return False
    x, y = box.centre[0] - offset[0], box.centre[1] - offset[1]
    return outer[0] <= x <= outer[2] and outer[1] <= y <= outer[3]


async def check(page: Page, sight: Sight, *, panel_open: bool, offset: tuple[int, int] = (0, 0)) -> None:
    toggle, field = await page.rectangle("#toggle"), await page.rectangle("#search")
    seen, unseen = (sight.hide, sight.show) if panel_open else (sight.show, sight.hide)
    assert within(seen, toggle, offset)
    assert unseen is None
    assert within(sight.field, field, offset)
    assert sight.field.width >= 0.95 * (field[2] - field[0]) - 4
    assert (sight.heading is not None) == panel_open
    assert not any(within(box, field, offset) for box in sight.typed)


async def test_everything_is_found_on_every_seed(tmp_path: Path) -> None:
    """Button, heading and search box, open and closed, in three sizes of page."""
    async with browsing(tmp_path) as (site, page):
        for seed in SEEDS:
            await page.resize(*SIZES[seed % 3])
            for panel_open in (False, True):
                await page.show(site, seed=seed, panel_open=panel_open)
                sight = look(await page.screenshot(), word="penguin")
                await check(page, sight, panel_open=panel_open)


@pytest.mark.parametrize("size", [(1280, 800), (1024, 768)])
async def test_the_browsers_own_text_fools_nobody(tmp_path: Path, size: tuple[int, int]) -> None:
    """The same in a whole window, with tabs and an address bar around the page."""
    async with screen(size) as shown, browsing(tmp_path, size=size, display=shown.name) as (site, page):
        for seed in (3, 9, 24):
            await page.show(site, seed=seed)
            offset, toggle = await page.offset(), await page.rectangle("#toggle")
            for _ in range(60):  # nothing tells when a painted frame has reached the X server
                sight = look(shown.png(), word="penguin")
                if within(sight.show, toggle, offset):
                    break
                await trio.sleep(0.25)
            await check(page, sight, panel_open=False, offset=offset)


async def test_the_typed_word_is_read_in_its_box(tmp_path: Path) -> None:
    """Exactly that word, with the caret behind it, in the box it was typed in."""
    async with browsing(tmp_path) as (site, page):
        for seed in (2, 3, 86, 300, 305):
            await page.show(site, seed=seed, panel_open=True)
            place = await page.centre("#search")
            await page.click(*place)
            for text in ("Penguin", "pengui", "penguin"):
                await page.select_all()
                await page.type(text)
                await page.painted()
                sight = look(await page.screenshot(), word="penguin")
                assert any(box.contains(*place) for box in sight.typed) is (text == "penguin"), (seed, text)


@pytest.mark.parametrize("shop_field", [(300, 70, 560, 106), None])
def test_an_address_bar_is_no_search_box(shop_field: tuple[int, int, int, int] | None) -> None:
    """It may ask to search, too; the box that is meant stands in the button's row, or is not there."""
    sheet = Sheet().box((90, 6, 620, 40), radius=17).write("Search Example or type a URL", (120, 14), em=14)
    sheet.box((20, 70, 160, 106)).write("Hide filters", (36, 78))
    if shop_field is not None:
        sheet.box(shop_field).write("Search", (312, 78), fill="#777")
    field = look(sheet.png, word="penguin").field
    assert field == (None if shop_field is None else Box(301, 71, 560, 106))


def test_a_picture_without_the_page_shows_nothing() -> None:
    """A blank screen, and one with other words."""
    nothing = Sight(show=None, hide=None, heading=None, field=None, typed=())
    assert look(Sheet().png, word="penguin") == nothing
    other = Sheet().write("Coffee filters and water filters", (20, 30)).write("Search", (20, 80))
    assert look(other.png, word="penguin") == nothing


@pytest.mark.parametrize("data", [b"", b"\x89PNG\r\n\x1a\n", b"GIF89a" + b"\0" * 64, Sheet().png[:200]])
def test_what_is_no_png_is_unreadable(data: bytes) -> None:
    """Truncated and foreign pictures are refused, with a word of why."""
    with pytest.raises(Unreadable, match="PNG"):
        look(data, word="penguin")


@pytest.mark.parametrize("side", [6_000, 12_000, 60_000])
def test_a_picture_larger_than_any_screen_is_not_decoded(side: int) -> None:
    """Its header is enough to refuse it."""
    header = b"IHDR" + struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    data = b"IDAT" + zlib.compress(b"")
    png = b"\x89PNG\r\n\x1a\n"
    for chunk in (header, data, b"IEND"):
        png += struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
    with pytest.raises(Unreadable, match="no screenshot"):
        look(png, word="penguin")
