"""A body that is not well: told apart in /readyz and in receipts, and mended by supervised restarts."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from Xlib import X

from bodyd.desktop.ledger import descendants
from bodyd.errors import DisplayUnavailable, PolicyRefused, RecoveryRequired, StaleScreenshot
from bodyd.journal.audit import read_audit

from .apps import ready, world_with_apps
from .outsider import x_server

MENDED_WITHIN = 60


@pytest.fixture(scope="module")
def world():
    with world_with_apps(policy={"deny": ["launch"]}) as running:
        yield running


async def components(client) -> dict[str, str]:
    return (await client.ready())["components"]


async def until(client, met: Callable[[dict[str, str]], bool], *, within: float = MENDED_WITHIN):
    """Ask /readyz until *met*; it is a contract's bound, not a measurement."""
    with trio.fail_after(within):
        while True:
            found = await components(client)
            if met(found):
                return found
            await trio.sleep(0.05)


async def reason(lease, expected: str) -> None:
    """A receipt says it, as soon as a whole look has found it."""
    with trio.fail_after(10):
        while True:
            if (await lease.input([{"type": "wait", "ms": 0}])).reason == expected:
                return
            await trio.sleep(0.1)


async def successor(client, before: int) -> None:
    """Another X server is there."""
    with trio.fail_after(MENDED_WITHIN):
        while True:
            if (await client.status())["components"]["x"].get("pid") not in (None, before):
                return
            await trio.sleep(0.05)


def well(found: dict[str, str]) -> bool:
    return set(found.values()) == {"ready"}


def mended(world) -> list[str]:
    with read_audit(world.config.state / "private") as audit:
        return [entry.data["restart"] for entry in audit.tail(200) if entry.kind == "body.mending"]


async def test_a_body_that_is_well(world, client):
    """Every component by its name."""
    assert await world.page.until(lambda page: page.origin is not None, within=30)
    found = await until(client, well)
    assert found.keys() >= {"x", "window_manager", "browser", "display", "capture", "screen", "journal"}
    assert mended(world) == []


async def test_a_denied_act_is_not_done(world, client):
    """Policy has its say at the door, and the audit has nothing that was not asked for."""
    lease = await ready(world, client)
    with pytest.raises(PolicyRefused, match="launch"):
        await lease.launch("nothing")


async def test_a_blank_screen_is_told_and_left_to_whoever_drives(world, client):
    """Something black lies over all windows: /readyz and the receipt say so; it goes, and all is well."""
    lease = await ready(world, client)
    x = (await x_server(world, client)).connect()
    cover = x.root.create_window(
        0, 0, 1280, 800, 0, X.CopyFromParent, override_redirect=1, background_pixel=0
    )
    cover.map()
    x.display.sync()
    found = await until(client, lambda found: found["screen"] == "blank")
    assert (found["x"], found["window_manager"], found["capture"]) == ("ready",) * 3
    await reason(lease, "screen blank")
    x.close()
    await until(client, well)
    assert mended(world) == []


async def test_a_hung_window_manager_is_told_and_replaced(world, client):
    """Its windows and the browser stay; the next one answers."""
    lease = await ready(world, client)
    before = (await client.status())["components"]
    os.kill(before["window_manager"]["pid"], signal.SIGSTOP)
    found = await until(client, lambda found: found["window_manager"] == "hung")
    assert (found["x"], found["capture"], found["screen"]) == ("ready",) * 3
    await reason(lease, "window_manager hung")
    await until(client, well)
    after = (await client.status())["components"]
    assert after["window_manager"]["pid"] != before["window_manager"]["pid"]
    assert after["browser"]["pid"] == before["browser"]["pid"]
    assert mended(world) == ["window_manager"]


async def test_a_dead_browser_is_back_with_its_window(world, client):
    """kill -9: another process, a window, and the page, within the contract's fifteen seconds and some."""
    await ready(world, client)
    before = (await client.status())["components"]["browser"]["pid"]
    os.kill(before, signal.SIGKILL)
    world.page.clear()
    assert await world.page.until(lambda page: page.entries("ready"), within=30)
    await until(client, well)
    assert (await client.status())["components"]["browser"]["pid"] not in (None, before)
    assert any("event log" in w.title for w in (await client.inventory()).windows)


