"""Input is bound to what its driver saw: real windows that come, go, move and steal the focus."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from Xlib import X
from Xlib.ext import shape
from Xlib.protocol import event

from bodyd.contract.actions import parse_input_request
from bodyd.contract.geometry import Bounds, image_to_body
from bodyd.contract.inventory import Window
from bodyd.contract.screenshots import RegionTarget, ScreenshotRequest, WindowTarget
from bodyd.display.connection import XConnection
from bodyd.display.windows import MOST_WINDOWS
from bodyd.errors import OutOfBounds, StaleScreenshot
from tests.display.world import until

from .apps import ready, window, world_with_apps
from .outsider import x_server


@pytest.fixture(scope="module")
def world():
    with world_with_apps() as running:
        yield running


@pytest.fixture
async def x(world, client) -> AsyncIterator[XConnection]:
    """Another X client of the body."""
    connection = (await x_server(world, client)).connect()
    yield connection
    connection.close()


class Stranger:
    """A window of another client that counts the events it gets."""

    MASK = X.ButtonPressMask | X.ButtonReleaseMask | X.KeyPressMask | X.StructureNotifyMask

    def __init__(self, x: XConnection, *, managed: bool, place=(300, 200, 300, 200), colour=0x206020) -> None:
        self.x = x
        left, top, width, height = place
        self.window = x.root.create_window(
            left, top, width, height, 0, X.CopyFromParent,
            override_redirect=not managed, background_pixel=colour, event_mask=self.MASK,
        )  # fmt: skip
        self.window.set_wm_name("stranger")
        self.window.set_wm_normal_hints(flags=1, min_width=0, min_height=0)  # placed by its user
        self.window.map()
        x.display.sync()

    def events(self) -> list[int]:
        """Types of the input events so far."""
        self.x.display.sync()
        seen = [self.x.display.next_event().type for _ in range(self.x.display.pending_events())]
        return [kind for kind in seen if kind in (X.ButtonPress, X.ButtonRelease, X.KeyPress)]

    def change(self, **how: int) -> None:
        self.window.configure(**how)
        self.x.display.sync()

    def close(self) -> None:
        self.window.destroy()
        self.x.display.sync()


@asynccontextmanager
async def stranger(client, x, *, managed=True, **more):
    """A stranger that is there: listed and active, if it is managed."""
    made = Stranger(x, managed=managed, **more)
    try:
        if managed:
            shown = await window(client, "stranger")
            for _ in range(200):
                if (shown := await window(client, "stranger")).active:
                    break
            made.seen = shown
        yield made
    finally:
        made.close()


async def middle_of(client, title):
    box = (await window(client, title)).bounds
    return {"x": box.x + box.width // 2, "y": box.y + box.height // 2}


async def test_a_covered_target_is_stale_and_the_cover_gets_nothing(world, client, x):
    """Managed or not, in window and in pixels binding; and the page below gets nothing either."""
    lease = await ready(world, client)
    target = dict(zip("xy", world.page.at(400, 180), strict=True))
    for managed in (True, False):
        shot = await lease.screenshot()
        async with stranger(client, x, managed=managed) as cover:
            for binding in ("window", "pixels"):
                for kind in ("click", "double_click", "move", "scroll", "button_down"):
                    with pytest.raises(StaleScreenshot):
                        await lease.input(
                            [{"type": kind, **target}], screenshot_id=shot.screenshot_id, binding=binding
                        )
            assert cover.events() == []
    assert world.page.entries("mousedown") == []


def glass(x) -> Stranger:
    """Over the page: it shows nothing, and takes every click."""
    made = Stranger(x, managed=False)
    made.window.destroy()
    made.window = x.root.create_window(
        300, 200, 300, 200, 0, 0, X.InputOnly, override_redirect=True, event_mask=Stranger.MASK
    )
    made.window.map()
    x.display.sync()
    return made


def one_of_many(x) -> Stranger:
    """A cover below more windows than are ever looked at."""
    made = Stranger(x, managed=False)
    for _ in range(MOST_WINDOWS + 1):
        x.root.create_window(0, 0, 9, 9, 0, X.CopyFromParent, override_redirect=True)
    x.display.sync()
    return made


@pytest.mark.parametrize("cover", [glass, one_of_many])
async def test_a_cover_that_can_not_be_seen_gets_nothing(world, client, cover):
    """The server knows what is on top there; the windows that we read don't."""
    lease = await ready(world, client)
    target = dict(zip("xy", world.page.at(400, 180), strict=True))
    x = (await x_server(world, client)).connect()
    shot = await lease.screenshot()
    made = cover(x)
    with pytest.raises(StaleScreenshot):
        await lease.input([{"type": "click", **target}], screenshot_id=shot.screenshot_id)
    assert made.events() == []
    x.close()


