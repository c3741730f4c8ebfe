"""`POST /v1/computer_call` end to end: real client, real server, fake body."""

from __future__ import annotations

import base64
from io import BytesIO

import pytest
from PIL import Image

from bodyd import errors
from bodyd.client import BodyClient, ClientLease
from bodyd.contract import actions as a

from .fake_body import HEIGHT, WIDTH, FakeBody

CLICK = {"type": "click", "button": "left", "x": 3, "y": 4}


def item(*actions, **more):
    return {
        "type": "computer_call",
        "id": "cu_1",
        "call_id": "call_1",
        "status": "completed",
        "pending_safety_checks": [],
        "actions": list(actions),
        **more,
    }


def picture(output) -> Image.Image:
    """The image of an output item, decoded: it must be a whole PNG."""
    assert output["output"]["detail"] == "original"
    prefix, _, data = output["output"]["image_url"].partition(",")
    assert prefix == "data:image/png;base64"
    image = Image.open(BytesIO(base64.b64decode(data)))
    image.load()
    return image


@pytest.fixture
async def lease(client: BodyClient) -> ClientLease:
    """A claim whose client was given an image already."""
    lease = await client.acquire("conv-1")
    await lease.computer_call(item({"type": "screenshot"}), request_id="look")
    return lease


async def test_actions_run_in_order_and_one_image_comes_back(lease: ClientLease, body: FakeBody):
    """Every action once, in order; one capture after the batch."""
    before = body.captures
    result = await lease.computer_call(
        item(CLICK, {"type": "type", "text": "penguin"}, {"type": "keypress", "keys": ["ENTER"]})
    )
    assert [action.type for action in body.acted] == ["screenshot", "click", "type", "keypress"]
    assert body.captures == before + 1
    assert result.item["type"] == "computer_call_output"
    assert result.item["call_id"] == "call_1"
    assert picture(result.item).size == (WIDTH, HEIGHT)
    assert [i.type for i in result.receipts[0].inputs] == ["click", "type", "keypress"]


async def test_a_final_screenshot_is_not_taken_twice(lease: ClientLease, body: FakeBody):
    """The explicit screenshot at the end is the one that follows the batch."""
    before = body.captures
    result = await lease.computer_call(item(CLICK, {"type": "screenshot"}))
    assert body.captures == before + 1
    assert [i.type for i in result.receipts[0].inputs] == ["click", "screenshot"]


async def test_the_preview_form(lease: ClientLease, body: FakeBody):
    """A single `action` is answered like a list of one."""
    raw = item()
    del raw["actions"]
    result = await lease.computer_call({**raw, "action": CLICK})
    assert picture(result.item)
    assert body.acted[-1] == a.Click(x=3, y=4)


@pytest.mark.parametrize(
    ("broken", "error", "param"),
    [
        ({"type": "teleport"}, errors.UnknownAction, "item.actions[2].type"),
        ({"type": "click", "x": 1.5, "y": 0}, errors.InvalidRequest, "item.actions[2].x"),
        ({"type": "keypress", "keys": ["HYPERDRIVE"]}, errors.UnknownKey, "item.actions[2].keys"),
    ],
)
async def test_one_bad_action_and_none_runs(lease: ClientLease, body: FakeBody, broken, error, param):
    """The whole item is checked first."""
    acted = len(body.acted)
    with pytest.raises(error) as caught:
        await lease.computer_call(item(CLICK, CLICK, broken))
    assert type(caught.value) is error
    assert caught.value.param == param
    assert len(body.acted) == acted


async def test_out_of_bounds_is_refused_whole(lease: ClientLease, body: FakeBody):
    """A coordinate outside the image that this client was given."""
    acted = len(body.acted)
    with pytest.raises(errors.OutOfBounds):
        await lease.computer_call(item(CLICK, {**CLICK, "x": WIDTH}))
    assert len(body.acted) == acted


