"""The real openai SDK over the real listener, with a body in memory and a scripted model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
import trio
from openai import AsyncOpenAI

from bodyd.contract.lease import Scope
from bodyd.http.app import create_app
from bodyd.http.listener import listen
from bodyd.http.services import Services
from bodyd.http.tokens import Tokens

from .test_loop import CLICK, kinds
from .world import PIXEL, World, computer, message, shell, world

# the SDK leaves its own generators unfinished at [DONE]; Trio's collector says so
pytestmark = [
    pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@asynccontextmanager
async def served(
    folder: Path, *answers: Any, scope: Scope = Scope.DRIVER, **settings: Any
) -> AsyncIterator[tuple[World, AsyncOpenAI]]:
    async with world(folder, *answers, **settings) as w:
        services = Services(body=w.body, tokens=Tokens.fresh(), adapters=(w.adapter,))
        async with listen(create_app(services), port=0) as bound:
            http = httpx2.AsyncClient(trust_env=False)
            async with AsyncOpenAI(
                base_url=f"http://127.0.0.1:{bound.port}/v1",
                api_key=services.tokens.token(scope),
                http_client=http,
            ) as client:
                yield w, client


async def test_the_missions_computer_example(tmp_path: Path):
    """Start, get a computer_call, return the screenshot by previous_response_id, be answered."""
    answers = [[computer({"type": "screenshot"}, call_id="call_001")], [message("It is open.")]]
    async with served(tmp_path, *answers) as (w, client):
        response = await client.responses.create(
            model="gpt-5.6",
            tools=[{"type": "computer"}],
            input="Check whether the Filters panel is open.",
        )
        (call,) = response.output
        assert call.type == "computer_call"
        assert call.actions[0].type == "screenshot"
        shot = {"type": "computer_screenshot", "image_url": PIXEL, "detail": "original"}
        response = await client.responses.create(
            model="gpt-5.6",
            tools=[{"type": "computer"}],
            previous_response_id=response.id,
            input=[{"type": "computer_call_output", "call_id": call.call_id, "output": shot}],
        )
        assert response.output_text == "It is open."
        assert response.model == "gpt-5.6"
        assert w.executed == 0


async def test_the_missions_shell_example(tmp_path: Path):
    """A local shell_call for the client, its output back, the answer; nothing is run here."""
    answers = [[shell("find ~/Documents", timeout_ms=120000, max_output_length=4096)], [message("five")]]
    async with served(tmp_path, *answers) as (w, client):
        tools: Any = [{"type": "shell", "environment": {"type": "local"}}]
        response = await client.responses.create(model="m", input="Find", tools=tools)
        (call,) = response.output
        assert call.type == "shell_call"
        assert (call.action.timeout_ms, call.action.max_output_length) == (120000, 4096)
        outcome = {"type": "exit", "exit_code": 0}
        answer: Any = {
            "type": "shell_call_output",
            "call_id": call.call_id,
            "max_output_length": 4096,
            "output": [{"stdout": "...", "stderr": "", "outcome": outcome}],
        }
        response = await client.responses.create(
            model="m", input=[answer], tools=tools, previous_response_id=response.id
        )
        assert response.output_text == "five"
        assert w.shell.ran == []
        sent = w.model.requests[-1]["input"][-1]
        assert {key: sent[key] for key in answer} == answer


async def test_the_streaming_helper(tmp_path: Path):
    """`.stream()` accumulates a gateway-executed response without complaint."""
    async with served(tmp_path, [computer()], [message("done")], computer="body") as (w, client):
        async with client.responses.stream(model="m", input="go", tools=[{"type": "computer"}]) as stream:
            events = [event.type async for event in stream]
            final = await stream.get_final_response()
        assert final.output_text == "done"
        assert events[0] == "response.created"
        assert len(w.body.acted) == 1


async def test_streamed_client_executed_calls(tmp_path: Path):
    """create(stream=True) yields typed events with every command and the call."""
    async with served(tmp_path, [shell("ls"), computer(CLICK)]) as (w, client):
        stream = await client.responses.create(
            model="m", input="go", tools=[{"type": "shell"}, {"type": "computer"}], stream=True
        )
        events = [event async for event in stream]
        assert events[-1].type == "response.completed"
        assert kinds([item.model_dump() for item in events[-1].response.output]) == [
            "shell_call",
            "computer_call",
        ]
        assert w.executed == 0


async def test_refusals_are_not_retried(tmp_path: Path):
    """A 400 names the param; the SDK raises it once, with our code and request id."""
    async with served(tmp_path) as (w, client):
        with pytest.raises(openai.BadRequestError) as caught:
            await client.responses.create(model="m", input="x", tools=[{"type": "local_shell"}])
        assert caught.value.code == "unsupported_tool"
        assert caught.value.param == "tools[0].type"
        assert caught.value.request_id
        with pytest.raises(openai.BadRequestError) as caught:
            await client.responses.create(model="m", input="x", previous_response_id="resp_none")
        assert caught.value.code == "previous_response_not_found"
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve("resp_none")
        assert w.model.requests == []


async def test_the_rest_of_the_api(tmp_path: Path):
    """retrieve, input_items, cancel, delete, models, conversations and token counts, through the SDK."""
    answers = [[message("one")], [message("two")]]
    async with served(tmp_path, *answers, upstream={"models": ["a", "b"]}) as (_, client):
        response = await client.responses.create(model="m", input="hello", background=True)
        while response.status in ("queued", "in_progress"):
            await trio.lowlevel.checkpoint()
            response = await client.responses.retrieve(response.id)
        assert response.output_text == "one"
        cancelled = await client.responses.cancel(response.id)
        assert cancelled.status == "completed"
        items = [item async for item in client.responses.input_items.list(response.id, limit=1)]
        assert [item.type for item in items] == ["message"]
        assert [model.id async for model in client.models.list()] == ["a", "b"]
        count = await client.responses.input_tokens.count(model="m", input="hello " * 40)
        assert count.input_tokens > 40
        conversation = await client.conversations.create(
            items=[{"type": "message", "role": "user", "content": "first"}], metadata={"a": "b"}
        )
        answer = await client.responses.create(model="m", input="and", conversation=conversation.id)
        assert answer.conversation.id == conversation.id
        listed = [item async for item in client.conversations.items.list(conversation.id, order="asc")]
        assert [item.type for item in listed] == ["message", "message", "message"]
        await client.conversations.items.delete(listed[0].id, conversation_id=conversation.id)
        assert (await client.conversations.retrieve(conversation.id)).metadata == {"a": "b"}
        await client.conversations.delete(conversation.id)
        await client.responses.delete(response.id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(response.id)


async def test_compaction(tmp_path: Path):
    """A compacted history goes on: the model reads its own summary in place of what was."""
    answers = [[message("hello")], [message("the summary")], [message("still here")]]
    async with served(tmp_path, *answers) as (w, client):
        first = await client.responses.create(model="m", input="remember 42")
        compacted = await client.responses.compact(model="m", previous_response_id=first.id)
        assert [item.type for item in compacted.output] == ["message", "compaction"]
        made: Any = [item.model_dump(exclude_none=True, warnings=False) for item in compacted.output]
        await client.responses.create(model="m", input=[*made, {"role": "user", "content": "and?"}])
        assert "the summary" in str(w.model.requests[-1]["input"])


async def test_a_viewer_may_not_ask(tmp_path: Path):
    """The gateway's routes need a driver's token."""
    async with served(tmp_path, scope=Scope.VIEWER) as (_, client):
        with pytest.raises(openai.PermissionDeniedError):
            await client.responses.create(model="m", input="x")


async def test_a_stream_that_is_dropped_counts_as_left(tmp_path: Path):
    """Closing the SDK's stream in the middle reaches the response: it waits, then is cancelled."""
    async with served(tmp_path, trio.Event(), [message("x")], rejoin_ms=1) as (w, client):
        stream = await client.responses.create(model="m", input="go", stream=True)
        async for event in stream:
            if event.type == "response.in_progress":
                break
        id = event.response.id
        await stream.close()
        with trio.fail_after(10):
            await w.adapter.gateway.runs.get(id).done.wait()
        assert (await client.responses.retrieve(id)).status == "cancelled"
        assert w.model.cancelled == 1
