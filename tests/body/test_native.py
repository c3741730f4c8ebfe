"""Native execution, end to end: an OpenAI computer_call in, the browser's own event log, a receipt out."""

from __future__ import annotations

import base64
import json
from io import BytesIO

import pytest
from PIL import Image

from bodyd.client import BodyClient, ClientLease, new_request_id
from bodyd.contract.receipts import Delivery, Outcome, Sent
from bodyd.errors import (
    InvalidRequest,
    OutOfBounds,
    RequestConflict,
    StaleEpoch,
    StaleLease,
    StaleScreenshot,
    UnknownAction,
    UnknownKey,
)

from .world import World


async def acquire(client: BodyClient, world: World, name: str = "conversation-1") -> ClientLease:
    """A lease with a screenshot seen, and the page ready and its log empty."""
    assert await world.page.until(lambda page: page.origin is not None, within=20)
    lease = await client.acquire(name)
    await lease.screenshot()
    world.page.clear()
    return lease


def call(*actions: object, **more: object) -> dict[str, object]:
    item = {"type": "computer_call", "id": "cu_1", "call_id": "call_1", "status": "completed"}
    return {**item, "pending_safety_checks": [], "actions": list(actions), **more}


def picture(answer) -> Image.Image:
    url = answer.item["output"]["image_url"]
    assert url.startswith("data:image/png;base64,")
    return Image.open(BytesIO(base64.b64decode(url.partition(",")[2])))


async def test_a_computer_call_clicks_types_and_answers_with_a_screenshot(world, client):
    """The page saw exactly the click and the text; the answer is OpenAI's item with the receipts beside."""
    lease = await acquire(client, world)
    x, y = world.page.at(60, 60)
    answer = await lease.computer_call(
        call({"type": "click", "button": "left", "x": x, "y": y}, {"type": "type", "text": "penguin"})
    )
    item = answer.item
    assert (item["type"], item["call_id"]) == ("computer_call_output", "call_1")
    assert item["output"]["type"] == "computer_screenshot"
    assert item["output"]["detail"] == "original"
    assert picture(answer).size == (1280, 800)
    (receipt,) = answer.receipts
    assert [i.delivery.outcome for i in receipt.inputs] == ["confirmed", "confirmed"]
    assert receipt.inputs[1].delivery.sent == Sent(units=7, of=7)
    assert await world.page.until(
        lambda p: p.entries("value") and p.entries("value")[-1]["value"] == "penguin"
    )
    (click,) = world.page.entries("click")
    assert (click["x"], click["y"], click["trusted"]) == (60, 60, True)
    await lease.release()


@pytest.mark.parametrize(
    ("button", "number"), [("left", 0), ("wheel", 1), ("right", 2), ("back", 3), ("forward", 4)]
)
async def test_all_five_buttons_and_held_keys_reach_the_page(world, client, button, number):
    """Each button is the browser's own number, with Control held around it."""
    lease = await acquire(client, world)
    x, y = world.page.at(100, 180)
    await lease.computer_call(call({"type": "click", "button": button, "x": x, "y": y, "keys": ["CTRL"]}))
    assert await world.page.until(lambda p: p.entries("mouseup"))
    (down,), (up,) = world.page.entries("mousedown"), world.page.entries("mouseup")
    assert (down["button"], down["ctrl"], down["target"]) == (number, True, "box")
    assert up["button"] == number
    await lease.release()


async def test_the_rest_of_the_vocabulary_arrives(world, client):
    """double_click, scroll, keypress, drag, move, wait and screenshot, in one batch and in order."""
    lease = await acquire(client, world)
    at = world.page.at
    (fx, fy), (bx, by), (lx, ly) = at(60, 60), at(100, 180), at(100, 380)
    answer = await lease.computer_call(
        call(
            {"type": "double_click", "x": bx, "y": by, "keys": None},
            {"type": "move", "x": bx + 5, "y": by + 5},
            {"type": "scroll", "x": lx, "y": ly, "scroll_x": 0, "scroll_y": 300},
            {"type": "drag", "path": [{"x": bx + n, "y": by + n} for n in (0, 10, 20, 30, 40)]},
            {"type": "click", "button": "left", "x": fx, "y": fy},
            {"type": "keypress", "keys": ["CTRL", "A"]},
            {"type": "keypress", "keys": ["SHIFT", "x"]},
            {"type": "wait"},
            {"type": "screenshot"},
        )
    )
    (receipt,) = answer.receipts
    assert {i.delivery.outcome for i in receipt.inputs} == {"confirmed"}
    page = world.page
    assert await page.until(lambda p: p.entries("scroll") and p.entries("drag") and p.entries("dblclick"))
    assert len(page.entries("dblclick")) == 1
    assert await page.until(lambda p: p.entries("value") and p.entries("value")[-1]["value"] == "X")
    presses = page.entries("mousedown")
    assert len(presses) == 4  # two of the double click, one of the drag, one of the click
    assert [k["key"] for k in page.entries("keydown")] == ["Control", "a", "Shift", "X"]
    assert receipt.inputs[1].effect.evidence == "pointer_at_target"
    assert receipt.inputs[7].effect.outcome is None
    await lease.release()


