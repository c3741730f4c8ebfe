"""Model servers over HTTP: Responses and Chat Completions, what they get wrong, and when one tries again."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from bodyd_adapters.responses.upstreams import chat_request, open_upstream
from bodyd_adapters.responses.upstreams.chat_stream import ChatStream
from bodyd_adapters.responses.upstreams.sse import Parser

from bodyd import errors
from bodyd.contract.gateway import UpstreamSettings

from .model_server import Answer, model_server
from .streams import faults
from .test_loop import kinds
from .world import Json, message, world

RESPONSE: Json = {"id": "r", "status": "completed", "output": [message("hello")], "usage": None}
REQUEST: Json = {"model": "m", "input": []}


@asynccontextmanager
async def connected(*answers: Answer, kind: str = "responses", **settings: Any):
    async with model_server(*answers) as server:
        made = UpstreamSettings(kind=kind, url=server.url, **settings)
        async with open_upstream(made, None) as upstream:
            yield server, upstream.port


async def collect(port: Any) -> list[Json]:
    async with port.stream(REQUEST) as events:
        return [event async for event in events]


async def test_a_responses_server(tmp_path: Path):
    """Blocking and streamed, with the key that the file has now."""
    key = tmp_path / "key"
    await trio.Path(key).write_text("first\n")
    events = [
        {"type": "response.created", "response": RESPONSE},
        {"type": "response.completed", "response": RESPONSE},
    ]
    async with connected(Answer(RESPONSE), Answer(events), key_file=key) as (server, port):
        assert await port.respond(REQUEST) == RESPONSE
        await trio.Path(key).write_text("second\n")
        assert await collect(port) == events
    (path, headers, body), (_, later, streamed) = server.seen
    assert path == "/v1/responses"
    assert (headers["authorization"], later["authorization"]) == ("Bearer first", "Bearer second")
    assert (body["stream"], streamed["stream"]) == (False, True)


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_it_is_tried_again_before_anything_came(status: int):
    """Overload and refused connections are tried again, and given up after that."""
    refusal = Answer({"error": {"message": "busy"}}, status=status)
    async with connected(refusal, Answer(RESPONSE), retries=1) as (server, port):
        assert await port.respond(REQUEST) == RESPONSE
        assert len(server.seen) == 2
    async with connected(refusal, refusal, retries=1) as (_, port):
        with pytest.raises(errors.UpstreamUnavailable, match="busy"):
            await port.respond(REQUEST)
    unreachable = UpstreamSettings(kind="responses", url="http://127.0.0.1:1/v1", retries=0)
    async with open_upstream(unreachable, None) as upstream:
        with pytest.raises(errors.UpstreamUnavailable):
            await upstream.port.respond(REQUEST)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer({"error": {"message": "no such model"}}, status=404), errors.UpstreamRefused),
        (Answer({"detail": "bad"}, status=422), errors.UpstreamRefused),
        (Answer({"error": "nope"}, status=401), errors.UpstreamFailed),
        (Answer([1, 2]), errors.UpstreamFailed),
        (Answer("text"), errors.UpstreamFailed),
        (Answer(RESPONSE, cut=True), errors.UpstreamFailed),
    ],
    ids=["404", "422", "401", "stream", "text", "cut"],
)
async def test_answers_that_are_none(answer: Answer, error: type[Exception]):
    """Each is told by what it is, and never tried again."""
    async with connected(answer, retries=2) as (server, port):
        with pytest.raises(error):
            await port.respond(REQUEST)
        assert len(server.seen) == 1


async def test_a_stream_that_is_cut(tmp_path: Path):
    """The response fails with a well-formed stream."""
    begun = [{"type": "response.created", "response": {}}]
    async with model_server(Answer(begun, cut=True)) as server:
        upstream = {"kind": "responses", "url": server.url, "native_tools": []}
        async with world(tmp_path, upstream=upstream) as w:
            events = await w.stream()
            assert faults(events) == []
            assert events[-1]["response"]["error"]["type"] == "upstream_failed"


# httpx2 leaves a generator of its own unfinished when an answer is not read to its end
@pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_leaving_a_stream_cancels_it_upstream():
    """The server sees its connection close."""
    async with connected(Answer([{"type": "response.created"}], hang=True)) as (server, port):
        async with port.stream(REQUEST) as events:
            assert (await anext(aiter(events)))["type"] == "response.created"
        with trio.fail_after(10):
            await server.left.wait()


async def test_a_key_that_is_missing_refuses_the_start():
    """Named by its setting, whichever way it is configured."""
    for wrong in ({"key_env": "BODYD_TEST_NO_SUCH_KEY"}, {"key_file": Path("/nonexistent/key")}):
        with pytest.raises(errors.ConfigError):
            async with open_upstream(UpstreamSettings(kind="chat", url="http://x", **wrong), None):
                pass
    with pytest.raises(ValueError, match="url"):
        UpstreamSettings(kind="chat")


# -- Chat Completions ---------------------------------------------------------------------------------


def chunk(delta: Json, finish: str | None = None, **more: Any) -> Json:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


def call(name: str | None, arguments: str, *, index: int = 0, id: str | None = None) -> Json:
    function = {"arguments": arguments} | ({"name": name} if name else {})
    return {"tool_calls": [{"index": index, "function": function} | ({"id": id} if id else {})]}


USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
VLLM = [
    chunk({"role": "assistant", "reasoning_content": "h"}),
    chunk({"reasoning_content": "m"}),
    chunk({"content": "Look"}),
    chunk(call("computer", "", id="a")),
    chunk(call(None, '{"actions": [{"ty')),
    chunk(call(None, 'pe": "wait"}]}')),
    chunk(call("shell", '{"commands": ["ls"]}', index=1, id="b")),
    chunk({}, "tool_calls"),
    {"choices": [], "usage": USAGE},
]
OLLAMA = [
    chunk(call("computer", '{"actions": [{"type": "wait"}]}', id="a")),
    chunk(call("shell", '{"commands": ["ls"]}', id="b")),
    chunk({"content": ""}, "stop", usage=USAGE),
]
NAMELESS = [
    chunk(call("computer", '{"actions": [{"type": "wait"}]}')),
    chunk(call("shell", '{"commands": ["ls"]}')),
    chunk({}, "stop"),
]


@pytest.mark.parametrize("chunks", [VLLM, OLLAMA, NAMELESS], ids=["vllm", "ollama", "without ids"])
async def test_chat_streams_become_public_calls(tmp_path: Path, chunks: list[Json]):
    """Deltas in pieces, calls that are whole, ids that are missing: each call is one public item."""
    async with model_server(Answer(chunks)) as server:
        upstream = {"kind": "chat", "url": server.url, "native_tools": []}
        async with world(tmp_path, upstream=upstream) as w:
            events = await w.stream("computer", "shell")
        assert faults(events) == []
        response = events[-1]["response"]
        assert kinds(response["output"])[-2:] == ["computer_call", "shell_call"]
        assert response["output"][-2]["actions"] == [{"type": "wait"}]
        assert server.seen[0][0] == "/v1/chat/completions"
        if chunks is VLLM:
            assert kinds(response["output"])[:2] == ["reasoning", "message"]
            assert response["usage"]["total_tokens"] == 10


async def test_chat_blocking(tmp_path: Path):
    """The same from one JSON answer; a truncated one is incomplete and its call is not run."""
    made = {
        "role": "assistant",
        "content": "ok",
        "tool_calls": [{"function": {"name": "shell", "arguments": '{"commands":["x"]}'}}],
    }
    whole = {"choices": [{"message": made, "finish_reason": "tool_calls"}], "usage": USAGE}
    cut = {"choices": [{"message": made, "finish_reason": "length"}], "usage": USAGE}
    async with model_server(Answer(whole), Answer(cut)) as server:
        upstream = {"kind": "chat", "url": server.url, "native_tools": []}
        async with world(tmp_path, upstream=upstream) as w:
            assert kinds((await w.create("shell"))["output"]) == ["message", "shell_call"]
        async with world(tmp_path, upstream=upstream, shell="body") as w:
            response = await w.create("shell")
            assert response["incomplete_details"] == {"reason": "max_output_tokens"}
            assert w.shell.ran == []


def test_the_chat_request():
    """Instructions, parts, calls and results in Chat Completions' words; calls in a row are one message."""
    image = {"type": "input_image", "image_url": "data:x", "detail": "high"}
    request = {
        "model": "m",
        "instructions": "be",
        "max_output_tokens": 9,
        "reasoning": {"effort": "low"},
        "tool_choice": {"type": "function", "name": "f"},
        "tools": [{"type": "function", "name": "f", "parameters": {}, "strict": True}],
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {}, "strict": None}},
        "input": [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "d"}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "u"}, image]},
            {"type": "reasoning", "id": "r", "summary": []},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
            {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
            {"type": "function_call", "call_id": "2", "name": "f", "arguments": ""},
            {"type": "function_call_output", "call_id": "1", "output": "text"},
            {"type": "function_call_output", "call_id": "2", "output": [image]},
        ],
    }
    sent = chat_request.translate(request, stream=True)
    roles = [message["role"] for message in sent["messages"]]
    assert roles == ["system", "system", "user", "assistant", "tool", "tool"]
    assert [call["id"] for call in sent["messages"][3]["tool_calls"]] == ["1", "2"]
    assert sent["messages"][2]["content"][1] == {
        "type": "image_url",
        "image_url": {"url": "data:x", "detail": "high"},
    }
    assert sent["messages"][5]["content"][0]["type"] == "image_url"
    assert sent["max_tokens"] == 9
    assert sent["reasoning_effort"] == "low"
    assert sent["tool_choice"] == {"type": "function", "function": {"name": "f"}}
    assert sent["response_format"]["json_schema"] == {"name": "n", "schema": {}}
    assert sent["stream_options"] == {"include_usage": True}