async def test_a_first_click_is_answered_with_a_picture(client: BodyClient, body: FakeBody):
    """Nothing to aim at yet: nothing runs, the receipts say why, and the next call may act."""
    lease = await client.acquire("conv-2")
    result = await lease.computer_call(item(CLICK, {"type": "wait"}), request_id="first")
    assert body.acted == []
    (receipt,) = result.receipts
    assert receipt.request_id == "first"
    assert receipt.reason == "screenshot_first"
    assert [i.delivery.reason for i in receipt.inputs] == ["screenshot_first", "screenshot_first"]
    assert [i.delivery.sent.units for i in receipt.inputs] == [0, 0]
    assert picture(result.item)
    await lease.computer_call(item(CLICK), request_id="second")
    assert [action.type for action in body.acted] == ["click"]


async def test_a_retry_of_what_was_not_executed_is_not_executed(client: BodyClient, body: FakeBody):
    """The lost picture of the first answer must not become what a blind retry aims at."""
    lease = await client.acquire("conv-3")
    await lease.computer_call(item(CLICK), request_id="first")
    again = await lease.computer_call(item(CLICK), request_id="first")
    assert again.receipts[0].replayed
    assert again.receipts[0].reason == "screenshot_first"
    assert picture(again.item)
    assert body.acted == []
    with pytest.raises(errors.RequestConflict):
        await lease.computer_call(item({**CLICK, "x": 9}), request_id="first")


async def test_a_new_epoch_needs_a_new_picture(client: BodyClient, body: FakeBody, lease: ClientLease):
    """An image of before a hand-over is nothing to aim at."""
    await lease.release()
    lease = await client.acquire("conv-4")
    result = await lease.computer_call(item(CLICK))
    assert result.receipts[0].reason == "screenshot_first"


async def test_the_same_request_id_acts_once(lease: ClientLease, body: FakeBody):
    """The stored receipt comes back, marked, with the image of then."""
    first = await lease.computer_call(item(CLICK), request_id="once")
    acted, captures = len(body.acted), body.captures
    again = await lease.computer_call(item(CLICK), request_id="once")
    assert again.receipts[0].replayed
    assert not first.receipts[0].replayed
    assert again.item == first.item
    assert (len(body.acted), body.captures) == (acted, captures)


async def test_a_replay_has_an_image_though_the_old_one_is_gone(lease: ClientLease, body: FakeBody):
    """Past its retention, a fresh one stands in."""
    await lease.computer_call(item(CLICK), request_id="once")
    body.forget_images()
    again = await lease.computer_call(item(CLICK), request_id="once")
    assert again.receipts[0].replayed
    assert picture(again.item)


async def test_another_call_under_the_same_id_is_refused(lease: ClientLease, body: FakeBody):
    """request_conflict, and nothing runs."""
    await lease.computer_call(item(CLICK), request_id="once")
    acted = len(body.acted)
    with pytest.raises(errors.RequestConflict):
        await lease.computer_call(item({**CLICK, "x": 9}), request_id="once")
    assert len(body.acted) == acted


async def test_more_than_64_actions_are_chunked(lease: ClientLease, body: FakeBody):
    """In order, under request_id/0 and on, with one image at the very end."""
    before = body.captures
    result = await lease.computer_call(
        item(*({**CLICK, "x": n % WIDTH} for n in range(130))), request_id="many"
    )
    assert [r.request_id for r in result.receipts] == ["many/0", "many/1", "many/2"]
    assert [x.x for x in body.acted[1:]] == [n % WIDTH for n in range(130)]
    assert body.captures == before + 1
    with pytest.raises(errors.InvalidRequest):
        await lease.computer_call(item(*[CLICK] * 257))


