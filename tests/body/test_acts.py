"""Acts beside the keyboard and pointer, on a whole body: who may, what is read back, what is remembered."""

from __future__ import annotations

from io import BytesIO

import pytest
import trio
from PIL import Image, ImageChops

from bodyd.client import new_request_id
from bodyd.contract.acts import MAX_CLIPBOARD_BYTES
from bodyd.contract.geometry import Bounds
from bodyd.contract.lease import Scope
from bodyd.contract.screenshots import RegionTarget, ScreenshotRequest
from bodyd.errors import (
    Forbidden,
    InvalidRequest,
    LeaseRequired,
    NotFound,
    PersonDriving,
    StaleEpoch,
    StaleScreenshot,
    TooLarge,
)
from bodyd.journal.audit import read_audit

from .apps import ready, window, windows, world_with_apps


@pytest.fixture(scope="module")
def world():
    with world_with_apps() as running:
        yield running


def audited(world, kind):
    with read_audit(world.config.state / "private") as audit:
        return [entry.data for entry in audit.tail(200) if entry.kind == kind]


async def test_an_app_is_launched_activated_and_closed(world, client):
    """Each is confirmed by what the windows say; a name or window that isn't there is a 404."""
    lease = await ready(world, client)
    act = await lease.launch("terminal")
    assert (act.type, act.epoch) == ("launch", lease.epoch)
    assert (act.effect.outcome, act.effect.evidence) == ("confirmed", "window_opened")
    terminal = await window(client, "terminal")
    assert {app.name: app.running for app in (await client.inventory()).apps}["terminal"]
    browser = next(w for w in (await client.inventory()).windows if w.id != terminal.id)
    for each in (browser, terminal):
        act = await lease.activate(each.id)
        assert (act.effect.outcome, act.effect.evidence) == ("confirmed", "window_activated")
        active = next(w for w in (await client.inventory()).windows if w.active)
        assert active.id == each.id
        assert active.stacking == max(w.stacking for w in (await client.inventory()).windows)
    act = await lease.close_window(terminal.id)
    assert (act.effect.outcome, act.effect.evidence) == ("confirmed", "window_closed")
    assert await windows(client, "terminal") == []
    for refused in (lease.close_window(terminal.id), lease.activate(terminal.id), lease.launch("nosuch")):
        with pytest.raises(NotFound):
            await refused
    asked = audited(world, "act.asked")
    assert [a["type"] for a in asked[:4]] == ["launch", "activate", "activate", "close"]
    assert (asked[0]["name"], asked[3]["window"]) == ("terminal", terminal.id)


async def test_an_app_without_a_window_is_uncertain(world, client):
    """It was started; nothing was seen of it."""
    lease = await ready(world, client)
    act = await lease.launch("nothing")
    assert (act.effect.outcome, act.effect.evidence) == ("uncertain", None)


@pytest.mark.parametrize("text", ["", "plain", "美国降息 🍑\n\tÀÆ€ " * 2048, "x" * MAX_CLIPBOARD_BYTES])
async def test_the_clipboard_goes_both_ways(world, client, text):
    """What was written is read back, up to 1 MiB; one byte more is refused."""
    lease = await ready(world, client)
    act = await lease.write_clipboard(text)
    assert (act.effect.outcome, act.effect.evidence) == ("confirmed", "clipboard")
    assert await lease.clipboard() == text
    assert audited(world, "act.asked")[-1]["length"] == len(text.encode())
    with pytest.raises(TooLarge):
        await lease.write_clipboard(text + "x" * (MAX_CLIPBOARD_BYTES - len(text.encode()) + 1))
    assert await client.clipboard() == text


async def test_a_written_clipboard_is_pasted_by_the_app_and_kept_nowhere(world, client):
    """The page gets the text by Control+V; no file of the daemon's has it."""
    secret = "correct-horse-9182 🍑"
    lease = await ready(world, client)
    await lease.write_clipboard(secret)
    shot = await lease.screenshot()
    x, y = world.page.at(60, 60)
    await lease.input(
        [{"type": "click", "x": x, "y": y}, {"type": "keypress", "keys": ["CTRL", "V"]}],
        screenshot_id=shot.screenshot_id,
    )
    assert await world.page.until(lambda p: secret in {entry["value"] for entry in p.entries("value")})
    private = world.config.state / "private"
    assert not [p for p in private.rglob("*") if p.is_file() and b"correct-horse" in p.read_bytes()]