async def test_a_triple_click_and_held_buttons_are_what_the_page_takes_them_for(world, client):
    """The third click is a third; a button that is put down, moved and lifted drags, in three inputs."""
    lease = await acquire(client, world)
    (dx, dy), (bx, by) = world.page.at(400, 180), world.page.at(100, 180)
    receipt = await lease.input(
        [
            {"type": "triple_click", "x": dx, "y": dy},
            {"type": "button_down", "x": bx, "y": by},
            {"type": "move", "x": bx + 40, "y": by + 20},
            {"type": "button_up", "x": bx + 40, "y": by + 20},
        ]
    )
    assert {i.delivery.outcome for i in receipt.inputs} == {"confirmed"}
    assert await world.page.until(lambda p: len(p.entries("mouseup")) == 4)
    assert [e["clicks"] for e in world.page.entries("click")[:3]] == [1, 2, 3]
    drags = world.page.entries("drag")
    assert (drags[-1]["x"], drags[-1]["y"]) == (140, 200)
    await lease.release()


async def test_the_legacy_single_action_runs(world, client):
    """An item with `action` is the preview tool's."""
    lease = await acquire(client, world)
    item = call()
    del item["actions"]
    x, y = world.page.at(350, 180)
    answer = await lease.computer_call(
        {**item, "action": {"type": "click", "button": "left", "x": x, "y": y}}
    )
    assert await world.page.until(lambda p: p.entries("click"))
    assert answer.receipts[0].inputs[0].delivery.outcome == "confirmed"
    assert answer.receipts[0].inputs[0].effect.outcome == "uncertain"  # a dead area proves nothing
    await lease.release()


async def test_a_stated_expectation_confirms_or_fails_the_effect(world, client):
    """The title is read back: met, the effect is confirmed; unmet, it failed and the batch ends."""
    lease = await acquire(client, world)
    x, y = world.page.at(600, 150)
    click = {"type": "click", "button": "left", "x": x, "y": y}
    opened = {"field": "window_title", "contains": "opened"}
    receipt = await lease.input([{**click, "expect": opened}])
    effect = receipt.inputs[0].effect
    assert (effect.outcome, effect.evidence) == ("confirmed", "expect_met")
    never = {"field": "window_title", "contains": "never", "within_ms": 100}
    receipt = await lease.input([{**click, "expect": never}, click])
    first, second = receipt.inputs
    assert (first.delivery.outcome, first.effect.outcome) == ("confirmed", "failed")
    assert (second.delivery.outcome, second.delivery.reason) == ("failed", "not_attempted")
    await lease.release()


async def test_the_same_request_id_acts_once(world, client):
    """Sent again it is answered from the journal; with another body it is refused."""
    lease = await acquire(client, world)
    x, y = world.page.at(100, 180)
    item, request_id = call({"type": "click", "button": "left", "x": x, "y": y}), new_request_id()
    first = await lease.computer_call(item, request_id=request_id)
    again = await lease.computer_call(item, request_id=request_id)
    assert again.receipts[0].replayed
    assert again.receipts[0].inputs == first.receipts[0].inputs
    assert picture(again).size == (1280, 800)
    other = call({"type": "click", "button": "left", "x": x + 1, "y": y})
    with pytest.raises(RequestConflict):
        await lease.computer_call(other, request_id=request_id)
    assert await world.page.until(lambda p: p.entries("click"))
    assert len(world.page.entries("click")) == 1
    stored = await client.receipt(request_id)
    assert stored.replayed
    assert stored.outcome == first.receipts[0].outcome
    await lease.release()


BAD = [
    ({"type": "keypress", "keys": ["CTRL", "nosuchkey"]}, UnknownKey),
    ({"type": "click", "button": "left", "x": 5000, "y": 5}, OutOfBounds),
    ({"type": "click", "button": "left", "x": -1, "y": 5}, OutOfBounds),
    ({"type": "click", "button": "left", "x": 10.5, "y": 5}, InvalidRequest),
    ({"type": "teleport", "x": 1, "y": 1}, UnknownAction),
    ({"type": "drag", "path": [{"x": 1, "y": 1}]}, InvalidRequest),
]