def test_chat_outputs_follow_their_calls():
    """What a client said between a call and its output comes after both; later rounds stay apart."""

    def call(id: str) -> Json:
        return {"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"}

    def output(id: str) -> Json:
        return {"type": "function_call_output", "call_id": id, "output": id}

    said = {"type": "message", "role": "user", "content": "u"}
    thought = {"type": "reasoning", "id": "r", "summary": []}
    first = [call("1"), thought, call("2"), said, output("2"), output("1"), said]
    sent = chat_request.messages({"input": [*first, call("3"), output("3"), call("4"), output("4")]})
    told = [message.get("content") or [one["id"] for one in message["tool_calls"]] for message in sent]
    assert told == [["1", "2"], "1", "2", "u", "u", ["3"], "3", ["4"], "4"]


def test_a_chat_stream_that_stops_short_has_failed():
    """Without a finish_reason the server broke off: that is not a completed answer."""
    stream = ChatStream(token=lambda: "t", model="m", created_at=0)
    events = [*stream.begin(), *stream.feed(chunk({"content": "ha"})), *stream.finish()]
    assert events[-1]["type"] == "response.failed"


def test_server_sent_events_in_any_pieces():
    """CRLF, comments, several data lines, pieces of one byte, a last frame without its blank line."""
    raw = b': hi\r\ndata: {"a":\r\ndata: 1}\r\n\r\nevent: x\ndata: {"b": 2}\n\ndata: {"c": 3}'
    for size in (1, 7, len(raw)):
        parser = Parser()
        found = [
            value for start in range(0, len(raw), size) for value in parser.feed(raw[start : start + size])
        ]
        assert [*found, *parser.finish()] == [{"a": 1}, {"b": 2}, {"c": 3}]
    parser = Parser()
    assert list(parser.feed(b'data: [DONE]\n\ndata: {"late": 1}\n\n')) == []
    assert parser.done
    with pytest.raises(errors.UpstreamFailed):
        list(Parser().feed(b"data: nope\n\n"))
