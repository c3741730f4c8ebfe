"""view.js in a real browser: the canvas has the body's pixels, and what is typed there reaches an app."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio

from bodyd.contract.lease import Scope
from tests.display.recorder import Recorder
from tests.display.world import XServer

from .conftest import World, open_world
from .painter import Paint
from .test_person import typed
from .test_video import moving

pytest.importorskip("playwright", reason="Playwright is not installed")
from .browser import browser_page, pixels, wait

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # Playwright's own loop and pipes


async def look(
    world: World, scenario: Callable[[Any], object], scope: Scope = Scope.OWNER, **options: bool
) -> None:
    """Run *scenario* on a page with a view, in a thread of its own."""
    token, url = world.services.tokens.token(scope), f"http://127.0.0.1:{world.port}/"

    def run() -> None:
        with browser_page(url, token, **options) as page:
            scenario(page)

    await trio.to_thread.run_sync(run)


def body_pixels(world: World) -> Any:
    return trio.from_thread.run(world.pixels)


def exactly_the_same(page: Any, world: World) -> None:
    wait(page, "seen.stats?.exact")
    for _ in range(50):
        if np.array_equal(pixels(page), body_pixels(world)):
            return
        page.wait_for_timeout(100)
    raise AssertionError("the canvas does not show the body's pixels")


@pytest.fixture
def recorder(server: XServer):
    recorder = Recorder(server.connect())
    try:
        yield recorder
    finally:
        recorder.close()


async def test_the_canvas_shows_the_bodys_own_pixels(world: World, paint: Paint) -> None:
    """After noise, flat colour and stillness, every pixel of the canvas is the body's."""

    def scenario(page: Any) -> None:
        exactly_the_same(page, world)
        paint.noise(0, 0, 1280, 800)
        paint.rectangle(300, 200, 400, 300, 0x12AB9F)
        page.wait_for_timeout(300)
        exactly_the_same(page, world)
        assert page.evaluate("seen.refused") == []

    await look(world, scenario, Scope.VIEWER)


async def test_motion_is_decoded_as_video_and_ends_exact(world: World, paint: Paint) -> None:
    """The browser's own decoder shows the motion; afterwards every pixel is the body's."""
    pytest.importorskip("av", reason="the extra `video` is not installed")

    def scenario(page: Any) -> None:
        wait(page, "seen.stats?.mode === 'video'")
        scope = trio.from_thread.run_sync(lambda: nursery.cancel_scope)
        trio.from_thread.run_sync(scope.cancel)
        page.wait_for_timeout(300)
        exactly_the_same(page, world)

    async with trio.open_nursery() as outer, trio.open_nursery() as nursery:

        async def move() -> None:
            async with moving(paint):
                await trio.sleep_forever()

        nursery.start_soon(move)
        outer.start_soon(look, world, scenario)


async def test_without_webcodecs_motion_is_tiles(world: World, paint: Paint) -> None:
    """A browser that has no decoder is sent tiles."""

    def scenario(page: Any) -> None:
        wait(page, "seen.frames > 30")
        assert page.evaluate("seen.stats.mode") == "tiles"

    async with moving(paint):
        await look(world, scenario, noVideo=True)


async def test_clicks_and_keys_in_the_page_reach_the_body(world: World, recorder: Recorder) -> None:
    """Take over, click, type (composed text too), press a chord, lose the focus, hand back."""

    def seen_until(enough: Callable[[list[Any]], bool], page: Any) -> list[Any]:
        seen: list[Any] = []
        for _ in range(600):
            seen += recorder.seen()
            if enough(seen):
                return seen
            page.wait_for_timeout(20)
        raise AssertionError(seen)

    def scenario(page: Any) -> None:
        wait(page, "seen.frames > 0")
        page.evaluate("view.takeOver('to test')")
        assert page.evaluate("view.driving")
        box = page.locator("#screen").bounding_box()
        page.mouse.click(box["x"] + 150, box["y"] + 120)
        seen = seen_until(lambda s: any(e.kind == "release" for e in s), page)
        assert {(e.x, e.y) for e in seen if e.kind == "press"} == {(150, 120)}
        page.keyboard.type("Ab1!")
        page.keyboard.insert_text("é漢")
        seen = seen_until(lambda s: typed(recorder, s).endswith("漢"), page)
        assert typed(recorder, seen).replace("Shift_L", "")
        page.keyboard.press("Control+a")
        seen_until(lambda s: any(e.kind == "key down" and e.state & 4 for e in s), page)
        page.mouse.move(box["x"] + 300, box["y"] + 300)
        page.mouse.down()
        seen_until(lambda s: any(e.kind == "press" for e in s), page)
        page.evaluate("window.dispatchEvent(new Event('blur'))")
        seen_until(lambda s: any(e.kind == "release" for e in s), page)
        page.evaluate("view.handBack()")
        wait(page, "!view.driving")
        assert page.evaluate("seen.refused") == []

    await look(world, scenario)
    assert not world.body.person_driving


