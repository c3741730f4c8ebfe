"""Model servers that send what makes no sense: the response fails by name, and nothing else with it."""

from __future__ import annotations

import contextlib
import copy
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from bodyd_adapters.responses import incoming, lifecycle, rounds
from bodyd_adapters.responses.upstreams import chat_chunk, sse
from bodyd_adapters.responses.upstreams.chat_stream import ChatStream

from bodyd import errors

from .streams import faults
from .test_upstreams import VLLM
from .world import Json, Listed, computer, function, message, shell, world

JUNK: list[Any] = [None, True, -1, 1.5, "", "x", [], {}, [None], {"type": 5}, 10**30, float("nan"), [{}]]
OUTPUT = [
    message("hello there"),
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "t"}]},
    computer({"type": "click", "button": "left", "x": 3, "y": 4}),
    shell("ls"),
    function("f", {"a": 1}),
    {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_x", "name": "c", "input": "i"},
    {
        "type": "apply_patch_call",
        "id": "apc_1",
        "call_id": "call_p",
        "status": "completed",
        "operation": {"type": "delete_file", "path": "p"},
    },
]
TOOLS = ["computer", "shell", {"type": "function", "name": "f", "parameters": {}}]
END = {"id": "up", "status": "completed", "output": [message("the end")]}


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in *value*."""
    if path:
        yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inside:
        yield from paths(part, (*path, key))


def corrupted(value: Any, path: tuple[Any, ...], junk: Any) -> Any:
    """*value* with *junk* in that place; ... means nothing at all."""
    made = copy.deepcopy(value)
    place = made
    for key in path[:-1]:
        place = place[key]
    if junk is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = copy.deepcopy(junk)
    return made


def corruptions(value: Any, seed: int, many: int) -> Iterator[Any]:
    """*many* single corruptions of *value*, the same ones each time."""
    chosen = random.Random(seed)
    places = list(paths(value))
    for _ in range(many):
        yield corrupted(value, chosen.choice(places), chosen.choice([*JUNK, ...]))


def events(output: list[Json]) -> list[Json]:
    whole = {"id": "up", "status": "completed", "output": output, "usage": {"input_tokens": 1}}
    told: list[Json] = [{"type": "response.created", "response": {**whole, "output": []}}]
    for index, item in enumerate(output):
        told += lifecycle.events(item, index)
    return [*told, {"type": "response.completed", "response": whole}]


async def test_every_corrupted_answer_is_survived(tmp_path: Path):
    """Blocking: the response ends, by name if it fails; it can be read again, and continued."""
    usage = {"input_tokens": 1, "output_tokens": 2, "output_tokens_details": {"reasoning_tokens": 1}}
    good = {"id": "up", "status": "completed", "output": OUTPUT, "usage": usage, "error": None}
    async with world(tmp_path, computer="body", shell="body") as w:
        for number, answer in enumerate(corruptions(good, 1, 150)):
            w.model.answers = [answer, *[END] * 5]
            response = None
            with contextlib.suppress(errors.UpstreamFailed):
                response = await w.create(*TOOLS, metadata={"n": str(number)})
            if response is None:
                continue
            assert (response["error"] or {"type": "upstream_failed"})["type"] == "upstream_failed"
            listed = await w.get(f"/v1/responses/{response['id']}/input_items")
            assert listed["object"] == "list"
            w.model.answers = [END]
            with contextlib.suppress(errors.CallMismatch):  # a call that it made is the client's
                await w.create(input="and then?", previous_response_id=response["id"])


async def test_every_corrupted_stream_is_survived(tmp_path: Path):
    """Streamed: there is one terminal event, and a failure is told as upstream's."""
    good = events(OUTPUT)
    async with world(tmp_path) as w:

        @asynccontextmanager
        async def stream(request: Any) -> AsyncIterator[Listed]:
            yield Listed(w.model.answers.pop(0))

        w.model.stream = stream  # type: ignore[method-assign]
        for number, told in enumerate(corruptions(good, 2, 150)):
            w.model.answers = [[event for event in told if isinstance(event, dict)]]
            last = (await w.stream(*TOOLS, metadata={"n": str(number)}))[-1]
            assert last["type"] in ("response.completed", "response.incomplete", "response.failed")
            assert (last["response"]["error"] or {"type": "upstream_failed"})["type"] == "upstream_failed"


