"""What went wrong in other gateways, each report as a test: the failing input, and what is right."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from bodyd_adapters.responses import lifecycle

from bodyd import errors
from bodyd.contract.ports import ProcessResult

from .streams import faults
from .test_loop import ADD, CLICK, kinds
from .world import LOWERED, PIXEL, Json, Listed, Model, computer, function, message, shell, world

SHOT = {"type": "computer_screenshot", "image_url": PIXEL}


def shot(call_id: str) -> Json:
    return {"type": "computer_call_output", "call_id": call_id, "output": SHOT}


def telling(model: Model, *events: Json) -> None:
    """Make *model* stream exactly *events*."""

    @asynccontextmanager
    async def stream(request: Json) -> AsyncIterator[Listed]:
        yield Listed(events)

    model.stream = stream


async def test_the_third_turn_still_has_the_first_call(tmp_path: Path):
    """vllm#43244: a chain by previous_response_id loses call and output at the third turn."""
    answers = [[computer(call_id="c1")], [computer(CLICK, call_id="c2")], [message("done")], [message("yes")]]
    async with world(tmp_path, *answers) as w:
        one = await w.create("computer")
        two = await w.create("computer", input=[shot("c1")], previous_response_id=one["id"])
        three = await w.create("computer", input=[shot("c2")], previous_response_id=two["id"])
        await w.create("computer", input="really?", previous_response_id=three["id"])
        pair = ["computer_call", "computer_call_output"]
        assert kinds(w.model.requests[-1]["input"]) == ["message", *pair, *pair, "message", "message"]


@pytest.mark.parametrize("kept", [True, False])
async def test_a_replay_has_its_pairs(tmp_path: Path, kept: bool):
    """vercel/ai#18134: an output is replayed without its call. Resolved if the item is kept, else refused."""
    async with world(tmp_path, [computer(CLICK)], [message("done")]) as w:
        first = await w.create("computer", store=kept)
        said = {"role": "user", "content": "go"}
        reference = {"type": "item_reference", "id": first["output"][0]["id"]}
        if kept:
            await w.create("computer", input=[said, reference, shot("call_c")])
            assert kinds(w.model.requests[-1]["input"])[1:] == ["computer_call", "computer_call_output"]
        else:
            with pytest.raises(errors.InvalidRequest, match="not found"):
                await w.create("computer", input=[said, reference, shot("call_c")])
            with pytest.raises(errors.CallMismatch, match="No tool call found for this computer_call_output"):
                await w.create("computer", input=[said, shot("call_c")])
            await w.create("computer", input=[said, first["output"][0], shot("call_c")])
            assert kinds(w.model.requests[-1]["input"])[1:] == ["computer_call", "computer_call_output"]


async def test_the_whole_call_is_in_done(tmp_path: Path):
    """agent-framework#6763: a client read `commands` from `added`. They are whole in `done` alone."""
    async with world(tmp_path, [shell("ls", "id")]) as w:
        events = await w.stream("shell")
        added, done = (e for e in events if e["type"].startswith("response.output_item."))
        assert added["item"]["action"]["commands"] == []
        assert done["item"]["action"]["commands"] == ["ls", "id"]


async def test_items_that_were_never_opened(tmp_path: Path):
    """litellm#37852: `done` for a message that was never `added`. Here it is opened first."""
    item = message("hello")
    async with world(tmp_path) as w:
        telling(
            w.model,
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": {"output": [item]}},
        )
        events = await w.stream()
        assert faults(events) == []
        assert kinds(events[-1]["response"]["output"]) == ["message"]


async def test_items_that_are_only_in_the_end(tmp_path: Path):
    """A server that streams nothing but its last event still makes a whole stream."""
    output = [message("hello"), function("add", {}, "f1")]
    async with world(tmp_path) as w:
        telling(w.model, {"type": "response.completed", "response": {"output": output}})
        events = await w.stream(ADD)
        assert faults(events) == []
        assert kinds(events[-1]["response"]["output"]) == ["message", "function_call"]