async def test_the_page_comes_back_by_itself_and_drives_on(world: World, recorder: Recorder) -> None:
    """When the connection breaks, the view opens another, and the same person has the body."""

    def scenario(page: Any) -> None:
        wait(page, "seen.frames > 0")
        page.evaluate("view.takeOver()")
        epoch = page.evaluate("view.state.lease.epoch")
        trio.from_thread.run_sync(cut)
        wait(page, "seen.words.filter((word) => word === 'open').length === 2 && view.driving")
        assert page.evaluate("view.state.lease.epoch") == epoch

    def cut() -> None:
        for session in world.stream.sessions:
            session.end()

    await look(world, scenario)


async def test_a_viewers_page_can_do_nothing(world: World, recorder: Recorder) -> None:
    """With a viewer's ticket, taking over is refused in words, and the mouse reaches nothing."""

    def scenario(page: Any) -> None:
        wait(page, "seen.frames > 0")
        refused = page.evaluate("view.takeOver().then(() => 'taken', (error) => error.code)")
        assert refused == "forbidden"
        page.locator("#screen").click()
        page.evaluate("view.sendText('no')")
        wait(page, "seen.refused.length > 0")

    await look(world, scenario, Scope.VIEWER)
    assert not [e for e in recorder.seen() if e.kind != "motion"]


async def test_an_owner_takes_over_through_the_page_from_an_agent_in_mid_batch(
    world: World, recorder: Recorder
) -> None:
    """The batch ends where it is and says so, nothing of its rest arrives, and the person has the body."""
    shown = trio.Event()
    seen: list[Any] = []

    def until_seen(page: Any, kind: str) -> None:
        for _ in range(600):
            seen.extend(recorder.seen())
            if any(e.kind == kind for e in seen):
                return
            page.wait_for_timeout(20)
        raise AssertionError(seen)

    def scenario(page: Any) -> None:
        wait(page, "seen.frames > 0")
        trio.from_thread.run_sync(shown.set)
        until_seen(page, "motion")
        page.evaluate("view.takeOver('to sign in')")
        assert page.evaluate("view.driving")
        page.locator("#screen").click(position={"x": 150, "y": 120})
        until_seen(page, "release")
        page.evaluate("view.handBack()")
        wait(page, "!view.driving")

    batch = [
        {"type": "move", "x": 40, "y": 50},
        {"type": "wait", "ms": 60_000},
        {"type": "click", "x": 300, "y": 300},
    ]
    async with world.client(Scope.DRIVER) as agent, trio.open_nursery() as nursery:
        lease = await agent.acquire("agent")
        nursery.start_soon(look, world, scenario)
        await shown.wait()
        receipt = await lease.input(batch, binding="none")
        assert [(r.delivery.outcome, r.delivery.reason) for r in receipt.inputs] == [
            ("confirmed", None),
            ("failed", "interrupted"),
            ("failed", "not_attempted"),
        ]
    assert {(e.x, e.y) for e in seen if e.kind == "press"} == {(150, 120)}


async def test_the_page_comes_back_by_itself_after_the_daemon_restarts(
    server: XServer, paint: Paint, tmp_path: Path
) -> None:
    """A page that was open when the daemon ended shows the body again once another runs, as it is by then."""
    page_is_open, is_back, done = trio.Event(), trio.Event(), trio.Event()
    running: list[World] = []

    def scenario(page: Any) -> None:
        exactly_the_same(page, running[-1])
        trio.from_thread.run_sync(page_is_open.set)
        trio.from_thread.run(is_back.wait)
        wait(page, "seen.words.filter((word) => word === 'open').length >= 2")
        exactly_the_same(page, running[-1])

    async def watch() -> None:
        await look(running[0], scenario)
        done.set()

    async with trio.open_nursery() as nursery:
        async with open_world(server, tmp_path) as world:
            running.append(world)
            nursery.start_soon(watch)
            await page_is_open.wait()
        paint.rectangle(200, 100, 300, 200, 0xFACADE)
        async with open_world(server, tmp_path, port=world.port) as world:
            running.append(world)
            is_back.set()
            await done.wait()