async def test_a_chunk_that_fails_stops_the_rest(lease: ClientLease, body: FakeBody):
    """Later chunks are not sent, and have receipts that say so; the image is of now."""
    body.failing = "type"
    result = await lease.computer_call(
        item(*[CLICK] * 63, {"type": "type", "text": "x"}, *[CLICK] * 66), request_id="many"
    )
    assert [r.request_id for r in result.receipts] == ["many/0", "many/1", "many/2"]
    assert result.receipts[0].inputs[63].delivery.reason == "interrupted"
    assert {i.delivery.reason for r in result.receipts[1:] for i in r.inputs} == {"not_attempted"}
    assert len(body.acted) == 1 + 63
    assert picture(result.item)


async def test_a_lease_lost_between_chunks_keeps_the_receipts(lease: ClientLease, body: FakeBody):
    """The error carries the receipts of what was done before it."""
    original = body.input

    async def losing(request, *, caller, lease_token):
        receipt = await original(request, caller=caller, lease_token=lease_token)
        body.token = None
        return receipt

    body.input = losing  # type: ignore[method-assign]
    with pytest.raises(errors.StaleLease) as caught:
        await lease.computer_call(item(*[CLICK] * 65), request_id="many")
    assert [r["request_id"] for r in caught.value.details["receipts"]] == ["many/0"]


async def test_safety_checks_need_an_answer(lease: ClientLease, body: FakeBody):
    """Open ones refuse the call; acknowledged ones let it run and come back on the output."""
    acted = len(body.acted)
    checks = [{"id": "sc_1", "code": "malicious_instructions", "message": "m"}]
    with pytest.raises(errors.ApprovalRequired):
        await lease.computer_call(item(CLICK, pending_safety_checks=checks))
    assert len(body.acted) == acted
    result = await lease.computer_call(
        item(CLICK, pending_safety_checks=checks, acknowledged_safety_checks=checks)
    )
    assert result.item["acknowledged_safety_checks"] == checks
    assert len(body.acted) == acted + 1


async def test_a_stale_epoch_is_told_with_the_new_one(lease: ClientLease, body: FakeBody):
    """409, nothing runs."""
    acted = len(body.acted)
    lease.epoch -= 1
    with pytest.raises(errors.StaleEpoch) as caught:
        await lease.computer_call(item(CLICK))
    assert caught.value.details["epoch"] == body.epoch
    assert len(body.acted) == acted


async def test_a_screen_that_moved_on_is_shown_anew(lease: ClientLease, body: FakeBody):
    """A refusal to aim is answered with what is there now, unexecuted."""

    async def refusing(request, *, caller, lease_token):
        raise errors.StaleScreenshot("another window is there", param="inputs[0]")

    body.input = refusing  # type: ignore[method-assign]
    result = await lease.computer_call(item(CLICK))
    assert result.receipts[0].reason == "stale_screenshot"
    assert picture(result.item)


async def test_a_picture_that_cannot_be_had_does_not_lose_the_receipts(lease: ClientLease, body: FakeBody):
    """The act happened: the error says so, and the same request id asks again."""

    async def failing(*args, **kwargs):
        raise errors.DisplayUnavailable("no picture")

    real, body.image = body.image, failing  # type: ignore[method-assign]
    with pytest.raises(errors.DisplayUnavailable) as caught:
        await lease.computer_call(item(CLICK), request_id="dark")
    assert [r["request_id"] for r in caught.value.details["receipts"]] == ["dark"]
    body.image = real  # type: ignore[method-assign]
    again = await lease.computer_call(item(CLICK), request_id="dark")
    assert again.receipts[0].replayed


async def test_a_lease_lost_right_after_still_gets_a_picture(lease: ClientLease, body: FakeBody):
    """An uncertain delivery takes the lease away; what the call came to is told all the same."""
    original = body.input

    async def losing(request, *, caller, lease_token):
        receipt = await original(request, caller=caller, lease_token=lease_token)
        body.token = None
        return receipt.model_copy(update={"screenshot": None})

    body.input = losing  # type: ignore[method-assign]
    result = await lease.computer_call(item(CLICK))
    assert result.receipts[0].delivery == "confirmed"
    assert picture(result.item)