async def test_an_overlay_that_lets_clicks_through_hides_no_cover(world, client, x):
    """It was there in the screenshot, and what came below it was not."""
    lease = await ready(world, client)
    target = dict(zip("xy", world.page.at(400, 180), strict=True))
    async with stranger(client, x, managed=False, place=(0, 0, 1280, 800)) as overlay:
        overlay.window.shape_rectangles(shape.SO.Set, shape.SK.Input, 0, 0, 0, [])
        x.display.sync()
        shot = await lease.screenshot()
        assert (await lease.input([{"type": "click", **target}], screenshot_id=shot.screenshot_id)).inputs[
            0
        ].delivery.outcome == "confirmed"
        shot = await lease.screenshot()
        other = (await x_server(world, client)).connect()
        async with stranger(client, other) as cover:
            with pytest.raises(StaleScreenshot):
                await lease.input([{"type": "click", **target}], screenshot_id=shot.screenshot_id)
            assert cover.events() == []
        other.close()


@pytest.mark.parametrize("grabbed", ["pointer", "keyboard"])
async def test_a_grab_since_the_screenshot_gets_nothing(world, client, x, grabbed):
    """A fresh look tells nothing of it either, but then the driver has had its chance to see."""
    lease = await ready(world, client)
    target = dict(zip("xy", world.page.at(100, 60), strict=True))
    shot = await lease.screenshot()
    if grabbed == "pointer":
        x.root.grab_pointer(False, 0, X.GrabModeAsync, X.GrabModeAsync, X.NONE, X.NONE, X.CurrentTime)
    else:
        x.root.grab_keyboard(False, X.GrabModeAsync, X.GrabModeAsync, X.CurrentTime)
    for action in ({"type": "click", **target}, {"type": "type", "text": "secret"}):
        with pytest.raises(StaleScreenshot):
            await lease.input([action], screenshot_id=shot.screenshot_id)
    x.display.ungrab_pointer(X.CurrentTime)
    x.display.ungrab_keyboard(X.CurrentTime)
    x.display.sync()
    receipt = await lease.input([{"type": "click", **target}], screenshot_id=shot.screenshot_id)
    assert receipt.delivery == "confirmed"


async def test_binding_none_clicks_whatever_is_there(world, client, x):
    """The driver has said that it does not care; without a screenshot at all, too."""
    lease = await ready(world, client)
    target = dict(zip("xy", world.page.at(400, 180), strict=True))
    async with stranger(client, x, managed=False) as cover:
        receipt = await lease.input([{"type": "click", **target}], binding="none")
        assert receipt.delivery == "confirmed"
        assert cover.events() == [X.ButtonPress, X.ButtonRelease]


async def test_a_moved_resized_or_closed_target_is_stale(world, client, x):
    """Though something else, or the same window, is at that point now."""
    lease = await ready(world, client)
    for change in ({"x": 340}, {"width": 350, "height": 260}, None):
        async with stranger(client, x) as target:
            shot = await lease.screenshot()
            click = {"type": "click", **(await middle_of(client, "stranger"))}
            if change is None:
                target.window.unmap()
                x.display.sync()
            else:
                target.change(**change)
            for _ in range(200):  # the window manager does it
                now = [w for w in (await client.inventory()).windows if w.title == "stranger"]
                if not now or now[0].bounds != target.seen.bounds:
                    break
            with pytest.raises(StaleScreenshot):
                await lease.input([click], screenshot_id=shot.screenshot_id)
            assert target.events() == []
            fresh = await lease.screenshot()
            receipt = await lease.input([click], screenshot_id=fresh.screenshot_id)
            assert receipt.delivery == "confirmed"
            assert (target.events() != []) is (change is not None)


