"""Streams: exact lifecycles, one counter, ids that stay, and the same end as a blocking response has."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openresponses_types
import pytest
import trio
from bodyd_adapters.responses import lifecycle
from openai.types.responses import Response

from bodyd import errors

from .streams import UNION, faults
from .test_loop import ADD, CLICK, kinds
from .world import LOWERED, OTHER, Json, Listed, computer, function, message, read, shell, world

REASONING = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]}


def types(events: list[Json]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


async def good_stream(folder: Path) -> list[Json]:
    """A stream with every kind of item that clients are shown."""
    custom = {"type": "custom_tool_call", "id": "ct_1", "call_id": "k1", "name": "sql", "input": "select 1"}
    answers = [
        [REASONING, message("first"), computer(CLICK, call_id="c1"), shell("ls", "id", call_id="s1")],
        [function("add", {"a": 1}, "f1"), custom, message("last")],
    ]
    native = {"native_tools": ["computer", "shell", "custom"]}
    pairs = {"computer": "body", "shell": "body", "executed_items": "pairs"}
    async with world(folder, *answers, upstream=native, **pairs) as w:
        return await w.stream("computer", "shell", ADD, {"type": "custom", "name": "sql"})


async def test_a_good_stream_has_no_faults(tmp_path: Path):
    """Two rounds, the gateway's and the client's calls, pairs shown: one response, one counter, one union."""
    events = await good_stream(tmp_path)
    assert faults(events) == []
    assert kinds(events[-1]["response"]["output"]) == [
        "reasoning",
        "message",
        "computer_call",
        "shell_call",
        "computer_call_output",
        "shell_call_output",
        "function_call",
        "custom_tool_call",
        "message",
    ]


def mutations(events: list[Json]) -> Iterator[tuple[str, list[Json]]]:
    """Each is a good stream with one thing wrong: an event too few or too many, out of order, or changed."""
    for index, event in enumerate(events):
        name = f"{index} {event['type']}"
        yield f"{name} dropped", renumbered([*events[:index], *events[index + 1 :]])
        yield f"{name} twice", renumbered([*events[:index], event, *events[index:]])
        following = events[index + 1 : index + 2]
        if following and not may_interleave(event, following[0]):
            swapped = [*events[:index], *following, event, *events[index + 2 :]]
            yield f"{name} after {following[0]['type']}", renumbered(swapped)
        for path in paths(event):
            if path not in UNKNOWABLE:
                yield f"{name} {path} changed", mutated(events, index, path, other)
                if isinstance(path[-1], str):
                    yield f"{name} {path} removed", mutated(events, index, path, None)


UNKNOWABLE = {
    ("response", "completed_at"),
    ("response", "usage", "input_tokens_details", "cached_tokens"),
    ("response", "usage", "input_tokens_details", "cache_write_tokens"),
    ("response", "usage", "output_tokens_details", "reasoning_tokens"),
}
"""No other event tells what these should be."""


def may_interleave(one: Json, next: Json) -> bool:
    """An item, or a command, may begin before the one before it is closed."""
    return (one["type"], next["type"]) in {
        ("response.output_item.done", "response.output_item.added"),
        ("response.shell_call_command.done", "response.shell_call_command.added"),
    }


def renumbered(events: list[Json]) -> list[Json]:
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def paths(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the scalars of *value* are."""
    if isinstance(value, dict | list):
        for name, inside in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths(inside, (*before, name))
    else:
        yield before


def other(value: Any) -> Any:
    if isinstance(value, str):
        return f"{value}x"
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int | float) else "x"


def mutated(events: list[Json], index: int, path: tuple[Any, ...], change: Any) -> list[Json]:
    """A copy with the scalar at *path* of one event changed, or, without *change*, removed."""
    made = [*events[:index], copy.deepcopy(events[index]), *events[index + 1 :]]
    place: Any = made[index]
    for name in path[:-1]:
        place = place[name]
    if change is None:
        del place[path[-1]]
    else:
        place[path[-1]] = change(place[path[-1]])
    return made


def noticed(events: list[Json]) -> bool:
    try:
        return bool(faults(events))
    except (KeyError, TypeError, ValueError):  # too broken to be read on
        return True


async def test_every_single_mutation_is_found(tmp_path: Path):
    """The checker is worth something: a thousand single mutations of a good stream, each a fault."""
    made = list(mutations(await good_stream(tmp_path)))
    assert len(made) > 1000
    assert [name for name, events in made if not noticed(events)] == []


