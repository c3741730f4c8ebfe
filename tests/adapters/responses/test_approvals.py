"""Calls that need somebody's yes: the provider's safety checks, what the door parks, and commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from bodyd import errors
from bodyd.contract.ports import ApprovalRequest

from .test_loop import ADD, CLICK, kinds
from .world import Json, World, computer, function, message, read, shell, world

CHECK = {"id": "sc1", "code": "malicious_instructions", "message": "careful"}


class Person:
    """Answers approvals: at once with `answer`, or, where that is None, when `say` is called."""

    def __init__(self, answer: bool | None = None) -> None:
        self.answer = answer
        self.asked: list[ApprovalRequest] = []
        self.parked: list[str] = []
        self.waiting = trio.Event()
        self._said = trio.Event()

    def say(self, answer: bool) -> None:
        self.answer = answer
        self._said.set()

    async def decide(self, request: ApprovalRequest) -> bool:
        self.asked.append(request)
        return await self._answer()

    async def decided(self, approval_id: str) -> bool:
        self.parked.append(approval_id)
        return await self._answer()

    async def _answer(self) -> bool:
        self.waiting.set()
        if self.answer is None:
            await self._said.wait()
        await trio.lowlevel.checkpoint()
        assert self.answer is not None
        return self.answer


def parks(w: World, person: Person, *, times: int = 1) -> list[str]:
    """Make the body park input until *person* has approved it that often; the request ids that came."""
    came: list[str] = []
    through = w.body.input

    async def input(request: Any, **more: Any) -> Any:
        came.append(request.request_id)
        if len(came) <= times:
            raise errors.ApprovalRequired("a sign-in", approval_id=f"apr_{len(came)}", expires_at=1)
        return await through(request, **more)

    w.body.input = input
    return came


# -- pending_safety_checks --------------------------------------------------------------------------------


async def test_checks_of_the_clients_call_go_out_and_come_back(tmp_path: Path):
    """They are shown with the call, and what the client acknowledges reaches the model's server."""
    async with world(tmp_path, [computer(CLICK, pending_safety_checks=[CHECK])], [message("done")]) as w:
        first = await w.create("computer")
        assert first["output"][0]["pending_safety_checks"] == [CHECK]
        picture = {"type": "computer_screenshot", "image_url": "http://example.com/a.png"}
        answer = {
            "type": "computer_call_output",
            "call_id": "call_c",
            "output": picture,
            "acknowledged_safety_checks": [CHECK],
        }
        await w.create("computer", input=[answer], previous_response_id=first["id"])
        sent = w.model.requests[-1]["input"]
        assert sent[1]["pending_safety_checks"] == [CHECK]
        assert sent[2]["acknowledged_safety_checks"] == [CHECK]


async def test_nobody_to_ask_means_no(tmp_path: Path):
    """Without a hook nothing runs; the model is told why, with the screen, and may only end its turn."""
    async with world(
        tmp_path, [computer(pending_safety_checks=[CHECK])], [message("ended")], computer="body"
    ) as w:
        response = await w.create("computer")
        assert response["status"] == "completed"
        assert w.body.acted == []
        assert w.model.requests[-1]["tool_choice"] == "none"
        assert "did not approve" in str(w.model.requests[-1]["input"])


async def test_a_yes_carries_the_call_out(tmp_path: Path):
    """Exactly this call was asked for, with the provider's words; its output acknowledges the checks."""
    call = computer({"type": "screenshot"}, pending_safety_checks=[CHECK])
    person = Person(True)
    async with world(
        tmp_path, [call], [message("ok")], computer="body", approvals=person, executed_items="pairs"
    ) as w:
        response = await w.create("computer")
        assert len(w.body.acted) == 1
        (asked,) = person.asked
        assert (asked.rule, asked.reason) == ("pending_safety_checks", "malicious_instructions: careful")
        assert (asked.conversation_id, asked.epoch) == (response["id"], 1)
        assert [action.type for action in asked.actions] == ["screenshot"]
        assert response["output"][0]["pending_safety_checks"] == [CHECK]
        assert response["output"][1]["acknowledged_safety_checks"] == [CHECK]
        assert w.model.requests[-1]["input"][2]["acknowledged_safety_checks"] == [CHECK]