async def test_stolen_focus_takes_no_keys(world, client, x):
    """Typing, keys, paste and scrolling are for the window that was active."""
    lease = await ready(world, client)
    target = dict(zip("xy", world.page.at(100, 60), strict=True))
    shot = await lease.screenshot()
    async with stranger(client, x) as thief:
        for action in (
            {"type": "type", "text": "secret"},
            {"type": "keypress", "keys": ["ENTER"]},
            {"type": "hold", "keys": ["a"], "duration_ms": 20},
            {"type": "paste", "text": "secret"},
            {"type": "scroll", **target, "scroll_y": 100},
        ):
            with pytest.raises(StaleScreenshot):
                await lease.input([action], screenshot_id=shot.screenshot_id)
        assert thief.events() == []
    assert world.page.entries("keydown", "mousedown") == []


async def test_keys_taken_behind_the_window_managers_back_go_nowhere(world, client, x):
    """The thief forges the property that says which window is active, too."""
    lease = await ready(world, client)
    shot = await lease.screenshot()
    word = x.atom("_NET_ACTIVE_WINDOW")
    before = x.root.get_full_property(word, X.AnyPropertyType).value[0]
    thief = Stranger(x, managed=False, place=(0, 0, 9, 9))
    thief.window.set_input_focus(X.RevertToPointerRoot, X.CurrentTime)
    x.display.sync()
    for _ in range(200):  # the window manager does it
        if x.root.get_full_property(word, X.AnyPropertyType).value[0] != before:
            break
        await trio.sleep(0.02)
    x.root.change_property(word, x.atom("WINDOW"), 32, [before])
    x.display.sync()
    for action in ({"type": "type", "text": "secret"}, {"type": "keypress", "keys": ["ENTER"]}):
        with pytest.raises(StaleScreenshot):
            await lease.input([action], screenshot_id=shot.screenshot_id)
    assert thief.events() == []
    thief.close()
    await lease.activate(before)


async def test_a_window_that_opens_in_a_text_does_not_get_the_rest(world, client, x, nursery):
    """The text ends there; the receipt says after how many characters."""
    lease = await ready(world, client)
    field = dict(zip("xy", world.page.at(100, 60), strict=True))
    await lease.input([{"type": "click", **field}])
    shot = await lease.screenshot()
    world.page.clear()
    thieves = []

    async def open_one() -> None:
        assert await world.page.until(lambda p: p.entries("keydown"))
        thieves.append(Stranger(x, managed=True))

    nursery.start_soon(open_one)
    receipt = await lease.input(
        [{"type": "type", "text": "secret " * 2000}], screenshot_id=shot.screenshot_id
    )
    (typed,) = receipt.inputs
    assert (typed.delivery.outcome, typed.delivery.reason) == ("failed", "focus_moved")
    assert 0 < typed.delivery.sent.units < 14000
    assert thieves[0].events().count(X.KeyPress) <= 1
    thieves[0].close()


async def test_a_thief_in_the_middle_of_a_batch_gets_nothing(world, client, x, nursery):
    """It opens by itself while the batch waits: the rest is not attempted, and says why."""
    lease = await ready(world, client)
    field = dict(zip("xy", world.page.at(100, 60), strict=True))
    shot = await lease.screenshot()
    thieves = []

    async def steal() -> None:
        assert await world.page.until(lambda p: p.entries("mousedown"))
        thieves.append(Stranger(x, managed=True))

    nursery.start_soon(steal)
    receipt = await lease.input(
        [{"type": "click", **field}, {"type": "wait", "ms": 1500}, {"type": "type", "text": "secret"}],
        screenshot_id=shot.screenshot_id,
    )
    assert [i.delivery.reason for i in receipt.inputs] == [None, None, "stale_screenshot"]
    assert receipt.inputs[2].delivery.sent.units == 0
    assert thieves[0].events() == []
    thieves[0].close()