async def test_shell_events_of_a_client_executed_call(tmp_path: Path):
    """Opened without commands, each told without an item id, closed with the whole action."""
    async with world(tmp_path, [shell("ls", "id")]) as w:
        events = await w.stream({"type": "shell", "environment": {"type": "local"}})
        assert faults(events) == []
        command = ["shell_call_command.added", "shell_call_command.delta", "shell_call_command.done"]
        assert types(events) == [
            "created",
            "in_progress",
            "output_item.added",
            *command,
            *command,
            "output_item.done",
            "completed",
        ]
        assert not any("item_id" in event for event in events)
        assert events[2]["item"]["action"]["commands"] == []
        assert events[-2]["item"]["action"]["commands"] == ["ls", "id"]


async def test_hidden_calls_leave_no_trace_in_the_stream(tmp_path: Path):
    """What the gateway ran is not shown: the client sees a message, at index 0."""
    async with world(
        tmp_path, [computer()], [shell("x")], [message("done")], computer="body", shell="body"
    ) as w:
        events = await w.stream("computer", "shell")
        assert faults(events) == []
        assert events[2]["output_index"] == 0
        assert kinds(events[-1]["response"]["output"]) == ["message"]
        assert w.executed == 2


async def test_function_lowering_streams_public_shapes(tmp_path: Path):
    """No function event of a stand-in is seen; the computer_call comes whole, under its own events."""
    calls = [function("computer", {"actions": [CLICK]}, "c1"), function("shell", {"commands": ["ls"]}, "s1")]
    async with world(tmp_path, [message("hm"), *calls], upstream=LOWERED) as w:
        events = await w.stream("computer", "shell")
        assert faults(events) == []
        assert kinds(events[-1]["response"]["output"]) == ["message", "computer_call", "shell_call"]
        assert not any("function_call" in kind for kind in types(events))
        assert events[-1]["response"]["tools"] == [{"type": "computer"}, {"type": "shell"}]


async def test_the_same_end_in_both_ways(tmp_path: Path):
    """A streamed response ends as the blocking one does, but for ids and times."""
    answer = [message("hello", id="msg_same")]
    async with world(tmp_path, answer, answer) as w:
        blocking = await w.create(instructions="be", metadata={"a": "b"})
        streamed = (await w.stream(instructions="be", metadata={"a": "b"}))[-1]["response"]
        for response in (blocking, streamed):
            del response["id"]
        assert blocking == streamed


async def test_every_field_of_a_response_is_there(tmp_path: Path):
    """Both oracles take it: OpenAI's own model, strictly by its fields, and Open Responses' resource."""
    async with world(tmp_path, [message("hello")]) as w:
        response = await w.create(ADD)
        openresponses_types.ResponseResource.model_validate(response)
        Response.model_validate(response)
        assert response.keys() >= {"error", "incomplete_details", "usage", "previous_response_id", "metadata"}
        assert "output_text" not in response


@pytest.mark.parametrize("reasoning", [{"summary": "auto"}, {"effort": "low", "context": "all_turns"}])
async def test_half_of_a_setting_is_echoed_whole(tmp_path: Path, reasoning: Json):
    """codex sends reasoning with one of its fields: the response has both, and what else was sent."""
    async with world(tmp_path, [message("hello")]) as w:
        response = await w.create(reasoning=reasoning)
        openresponses_types.ResponseResource.model_validate(response)
        assert response["reasoning"] == {"effort": None, "summary": None, **reasoning}


async def test_an_upstream_that_breaks_off_leaves_a_well_formed_stream(tmp_path: Path):
    """What was open is closed as incomplete, last, and the response has failed."""

    async with world(tmp_path) as w:

        class Broken:
            def __init__(self) -> None:
                whole = [
                    {
                        "type": "response.output_item.added",
                        "output_index": 0,
                        "item": message("x", content=[]),
                    }
                ]
                place = {"output_index": 0, "item_id": "y", "content_index": 0}
                part = {"type": "output_text", "text": "", "annotations": []}
                whole.append({"type": "response.content_part.added", **place, "part": part})
                whole.append({"type": "response.output_text.delta", **place, "delta": "half"})
                self.events = iter(whole)

            def __aiter__(self) -> Broken:
                return self

            async def __anext__(self) -> Json:
                await trio.lowlevel.checkpoint()
                for event in self.events:
                    return event
                raise errors.UpstreamFailed("the connection broke")

        @asynccontextmanager
        async def stream(request: Json):
            yield Broken()

        w.model.stream = stream
        events = await w.stream()
        assert faults(events) == []
        assert events[-1]["type"] == "response.failed"
        assert events[-1]["response"]["error"]["type"] == "upstream_failed"
        (item,) = events[-1]["response"]["output"]
        assert (item["status"], item["content"][0]["text"]) == ("incomplete", "half")
        stored = await w.get(f"/v1/responses/{events[-1]['response']['id']}")
        assert stored["status"] == "failed"