async def test_a_no_ends_the_turn(tmp_path: Path):
    """The refused call and every later one of the turn are answered, none of them run."""
    turn = [computer(pending_safety_checks=[CHECK]), computer(CLICK, call_id="c2"), shell("ls")]
    async with world(
        tmp_path,
        turn,
        [message("ended"), computer(call_id="c3")],
        computer="body",
        shell="body",
        approvals=Person(False),
        executed_items="pairs",
    ) as w:
        response = await w.create("computer", "shell")
        assert response["status"] == "completed"
        assert w.executed == 0
        assert "earlier call of this turn was not approved" in str(w.model.requests[-1]["input"])
        outputs = [item for item in response["output"] if item["type"] == "computer_call_output"]
        assert all(item["output"].get("file_id") for item in outputs), "always a picture"


async def test_a_call_that_nobody_could_read_is_not_asked_for(tmp_path: Path):
    """Whoever approves sees the actions: a malformed call is told to the model instead."""
    call = computer({"type": "dance"}, pending_safety_checks=[CHECK])
    person = Person(True)
    async with world(tmp_path, [call], [message("sorry")], computer="body", approvals=person) as w:
        await w.create("computer")
        assert person.asked == []
        assert w.body.acted == []


# -- what the door parks ----------------------------------------------------------------------------------


async def test_a_parked_call_is_posted_again_under_its_id(tmp_path: Path):
    """The door names the approval; once it is given, the same request id executes, once."""
    person = Person()
    async with world(tmp_path, [computer()], [message("done")], computer="body", approvals=person) as w:
        came = parks(w, person)
        async with trio.open_nursery() as nursery:

            async def approve() -> None:
                await person.waiting.wait()
                assert w.body.token is not None, "the lease is kept while the approval is open"
                assert w.body.acted == []
                person.say(True)

            nursery.start_soon(approve)
            response = await w.create("computer")
        assert response["status"] == "completed"
        assert person.parked == ["apr_1"]
        assert came == [f"{response['id']}/1/0"] * 2
        assert len(w.body.acted) == 1
        assert w.body.token is None


async def test_a_parked_call_that_is_refused(tmp_path: Path):
    """The model is told, with the screen as it is, and may only end its turn."""
    person = Person(False)
    async with world(tmp_path, [computer()], [message("ended")], computer="body", approvals=person) as w:
        came = parks(w, person)
        response = await w.create("computer")
        assert response["status"] == "completed"
        assert len(came) == 1
        assert w.body.acted == []
        assert w.model.requests[-1]["tool_choice"] == "none"


async def test_a_parked_call_without_a_hook(tmp_path: Path):
    """Nobody can answer here: the model is told at once."""
    async with world(tmp_path, [computer()], [message("ended")], computer="body") as w:
        came = parks(w, Person())
        await w.create("computer")
        assert len(came) == 1
        assert w.model.requests[-1]["tool_choice"] == "none"


async def test_an_approval_that_turns_out_void_is_asked_for_again(tmp_path: Path):
    """After a hand-over, say; but not for ever."""
    person = Person(True)
    async with world(tmp_path, [computer()], [message("done")], computer="body", approvals=person) as w:
        parks(w, person, times=2)
        await w.create("computer")
        assert person.parked == ["apr_1", "apr_2"]
        assert len(w.body.acted) == 1
    async with world(tmp_path, [computer()], [message("ended")], computer="body", approvals=person) as w:
        came = parks(w, person, times=99)
        await w.create("computer")
        assert len(came) == 3
        assert w.model.requests[-1]["tool_choice"] == "none"


async def test_a_blocking_request_waits_so_long(tmp_path: Path, mock_clock: trio.testing.MockClock):
    """Sixty seconds, then the model is told; the answer that comes later changes nothing."""
    person = Person()
    async with world(tmp_path, [computer()], [message("ended")], computer="body", approvals=person) as w:
        parks(w, person)
        async with trio.open_nursery() as nursery:

            async def clock() -> None:
                await person.waiting.wait()
                mock_clock.jump(59)
                await trio.testing.wait_all_tasks_blocked()
                assert len(w.model.requests) == 1
                mock_clock.jump(1.1)

            nursery.start_soon(clock)
            response = await w.create("computer")
        assert response["status"] == "completed"
        assert w.body.acted == []
        assert "did not approve" in str(w.model.requests[-1]["input"])