async def test_parallel_calls_stay_apart(tmp_path: Path):
    """ogx#4430: interleaved deltas of two calls merged into one."""
    calls = [function("add", {"a": 1}, "f1"), function("add", {"b": 2}, "f2")]
    mixed = [list(lifecycle.events(call, index)) for index, call in enumerate(calls)]
    interleaved = [event for pair in zip(*mixed, strict=True) for event in pair]
    async with world(tmp_path) as w:
        telling(w.model, *interleaved, {"type": "response.completed", "response": {"output": calls}})
        events = await w.stream(ADD)
        assert faults(events) == []
        assert [item["arguments"] for item in events[-1]["response"]["output"]] == ['{"a": 1}', '{"b": 2}']


@pytest.mark.parametrize("upstream", [{}, LOWERED], ids=["native", "lowered"])
async def test_every_client_call_is_returned(tmp_path: Path, upstream: Json):
    """openclaw#52288: only the last of several calls came, all under one index."""
    calls = [computer(CLICK, call_id=f"c{n}") for n in range(3)]
    if upstream:
        calls = [function("computer", {"actions": [CLICK]}, f"c{n}") for n in range(3)]
    async with world(tmp_path, calls, upstream=upstream) as w:
        events = await w.stream("computer")
        assert faults(events) == []
        assert [e["output_index"] for e in events if e["type"] == "response.output_item.done"] == [0, 1, 2]
        assert [item["call_id"] for item in events[-1]["response"]["output"]] == ["c0", "c1", "c2"]


async def test_ids_are_the_same_everywhere(tmp_path: Path):
    """vllm PR#47916: streamed call ids differ from those of the completed response, and of the stored one."""
    turn = [message("hm"), computer(CLICK, call_id="c1"), function("add", {}, "f1")]
    async with world(tmp_path, turn) as w:
        events = await w.stream("computer", ADD)
        id = events[-1]["response"]["id"]
        stored = (await w.get(f"/v1/responses/{id}"))["output"]
        for wanted in ("id", "call_id"):
            of_done = [e["item"].get(wanted) for e in events if e["type"] == "response.output_item.done"]
            assert [item.get(wanted) for item in events[-1]["response"]["output"]] == of_done
            assert [item.get(wanted) for item in stored] == of_done


async def test_ids_that_a_model_uses_again(tmp_path: Path):
    """A server that numbers every round from 0: each call has an id of its own all the same."""
    turn = [computer(call_id="call_0")]
    async with world(tmp_path, turn, turn, [message("done")], computer="body", executed_items="pairs") as w:
        response = await w.create("computer")
        ids = [item["id"] for item in response["output"]]
        calls = [item["call_id"] for item in response["output"] if item["type"] == "computer_call"]
        assert len(set(ids)) == len(ids)
        assert len(set(calls)) == 2
        assert len(w.body.acted) == 2


async def test_there_is_always_a_picture(tmp_path: Path):
    """opengeni#114, #290: a click that timed out gave image_url "". A client's empty one is forgiven."""
    batch = computer(CLICK, {"type": "wait"}, call_id="c1")
    async with world(tmp_path, [computer(call_id="c0")], [batch], [message("hm")], computer="body") as w:
        w.body.failing = "click"
        response = await w.create("computer", include=["computer_call_output.output.image_url"])
        shown = [item["output"] for item in response["output"] if item["type"] == "computer_call_output"]
        assert all(output["image_url"].startswith("data:image/png;base64,iVBOR") for output in shown)
        assert len(shown) == 2
    empty = {**shot("call_c"), "output": {"type": "computer_screenshot", "image_url": ""}}
    async with world(tmp_path / "..", [computer(CLICK)], [message("done")], upstream=LOWERED) as w:
        w.model.answers[0] = [function("computer", {"actions": [CLICK]}, "call_c")]
        first = await w.create("computer")
        await w.create("computer", input=[empty], previous_response_id=first["id"])
        assert "No screenshot" in w.model.requests[-1]["input"][-1]["output"]


