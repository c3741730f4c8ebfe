"""Clients that replay a whole history by themselves: what they were not shown is put back where it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bodyd.errors import CallMismatch

from .test_loop import ADD, CLICK, kinds
from .world import LOWERED, OTHER, PIXEL, computer, function, message, shell, world


async def test_hidden_pairs_are_put_back(tmp_path: Path):
    """The model sees its calls and their outputs again, though the client sends the messages alone."""
    rounds = [[computer(call_id="c1")], [shell("ls", call_id="s1")], [message("one")], [message("two")]]
    async with world(tmp_path, *rounds, [message("three")], computer="body", shell="body") as w:
        first = await w.create("computer", "shell", input="begin")
        history = [{"role": "user", "content": "begin"}, *first["output"], {"role": "user", "content": "on"}]
        second = await w.create("computer", "shell", input=history)
        expected = [
            "message",
            "computer_call",
            "computer_call_output",
            "shell_call",
            "shell_call_output",
            "message",
            "message",
        ]
        assert kinds(w.model.requests[-1]["input"]) == expected
        assert "data:image/png" in str(w.model.requests[-1]["input"][2])
        items = (await w.get(f"/v1/responses/{second['id']}/input_items?order=asc&limit=100"))["data"]
        assert kinds(items) == expected
        again = [*history, *second["output"], {"role": "user", "content": "and on"}]
        await w.create("computer", "shell", input=again)
        assert kinds(w.model.requests[-1]["input"]) == [*expected, "message", "message"]
        assert w.executed == 2, "nothing ran again"


@pytest.mark.parametrize("reference", [True, False])
async def test_around_a_clients_call(tmp_path: Path, reference: bool):
    """A hidden call and its output stand on both sides of what was shown; neither is lost."""
    turn = [computer(CLICK, call_id="c1"), function("add", {"a": 1}, "f1")]
    async with world(tmp_path, [computer(call_id="c0")], turn, [message("done")], computer="body") as w:
        first = await w.create("computer", ADD)
        (shown,) = first["output"]
        sent = {"type": "item_reference", "id": shown["id"]} if reference else shown
        answer = {"type": "function_call_output", "call_id": "f1", "output": "3"}
        await w.create("computer", ADD, input=[{"role": "user", "content": "go"}, sent, answer])
        assert kinds(w.model.requests[-1]["input"]) == [
            "message",
            "computer_call",
            "computer_call_output",
            "computer_call",
            "function_call",
            "computer_call_output",
            "function_call_output",
        ]


async def test_nothing_is_put_back_twice(tmp_path: Path):
    """What stands in the continued history already is not brought along by a replayed copy."""
    async with world(tmp_path, [computer()], [message("one")], [message("two")], computer="body") as w:
        first = await w.create("computer")
        await w.create("computer", input=first["output"], previous_response_id=first["id"])
        calls = [item for item in w.model.requests[-1]["input"] if item["type"] == "computer_call"]
        assert len(calls) == 1


async def test_pairs_that_were_shown_are_the_clients_to_replay(tmp_path: Path):
    """Shown pairs are replayed or not as the client likes; the picture comes back from its reference."""
    async with world(
        tmp_path, [computer()], [message("one")], [message("two")], computer="body", executed_items="pairs"
    ) as w:
        first = await w.create("computer")
        await w.create("computer", input=[*first["output"], {"role": "user", "content": "on"}])
        sent = w.model.requests[-1]["input"]
        assert kinds(sent) == ["computer_call", "computer_call_output", "message", "message"]
        assert sent[1]["output"]["image_url"].startswith("data:image/png")


async def test_another_token_brings_nothing_along(tmp_path: Path):
    """Hidden items belong to the token that made them; a copy from elsewhere is only what it says."""
    async with world(tmp_path, [computer()], [message("one")], [message("two")], computer="body") as w:
        first = await w.create("computer")
        body = {"model": "m", "tools": [{"type": "computer"}], "input": first["output"]}
        await w.ask(body=body, caller=OTHER)
        assert kinds(w.model.requests[-1]["input"]) == ["message"]


async def test_deleting_a_response_keeps_what_another_is_made_of(tmp_path: Path):
    """The pairs that a replay brought along stay with the response that they are now part of."""
    async with world(tmp_path, [computer()], [message("one")], [message("two")], computer="body") as w:
        first = await w.create("computer")
        second = await w.create("computer", input=[*first["output"], {"role": "user", "content": "on"}])
        await w.call("DELETE", f"/v1/responses/{first['id']}")
        items = (await w.get(f"/v1/responses/{second['id']}/input_items?order=asc"))["data"]
        assert kinds(items) == ["computer_call", "computer_call_output", "message", "message"]
        await w.call("DELETE", f"/v1/responses/{second['id']}")
        assert await w.store.keys("item") == []


# -- what runners send back, in their own shapes (facts of the SDKs' wire) ---------------------------------


CALL = {"type": "computer_call", "call_id": "c1", "id": "cu_1", "status": "completed", "actions": [CLICK]}
SHOT = {"type": "computer_screenshot", "image_url": PIXEL}


@pytest.mark.parametrize(
    ("call", "output"),
    [
        ({**CALL, "pending_safety_checks": []}, {"output": SHOT, "acknowledged_safety_checks": None}),
        ({**CALL, "action": CLICK}, {"output": SHOT}),
        ({**CALL, "action": CLICK, "actions": None}, {"output": SHOT}),
        (CALL, {"output": {"type": "input_image", "image_url": PIXEL, "detail": "original"}}),
        (CALL, {"output": {"type": "computer_screenshot", "image_url": ""}}),
    ],
    ids=["agents", "agents-js", "preview", "langchain", "no picture"],
)
async def test_runners_replays(tmp_path: Path, call: dict[str, Any], output: dict[str, Any]):
    """Stateless replays of a client-executed call are read as what they mean, and never executed."""
    answer = {"type": "computer_call_output", "call_id": "c1", **output}
    history = [{"role": "user", "content": "go"}, call, answer]
    async with world(tmp_path, [message("done")], computer="body") as w:
        response = await w.create("computer", input=history)
        assert kinds(response["output"]) == ["message"]
        sent = w.model.requests[0]["input"]
        assert kinds(sent) == ["message", "computer_call", "computer_call_output"]
        assert sent[2]["output"]["image_url"].startswith("data:image/png;base64,")
        assert w.executed == 0


async def test_outputs_in_another_order(tmp_path: Path):
    """Functions first, then the computer, then the shell: paired by call_id, whatever the order."""
    turn = [computer(CLICK, call_id="c1"), shell("ls", call_id="s1"), function("add", {"a": 1}, "f1")]
    async with world(tmp_path, turn, [message("done")]) as w:
        first = await w.create("computer", "shell", ADD)
        outcome = {"type": "exit", "exit_code": 0}
        answers = [
            {"type": "function_call_output", "call_id": "f1", "output": "3"},
            {"type": "computer_call_output", "call_id": "c1", "output": SHOT},
            {
                "type": "shell_call_output",
                "call_id": "s1",
                "output": [{"stdout": "", "stderr": "", "outcome": outcome}],
            },
        ]
        response = await w.create("computer", "shell", ADD, input=answers, previous_response_id=first["id"])
        assert response["status"] == "completed"
        assert kinds(w.model.requests[-1]["input"])[-3:] == [answer["type"] for answer in answers]


async def test_outputs_that_are_sent_in_every_step(tmp_path: Path):
    """ai-sdk sends a conversation all outputs again: the same ones are ignored, another one is refused."""
    turns = [[computer(CLICK, call_id="c1")], [shell("ls", call_id="s1")], [message("done")]]
    async with world(tmp_path, *turns) as w:
        where = (await w.ask("/v1/conversations", {}))["id"]
        await w.create("computer", "shell", conversation=where)
        one = {"type": "computer_call_output", "call_id": "c1", "output": SHOT}
        await w.create("computer", "shell", input=[one], conversation=where)
        outcome = {"type": "exit", "exit_code": 0}
        chunk = {"stdout": "", "stderr": "", "outcome": outcome}
        two = {"type": "shell_call_output", "call_id": "s1", "output": [chunk]}
        again = [{"role": "user", "content": "go"}, one, two]
        await w.create("computer", "shell", input=again, conversation=where)
        outputs = [item["type"] for item in w.model.requests[-1]["input"] if "output" in item]
        assert outputs == ["computer_call_output", "shell_call_output"]
        other = {**two, "output": [{**chunk, "stdout": "x"}]}
        with pytest.raises(CallMismatch, match="has an output already"):
            await w.create("computer", "shell", input=[other], conversation=where)


async def test_a_custom_call_may_have_several_outputs(tmp_path: Path):
    """codex's scripts notify before they end; a server that has functions alone gets one output of all."""
    call = {"type": "custom_tool_call", "call_id": "c1", "id": "ctc_1", "name": "exec", "input": "go"}
    outputs = [
        {"type": "custom_tool_call_output", "call_id": "c1", "output": text} for text in ("half", "all")
    ]
    tool = {"type": "custom", "name": "exec"}
    asked = {"role": "user", "content": "go"}
    async with world(tmp_path, [message("one")], upstream=LOWERED) as w:
        await w.create(tool, input=[asked, call, *outputs])
        sent = w.model.requests[-1]["input"]
        assert kinds(sent) == ["message", "function_call", "function_call_output"]
        assert [part["text"] for part in sent[-1]["output"]] == ["half", "all"]
    native = tmp_path / "native"
    native.mkdir()
    async with world(native, [message("one")], upstream={"native_tools": ["custom"]}) as w:
        await w.create(tool, input=[asked, call, *outputs])
        assert [item.get("output") for item in w.model.requests[-1]["input"]][2:] == ["half", "all"]
