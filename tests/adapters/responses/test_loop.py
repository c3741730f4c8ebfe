"""The loop: what is carried out and by whom, what is shown, what is remembered, and how it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from bodyd import errors
from bodyd.contract.ports import ProcessResult

from .world import LOWERED, PIXEL, computer, function, message, shell, world

CLICK = {"type": "click", "button": "left", "x": 1, "y": 2}
ADD = {"type": "function", "name": "add", "parameters": {"type": "object"}}


def kinds(items: list[dict[str, Any]]) -> list[str]:
    return [item["type"] for item in items]


@pytest.mark.parametrize("upstream", [{}, LOWERED], ids=["native", "lowered"])
async def test_a_configured_body_completes_a_loop_of_several_rounds(tmp_path: Path, upstream: dict[str, Any]):
    """Screenshot, act, say: the body acts, the client sees the last message alone, the model saw pictures."""
    calls = [computer(call_id="c1"), computer(CLICK, {"type": "type", "text": "hi"}, call_id="c2")]
    if upstream:
        calls = [function("computer", {"actions": call["actions"]}, call["call_id"]) for call in calls]
    async with world(
        tmp_path, [calls[0]], [calls[1]], [message("done")], computer="body", upstream=upstream
    ) as w:
        response = await w.create("computer")
        assert response["status"] == "completed"
        assert kinds(response["output"]) == ["message"]
        assert [action.type for action in w.body.acted] == ["screenshot", "click", "type"]
        assert w.body.token is None, "the body was given back"
        last = w.model.requests[-1]["input"]
        outputs = [item for item in last if item["type"].endswith("_output")]
        assert len(outputs) == 2
        assert "data:image/png" in str(outputs[1])
        items = (await w.get(f"/v1/responses/{response['id']}/input_items?order=asc"))["data"]
        assert kinds(items) == ["message"]
        assert response["usage"]["total_tokens"] == 45


async def test_without_a_handler_nothing_is_executed(tmp_path: Path):
    """The call goes to the client; its output continues the chain with call and output preserved."""
    async with world(tmp_path, [computer(CLICK)], [message("done")]) as w:
        first = await w.create("computer")
        assert kinds(first["output"]) == ["computer_call"]
        assert w.executed == 0
        assert w.body.calls == []
        output = {"type": "computer_screenshot", "image_url": PIXEL, "detail": "original"}
        answer = {"type": "computer_call_output", "call_id": "call_c", "output": output, "extra": 1}
        second = await w.create("computer", input=[answer], previous_response_id=first["id"])
        assert kinds(second["output"]) == ["message"]
        sent = w.model.requests[1]["input"]
        assert kinds(sent) == ["message", "computer_call", "computer_call_output"]
        assert sent[1]["actions"] == [CLICK]
        assert (sent[2]["output"], sent[2]["extra"]) == (output, 1)
        assert w.executed == 0


async def test_the_header_lowers_and_nothing_raises(tmp_path: Path):
    """`bodyd-execution: client` gives the call to the client; a client's wish does not configure a body."""
    async with world(tmp_path, [computer(CLICK)], computer="body") as w:
        response = await w.create("computer", headers={"bodyd-execution": "client"})
        assert kinds(response["output"]) == ["computer_call"]
        assert w.executed == 0
    async with world(tmp_path / "..", [computer(CLICK)]) as w:
        response = await w.create("computer", headers={"bodyd-execution": "gateway"})
        assert kinds(response["output"]) == ["computer_call"]
        assert w.executed == 0


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "shell", "environment": {"type": "container_auto"}},
        {"type": "shell", "environment": {"type": "container_reference", "container_id": "c"}},
        {"type": "shell", "environment": {"type": "moon", "x": 1}},
        {"type": "shell", "environment": {"type": "local", "skills": [{"name": "s"}]}},
        {"type": "shell", "allowed_callers": ["programmatic"]},
    ],
    ids=str,
)
async def test_other_environments_are_kept_and_never_run(tmp_path: Path, tool: dict[str, Any]):
    """A shell that is not plainly local is echoed as it came, and its call is the client's."""
    async with world(tmp_path, [shell("id")], shell="body") as w:
        response = await w.create(tool)
        assert response["tools"] == [tool]
        assert kinds(response["output"]) == ["shell_call"]
        assert w.executed == 0


