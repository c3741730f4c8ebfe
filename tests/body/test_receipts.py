"""Receipts say what is known and no more: interference, partial texts, dead areas, expectations."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
import trio
from Xlib import X, Xatom
from Xlib.ext import xtest

from bodyd.contract.geometry import Bounds
from bodyd.errors import InvalidRequest, OutOfBounds, RecoveryRequired, StaleLease

from .apps import ready, typed, window, world_with_apps
from .outsider import x_server

MIXED = "Привет 美国降息 🍑🍆𝕥 ÀàÆØÅ€ $(touch /tmp/x) ~^`"


@pytest.fixture(scope="module")
def world():
    with world_with_apps() as running:
        yield running


@pytest.fixture
async def x(world, client):
    """Another X client of the body."""
    connection = (await x_server(world, client)).connect()
    yield connection
    connection.close()


def point(world, x, y):
    return dict(zip("xy", world.page.at(x, y), strict=True))


async def test_a_pointer_that_another_client_moves_is_interference(world, client, x, nursery):
    """In the middle of a drag: delivery is uncertain, nothing more is sent, and the lease needs recovery."""
    lease = await ready(world, client)
    shot = await lease.screenshot()

    async def meddle() -> None:
        assert await world.page.until(lambda p: p.entries("mousedown"))
        for place in range(20):
            x.root.warp_pointer(700 + place, 600)
            x.display.sync()
            await trio.sleep(0.01)

    nursery.start_soon(meddle)
    left, top = world.page.at(50, 130)
    path = [{"x": left + n % 150, "y": top + n % 90} for n in range(200)]
    receipt = await lease.input(
        [{"type": "drag", "path": path}, {"type": "click", **point(world, 400, 180)}],
        screenshot_id=shot.screenshot_id,
    )
    drag, click = receipt.inputs
    assert (drag.delivery.outcome, drag.delivery.reason) == ("uncertain", "interference")
    assert (click.delivery.outcome, click.delivery.reason) == ("failed", "not_attempted")
    assert receipt.outcome == "uncertain"
    assert (await client.status())["lease"]["state"] == "recovery_required"
    with pytest.raises(RecoveryRequired):
        await lease.input([{"type": "wait", "ms": 0}])
    assert (await client.receipt(receipt.request_id)).inputs == receipt.inputs


LINES = "the quick brown fox jumps over the lazy dog\n" * 60
"""The terminal writes line after line, so that others can see how far a text has come."""


async def test_keys_that_another_client_presses_are_interference(world, client, x, nursery):
    """Its letter is among ours in what the terminal got, so nobody says that the text was delivered."""
    async with at_terminal(world, client) as lease:
        code = x.display.keysym_to_keycode(0x7A)  # z

        async def meddle() -> None:
            await typed(world, 1)
            for kind in (X.KeyPress, X.KeyRelease):
                xtest.fake_input(x.display, kind, code)
            x.display.sync()

        nursery.start_soon(meddle)
        receipt = await lease.input([{"type": "type", "text": LINES}])
        delivery = receipt.inputs[0].delivery
        assert (delivery.outcome, delivery.reason) == ("uncertain", "interference")
        assert (await client.status())["lease"]["state"] == "recovery_required"


async def test_a_text_that_is_cut_off_reports_its_count(world, client, nursery):
    """Revoked in the middle: as many characters as the receipt says have arrived, and not one more."""
    async with at_terminal(world, client) as lease:

        async def revoke() -> None:
            await typed(world, 1)
            await client.revoke(reason="enough")

        nursery.start_soon(revoke)
        receipt = await lease.input(
            [{"type": "type", "text": LINES}, {"type": "keypress", "keys": ["ENTER"]}]
        )
        cut, rest = receipt.inputs
        assert (cut.delivery.outcome, cut.delivery.reason) == ("failed", "interrupted")
        sent = cut.delivery.sent
        assert 0 < sent.units < sent.of == len(LINES)
        assert rest.delivery.reason == "not_attempted"
        with pytest.raises(StaleLease):
            await lease.input([{"type": "wait", "ms": 0}])
        after = await client.acquire("afterwards", wait_ms=10_000)
        await after.screenshot()
        await after.input([{"type": "type", "text": "|\n"}])
        expected = LINES[: sent.units] + "|\n"
        assert (await typed(world, len(expected))).decode() == expected


@asynccontextmanager
async def at_terminal(world, client):
    """A lease whose driver has seen a fresh terminal that has the keyboard."""
    lease = await ready(world, client)
    await lease.launch("terminal")
    terminal = await window(client, "terminal")
    shot = await lease.screenshot()
    assert shot.active_window.id == terminal.id
    yield lease
    with trio.move_on_after(20, shield=True):
        if (await client.status())["lease"]["state"] == "recovery_required":
            await client.recover(step=1)
        await client.revoke(reason="the terminal is to be closed")
        closer = await client.acquire("closer")
        await closer.close_window(terminal.id)


async def test_a_dead_area_never_confirms(world, client, x):
    """Clicked again and again, while another window's title and its own tick by themselves."""
    lease = await ready(world, client)
    ticking = x.root.create_window(900, 500, 200, 100, 0, X.CopyFromParent, background_pixel=0x206020)
    ticking.set_wm_name("tick 0")
    ticking.map()
    x.display.sync()
    await window(client, "tick 0")
    dead = {"type": "click", **point(world, 400, 180)}
    own = {"type": "click", "x": 0, "y": 0}
    effects = []

    async def tick(task_status=trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        number = 0
        while True:
            number += 1
            ticking.set_wm_name(f"tick {number}")
            x.display.sync()
            await trio.sleep(0.03)

    async with trio.open_nursery() as ticks:
        await ticks.start(tick)
        for _ in range(6):
            shot = await lease.screenshot()
            box = next(w for w in shot.windows if w.title.startswith("tick")).bounds
            own = {"type": "click", "x": box.x + box.width // 2, "y": box.y + box.height // 2}
            receipt = await lease.input([dead], screenshot_id=shot.screenshot_id)
            effects += [i.effect for i in receipt.inputs if i.effect.evidence != "window_activated"]
            shot = await lease.screenshot()
            if shot.windows[-1].title.startswith("tick"):
                receipt = await lease.input([own], screenshot_id=shot.screenshot_id)
                effects += [i.effect for i in receipt.inputs]
        ticks.cancel_scope.cancel()
    ticking.destroy()
    x.display.sync()
    assert len(effects) >= 5
    assert {e.outcome for e in effects} == {"uncertain"}, effects


async def test_a_strangers_window_is_nobodys_effect(world, client, x, nursery):
    """It opens by itself right after a click on nothing, and closes after the next one."""
    lease = await ready(world, client)
    dead = {"type": "click", **point(world, 400, 180)}
    made = x.root.create_window(900, 500, 200, 100, 0, X.CopyFromParent, background_pixel=0x206020)
    made.set_wm_name("by itself")
    made.change_property(x.atom("_NET_WM_USER_TIME"), Xatom.CARDINAL, 32, [0])  # it wants no focus

    async def after_the_click(act) -> None:
        assert await world.page.until(lambda page: page.entries("mousedown"))
        act()
        x.display.sync()

    for act in (made.map, made.destroy):
        world.page.clear()
        shot = await lease.screenshot()
        nursery.start_soon(after_the_click, act)
        receipt = await lease.input(
            [dead, {"type": "wait", "ms": 700}, dead], screenshot_id=shot.screenshot_id
        )
        assert [w.title == "by itself" for w in shot.windows].count(True) == (act == made.destroy)
        shown = [w.title for w in (await client.inventory()).windows]
        assert ("by itself" in shown) is (act == made.map)
        assert [(i.delivery.outcome, i.effect.outcome) for i in receipt.inputs] == [
            ("confirmed", "uncertain"),
            ("confirmed", None),
            ("confirmed", "uncertain"),
        ]


FIELDS = [
    ({"field": "window_title", "contains": "event log"}, {"field": "window_title", "equals": "event log"}),
    ({"field": "active_window", "contains": "event log"}, {"field": "active_window", "contains": "terminal"}),
    ({"field": "clipboard", "equals": "copied 🍑"}, {"field": "clipboard", "contains": "never"}),
]


@pytest.mark.parametrize(("met", "unmet"), FIELDS, ids=[met["field"] for met, _ in FIELDS])
async def test_expectations_are_read_back(world, client, met, unmet):
    """Met, the effect is confirmed; unmet at its deadline, it failed, and the batch ends."""
    lease = await ready(world, client)
    await lease.write_clipboard("copied 🍑")
    move = {"type": "move", **point(world, 400, 180)}
    shot = await lease.screenshot()
    late = {**unmet, "within_ms": 60}
    receipt = await lease.input(
        [{**move, "expect": met}, {**move, "expect": late}, move], screenshot_id=shot.screenshot_id
    )
    assert [(i.effect.outcome, i.effect.evidence) for i in receipt.inputs[:2]] == [
        ("confirmed", "expect_met"),
        ("failed", "expect_unmet"),
    ]
    assert [i.delivery.outcome for i in receipt.inputs] == ["confirmed", "confirmed", "failed"]
    assert receipt.inputs[2].delivery.reason == "not_attempted"


async def test_an_expectation_of_pixels_wants_them_changed(world, client):
    """Typing changes the field; a click on a dead area changes nothing there."""
    lease = await ready(world, client)
    field = point(world, 60, 60)
    left, top = world.page.at(40, 40)
    bounds = Bounds(x=left, y=top, width=600, height=40).model_dump()
    expect = {"field": "pixels", "bounds": bounds}
    await lease.input([{"type": "triple_click", **field}, {"type": "keypress", "keys": ["DELETE"]}])
    await lease.screenshot()
    receipt = await lease.input([{"type": "type", "text": "Penguin", "expect": expect}])
    assert receipt.inputs[0].effect.evidence == "expect_met"
    left, top = world.page.at(300, 130)
    still = {"field": "pixels", "bounds": {"x": left, "y": top, "width": 100, "height": 50}, "within_ms": 80}
    await lease.screenshot()
    receipt = await lease.input([{"type": "click", **point(world, 400, 180), "expect": still}])
    assert receipt.inputs[0].effect.evidence == "expect_unmet"


async def test_an_expectation_off_the_screen_is_refused_before_anything_is_sent(world, client):
    """There is nothing there that could change; also if it is the second input's."""
    lease = await ready(world, client)
    click = {"type": "click", **point(world, 400, 180)}
    off = {"field": "pixels", "bounds": {"x": 2000, "y": 10, "width": 5, "height": 5}}
    with pytest.raises(OutOfBounds, match=r"inputs\[1\].expect"):
        await lease.input([click, {**click, "expect": off}])
    assert world.page.entries("mousedown") == []


async def test_an_expectation_that_can_not_be_read_is_uncertain(world, client, x):
    """The clipboard's owner is silent: the batch ends, the lease stays, and there is a receipt."""
    lease = await ready(world, client)
    x.root.create_window(0, 0, 1, 1, 0, 0).set_selection_owner(x.atom("CLIPBOARD"), X.CurrentTime)
    x.display.sync()
    move = {"type": "move", **point(world, 400, 180)}
    expect = {"field": "clipboard", "contains": "never", "within_ms": 100}
    receipt = await lease.input([{**move, "expect": expect}, move])
    stated, rest = receipt.inputs
    assert (stated.delivery.outcome, stated.effect.outcome) == ("confirmed", "uncertain")
    assert stated.effect.evidence == "expect_unread"
    assert rest.delivery.reason == "not_attempted"
    assert (await client.receipt(receipt.request_id)).inputs == receipt.inputs
    assert (await client.status())["lease"]["state"] == "held"


async def test_an_expectation_cut_short_by_a_revoke_is_uncertain(world, client, x, nursery):
    """Its deadline was not over; and the revoke does not wait for it, silent as the owner is."""
    lease = await ready(world, client)
    x.root.create_window(0, 0, 1, 1, 0, 0).set_selection_owner(x.atom("CLIPBOARD"), X.CurrentTime)
    x.display.sync()
    shot = await lease.screenshot()

    async def revoke() -> None:
        assert await world.page.until(lambda page: page.entries("mousedown"))
        assert (await client.revoke(reason="enough")).state == "vacant"

    nursery.start_soon(revoke)
    expect = {"field": "clipboard", "contains": "never", "within_ms": 10_000}
    click = {"type": "click", **point(world, 400, 180), "expect": expect}
    receipt = await lease.input([click, click], screenshot_id=shot.screenshot_id)
    assert [i.delivery.reason for i in receipt.inputs] == [None, "not_attempted"]
    assert receipt.inputs[0].effect.outcome == "uncertain"


@pytest.mark.parametrize("name", ["value", "focused", "checked"])
async def test_what_needs_accessibility_is_refused_before_anything_is_sent(world, client, name):
    """Until the body can read it; a promise that nobody can check is none."""
    lease = await ready(world, client)
    click = {"type": "click", **point(world, 400, 180), "expect": {"field": name, "equals": "x"}}
    with pytest.raises(InvalidRequest, match=name):
        await lease.input([click])
    assert world.page.entries("mousedown") == []


async def test_mixed_text_reaches_a_terminal_and_a_browser(world, client):
    """Through the whole API, byte for byte; the receipt counts characters."""
    lease = await ready(world, client)
    shot = await lease.screenshot()
    receipt = await lease.input(
        [
            {"type": "triple_click", **point(world, 60, 60)},
            {"type": "keypress", "keys": ["CTRL", "A"]},
            {"type": "type", "text": MIXED},
        ],
        screenshot_id=shot.screenshot_id,
    )
    assert (receipt.inputs[2].delivery.outcome, receipt.inputs[2].delivery.sent.units) == (
        "confirmed",
        len(MIXED),
    )
    read_back = {"field": "clipboard", "equals": MIXED}
    receipt = await lease.input(
        [
            {"type": "keypress", "keys": ["CTRL", "A"]},
            {"type": "keypress", "keys": ["CTRL", "C"], "expect": read_back},
        ]
    )
    assert receipt.inputs[1].effect.evidence == "expect_met", await client.clipboard()
    await lease.release()
    async with at_terminal(world, client) as lease:
        receipt = await lease.input([{"type": "type", "text": MIXED + "\n"}])
        assert receipt.delivery == "confirmed"
        assert (await typed(world, len(MIXED.encode()) + 1)).decode() == MIXED + "\n"