async def test_accumulated_pictures_are_budgeted(tmp_path: Path):
    """senpi#302: 101 MiB of base64 and a permanent 413. Old screenshots leave the upstream copy alone."""
    pictures = [f"data:image/png;base64,{str(number) * 4000}" for number in range(6)]
    async with world(tmp_path, *[[message(str(n))] for n in range(6)], upstream={"budget_bytes": 9000}) as w:
        previous = None
        for picture in pictures:
            part = {"type": "input_image", "image_url": picture}
            said = {"role": "user", "content": [part]}
            previous = (await w.create(input=[said], previous_response_id=previous))["id"]
        sent = json.dumps(w.model.requests[-1])
        assert [picture in sent for picture in pictures] == [False] * 4 + [True] * 2
        assert sent.count("older image was left out") == 4
        path = f"/v1/responses/{previous}/input_items?order=asc&limit=100"
        items = json.dumps(await w.get(f"{path}&include[]=computer_call_output.output.image_url"))
        assert all(picture in items for picture in pictures), "the stored history has them all"


async def test_a_last_screenshot_is_taken_once(tmp_path: Path):
    """openai-agents-js#1735: an explicit final `screenshot` was captured twice."""
    batch = computer({"type": "wait"}, {"type": "screenshot"})
    async with world(tmp_path, [batch], [message("done")], computer="body") as w:
        await w.create("computer")
        assert w.body.captures == 1


async def test_reasoning_stays_beside_its_call(tmp_path: Path):
    """pi#5059, rikkahub#1690: reasoning replayed apart from its call is refused by servers."""
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gA"}
    turns = [[thought, computer(call_id="c1")], [message("one")], [message("two")]]
    native = {"encrypted_reasoning": True}
    async with world(tmp_path, *turns, computer="body", upstream=native) as w:
        first = await w.create("computer")
        expected = ["message", "reasoning", "computer_call", "computer_call_output"]
        assert kinds(w.model.requests[1]["input"]) == expected
        assert w.model.requests[1]["input"][1] == thought
        replayed = [{"role": "user", "content": "go"}, *first["output"], {"role": "user", "content": "on"}]
        await w.create("computer", input=replayed)
        assert kinds(w.model.requests[2]["input"]) == [*expected, "message", "message"]


async def test_reasoning_has_no_nulls(tmp_path: Path):
    """Where a server sends null content, the field is left out: clients' types know no null there."""
    thought = {"type": "reasoning", "id": "r", "summary": [], "content": None, "encrypted_content": None}
    async with world(tmp_path, [thought, message("x")], [thought, message("x")]) as w:
        response = await w.create()
        assert response["output"][0].keys().isdisjoint({"content", "encrypted_content"})
        assert faults(await w.stream()) == []


async def test_a_failed_batch_says_what_was_not_done(tmp_path: Path):
    """hud-python PR#666: a failed batch gave no feedback."""
    batch = computer(CLICK, {"type": "type", "text": "x"}, {"type": "keypress", "keys": ["A"]}, call_id="c1")
    lowered = [function("computer", {"actions": call["actions"]}, call["call_id"]) for call in (batch,)]
    look = [function("computer", {"actions": [{"type": "screenshot"}]}, "c0")]
    async with world(tmp_path, look, lowered, [message("hm")], computer="body", upstream=LOWERED) as w:
        w.body.failing = "type"
        await w.create("computer")
        text, picture = w.model.requests[-1]["input"][-1]["output"]
        assert "Not carried out: action 2 (type)" in text["text"]
        assert "Not executed after that: action 3 (keypress)" in text["text"]
        assert picture["image_url"].startswith("data:image/png")


# -- rules of the round -----------------------------------------------------------------------------------


