"""Elements of real apps in a real body: Chromium and GTK, with a bus of the body's own."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator

import pytest
import trio

from bodyd.client import BodyClient, ClientLease
from bodyd.contract.elements import AccessibilityState, Element
from bodyd.contract.screenshots import Screenshot, ScreenshotRequest
from bodyd.errors import StaleScreenshot
from tests.body.world import World, bare_world, folder, running_world

GTK = """
import gi
gi.require_version("Gtk", "3.0")
from gi.repository import Gtk
window, box = Gtk.Window(title="form"), Gtk.Box(orientation=Gtk.Orientation.VERTICAL)
town, pin = Gtk.Entry(text="Town Hall"), Gtk.Entry(text="1234", visibility=False)
for each in (town, pin, Gtk.CheckButton(label="Agree"), Gtk.Button(label="Delete all")):
    box.add(each)
window.add(box)
window.move(760, 420)
window.show_all()
Gtk.main()
"""
ELEMENTS = ScreenshotRequest(elements=True)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    apps = {"form": ["/usr/bin/python3", "-c", GTK]}
    with (
        folder() as root,
        running_world(root, accessibility={"enabled": True}, desktop={"apps": apps}) as running,
    ):
        yield running


@pytest.fixture
async def client(world: World) -> AsyncIterator[BodyClient]:
    async with world.client() as client:
        yield client


@pytest.fixture
async def lease(client: BodyClient) -> AsyncIterator[ClientLease]:
    lease = await client.acquire("accessibility")
    yield lease
    await client.revoke(reason="the test is over")


async def seen(lease: ClientLease, role: str, name: str) -> tuple[Screenshot, Element]:
    """The element of that role and name, once it shows; waits for it, bounded."""
    shot = None
    for _ in range(300):
        shot = await lease.screenshot(ELEMENTS)
        for element in shot.elements or ():
            if (element.role, element.name) == (role, name):
                return shot, element
        await trio.sleep(0.1)
    told = [(e.role, e.name) for e in shot.elements or ()] if shot else None
    raise AssertionError(f"no {role} {name!r}: {told}")


async def test_a_page_and_an_app_tell_of_their_elements(lease: ClientLease) -> None:
    """Buttons and fields are told of with name, value, states and place; a password never with its text."""
    shot, button = await seen(lease, "push button", "retitle")
    assert shot.accessibility is AccessibilityState.READY
    assert button.actionable
    assert (button.bounds.x, button.bounds.width, button.bounds.height) == (540, 200, 60)
    await lease.launch("form")
    shot, agree = await seen(lease, "check box", "Agree")
    assert shot.elements is not None
    inside = [e for e in shot.elements if e.bounds.x >= 760 and e.bounds.y >= 420]
    assert [(e.role, e.value) for e in inside if e.role in ("text", "password text")] == [
        ("text", "Town Hall"),
        ("password text", None),
    ]
    assert "checked" not in agree.states
    assert "elements" not in (await lease.screenshot()).model_dump()


async def test_an_effect_is_read_back_from_the_target(lease: ClientLease) -> None:
    """Typed text is evidence as the field's new value, a click on a box as its state; `expect` reads them."""
    shot, agree = await seen(lease, "check box", "Agree")
    town = next(e for e in shot.elements or () if e.value == "Town Hall")
    at = {
        name: {"x": e.bounds.x + 12, "y": e.bounds.y + 12} for name, e in {"box": agree, "town": town}.items()
    }
    receipt = await lease.input(
        [
            {"type": "click", **at["box"], "expect": {"field": "checked", "equals": "true"}},
            {"type": "click", **at["box"]},
            {"type": "wait", "ms": 500},
            {"type": "click", **at["town"]},
            {"type": "keypress", "keys": ["CTRL", "A"]},
            {"type": "type", "text": "City"},
            {"type": "keypress", "keys": ["END"], "expect": {"field": "value", "equals": "City"}},
            {
                "type": "keypress",
                "keys": ["END"],
                "expect": {"field": "text", "equals": "Town", "within_ms": 0},
            },
        ],
        screenshot_id=shot.screenshot_id,
    )
    told = [(i.effect.outcome, i.effect.evidence) for i in receipt.inputs]
    assert told[0] == ("confirmed", "expect_met")
    assert told[6:] == [("confirmed", "expect_met"), ("failed", "expect_unmet")]
    shot, town = await seen(lease, "text", "")
    assert town.value == "City"
    box = {"x": agree.bounds.x + 8, "y": agree.bounds.y + 8}
    receipt = await lease.input([{"type": "click", **box}], screenshot_id=shot.screenshot_id)
    assert receipt.inputs[0].effect.evidence in ("state_changed", "focus_gained")


async def test_an_element_is_clicked_by_its_id(world: World, lease: ClientLease) -> None:
    """A button's id of the screenshot is a click in its middle; an id that it does not have sends nothing."""
    shot, button = await seen(lease, "push button", "retitle")
    receipt = await lease.input([{"type": "element", "id": button.id}], screenshot_id=shot.screenshot_id)
    assert receipt.delivery == "confirmed"
    assert await world.page.until(lambda page: page.entries("click"), within=20)
    shot = await lease.screenshot(ELEMENTS)
    with pytest.raises(StaleScreenshot):
        await lease.input([{"type": "element", "id": "1.2/999999"}], screenshot_id=shot.screenshot_id)


async def test_input_goes_on_when_the_bus_is_killed(
    world: World, client: BodyClient, lease: ClientLease
) -> None:
    """Without its bus, accessibility is said to be down, and input is confirmed all the same."""
    await seen(lease, "push button", "retitle")
    before = (await client.status())["components"]["accessibility"]
    os.kill(before["pid"], signal.SIGKILL)
    for _ in range(200):
        shot = await lease.screenshot(ELEMENTS)
        if shot.elements is None:
            break
    assert shot.accessibility is not AccessibilityState.READY
    receipt = await lease.input([{"type": "move", "x": 900, "y": 300}], screenshot_id=shot.screenshot_id)
    assert receipt.outcome == "confirmed"
    for _ in range(300):
        part = (await client.status())["components"]["accessibility"]
        if part["state"] == "ready":
            break
        await trio.sleep(0.1)
    assert (part["state"], part["restarts"]) == ("ready", 1)


async def test_off_nothing_of_it_runs() -> None:
    """Without the setting there is no such component, and a screenshot says that it is off."""
    with folder() as root, bare_world(root) as world:
        async with world.client() as client:
            shot = await client.screenshot(ELEMENTS)
            assert (shot.accessibility, shot.elements) == (AccessibilityState.OFF, None)
            assert "accessibility" not in (await client.status())["components"]
            assert not (root / "run" / "a11y").exists()