def test_every_corrupted_chat_chunk_is_read_or_refused():
    """Of a stream and of whole answers: events, or upstream_failed."""
    whole = {"choices": [{"message": {"content": "ok", "tool_calls": [{"function": {"name": "f"}}]}}]}
    for seed, good in enumerate((VLLM, [whole])):
        for told in corruptions(good, seed, 400):
            stream = ChatStream(token=lambda: "t", model="m", created_at=0)
            try:
                for chunk in told:
                    if isinstance(chunk, dict):
                        list(stream.feed(chunk, whole=good is not VLLM))
                assert list(stream.finish())
            except errors.UpstreamFailed:
                pass


def test_chat_texts_in_parts():
    """Content as a list of text parts, which some servers send, is its text."""
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    read = chat_chunk.checked({"choices": [{"message": {"content": parts}}]}, whole=True)
    assert read["choices"][0]["delta"]["content"] == "ab"
    counted = chat_chunk.checked({"usage": {"prompt_tokens": True, "prompt_tokens_details": {}}})["usage"]
    assert counted["total_tokens"] == 0


async def test_deltas_without_their_part(tmp_path: Path):
    """A part that the server didn't open is opened first; one that is out of turn is left out."""
    item = message("ab")
    place = {"output_index": 0, "item_id": item["id"]}
    delta = {"type": "response.output_text.delta", **place, "content_index": 0}
    told = [
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {**delta, "content_index": 3, "delta": "lost"},
        {"type": "response.function_call_arguments.delta", **place, "delta": "lost"},
        {**delta, "delta": "a"},
        {**delta, "delta": "b"},
        {"type": "response.output_text.done", **place, "content_index": 0, "text": "ab"},
        {"type": "response.content_part.done", **place, "content_index": 0, "part": item["content"][0]},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"output": [item]}},
    ]
    refusing = message("", content=[{"type": "refusal", "refusal": "no"}])
    refused = [event for event in events([refusing]) if event["type"] != "response.content_part.added"]
    async with world(tmp_path) as w:

        @asynccontextmanager
        async def stream(request: Any) -> AsyncIterator[Listed]:
            yield Listed(w.model.answers.pop(0))

        w.model.stream = stream  # type: ignore[method-assign]
        w.model.answers = [told, refused]
        found = await w.stream()
        assert faults(found) == []
        assert [one["delta"] for one in found if one["type"] == "response.output_text.delta"] == ["a", "b"]
        assert faults(await w.stream(input="again")) == []


def test_reading_what_a_server_sends():
    """Each field that is read has its type, or the server has failed; a content may be plain text."""
    assert incoming.item({"type": "message", "content": "hi"})["content"][0]["text"] == "hi"
    assert incoming.item({"type": "message", "status": "pondering", "content": None})["content"] == []
    for kept in (
        {"type": "yet_to_come", "x": [1], "status": {"y": 2}},
        {"type": "mcp_call", "status": "calling"},
    ):
        assert incoming.item(kept) == kept
    assert incoming.usage([]) is None
    assert incoming.usage({"input_tokens": "many"}) == {
        "input_tokens": 0,
        "output_tokens": 0,
        "input_tokens_details": {},
        "output_tokens_details": {},
    }
    assert incoming.usage({"input_tokens_details": {"cached_tokens": 3}})["input_tokens_details"] == {
        "cached_tokens": 3,
        "cache_write_tokens": 0,
    }
    assert incoming.reason({"reason": "content_filter"}) == "content_filter"
    assert incoming.reason({"reason": []}) == incoming.reason(None) == "max_output_tokens"
    for kind in rounds.RELAYED:
        assert (
            incoming.event({"type": kind, "output_index": 0, "part": {"type": "x"}, "more": 1})["more"] == 1
        )
    for bad in (
        {"type": "function_call", "name": 5},
        {"type": "function_call", "name": "f", "namespace": 5},
        {"type": "function_call", "name": "f", "arguments": {}},
        {"type": "custom_tool_call", "name": "f", "input": []},
        {"type": "reasoning", "encrypted_content": 5},
        {"type": "reasoning", "summary": {}},
        {"type": "message", "content": [{"type": "output_text", "annotations": 5}]},
        {"type": "message", "content": [{"text": "of no type"}]},
        {"type": "message", "content": [5]},
        {"type": "apply_patch_call"},
        {"type": "computer_call", "actions": [], "status": 5},
        {"type": ""},
        "text",
    ):
        with pytest.raises(errors.UpstreamFailed):
            incoming.item(bad)
    for index in (True, -1, "0", None):
        with pytest.raises(errors.UpstreamFailed):
            incoming.index(index)