async def test_calls_of_one_body_run_one_after_the_other(tmp_path: Path):
    """Desktop and shell calls of a round keep their order, and each output pairs by its call_id."""
    turn = [shell("one", call_id="s1"), computer(call_id="c1"), shell("two", call_id="s2")]
    happened: list[str] = []
    async with world(tmp_path, turn, [message("done")], computer="body", shell="body") as w:
        through, results = w.body.input, w.shell.results

        async def input(request: Any, **more: Any) -> Any:
            happened.append("computer")
            return await through(request, **more)

        def ran(command: str) -> ProcessResult:
            happened.append(command)
            return results(command)

        w.body.input, w.shell.results = input, ran
        await w.create("computer", "shell")
        assert happened == ["one", "computer", "two"]
        outputs = [i for i in w.model.requests[-1]["input"] if i["type"].endswith("_output")]
        assert [item["call_id"] for item in outputs] == ["s1", "c1", "s2"]


async def test_a_clients_functions_do_not_count_as_tool_calls(tmp_path: Path):
    """max_tool_calls counts built-in calls alone, and anew for each response."""
    turn = [function("add", {}, "f1"), function("add", {}, "f2"), computer(call_id="c1")]
    answers = [turn, [computer(call_id="c2")], [message("done")]]
    async with world(tmp_path, *answers, computer="body") as w:
        first = await w.create("computer", ADD, max_tool_calls=1)
        assert len(w.body.acted) == 1
        outputs = [{"type": "function_call_output", "call_id": f"f{n}", "output": "x"} for n in (1, 2)]
        await w.create("computer", ADD, input=outputs, previous_response_id=first["id"], max_tool_calls=1)
        assert len(w.body.acted) == 2


async def test_the_lease_is_the_conversations(tmp_path: Path):
    """Taken in the name of the conversation, of the chain's first response, or of this one; if used."""
    answers = [[computer(call_id=f"c{n}")] for n in range(4)]
    for n in (1, 3, 5, 7):
        answers.insert(n, [message(str(n))])
    async with world(tmp_path, [message("hi")], *answers, computer="body") as w:
        names: list[str] = []
        acquire = w.body.acquire

        async def noted(request: Any, **more: Any) -> Any:
            names.append(request.conversation_id)
            return await acquire(request, **more)

        w.body.acquire = noted
        await w.create("computer")
        assert names == []
        first = await w.create("computer")
        second = await w.create("computer", previous_response_id=first["id"])
        await w.create("computer", previous_response_id=second["id"])
        conversation = await w.ask("/v1/conversations", {})
        await w.create("computer", conversation=conversation["id"])
        assert names == [first["id"], first["id"], first["id"], conversation["id"]]


async def test_the_lease_is_renewed_while_the_response_lives(tmp_path: Path, mock_clock: Any):
    """A model that thinks for minutes between two calls does not lose the body."""
    answers = [[computer(call_id="c1")], hold := trio.Event(), [message("done")]]
    async with world(tmp_path, *answers, computer="body") as w:
        renewed: list[str] = []
        renew = w.body.renew

        async def noted(lease_token: str, ttl_ms: int | None = None) -> Any:
            renewed.append(lease_token)
            return await renew(lease_token, ttl_ms)

        w.body.renew = noted
        async with trio.open_nursery() as nursery:

            async def think() -> None:
                await w.model.waiting.wait()
                for _ in range(9):
                    mock_clock.jump(20)
                    await trio.testing.wait_all_tasks_blocked()
                hold.set()

            nursery.start_soon(think)
            await w.create("computer")
        assert len(renewed) >= 8
        assert w.body.token is None


async def test_shell_output_is_streamed_as_it_comes(tmp_path: Path):
    """With pairs shown, a chunk is seen while the command still runs."""
    async with world(
        tmp_path, [shell("hang")], [message("never")], shell="body", executed_items="pairs", rejoin_ms=1
    ) as w:
        body = {"model": "m", "input": "go", "tools": [{"type": "shell"}], "stream": True}
        reply = await w.call("POST", "/v1/responses", body)
        assert reply.stream is not None
        seen = b""
        with trio.fail_after(10):
            while b"shell_call_output_content.delta" not in seen:
                seen += await anext(reply.stream)
        assert b'"stdout":"begun\\n"' in seen
        assert b"response.output_item.done" in seen, "of the call, not of its output"
        await reply.stream.aclose()