async def test_a_shell_loop_of_several_rounds(tmp_path: Path):
    """Commands run in order, outputs pair by call_id, failures and timeouts are outcomes, not errors."""
    answers = [[shell("one", "two", call_id="s1")], [shell("three", call_id="s2")], [message("done")]]
    async with world(tmp_path, *answers, shell="body") as w:

        def results(command: str) -> ProcessResult:
            if command == "two":
                return ProcessResult("", "no", 3, timed_out=False, omitted_bytes=0)
            return (
                ProcessResult("part", "", None, timed_out=command == "three", omitted_bytes=9)
                if (command == "three")
                else ProcessResult("ok", "", 0, timed_out=False, omitted_bytes=0)
            )

        w.shell.results = results
        response = await w.create({"type": "shell", "environment": {"type": "local"}})
        assert kinds(response["output"]) == ["message"]
        assert w.shell.ran == ["one", "two", "three"]
        outputs = [i for i in w.model.requests[-1]["input"] if i["type"] == "shell_call_output"]
        assert [chunk["outcome"] for chunk in outputs[0]["output"]] == [
            {"type": "exit", "exit_code": 0},
            {"type": "exit", "exit_code": 3},
        ]
        assert outputs[1]["output"][0]["outcome"] == {"type": "timeout"}


async def test_pairs_are_shown_when_asked_for(tmp_path: Path):
    """Call and output, in order; the picture by reference, or whole where `include` asks for it."""
    answers = [[computer()], [message("done")]]
    async with world(tmp_path, *answers, *answers, computer="body") as w:
        shown = await w.create("computer", headers={"bodyd-items": "pairs"})
        assert kinds(shown["output"]) == ["computer_call", "computer_call_output", "message"]
        picture = shown["output"][1]["output"]
        assert picture["file_id"].startswith("img_")
        assert "image_url" not in picture
        whole = await w.create("computer", include=["computer_call_output.output.image_url"])
        url = whole["output"][1]["output"]["image_url"]
        assert url.startswith("data:image/png;base64,")
        again = await w.get(f"/v1/responses/{shown['id']}?include[]=computer_call_output.output.image_url")
        assert again["output"][1]["output"]["image_url"].startswith("data:image/png;base64,")
        stored = await w.get(f"/v1/responses/{whole['id']}")
        assert "file_id" in stored["output"][1]["output"]


async def test_hidden_pairs_are_in_the_continuation(tmp_path: Path):
    """The next turn's model, and its input_items, have the call and the output that nobody was shown."""
    async with world(tmp_path, [computer()], [message("one")], [message("two")], computer="body") as w:
        first = await w.create("computer")
        second = await w.create("computer", input="and?", previous_response_id=first["id"])
        expected = ["message", "computer_call", "computer_call_output", "message", "message"]
        assert kinds(w.model.requests[-1]["input"]) == expected
        items = (await w.get(f"/v1/responses/{second['id']}/input_items?order=asc&limit=100"))["data"]
        assert kinds(items) == expected
        assert not any("bodyd_note" in item for item in items)


async def test_mixed_calls_end_the_response_after_the_gateways_ran(tmp_path: Path):
    """The gateway's call is run and recorded; the client's is shown; its output continues."""
    turn = [computer(call_id="c1"), function("add", {"a": 1}, "f1"), shell("ls", call_id="s1")]
    async with world(tmp_path, turn, [message("done")], computer="body", shell="client") as w:
        first = await w.create("computer", "shell", ADD)
        assert kinds(first["output"]) == ["function_call", "shell_call"]
        assert len(w.body.acted) == 1
        outputs = [
            {"type": "function_call_output", "call_id": "f1", "output": "3"},
            {"type": "shell_call_output", "call_id": "s1", "output": []},
        ]
        await w.create("computer", "shell", ADD, input=outputs, previous_response_id=first["id"])
        assert sorted(kinds(w.model.requests[1]["input"])) == sorted(
            ["message", *kinds(turn), "computer_call_output", "function_call_output", "shell_call_output"]
        )
        assert w.shell.ran == []


async def test_undeclared_calls_are_never_run(tmp_path: Path):
    """A call of a tool that this request does not declare is recorded and shown, whatever is configured."""
    async with world(
        tmp_path, [function("computer", {"actions": [CLICK]})], computer="body", upstream=LOWERED
    ) as w:
        response = await w.create(ADD)
        assert kinds(response["output"]) == ["function_call"]
        assert w.executed == 0


async def test_a_failed_batch_is_a_picture_and_words(tmp_path: Path):
    """The model is told which actions were not executed, beside the screen as it is."""
    batch = computer({"type": "screenshot"}, CLICK, {"type": "type", "text": "x"}, {"type": "wait"})
    async with world(
        tmp_path, [computer()], [batch | {"call_id": "c2", "id": "cu2"}], [message("hm")], computer="body"
    ) as w:
        w.body.failing = "type"
        response = await w.create("computer")
        assert response["status"] == "completed"
        sent = w.model.requests[-1]["input"]
        assert sent[4]["output"]["image_url"].startswith("data:image/png")
        note = sent[5]["content"][0]["text"]
        assert "3 (type): interrupted" in note
        assert "4 (wait)" in note