def test_halves_of_characters():
    """Lone surrogates become U+FFFD, in names too; what is no JSON, or nested without end, has failed."""
    assert sse.read(b'{"a\\ud800": ["\\ud83d", "\\ud83d\\ude00", 1]}') == {
        "a\ufffd": ["\ufffd", "\U0001f600", 1]
    }
    for bad in (b"[" * 100_000, b"\xff", b"", b"<html>"):
        with pytest.raises(errors.UpstreamFailed):
            sse.read(bad)


RAW = {
    "no http": b"garbage\r\n\r\n",
    "cut in the head": b"HTTP/1.1 200 OK\r\ncontent-ty",
    "half-closed after the head": b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n",
    "a page": b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>",
    "not gzip": b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 3\r\n\r\nabc",
    "bad chunks": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nabc",
    "garbage events": b"HTTP/1.1 200 OK\r\n\r\ndata: {]\n\n",
    "events of no object": b'HTTP/1.1 200 OK\r\n\r\ndata: [1]\n\ndata: "x"\n\ndata: [DONE]\n\n',
    "a redirect": b"HTTP/1.1 302 X\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
    "half a surrogate": b'HTTP/1.1 200 OK\r\n\r\ndata: {"type": "\\ud800"}\n\n',
}


# httpx2 leaves a generator of its own unfinished when an answer is not read to its end
@pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("raw", RAW.values(), ids=RAW.keys())
async def test_bytes_that_are_no_answer(tmp_path: Path, raw: bytes):
    """Streamed and blocking: failed by a name that is documented, with a well-formed stream."""

    async def handle(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some()
            await stream.send_all(raw)

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, handle, 0, host="127.0.0.1"))
        url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/v1"
        async with world(tmp_path, upstream={"kind": "responses", "url": url, "retries": 0}) as w:
            found = await w.stream()
            assert faults(found) == []
            known = ("upstream_failed", "upstream_unavailable", "upstream_refused")
            assert found[-1]["response"]["error"]["type"] in known
            with pytest.raises(errors.BodydError) as refusal:
                await w.create()
            assert refusal.value.code in known
        nursery.cancel_scope.cancel(reason="the test is over")


async def test_a_server_that_hangs(tmp_path: Path):
    """It says nothing at all: the response ends as out of time, and the server sees its client leave."""
    left = trio.Event()

    async def handle(stream: trio.SocketStream) -> None:
        async with stream:
            while await stream.receive_some():
                pass
            left.set()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, handle, 0, host="127.0.0.1"))
        url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/v1"
        upstream = {"kind": "responses", "url": url}
        async with world(tmp_path, upstream=upstream, max_wall_ms=1000) as w:
            found = await w.stream()
            assert found[-1]["response"]["error"]["type"] == "wall_time_exceeded"
            with trio.fail_after(20):
                await left.wait()
        nursery.cancel_scope.cancel(reason="the test is over")


async def test_a_bug_ends_one_response_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Where the end of a response can't be made, it has failed as internal, and the gateway goes on."""
    async with world(tmp_path, [message("one")], [message("two")]) as w:
        with monkeypatch.context() as broken:
            broken.setattr("bodyd_adapters.responses.public.total", lambda usages: 1 / 0)
            response = await w.create()
        assert response["error"]["type"] == "internal"
        assert (await w.create(input="again"))["status"] == "completed"