async def test_the_keyboard_follows_a_press_of_the_same_batch(world, client, x):
    """Another window has the focus in the picture; the click into the field moves it, and the text comes."""
    lease = await ready(world, client)
    field = dict(zip("xy", world.page.at(100, 60), strict=True))
    async with stranger(client, x, place=(800, 500, 200, 100)) as other:
        shot = await lease.screenshot()
        assert shot.active_window.title == "stranger"
        receipt = await lease.input(
            [{"type": "triple_click", **field}, {"type": "type", "text": "Penguin"}],
            screenshot_id=shot.screenshot_id,
        )
        assert [i.delivery.reason for i in receipt.inputs] == [None] * 2
        assert await world.page.until(
            lambda p: "Penguin" in {entry["value"] for entry in p.entries("value")}
        ), world.page.entries()
        assert other.events() == []


async def test_the_keyboard_follows_a_switch_of_the_same_batch(world, client, x):
    """Alt+Tab makes another window of the picture active: keys may go there, clicks where it covers not."""
    lease = await ready(world, client)
    title = (await client.inventory()).windows[0].title
    async with stranger(client, x, place=(800, 500, 200, 100)) as other:
        shot = await lease.screenshot()
        expect = {"field": "active_window", "equals": title}
        receipt = await lease.input(
            [
                {"type": "keypress", "keys": ["ALT", "TAB"], "expect": expect},
                {"type": "keypress", "keys": ["x"]},
                {"type": "click", "x": 900, "y": 560},
            ],
            screenshot_id=shot.screenshot_id,
        )
        assert [i.delivery.reason for i in receipt.inputs] == [None, None, "stale_screenshot"]
        assert receipt.inputs[0].effect.evidence == "expect_met"
        assert await world.page.until(lambda p: "x" in {e["key"] for e in p.entries("keydown")})
        assert other.events() in ([], [X.KeyPress])  # Alt itself


async def test_a_menu_that_the_batch_opened_is_its_target(world, client):
    """xterm's menu and its entry in one batch; the entry works, so it was clicked."""
    lease = await ready(world, client)
    await lease.launch("terminal")
    terminal = await window(client, "terminal")
    shot = await lease.screenshot()
    x, y = terminal.bounds.x + 60, terminal.bounds.y + 60
    receipt = await lease.input(
        [
            {"type": "move", "x": x, "y": y},
            {"type": "button_down", "x": x, "y": y, "keys": ["CTRL"]},
            {"type": "wait", "ms": 300},
            {"type": "move", "x": x + 10, "y": y + 30},
            {"type": "button_up", "x": x + 10, "y": y + 30},
        ],
        screenshot_id=shot.screenshot_id,
    )
    assert {i.delivery.outcome for i in receipt.inputs} == {"confirmed"}, receipt
    await lease.close_window(terminal.id)


async def test_a_list_that_the_batch_opened_can_be_chosen_from(world, client):
    """A <select>: its list is a window of its own, of the browser's client. The page reports the choice."""
    lease = await ready(world, client)
    shot = await lease.screenshot()
    x, y = world.page.at(640, 240)
    entry = {"type": "click", "x": x, "y": y + 58}
    opening, wait = {"type": "click", "x": x, "y": y}, {"type": "wait", "ms": 700}
    receipt = await lease.input([opening, wait, entry], screenshot_id=shot.screenshot_id)
    assert [i.delivery.reason for i in receipt.inputs] == [None] * 3
    assert await world.page.until(lambda p: p.entries("picked")), receipt
    assert world.page.entries("picked")[0]["value"] != "one"