async def test_a_dead_capture_is_told_and_mended(world, client):
    """The X server answers, and lets nobody in to take a picture: new connections, then a new display."""
    lease = await ready(world, client)
    server = await x_server(world, client)
    before = mended(world)
    with server.crowded():
        found = await until(client, lambda found: found["capture"] == "dead")
        assert (found["x"], found["window_manager"], found["screen"]) == ("ready", "ready", "unknown")
        await reason(lease, "capture dead")
        with pytest.raises(DisplayUnavailable):
            await lease.screenshot()
        assert (await lease.input([{"type": "keypress", "keys": ["SHIFT"]}])).delivery == "confirmed"
        await until(client, well)
    remedies = mended(world)[len(before) :]
    assert remedies in (["connections"], ["connections", "display"])
    await lease.screenshot()


async def test_a_frozen_x_server_is_told_and_begins_anew(world, client):
    """Everything that can't be judged is unknown; a new server comes up, and the claim goes on with it."""
    lease = await ready(world, client)
    server = await x_server(world, client)
    before = (await client.status())["components"]
    with server.frozen():
        found = await until(client, lambda found: found["x"] == "frozen")
        assert found["display"] == "down"
        assert found["capture"] == found["window_manager"] == found["screen"] == "unknown"
        await until(client, well)
    after = (await client.status())["components"]
    assert after["x"]["pid"] != before["x"]["pid"]
    assert mended(world)[-1] == "display"
    assert not descendants_alive(before["x"]["pid"])
    fresh = await lease.screenshot()
    receipt = await lease.input([{"type": "move", "x": 5, "y": 5}], screenshot_id=fresh.screenshot_id)
    assert receipt.delivery == "confirmed", receipt


async def test_a_killed_x_server_is_red_until_its_successor_is_there(world, client):
    """kill -9: /readyz says no meanwhile; what was seen before is void, and the claim acts again."""
    lease = await ready(world, client)
    old = await lease.screenshot()
    before = (await client.status())["components"]["x"]["pid"]
    os.kill((await x_server(world, client)).pid, signal.SIGKILL)
    await until(client, lambda found: not well(found), within=10)
    await successor(client, before)
    await until(client, well)
    move = {"type": "move", "x": 5, "y": 5}
    with pytest.raises(StaleScreenshot):
        await lease.input([move], screenshot_id=old.screenshot_id)
    fresh = await lease.screenshot()
    assert (await lease.input([move], screenshot_id=fresh.screenshot_id)).delivery == "confirmed"


async def test_an_input_into_a_freezing_server_has_an_uncertain_receipt_that_says_why(world, client, nursery):
    """Frozen in the middle of a text: display_lost, x frozen, and the lease needs recovery."""
    assert await world.page.until(lambda page: page.entries("ready"), within=30)
    lease = await client.acquire("freezing")
    shot = await lease.screenshot()
    server = await x_server(world, client)
    x, y = world.page.at(60, 60)
    world.page.clear()

    async def freeze() -> None:
        assert await world.page.until(lambda page: page.entries("value"))
        os.kill(server.pid, signal.SIGSTOP)

    nursery.start_soon(freeze)
    text = "abcdefghij" * 6000  # takes longer than any report of the page
    receipt = await lease.input(
        [{"type": "click", "x": x, "y": y}, {"type": "type", "text": text}], screenshot_id=shot.screenshot_id
    )
    os.kill(server.pid, signal.SIGCONT)
    typed = receipt.inputs[1].delivery
    assert (typed.outcome, typed.reason) == ("uncertain", "display_lost")
    assert 0 < typed.sent.units < typed.sent.of
    assert receipt.reason == "x frozen"
    assert (await client.status())["lease"]["state"] == "recovery_required"
    with pytest.raises(RecoveryRequired):
        await client.acquire("too-early")
    assert (await client.receipt(receipt.request_id)).reason == "x frozen"


def descendants_alive(pid: int) -> list[int]:
    return [p for p in descendants(pid) if Path(f"/proc/{p}").exists()]
