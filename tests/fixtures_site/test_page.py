"""The page in a real Chromium: it does what it shows, and reports what it did."""

from __future__ import annotations

from pathlib import Path

import trio
from bodyd_fixtures_site import URL

from .browser import browsing

CHROME_HEIGHT = 140  # pixels of the body's screen that the browser's own bars take at most


async def test_the_page_reports_what_is_done_to_it(tmp_path: Path) -> None:
    """Clicks and text arrive in order, a reload shows them, an old page says that it is out of date."""
    async with browsing(tmp_path) as (site, page):
        await page.show(site, seed=12)
        await page.click(*await page.centre("#toggle"))
        await page.click(*await page.centre("#search"))
        await page.type("penguin")
        with trio.fail_after(30):
            await site.until_success()
        kinds = [event["type"] for event in site.state()["log"]]
        assert kinds[:2] == ["shown", "toggle"]
        assert set(kinds[2:]) == {"search"}
        assert await page.evaluate("document.getElementById('caption').textContent") == "Hide filters"

        await page.call("Page.navigate", url=URL)
        await page.until("document.readyState === 'complete'")
        assert await page.evaluate("document.getElementById('search').value") == "penguin"
        assert await page.evaluate("document.getElementById('filters').hidden") is False

        site.reset()
        assert site.state()["panel_open"] is False
        await page.click(*await page.centre("#toggle"))
        await page.until("!document.getElementById('notice').hidden")
        assert site.state()["toggles"] == 0


async def test_what_the_task_needs_is_in_sight(tmp_path: Path) -> None:
    """On a small screen, with the panel open or closed, button and box are there without scrolling."""
    async with browsing(tmp_path, size=(1024, 768 - CHROME_HEIGHT)) as (site, page):
        for seed in (1, 2, 3, 5, 8, 13, 21, 34):
            for panel_open in (False, True):
                await page.show(site, seed=seed, panel_open=panel_open)
                for selector in ("#toggle", "#search"):
                    left, top, right, bottom = await page.rectangle(selector)
                    assert left >= 0, (seed, selector)
                    assert top >= 0, (seed, selector)
                    assert right <= 1024, (seed, selector)
                    assert bottom <= 768 - CHROME_HEIGHT, (seed, selector)
                assert await page.evaluate(
                    "document.fonts.check('16px \"DejaVu Sans\"') && document.title.length > 0"
                )


async def test_the_browser_asks_for_nothing_else(tmp_path: Path) -> None:
    """No request fails, none goes elsewhere, and the policy has nothing to refuse."""
    async with browsing(tmp_path) as (site, page):
        await page.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
        await page.show(site, seed=3)
        assert await page.evaluate("violations") == 0
        names = await page.evaluate("performance.getEntriesByType('resource').map(e => e.name)")
        assert names
        assert all(name.startswith("http://site.bodyd.test/") for name in names)


WATCH = "var violations = 0; addEventListener('securitypolicyviolation', () => { violations += 1; });"