@pytest.mark.parametrize("what", ["list", "context menu"])
async def test_a_popup_of_an_earlier_batch_must_have_been_seen(world, client, what):
    """With a screenshot in between it is part of the picture; a batch that continues the other knows it."""
    lease = await ready(world, client)
    if what == "list":
        x, y = world.page.at(640, 240)
        opening, inside = {"type": "click", "x": x, "y": y}, {"type": "move", "x": x, "y": y + 58}
    else:
        x, y = world.page.at(700, -22)  # the address bar's own
        opening = {"type": "click", "button": "right", "x": x, "y": y}
        inside = {"type": "move", "x": x + 30, "y": y + 20}
    close = {"type": "keypress", "keys": ["ESC"]}
    shot = await lease.screenshot()
    await lease.input(
        [opening, {"type": "wait", "ms": 700}],
        screenshot_id=shot.screenshot_id,
        request_id=f"open-{what[:4]}",
    )
    with pytest.raises(StaleScreenshot):
        await lease.input([inside], screenshot_id=shot.screenshot_id)
    going_on = {
        "request_id": f"next-{what[:4]}", "continues": f"open-{what[:4]}", "epoch": lease.epoch,
        "inputs": [inside], "screenshot_id": shot.screenshot_id,
    }  # fmt: skip
    assert (await lease.send(parse_input_request(going_on))).delivery == "confirmed"
    fresh = await lease.screenshot()
    receipt = await lease.input([inside, close], screenshot_id=fresh.screenshot_id)
    assert [i.delivery.reason for i in receipt.inputs] == [None] * 2


async def test_a_foreign_popup_refuses(world, client, x, nursery):
    """It opens after an input of the batch, at the very place, and gets nothing."""
    lease = await ready(world, client)
    shot = await lease.screenshot()
    left, top = world.page.at(100, 180)
    popups = []

    async def pop() -> None:
        assert await world.page.until(lambda p: p.entries("mousedown"))
        popups.append(Stranger(x, managed=False, place=(left - 20, top - 20, 100, 100)))

    nursery.start_soon(pop)
    click = {"type": "click", "x": left, "y": top}
    receipt = await lease.input(
        [click, {"type": "wait", "ms": 1000}, click], screenshot_id=shot.screenshot_id
    )
    assert [i.delivery.reason for i in receipt.inputs] == [None, None, "stale_screenshot"]
    assert popups[0].events() == []
    popups[0].close()
    assert len(world.page.entries("mousedown")) == 1


async def test_pixels_must_be_the_same_where_that_was_asked_for(world, client, x):
    """The window is the same and repaints itself: window binding clicks, pixel binding does not."""
    lease = await ready(world, client)
    async with stranger(client, x) as target:
        shot = await lease.screenshot()
        click = {"type": "click", **(await middle_of(client, "stranger"))}
        target.window.change_attributes(background_pixel=0xC02020)
        target.window.clear_area(0, 0, 0, 0)
        x.display.sync()
        with pytest.raises(StaleScreenshot, match="picture"):
            await lease.input([click], screenshot_id=shot.screenshot_id, binding="pixels")
        assert target.events() == []
        await lease.input([click], screenshot_id=shot.screenshot_id)
        assert target.events() == [X.ButtonPress, X.ButtonRelease]
        shot = await lease.screenshot()
        await lease.input([click], screenshot_id=shot.screenshot_id, binding="pixels")
        assert target.events() == [X.ButtonPress, X.ButtonRelease]