async def test_it_is_stored_before_its_end_is_told(tmp_path: Path):
    """Whoever reads the terminal event finds the response in the store."""
    async with world(tmp_path, [message("hello")]) as w:
        reply = await w.call("POST", "/v1/responses", {"model": "m", "input": "x", "stream": True})
        async for chunk in reply.stream:
            if b"event: response.completed" in chunk:
                last = chunk.split(b"event: response.completed\ndata: ")[1]
                id = json.loads(last.split(b"\n")[0])["response"]["id"]
                assert await w.store.get("response", id) is not None
        await reply.stream.aclose()


async def test_a_stream_can_be_read_again(tmp_path: Path):
    """GET with starting_after tells the rest: from memory and, once that is gone, the same from the store."""
    async with world(tmp_path, [message("hello there")]) as w:
        events = await w.stream(background=True)
        assert types(events)[:3] == ["created", "queued", "in_progress"]
        assert faults(events) == []
        path = f"/v1/responses/{events[-1]['response']['id']}?stream=true"
        for _ in ("memory", "store"):
            assert await read(await w.call("GET", path)) == events
            for after in range(len(events) + 1):
                rest = await read(await w.call("GET", f"{path}&starting_after={after}"))
                assert rest == events[after + 1 :]
            w.adapter.gateway.runs.forget(events[-1]["response"]["id"])
        with pytest.raises(errors.InvalidRequest):
            await w.call("GET", f"{path}&starting_after=soon")
        with pytest.raises(errors.NotFound):
            await w.call("GET", path, caller=OTHER)
        await w.call("DELETE", path.partition("?")[0])
        assert await w.store.keys("events") == []


async def test_a_restart_changes_no_number(tmp_path: Path):
    """A stream with everything in it is told again by another daemon: event by event, number by number."""
    events = await good_stream(tmp_path)
    async with world(tmp_path) as w:
        again = await read(await w.call("GET", f"/v1/responses/{events[-1]['response']['id']}?stream=true"))
    assert again == events


async def test_deltas_keep_their_pieces(tmp_path: Path):
    """Text that came in many deltas is told again in those, not in one."""
    async with world(tmp_path) as w:

        @asynccontextmanager
        async def stream(request: Json):
            whole = message("abc" * 300)
            listed = list(lifecycle.events(whole, 0))
            (at,) = [i for i, event in enumerate(listed) if event["type"] == "response.output_text.delta"]
            delta = listed[at]
            listed[at : at + 1] = [{**delta, "delta": letter} for letter in "abc" * 300]
            yield Listed([*listed, {"type": "response.completed", "response": {"output": [whole]}}])

        w.model.stream = stream
        events = await w.stream()
        assert len(events) > 900
        w.adapter.gateway.runs.forget(events[-1]["response"]["id"])
        path = f"/v1/responses/{events[-1]['response']['id']}?stream=true&starting_after=500"
        assert await read(await w.call("GET", path)) == events[501:]


async def test_a_stream_whose_events_were_lost(tmp_path: Path):
    """After a kill, a client that had read further than what is left is still told how it ended."""
    async with world(tmp_path, [message("hello")]) as w:
        response = (await w.stream())[-1]["response"]
        w.adapter.gateway.runs.forget(response["id"])
        await w.store.delete("events", response["id"])
        path = f"/v1/responses/{response['id']}?stream=true"
        again = await read(await w.call("GET", path))
        assert faults(again) == []
        (last,) = await read(await w.call("GET", f"{path}&starting_after=4000"))
        assert (last["type"], last["sequence_number"]) == ("response.completed", 4001)


async def test_silence_is_filled_with_comments(tmp_path: Path, autojump_clock: Any):
    """While the model thinks, a comment alone keeps proxies awake."""
    async with world(tmp_path, hold := trio.Event(), [message("late")], keep_alive_ms=1000) as w:
        reply = await w.call("POST", "/v1/responses", {"model": "m", "input": "x", "stream": True})
        chunks = []
        async for chunk in reply.stream:
            chunks.append(chunk)
            if chunks.count(b": still here\n\n") == 3:
                hold.set()
        assert chunks.count(b": still here\n\n") >= 3
        assert chunks[-1] == b"data: [DONE]\n\n"
        await reply.stream.aclose()


@pytest.mark.parametrize("streamed", [True, False])
async def test_errors_of_the_upstream_are_failures(tmp_path: Path, streamed: bool):
    """A response that failed upstream fails here, with its code if clients' types know it."""
    error = {"code": "rate_limit_exceeded", "message": "slow down"}
    async with world(tmp_path, {"status": "failed", "output": [message("x")], "error": error}) as w:
        if streamed:
            last = (await w.stream())[-1]
            UNION.validate_python(last)
            response = last["response"]
        else:
            response = await w.create()
        assert response["status"] == "failed"
        assert response["error"]["code"] == "rate_limit_exceeded"
        assert response["error"]["type"] == "upstream_failed"
