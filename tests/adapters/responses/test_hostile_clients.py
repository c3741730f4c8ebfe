"""Clients that send what makes no sense, or far too much of it: refused by name, and nothing else happens."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from bodyd import errors
from bodyd.contract.adapters import HttpRequest

from .streams import faults
from .test_hostile_upstreams import corruptions
from .world import DRIVER, PIXEL, Json, computer, function, message, read, shell, world

TOOLS: list[Json] = [
    {"type": "computer"},
    {"type": "shell", "environment": {"type": "local"}},
    {"type": "function", "name": "f", "parameters": {}},
    {"type": "custom", "name": "c"},
    {
        "type": "namespace",
        "name": "n",
        "description": "d",
        "tools": [{"type": "function", "name": "g", "parameters": {}}],
    },
]
SCREEN = {"type": "computer_screenshot", "image_url": PIXEL, "detail": "original"}
CHUNK = {"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
BODY: Json = {
    "model": "m",
    "instructions": "be",
    "metadata": {"a": "b"},
    "include": ["reasoning.encrypted_content"],
    "tools": TOOLS,
    "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
    "max_tool_calls": 3,
    "max_output_tokens": 100,
    "temperature": 0.5,
    "truncation": "auto",
    "stream_options": {"include_obfuscation": False},
    "text": {"format": {"type": "text"}},
    "reasoning": {"effort": "low"},
    "input": [
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "go"}, {"type": "input_image", "image_url": PIXEL}],
        },
        {"type": "reasoning", "id": "rs_0", "summary": []},
        computer({"type": "click", "x": 1, "y": 2, "button": "left"}, call_id="k1"),
        {"type": "computer_call_output", "call_id": "k1", "output": SCREEN},
        shell("ls", call_id="k2"),
        {"type": "shell_call_output", "call_id": "k2", "output": [CHUNK], "max_output_length": 5},
        function("f", "{}", "k3"),
        {"type": "function_call_output", "call_id": "k3", "output": [{"type": "input_text", "text": "x"}]},
        {"type": "custom_tool_call", "call_id": "k5", "name": "c", "input": "i"},
        {"type": "custom_tool_call_output", "call_id": "k5", "output": "o"},
        message("old", phase="commentary"),
    ],
}


@pytest.mark.parametrize("native", [["computer", "shell"], ["none"]], ids=["native", "lowered"])
async def test_every_corrupted_body_is_answered(tmp_path: Path, native: list[str]):
    """Each endpoint takes it or refuses it with a 4xx; nothing runs, and no bug is met."""
    async with world(tmp_path, upstream={"native_tools": native}, computer="body", shell="body") as w:
        for number, body in enumerate(corruptions(BODY, len(native), 120)):
            w.model.answers = [[message("done")]] * 3
            for path in ("/v1/responses", "/v1/responses/input_tokens", "/v1/responses/compact"):
                if path != "/v1/responses" and number % 4:
                    continue
                try:
                    await w.ask(path, body)
                except errors.BodydError as exc:
                    refusal = exc
                else:
                    continue
                assert 400 <= refusal.status < 500
        assert w.executed == 0


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("instructions", [5, ["x"]]),
        ("previous_response_id", [5, {}]),
        ("reasoning", ["low", []]),
        ("text", ["plain", []]),
        ("text.format", ["plain", []]),
        ("metadata", ["x", []]),
        ("temperature", ["hot", True]),
        ("include", ["x", {}]),
        ("truncation", [1]),
        ("stream_options", [[]]),
        ("max_tool_calls", [0, -1, 1.5, "3"]),
        ("model", ["", 5]),
    ],
)
async def test_fields_of_another_type(tmp_path: Path, field: str, values: list[Any]):
    """A 400 that names the field, and the model is never asked."""
    async with world(tmp_path) as w:
        for value in values:
            name, _, inner = field.partition(".")
            body = {"model": "m", "input": "go", name: {inner: value} if inner else value}
            with pytest.raises(errors.InvalidRequest) as refusal:
                await w.ask(body=body)
            assert refusal.value.to_json()["param"] == field
        assert w.model.requests == []


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b"[]",
        b'"text"',
        b"\xff\xfe",
        b'{"input": "\\ud800"}',
        b'{"temperature": NaN}',
        b"[" * 100_000,
        b'{"input": ' + b"[" * 10_000,
        b'{"model": "m"} {"model": "m"}',
    ],
)
async def test_bytes_that_are_no_request(tmp_path: Path, raw: bytes):
    """A 400, whatever they are."""
    async with world(tmp_path) as w:
        (create,) = (one for one in w.adapter.routes if (one.method, one.path) == ("POST", "/v1/responses"))
        with pytest.raises(errors.InvalidRequest):
            await create.handler(HttpRequest("POST", "/v1/responses", {}, {}, {}, raw, DRIVER))
        assert w.model.requests == []


def output(call_id: str, text: str = "x") -> Json:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


async def test_histories_that_do_not_pair_up(tmp_path: Path):
    """Duplicates, orphans and outputs of another kind are refused by call_id; their order is free."""
    calls = [function("f", "{}", "a"), {**function("f", "{}", "b"), "id": "fc_b"}]
    async with world(tmp_path, *[[message("ok")]] * 4) as w:
        for bad in (
            [calls[0], {**calls[0], "id": "fc_other"}, output("a")],
            [calls[0], output("a"), output("a", "another")],
            [output("a")],
            [output("a"), calls[0]],
            [calls[0]],
            [calls[0], {"type": "shell_call_output", "call_id": "a", "output": [CHUNK]}],
            [calls[0], {"type": "computer_call_output", "call_id": "a", "output": SCREEN}],
            [calls[0], {"type": "custom_tool_call_output", "call_id": "a", "output": "x"}],
        ):
            with pytest.raises(errors.BodydError, match="'a'") as refusal:
                await w.create(TOOLS[2], input=bad)
            assert refusal.value.status == 400
        assert w.model.requests == []
        assert (await w.create(TOOLS[2], input=[*calls, output("b"), output("a")]))["status"] == "completed"


async def test_a_huge_history(tmp_path: Path):
    """Thousands of items, a hundred screenshots: kept once, sent on within the budget, continued."""
    items: list[Json] = [{"role": "user", "content": "go"}]
    for number in range(1000):
        items += [function("f", "{}", f"c{number}"), output(f"c{number}", "y" * 100)]
        items[-2]["id"] = f"fc_{number}"
        if number % 10 == 0:
            id = f"s{number}"
            url = f"data:image/png;base64,{number:04d}{'A' * 40_000}"
            items += [
                {**computer(call_id=id), "id": f"cu_{number}"},
                {"type": "computer_call_output", "call_id": id, "output": {**SCREEN, "image_url": url}},
            ]
    budget = {"budget_bytes": 500_000, "native_tools": ["computer"]}
    async with world(tmp_path, *[[message("ok")]] * 3, upstream=budget) as w:
        first = await w.create("computer", TOOLS[2], input=items)
        sent = json.dumps(w.model.requests[0])
        assert 400_000 < len(sent) < 1_500_000
        assert len(w.model.requests[0]["input"]) >= len(items)
        await w.create("computer", input="more", previous_response_id=first["id"])
        page = await w.get(f"/v1/responses/{first['id']}/input_items?limit=100&order=asc")
        assert (len(page["data"]), page["has_more"]) == (100, True)
        assert w.executed == 0


async def test_a_stream_that_nobody_reads(tmp_path: Path):
    """A client that takes one chunk and leaves, many times over, leaves nothing behind."""
    async with world(tmp_path, *[[message("ok")]] * 40, rejoin_ms=1) as w:
        for number in range(20):
            body = {"model": "m", "input": "go", "stream": True, "metadata": {"n": str(number)}}
            reply = await w.call("POST", "/v1/responses", body)
            assert reply.stream is not None
            with contextlib.suppress(StopAsyncIteration):
                await anext(aiter(reply.stream))
            await reply.stream.aclose()
        last = await read(
            await w.call("POST", "/v1/responses", {"model": "m", "input": "end", "stream": True})
        )
        assert faults(last) == []