@pytest.mark.parametrize(("bad", "error"), BAD, ids=[f"{e.code}-{b['type']}" for b, e in BAD])
@pytest.mark.parametrize("through", ["computer_call", "input"])
async def test_one_bad_action_refuses_the_batch_and_nothing_is_sent(world, client, bad, error, through):
    """No X event, and the state unchanged: the good click before it was not made either."""
    lease = await acquire(client, world)
    x, y = world.page.at(100, 180)
    good = {"type": "click", "button": "left", "x": x, "y": y}
    before = (await client.status())["lease"]
    send = {
        "computer_call": lambda: lease.computer_call(call(good, bad)),
        "input": lambda: lease.input([good, bad]),
    }
    with pytest.raises(error) as caught:
        await send[through]()
    assert str(caught.value)
    after = (await client.status())["lease"]
    assert (before["state"], before["epoch"]) == (after["state"], after["epoch"])
    await lease.screenshot()
    await lease.computer_call(call({"type": "move", "x": x, "y": y}))
    assert world.page.entries("mousedown", "keydown") == []
    await lease.release()


async def test_sixty_five_inputs_are_refused(world, client):
    """One request has at most 64."""
    lease = await acquire(client, world)
    with pytest.raises(InvalidRequest, match="64"):
        await lease.input([{"type": "wait", "ms": 0}] * 65)
    await lease.release()


async def test_input_under_another_screenshot_epoch_or_token_is_refused(world, client):
    """Only the latest screenshot, the current epoch and the current token admit."""
    lease = await acquire(client, world)
    x, y = world.page.at(100, 180)
    click = {"type": "click", "button": "left", "x": x, "y": y}
    old = await lease.screenshot()
    await lease.screenshot()
    with pytest.raises(StaleScreenshot):
        await lease.input([click], screenshot_id=old.screenshot_id)
    fresh = await lease.screenshot()
    await lease.release()
    with pytest.raises(StaleLease):
        await lease.input([click], screenshot_id=fresh.screenshot_id)
    second = await client.acquire("conversation-2")
    assert second.epoch > lease.epoch
    with pytest.raises(StaleScreenshot):
        await second.input([click], screenshot_id=fresh.screenshot_id)
    second.epoch -= 1
    with pytest.raises(StaleEpoch):
        await second.input([click], screenshot_id=fresh.screenshot_id)
    second.epoch += 1
    assert world.page.entries("mousedown") == []
    await second.release()


async def test_a_pointer_call_before_any_image_is_answered_with_one(world, client):
    """A client without screenshot ids must look before it acts: nothing runs, the image says so."""
    assert await world.page.until(lambda page: page.origin is not None, within=20)
    lease = await client.acquire("conversation-3")
    world.page.clear()
    answer = await lease.computer_call(call({"type": "click", "button": "left", "x": 300, "y": 300}))
    (receipt,) = answer.receipts
    assert receipt.inputs[0].delivery == Delivery(
        outcome=Outcome.FAILED, sent=Sent(units=0, of=3), reason="screenshot_first"
    )
    assert picture(answer).size == (1280, 800)
    assert world.page.entries("mousedown") == []
    await lease.release()


async def test_no_typed_text_is_in_the_state_directory(world, client):
    """The journal keeps a length and a digest; the text is in no file of the daemon's."""
    lease = await acquire(client, world)
    x, y = world.page.at(60, 60)
    secret = "correct-horse-7361"
    await lease.computer_call(
        call({"type": "click", "button": "left", "x": x, "y": y}, {"type": "type", "text": secret})
    )
    await lease.release()
    private = world.config.state / "private"
    assert not [p for p in private.rglob("*") if p.is_file() and secret.encode() in p.read_bytes()]
    assert json.dumps(await client.status()).find(secret) == -1


async def test_control_minus_zooms_out(world, client):
    """The browser takes the chord for what it is: the page's window is wider in its own pixels."""
    lease = await acquire(client, world)
    await lease.input([{"type": "keypress", "keys": ["CTRL", "-"]}])

    def wider(page) -> bool:
        told = page.entries("ready")
        return bool(told) and told[-1]["inner"][0] > told[-1]["outer"][0]

    zoomed_out = await world.page.until(wider)
    await lease.screenshot()
    await lease.input([{"type": "keypress", "keys": ["CTRL", "0"]}])
    assert zoomed_out
    assert await world.page.until(lambda page: not wider(page))
    await lease.release()
