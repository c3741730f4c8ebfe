"""Running computer_calls through a BodyPort: contract/computer_run.py, over a body in memory."""

from __future__ import annotations

import pytest

from bodyd import errors
from bodyd.contract.computer_call import ComputerCallRequest, data_url
from bodyd.contract.computer_run import REMEMBERED, ComputerRunner
from bodyd.contract.lease import AcquireRequest, Scope
from bodyd.contract.ports import Caller
from tests.http.fake_body import FakeBody

CALLER = Caller("tok_1", Scope.DRIVER)
CLICK = {"type": "click", "button": "left", "x": 3, "y": 4}
LOOK = {"type": "screenshot"}
TYPE = {"type": "type", "text": "x"}


class Driver:
    """One lease on a fake body, through one runner."""

    def __init__(self) -> None:
        self.body = FakeBody()
        self.runner = ComputerRunner(self.body)

    async def acquire(self):
        self.grant = await self.body.acquire(AcquireRequest(conversation_id="c"), caller=CALLER)

    async def call(self, *actions, request_id="r", caller=CALLER, **more):
        item = {"type": "computer_call", "id": "i", "call_id": "c", "actions": list(actions), **more}
        wanted = ComputerCallRequest(request_id=request_id, epoch=self.grant.epoch, item=item)
        return await self.runner.run(wanted, caller=caller, lease_token=self.grant.lease_token)


@pytest.fixture
async def driver() -> Driver:
    driver = Driver()
    await driver.acquire()
    return driver


@pytest.fixture
async def sighted(driver: Driver) -> Driver:
    """A driver that was shown the screen."""
    await driver.call(LOOK, request_id="look")
    driver.body.acted.clear()
    return driver


async def test_a_batch_and_the_picture_that_it_took(sighted: Driver):
    """One request to the door, whose own screenshot is the answer."""
    result = await sighted.call(CLICK, TYPE)
    (receipt,) = result.receipts
    assert [x.type for x in sighted.body.acted] == ["click", "type"]
    assert receipt.screenshot is not None
    taken = await sighted.body.image(receipt.screenshot.screenshot_id, caller=CALLER)
    assert result.item["output"]["image_url"] == data_url(taken)


async def test_refusals_come_before_anything_runs(sighted: Driver):
    """A bad action or an open safety check, and the body is not asked."""
    sighted.body.calls.clear()
    with pytest.raises(errors.UnknownAction):
        await sighted.call(CLICK, {"type": "teleport"})
    with pytest.raises(errors.ApprovalRequired):
        await sighted.call(CLICK, pending_safety_checks=[{"id": "sc"}])
    assert sighted.body.calls == []


async def test_a_fault_is_named_as_the_client_knows_it(sighted: Driver):
    """The door speaks of inputs of a batch; the client sent actions of an item."""
    with pytest.raises(errors.OutOfBounds) as caught:
        await sighted.call(CLICK, {**CLICK, "x": 9999})
    assert caught.value.param == "item.actions[1]"
    with pytest.raises(errors.OutOfBounds) as caught:
        await sighted.call(*[CLICK] * 66, {**CLICK, "x": 9999}, request_id="long")
    assert caught.value.param == "item.actions[66]"


async def test_a_blind_click_is_answered_with_a_picture_each_time(driver: Driver):
    """Also to a retry, which is marked; another call under that id is refused; the next id may act."""
    first = await driver.call(CLICK)
    again = await driver.call(CLICK)
    assert [r.receipts[0].reason for r in (first, again)] == ["screenshot_first"] * 2
    assert [r.receipts[0].replayed for r in (first, again)] == [False, True]
    with pytest.raises(errors.RequestConflict):
        await driver.call(CLICK, CLICK)
    assert driver.body.acted == []
    await driver.call(CLICK, request_id="next")
    assert len(driver.body.acted) == 1


async def test_request_ids_are_remembered_per_caller(driver: Driver):
    """Another driver's id of the same name is another request."""
    await driver.call(CLICK)
    result = await driver.call(CLICK, caller=Caller("tok_2", Scope.DRIVER))
    assert result.receipts[0].reason is None