@pytest.mark.parametrize(
    ("action", "told"),
    [
        ({"type": "dance"}, "dance"),
        ({"type": "click", "x": 900, "y": 1, "button": "left"}, "outside"),
        ({"type": "keypress", "keys": ["NOPE"]}, "NOPE"),
        ({"type": "click", "x": "left"}, "actions[0]"),
    ],
    ids=["unknown", "outside", "key", "malformed"],
)
async def test_a_call_that_cant_be_executed_is_told_to_the_model(
    tmp_path: Path, action: dict[str, Any], told: str
):
    """Nothing of it runs; it gets a picture and the reason, and may go on."""
    answers = [[computer(call_id="c0")], [computer(action)], [message("sorry")]]
    async with world(tmp_path, *answers, computer="body") as w:
        response = await w.create("computer")
        assert response["status"] == "completed"
        assert [one.type for one in w.body.acted] == ["screenshot"]
        assert told in w.model.requests[-1]["input"][-1]["content"][0]["text"]


async def test_an_unknown_action_survives_to_the_client(tmp_path: Path):
    """A future action type is preserved, with its fields, and executed by nobody here."""
    future = {"type": "pinch", "x": 1, "scale": 0.5}
    async with world(tmp_path, [computer(future)]) as w:
        response = await w.create("computer")
        assert response["output"][0]["actions"] == [future]
        assert (await w.get(f"/v1/responses/{response['id']}"))["output"][0]["actions"] == [future]


async def test_arguments_that_make_no_sense_are_answered(tmp_path: Path):
    """The model gets the reason as an output and tries again; the client sees none of it."""
    answers = [[function("computer", "{nope", "c1")], [function("computer", {"x": 1}, "c2")], [message("ok")]]
    async with world(tmp_path, *answers, computer="body", upstream=LOWERED) as w:
        response = await w.create("computer")
        assert kinds(response["output"]) == ["message"]
        assert w.executed == 0
        outputs = [i for i in w.model.requests[-1]["input"] if i["type"] == "function_call_output"]
        assert all("makes no sense" in item["output"] for item in outputs)
    async with world(
        tmp_path / "..", *[[function("shell", "[]", f"c{n}")] for n in range(9)], upstream=LOWERED
    ) as w:
        response = await w.create("shell")
        assert response["status"] == "failed"
        assert response["error"]["type"] == "upstream_failed"


async def test_rounds_run_out(tmp_path: Path):
    """At the cap the response is incomplete, in OpenAI's own words."""
    answers = [[computer(call_id=f"c{n}")] for n in range(9)]
    async with world(tmp_path, *answers, computer="body", max_rounds=3) as w:
        response = await w.create("computer")
        assert response["status"] == "incomplete"
        assert response["incomplete_details"] == {"reason": "max_messages"}
        assert len(w.body.acted) == 3
        assert w.body.token is None


async def test_the_limit_of_tool_calls_is_told(tmp_path: Path):
    """Calls beyond max_tool_calls are not run; the model is told, and ends its turn: completed."""
    answers = [[computer(call_id="c1"), computer(CLICK, call_id="c2")], [message("that is all")]]
    async with world(tmp_path, *answers, computer="body") as w:
        response = await w.create("computer", max_tool_calls=1)
        assert response["status"] == "completed"
        assert kinds(response["output"]) == ["message"]
        assert len(w.body.acted) == 1
        assert w.model.requests[-1]["tool_choice"] == "none"
        assert "limit of tool calls" in str(w.model.requests[-1]["input"])


async def test_tokens_run_out(tmp_path: Path):
    """Past max_total_tokens no further round is asked for."""
    answers = [[computer(call_id=f"c{n}")] for n in range(9)]
    async with world(tmp_path, *answers, computer="body", max_total_tokens=25) as w:
        response = await w.create("computer")
        assert response["incomplete_details"] == {"reason": "max_output_tokens"}
        assert len(w.model.requests) == 2


async def test_a_forced_choice_holds_for_one_round(tmp_path: Path):
    """tool_choice is sent as it is first, lowered if need be, and as auto afterwards."""
    call = function("computer", {"actions": [{"type": "screenshot"}]})
    async with world(tmp_path, [call], [message("done")], computer="body", upstream=LOWERED) as w:
        response = await w.create("computer", tool_choice={"type": "computer"})
        choices = [request["tool_choice"] for request in w.model.requests]
        assert choices == [{"type": "function", "name": "computer"}, "auto"]
        assert response["tool_choice"] == {"type": "computer"}