@pytest.mark.parametrize("how", ["stream", "background"])
async def test_others_wait_to_the_expiry(tmp_path: Path, mock_clock: trio.testing.MockClock, how: str):
    """A stream, kept alive by comments, and a background response wait as long as the approval lives."""
    person = Person()
    async with world(tmp_path, [computer()], [message("done")], computer="body", approvals=person) as w:
        parks(w, person)
        body = {"model": "m", "input": "go", "tools": [{"type": "computer"}], how: True}
        reply = await w.call("POST", "/v1/responses", body)
        chunks: list[bytes] = []
        async with trio.open_nursery() as nursery:

            async def clock() -> None:
                await person.waiting.wait()
                for _ in range(40):
                    mock_clock.jump(15.1)
                    await trio.testing.wait_all_tasks_blocked()
                person.say(True)

            nursery.start_soon(clock)
            if reply.stream is not None:
                chunks = [chunk async for chunk in reply.stream]
                await reply.stream.aclose()
        (run,) = w.adapter.gateway.runs._by_id.values()
        await run.done.wait()
        assert run.response["status"] == "completed"
        assert len(w.body.acted) == 1
        assert how == "background" or chunks.count(b": still here\n\n") > 20


async def test_cancelling_does_not_wait_for_a_person(tmp_path: Path):
    """A response that waits for an approval is cancelled like any other, and the body given back."""
    person = Person()
    async with world(tmp_path, [computer()], computer="body", approvals=person) as w:
        parks(w, person)
        body = {"model": "m", "input": "go", "tools": [{"type": "computer"}], "background": True}
        begun = await w.ask(body=body)
        await person.waiting.wait()
        with trio.fail_after(5):
            cancelled = await w.ask(f"/v1/responses/{begun['id']}/cancel")
        assert cancelled["status"] == "cancelled"
        assert w.body.token is None


# -- refusals by rule -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "ends"),
    [("policy.approve:click", True), ("approve:rm", True), ("policy.deny:click", False), ("deny:rm", False)],
)
async def test_a_rule_that_wants_an_approval_ends_the_turn(tmp_path: Path, rule: str, ends: bool):
    """One that denies for good leaves the model other ways; one that nobody approved leaves it none."""
    refusal = errors.PolicyRefused("no", rule=rule)
    answers = [[computer()], [message("hm")]] if "click" in rule else [[shell("rm x")], [message("hm")]]
    async with world(tmp_path, *answers, computer="body", shell="body") as w:

        async def refuse(*args: Any, **more: Any) -> Any:
            raise refusal

        def refused(command: str) -> Any:
            raise refusal

        w.body.input, w.shell.results = refuse, refused
        response = await w.create("computer", "shell")
        assert response["status"] == "completed"
        assert (w.model.requests[-1]["tool_choice"] == "none") is ends


async def test_a_functions_call_beside_a_refusal_is_still_the_clients(tmp_path: Path):
    """The client gets its own call; the response does not go on to another round."""
    turn = [computer(pending_safety_checks=[CHECK]), function("add", {"a": 1}, "f1")]
    async with world(tmp_path, turn, [message("never")], computer="body", approvals=Person(False)) as w:
        response = await w.create("computer", ADD)
        assert kinds(response["output"]) == ["function_call"]
        assert len(w.model.requests) == 1


async def test_the_stream_of_a_refused_call(tmp_path: Path):
    """Hidden like any executed call, and the turn's last words are streamed."""
    async with world(
        tmp_path, [computer(pending_safety_checks=[CHECK])], [message("ended")], computer="body"
    ) as w:
        body: Json = {"model": "m", "input": "go", "tools": [{"type": "computer"}], "stream": True}
        events = await read(await w.call("POST", "/v1/responses", body))
        assert kinds(events[-1]["response"]["output"]) == ["message"]