async def test_what_is_remembered_is_bounded(driver: Driver):
    """The oldest of many unexecuted calls is forgotten."""
    for n in range(REMEMBERED + 1):
        driver.body._latest = None
        await driver.call(CLICK, request_id=f"r{n}")
    assert len(driver.runner._unexecuted) == REMEMBERED


async def test_a_binding_refusal_is_told_by_its_own_name(sighted: Driver, monkeypatch):
    """The client did see a picture, and the screen is no longer that one."""

    async def refuse(request, *, caller, lease_token):
        raise errors.StaleScreenshot("covered", param="inputs[0]")

    monkeypatch.setattr(sighted.body, "input", refuse)
    result = await sighted.call(CLICK)
    assert result.receipts[0].reason == "stale_screenshot"
    assert result.item["output"]["image_url"].startswith("data:image/png;base64,")


async def test_a_chunk_that_is_not_confirmed_stops_the_rest(sighted: Driver):
    """What follows has receipts of its own, not attempted."""
    sighted.body.failing = "type"
    result = await sighted.call(*[CLICK] * 63, TYPE, *[CLICK] * 2)
    first, second = result.receipts
    assert first.inputs[63].delivery.reason == "interrupted"
    assert (second.request_id, second.reason) == ("r/1", "not_attempted")
    assert len(sighted.body.acted) == 63


async def test_an_expectation_that_failed_stops_the_rest(sighted: Driver, monkeypatch):
    """Delivery was confirmed, but what the caller stated did not come true."""
    original = sighted.body.input

    async def unmet(request, *, caller, lease_token):
        receipt = await original(request, caller=caller, lease_token=lease_token)
        raw = receipt.model_dump()
        raw["inputs"][-1]["effect"] = {"outcome": "failed", "evidence": "window_title"}
        return type(receipt).model_validate(raw)

    monkeypatch.setattr(sighted.body, "input", unmet)
    result = await sighted.call(*[CLICK] * 65)
    assert result.receipts[1].reason == "not_attempted"


@pytest.mark.parametrize("error", [errors.StaleLease, errors.StaleScreenshot])
async def test_an_error_between_chunks_carries_what_was_done(sighted: Driver, monkeypatch, error):
    """Also a refusal to aim: by then something was sent, and a picture alone would hide it."""
    original = sighted.body.input

    async def once(request, *, caller, lease_token):
        if request.request_id != "r/0":
            raise error("not any more")
        return await original(request, caller=caller, lease_token=lease_token)

    monkeypatch.setattr(sighted.body, "input", once)
    with pytest.raises(error) as caught:
        await sighted.call(*[CLICK] * 65)
    assert [r["request_id"] for r in caught.value.details["receipts"]] == ["r/0"]


async def test_a_replay_has_a_picture_though_its_own_is_gone(sighted: Driver):
    """A fresh one stands in, and nothing acts twice."""
    await sighted.call(CLICK)
    sighted.body.forget_images()
    result = await sighted.call(CLICK)
    assert result.receipts[0].replayed
    assert len(sighted.body.acted) == 1


async def test_a_picture_that_cannot_be_had(sighted: Driver, monkeypatch):
    """The error carries the receipts; asking again is safe."""

    async def fail(screenshot_id, *, caller):
        raise errors.DisplayUnavailable("dark")

    monkeypatch.setattr(sighted.body, "image", fail)
    with pytest.raises(errors.DisplayUnavailable) as caught:
        await sighted.call(CLICK)
    assert caught.value.details["receipts"][0]["request_id"] == "r"


async def test_a_lease_lost_with_the_last_input_still_shows_the_screen(sighted: Driver, monkeypatch):
    """The picture is then a viewer's, bound to nothing."""
    original = sighted.body.input

    async def lose(request, *, caller, lease_token):
        receipt = await original(request, caller=caller, lease_token=lease_token)
        sighted.body.token = None
        return receipt.model_copy(update={"screenshot": None})

    monkeypatch.setattr(sighted.body, "input", lose)
    result = await sighted.call(CLICK)
    assert result.item["output"]["image_url"].startswith("data:image/png;base64,")