async def test_a_body_without_walls_is_not_used(tmp_path: Path):
    """If its status shows no enforced isolation, the response fails and nothing is executed."""
    async with world(tmp_path, [computer()], computer="body") as w:

        async def status() -> dict[str, Any]:
            return {"isolation": {"enforced": False}}

        w.body.status = status
        response = await w.create("computer")
        assert response["status"] == "failed"
        assert response["error"]["type"] == "isolation_unavailable"
        assert w.executed == 0


async def test_the_body_being_elsewhere_is_a_typed_failure(tmp_path: Path):
    """A busy body fails the response with our code as the type and one of OpenAI's as the code."""
    async with world(tmp_path, [computer()], computer="body") as w:
        w.body.raising = errors.Busy("somebody else")
        response = await w.create("computer")
        assert response["status"] == "failed"
        assert response["error"]["type"] == "busy"
        assert response["error"]["code"] == "server_error"


async def test_a_handler_that_fails_or_answers_nonsense(tmp_path: Path):
    """An executor's error is an output of exit code 1; an answer that makes no sense fails by name."""
    async with world(tmp_path, [shell("x")], [message("hm")], shell="body") as w:

        def broken(command: str) -> ProcessResult:
            raise errors.Unavailable("no sandbox")

        w.shell.results = broken
        await w.create("shell")
        chunk = w.model.requests[-1]["input"][2]["output"][0]
        assert (chunk["stderr"], chunk["outcome"]["exit_code"]) == ("no sandbox", 1)
    async with world(tmp_path / "..", [shell("x")], shell="body") as w:
        w.shell.results = lambda command: ProcessResult("", "", None, timed_out=False, omitted_bytes=0)
        response = await w.create("shell")
        assert response["error"]["type"] == "executor_failed"
    async with world(tmp_path / ".." / "..", [shell("x")], shell="body", process=False) as w:
        response = await w.create("shell")
        assert response["error"]["type"] == "unavailable"


async def test_an_upstream_that_refuses_at_once_is_an_error_of_the_request(tmp_path: Path):
    """Nothing was done: a blocking client gets the error itself, a streaming one response.failed."""
    refusal = errors.UpstreamRefused("no such model")
    async with world(tmp_path, refusal, errors.UpstreamRefused("no such model")) as w:
        with pytest.raises(errors.UpstreamRefused):
            await w.create()
        events = await w.stream()
        assert [event["type"] for event in events] == [
            "response.created",
            "response.in_progress",
            "response.failed",
        ]
        assert events[-1]["response"]["error"]["code"] == "invalid_prompt"


async def test_a_person_in_between_means_looking_again(tmp_path: Path):
    """After a hand-back the epoch is another: the first call is a picture, and the next one runs."""
    answers = [[computer(call_id="c1")], [computer(CLICK, call_id="c2")], [computer(CLICK, call_id="c3")]]
    async with world(tmp_path, *answers, [message("done")], computer="body") as w:
        hold = trio.Event()
        w.model.answers.insert(1, hold)
        async with trio.open_nursery() as nursery:

            async def person() -> None:
                await w.model.waiting.wait()
                w.body.epoch += 1
                hold.set()

            nursery.start_soon(person)
            response = await w.create("computer")
        assert response["status"] == "completed"
        assert [one.type for one in w.body.acted] == ["screenshot", "click"]
        assert "a person had the desktop" in str(w.model.requests[2]["input"])


async def test_the_lease_can_stay_with_the_conversation(tmp_path: Path):
    """The next response of the chain goes on under the same claim; closing the gateway gives it back."""
    answers = [[computer(call_id="c1")], [message("a")], [computer(CLICK, call_id="c2")], [message("b")]]
    async with world(tmp_path, *answers, computer="body", lease="conversation") as w:
        first = await w.create("computer")
        assert w.body.token is not None
        epoch = w.body.epoch
        await w.create("computer", previous_response_id=first["id"])
        assert w.body.epoch == epoch
        assert [one.type for one in w.body.acted] == ["screenshot", "click"]
    assert w.body.token is None


async def test_an_idle_lease_is_given_back(tmp_path: Path):
    """Kept for the conversation, it goes once nothing has used it for idle_ttl_ms."""
    answers = [[computer()], [message("a")]]
    async with world(tmp_path, *answers, computer="body", lease="conversation", idle_ttl_ms=20) as w:
        released = trio.Event()
        release = w.body.release

        async def noted(lease_token: str) -> Any:
            view = await release(lease_token)
            released.set()
            return view

        w.body.release = noted
        await w.create("computer")
        with trio.fail_after(10):
            await released.wait()
        assert w.body.token is None