@pytest.mark.parametrize("target", ["screen", "window", "region"])
async def test_a_half_size_picture_is_clicked_within_a_pixel(world, client, x, target):
    """Corners, edges, middle and (0, 0): the pointer lands on what the pixel showed; outside is refused."""
    lease = await ready(world, client)
    async with stranger(client, x) as window_:
        wanted = {
            "screen": None,
            "window": WindowTarget(type="window", id=window_.seen.id),
            "region": RegionTarget(type="region", bounds=Bounds(x=200, y=100, width=301, height=201)),
        }[target]
        sized = {"max_width": (640 if target == "screen" else 150)}
        request = ScreenshotRequest(**({"target": wanted} if wanted else {}), **sized)
        shot = await lease.screenshot(request)
        assert shot.width * 2 <= shot.bounds.width + 2
        right, bottom = shot.width - 1, shot.height - 1
        for px, py in [(0, 0), (right, 0), (0, bottom), (right, bottom), (right // 2, bottom // 2)]:
            receipt = await lease.input([{"type": "move", "x": px, "y": py}], binding="none",
                                        screenshot_id=shot.screenshot_id)  # fmt: skip
            assert receipt.inputs[0].effect.evidence == "pointer_at_target"
            seen = x.root.query_pointer()
            true = (shot.bounds.x + (px + 0.5) * shot.bounds.width / shot.width,
                    shot.bounds.y + (py + 0.5) * shot.bounds.height / shot.height)  # fmt: skip
            assert abs(seen.root_x - true[0]) <= 1
            assert abs(seen.root_y - true[1]) <= 1
            assert (seen.root_x, seen.root_y) == (
                (p := image_to_body(px, py, shot.size, shot.bounds, param="")).x,
                p.y,
            )
        for px, py in [(-1, 0), (shot.width, 0), (0, shot.height)]:
            with pytest.raises(OutOfBounds):
                await lease.input([{"type": "move", "x": px, "y": py}], screenshot_id=shot.screenshot_id)


@pytest.mark.parametrize("target", ["window", "region"])
async def test_a_picture_of_a_part_is_bound_like_one_of_the_whole(world, client, x, target):
    """A window or a region, scaled down: its click gets there, and none does once the window has moved."""
    lease = await ready(world, client)
    async with stranger(client, x) as window_:
        box = window_.seen.bounds
        around = Bounds(x=box.x - 30, y=box.y - 20, width=box.width + 50, height=box.height + 50)
        wanted = {
            "window": WindowTarget(type="window", id=window_.seen.id),
            "region": RegionTarget(type="region", bounds=around),
        }[target]
        shot = await lease.screenshot(ScreenshotRequest(target=wanted, max_width=150))
        click = {"type": "click", "x": shot.width // 2, "y": shot.height // 2}
        for binding in ("window", "pixels"):
            receipt = await lease.input([click], screenshot_id=shot.screenshot_id, binding=binding)
            assert receipt.delivery == "confirmed"
            assert window_.events() == [X.ButtonPress, X.ButtonRelease]
        key = {"type": "keypress", "keys": ["a"]}
        assert (await lease.input([key], screenshot_id=shot.screenshot_id)).delivery == "confirmed"
        assert X.KeyPress in window_.events()
        window_.change(x=box.x + 60)
        for _ in range(200):  # the window manager does it
            if (await window(client, "stranger")).bounds != box:
                break
        with pytest.raises(StaleScreenshot):
            await lease.input([click], screenshot_id=shot.screenshot_id)
        assert window_.events() == []


async def test_a_minimised_window_is_no_target(world, client, x):
    """It is listed as minimised, what was below it gets the next driver's click, and not the stale one's."""
    lease = await ready(world, client)
    place = (*world.page.at(320, 140), 160, 90)
    async with stranger(client, x, place=place) as target:
        shot = await lease.screenshot()
        click = {"type": "click", **(await middle_of(client, "stranger"))}
        target.x.root.send_event(
            event.ClientMessage(
                window=target.window, client_type=x.atom("WM_CHANGE_STATE"), data=(32, [3, 0, 0, 0, 0])
            ),
            event_mask=X.SubstructureRedirectMask | X.SubstructureNotifyMask,
        )
        x.display.sync()

        async def is_minimised() -> Window | None:
            found = await window(client, "stranger")
            return found if found.minimised and not found.active else None

        shown = await until(is_minimised)  # the window manager does it
        with pytest.raises(StaleScreenshot):
            await lease.input([click], screenshot_id=shot.screenshot_id)
        assert world.page.entries("mousedown") == []
        fresh = await lease.screenshot()
        assert next(w for w in fresh.windows if w.id == shown.id).minimised
        await lease.input([click], screenshot_id=fresh.screenshot_id)
        assert await world.page.until(lambda page: page.entries("mousedown"))
        assert target.events() == []
        await lease.activate(shown.id)
        assert not (await window(client, "stranger")).minimised