async def test_acts_need_the_lease_its_epoch_and_nobody_else_driving(world, client):
    """No token, an old epoch, a viewer, and everybody else while a person drives: nothing is done."""
    async with world.client(Scope.DRIVER) as driver, world.client(Scope.VIEWER) as viewer:
        lease = await ready(world, driver)
        await lease.write_clipboard("the agent's")
        before = len(audited(world, "act.asked"))
        for refused in (driver.clipboard(), driver.resize(1024, 600)):
            with pytest.raises(LeaseRequired):
                await refused
        with pytest.raises(Forbidden):
            await viewer.clipboard()
        lease.epoch -= 1
        with pytest.raises(StaleEpoch):
            await lease.write_clipboard("old")
        lease.epoch += 1
        person = await client.takeover(reason="sign-in")
        await person.write_clipboard("the person's")
        for refused in (lease.clipboard(), lease.write_clipboard("mine"), lease.launch("terminal")):
            with pytest.raises(PersonDriving):
                await refused
        assert await person.clipboard() == await client.clipboard() == "the person's"
        await person.hand_back()
        with pytest.raises(StaleEpoch):
            await lease.launch("terminal")
        assert len(audited(world, "act.asked")) == before + 1


async def test_a_resize_voids_every_screenshot_and_keeps_the_apps(world, client):
    """Nothing is sent under an id of before; the browser is the same process; pictures have the new size."""
    lease = await ready(world, client)
    old = await lease.screenshot()
    pid = (await client.status())["components"]["browser"]["pid"]
    try:
        act = await lease.resize(1024, 640)
        assert (act.effect.outcome, act.effect.evidence) == ("confirmed", "screen_resized")
        assert not act.restarted
        click = {"type": "click", "x": 500, "y": 400}
        for screenshot_id in (old.screenshot_id, None):
            with pytest.raises(StaleScreenshot):
                await lease.input([click], screenshot_id=screenshot_id)
        assert (await client.status())["display"] == {"width": 1024, "height": 640}
        fresh = await lease.screenshot()
        assert (fresh.width, fresh.height) == (1024, 640)
        receipt = await lease.input([click], screenshot_id=fresh.screenshot_id)
        assert receipt.delivery == "confirmed"
        assert (await client.status())["components"]["browser"]["pid"] == pid
        with pytest.raises(InvalidRequest, match="restart"):
            await lease.resize(2000, 1000)
        async with world.client(Scope.DRIVER) as driver:
            with pytest.raises(Forbidden):
                await driver.resize(2000, 1000, restart=True, lease_token=lease.token)
    finally:
        with trio.move_on_after(10, shield=True):
            await client.resize(1280, 800)


async def test_the_cursor_is_drawn_on_request(world, client):
    """Two pictures of the same moment differ at the pointer alone."""
    lease = await ready(world, client)
    x, y = world.page.at(400, 180)
    await lease.input([{"type": "move", "x": x, "y": y}], request_id=new_request_id())
    target = RegionTarget(type="region", bounds=Bounds(x=x - 80, y=y - 50, width=160, height=100))
    pictures = []
    for cursor in (False, True):
        shot = await client.screenshot(ScreenshotRequest(target=target, cursor=cursor))
        assert (shot.cursor.x, shot.cursor.y) == (x, y)
        pictures.append(Image.open(BytesIO(await client.image(shot.screenshot_id))).convert("RGB"))
    box = ImageChops.difference(*pictures).getbbox()
    assert box is not None
    assert 0 < box[2] - box[0] <= 40
    assert box[0] <= 80 <= box[2]
    assert box[1] <= 50 <= box[3]


async def test_a_larger_screen_takes_a_restart_by_the_owner(world, client):
    """The answer says that the apps are gone; the body has the new size, and the claim still holds."""
    lease = await ready(world, client)
    before = (await client.status())["components"]["x"]["pid"]
    act = await client.resize(1440, 900, restart=True)
    assert act.restarted
    assert act.effect.outcome == "confirmed"
    status = await client.status()
    assert status["display"] == {"width": 1440, "height": 900}
    assert status["components"]["x"]["pid"] != before
    shot = await lease.screenshot()
    assert (shot.width, shot.height) == (1440, 900)
