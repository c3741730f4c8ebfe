"""The demo's loop against a body and a model of a few lines: what is asked, shown, saved and concluded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from bodyd import errors
from bodyd.contract.ends import End
from bodyd.contract.receipts import Delivery, Effect, Outcome, Receipt, Sent, input_receipt
from bodyd.demo import run_demo
from bodyd.demo.loop import MAX_ROUNDS

Json = dict[str, Any]

CALL: Json = {"type": "computer_call", "call_id": "c", "actions": [{"type": "screenshot"}]}
LAST: Json = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "\x1b[2Jdone"}],
}


@dataclass
class Model:
    """An upstream that gives prepared answers; the last for ever."""

    answers: Sequence[Sequence[Json] | BaseException]
    requests: list[Json] = field(default_factory=list)

    async def respond(self, request: Mapping[str, Any]) -> Json:
        await trio.lowlevel.checkpoint()
        answer = self.answers[min(len(self.requests), len(self.answers) - 1)]
        self.requests.append({**request, "input": list(request["input"])})
        if isinstance(answer, BaseException):
            raise answer
        return {"output": list(answer)}


@dataclass
class Body:
    """Client and lease in one."""

    fault: errors.BodydError | None = None
    ran: list[str] = field(default_factory=list)
    released: int = 0

    async def acquire(self, conversation_id: str) -> Body:
        await trio.lowlevel.checkpoint()
        return self

    async def screenshot(self) -> SimpleNamespace:
        await trio.lowlevel.checkpoint()
        return SimpleNamespace(screenshot_id=f"s{len(self.ran)}")

    async def image(self, screenshot_id: str) -> bytes:
        await trio.lowlevel.checkpoint()
        return screenshot_id.encode()

    async def computer_call(self, item: Json, *, request_id: str) -> SimpleNamespace:
        await trio.lowlevel.checkpoint()
        if self.fault is not None:
            raise self.fault
        self.ran.append(request_id)
        output = {"type": "computer_call_output", "call_id": item["call_id"], "output": {}}
        return SimpleNamespace(item=output, receipts=(receipt(),))

    async def release(self) -> None:
        await trio.lowlevel.checkpoint()
        self.released += 1


def receipt() -> Receipt:
    delivery = Delivery(outcome=Outcome.CONFIRMED, sent=Sent(units=1, of=1))
    return Receipt(
        request_id="r",
        epoch=1,
        screenshot_id=None,
        started_at=0,
        completed_at=0,
        outcome=Outcome.CONFIRMED,
        inputs=(input_receipt(0, "screenshot", delivery, Effect(outcome=None)),),
        settled=True,
    )


@dataclass
class Shown:
    """How a demo went."""

    end: End
    lines: list[str]


async def play(body: Body, model: Model, out: Path, *, success: bool = True) -> Shown:
    said: list[str] = []

    async def grade() -> SimpleNamespace:
        await trio.lowlevel.checkpoint()
        return SimpleNamespace(success=success, reasons=() if success else ("the box is \x07empty",))

    end = await run_demo(body, model, task="do it", grade=grade, out=out, report=said.append)
    return Shown(end, said)


async def test_a_task_that_the_grader_finds_done(tmp_path: Path) -> None:
    """Each action is shown with its receipt, before and after are saved, the lease is given back."""
    body, model = Body(), Model([[CALL], [CALL, CALL], [LAST]])
    shown = await play(body, model, tmp_path / "out")
    assert shown.end is End.COMPLETED
    assert shown.lines[0] == "task     do it"
    assert [line.split()[:2] for line in shown.lines[2:5]] == [
        ["1", "screenshot"],
        ["2", "screenshot"],
        ["2", "screenshot"],
    ]
    assert shown.lines[-1] == "grader   the task is done"
    assert all(line.isprintable() for line in shown.lines)
    assert (tmp_path / "out" / "before.png").read_bytes() == b"s0"
    assert (tmp_path / "out" / "after.png").read_bytes() == b"s3"
    assert body.released == 1


async def test_the_model_gets_its_own_calls_and_their_outputs(tmp_path: Path) -> None:
    """The whole conversation goes up each time; request ids are unique and under the demo's name."""
    body, model = Body(), Model([[CALL], [CALL, CALL], [LAST]])
    await play(body, model, tmp_path)
    kinds = [[item.get("type", "user") for item in request["input"]] for request in model.requests]
    pair = ["computer_call", "computer_call_output"]
    assert kinds == [
        ["user"],
        ["user", *pair],
        ["user", *pair, "computer_call", "computer_call", "computer_call_output", "computer_call_output"],
    ]
    assert all(request["tools"] == [{"type": "computer"}] for request in model.requests)
    assert len(set(body.ran)) == 3


async def test_the_grader_has_the_last_word(tmp_path: Path) -> None:
    """A model that says done is believed only if the site agrees; the reasons are printed, escaped."""
    shown = await play(Body(), Model([[LAST]]), tmp_path, success=False)
    assert shown.end is End.FAILED
    assert shown.lines[-2:] == ["grader   the task is not done", "grader   the box is \\x07empty"]


async def test_rounds_are_bounded(tmp_path: Path) -> None:
    """A model that never ends is ended, even if the task happens to be done."""
    body = Body()
    shown = await play(body, Model([[CALL]]), tmp_path)
    assert shown.end is End.TOOL_LIMIT
    assert len(body.ran) == MAX_ROUNDS
    assert body.released == 1


async def test_a_safety_check_is_the_owners(tmp_path: Path) -> None:
    """The demo acknowledges nothing on its own; the call is not run."""
    body = Body()
    check = {**CALL, "pending_safety_checks": [{"id": "x"}]}
    shown = await play(body, Model([[check]]), tmp_path)
    assert shown.end is End.OWNER_REQUIRED
    assert body.ran == []


@pytest.mark.parametrize(
    ("fault", "end"),
    [
        (errors.Busy("someone else drives"), End.UNAVAILABLE),
        (errors.DisplayUnavailable("no X"), End.UNAVAILABLE),
        (errors.StaleLease("taken over"), End.REVOKED),
        (errors.BodyStopped("stopped"), End.REVOKED),
        (errors.PolicyRefused("no"), End.OWNER_REQUIRED),
        (errors.RecoveryRequired("unproved"), End.FAILED),
    ],
)
async def test_an_error_ends_it_by_its_kind(tmp_path: Path, fault: errors.BodydError, end: End) -> None:
    """Body's and model's errors map to one enum of ends; the lease is given back all the same."""
    for body, model in ((Body(fault=fault), Model([[CALL]])), (Body(), Model([fault]))):
        shown = await play(body, model, tmp_path)
        assert shown.end is end
        assert f"error    {fault.code}: {fault.message}" in shown.lines
        assert body.released == 1


async def test_a_cancelled_demo_gives_the_lease_back(tmp_path: Path) -> None:
    """Ctrl-C in the middle leaves no claim behind."""
    body = Body()

    thinking = trio.Event()

    class Slow(Model):
        async def respond(self, request: Mapping[str, Any]) -> Json:
            thinking.set()
            await trio.sleep_forever()
            raise AssertionError

    async with trio.open_nursery() as nursery:
        nursery.start_soon(play, body, Slow([]), tmp_path)
        await thinking.wait()
        nursery.cancel_scope.cancel()
    assert body.released == 1
