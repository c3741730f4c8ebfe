"""The 17 cases of the Open Responses conformance suite, each by its name, over real sockets.

The suite itself runs on another runtime and against any server; these hold the same requests to the same
demands, with the specification's own types as the judge.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import openresponses_types as spec
import trio
from websockets.trio.client import connect

from bodyd.contract.lease import Scope
from bodyd.http.app import create_app
from bodyd.http.listener import listen
from bodyd.http.services import Services
from bodyd.http.tokens import Tokens
from bodyd.http.upgrades import Upgrades

from .streams import faults
from .world import PIXEL, Json, World, function, message, world

EVENTS = {
    value.value: found
    for name, found in vars(spec).items()
    if name.endswith("StreamingEvent")
    for value in found.model_fields["type"].annotation
}
"""The specification's class of each event type."""
TERMINAL = ("response.completed", "response.incomplete", "response.failed", "error")


def said(text: str, role: str = "user", **more: Any) -> Json:
    return {"type": "message", "role": role, "content": text, **more}


@dataclass
class Suite:
    """A server under test, as the suite reaches one: a base URL and a key."""

    world: World
    url: str
    key: str

    async def post(self, path: str, body: Json) -> httpx2.Response:
        async with httpx2.AsyncClient(trust_env=False) as http:
            with trio.fail_after(30):
                return await http.post(
                    f"http://{self.url}{path}", json=body, headers={"authorization": f"Bearer {self.key}"}
                )

    async def respond(self, **body: Any) -> Json:
        """A blocking response, held to the specification's resource."""
        answer = await self.post("/v1/responses", {"model": "m", **body})
        assert answer.status_code == 200
        return whole(answer.json())

    @asynccontextmanager
    async def socket(self) -> AsyncIterator[Turns]:
        headers = {"authorization": f"Bearer {self.key}", "content-type": "application/json"}
        async with connect(f"ws://{self.url}/v1/responses", additional_headers=headers) as connection:
            yield Turns(connection)


class Turns:
    """The suite's WebSocket session: one request after the other."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def turn(self, **body: Any) -> Json:
        """Send one response.create; the Response of its terminal event, or the error event."""
        request = {"type": "response.create", "model": "m", **body}
        spec.WebSocketResponseCreateEvent.model_validate(request)
        await self._connection.send(json.dumps(request))
        events: list[Json] = []
        with trio.fail_after(30):
            while not events or events[-1]["type"] not in TERMINAL:
                events.append(json.loads(await self._connection.recv()))
        if events[-1]["type"] == "error":
            assert len(events) == 1
            spec.WebSocketErrorEvent.model_validate(events[0])
            return events[0]
        return streamed(events)


@asynccontextmanager
async def suite(folder: Path, *answers: Any) -> AsyncIterator[Suite]:
    async with world(folder, *answers) as w:
        services = Services(body=w.body, tokens=Tokens.fresh(), adapters=(w.adapter,))
        async with listen(create_app(services), port=0, upgrade=Upgrades(services)) as bound:
            yield Suite(w, f"127.0.0.1:{bound.port}", services.tokens.token(Scope.DRIVER))


def whole(response: Json) -> Json:
    """*response*, if it is a ResponseResource with every field."""
    spec.ResponseResource.model_validate(response)
    return response


def streamed(events: list[Json]) -> Json:
    """The Response that *events* end with, if every one is the specification's and all are in order."""
    for event in events:
        EVENTS[event["type"]].model_validate(event)
    assert faults(events) == []
    return whole(events[-1]["response"])


def texts(w: World, number: int = -1) -> list[str]:
    """What the model was sent as text."""
    parts = [part for item in w.model.requests[number]["input"] for part in item.get("content", ())]
    return [part["text"] for part in parts if "text" in part]


def completed(response: Json) -> bool:
    return bool(response["output"]) and response["status"] == "completed"


async def test_basic_response(tmp_path: Path):
    """A user's message is answered with a whole ResponseResource."""
    async with suite(tmp_path, [message("Hello there friend")]) as s:
        response = await s.respond(input=[said("Say hello in exactly 3 words.")])
        assert completed(response)
        assert response["output"][0]["content"][0]["text"] == "Hello there friend"


async def test_assistant_phase(tmp_path: Path):
    """Phases of an assistant's history are accepted, and reach the model."""
    async with suite(tmp_path, [message("four")]) as s:
        history = [
            said("I should answer with the saved number.", "assistant", phase="commentary"),
            said("The number is four.", "assistant", phase="final_answer"),
            said("Repeat only the number."),
        ]
        assert completed(await s.respond(input=history))
        assert [item.get("phase") for item in s.world.model.requests[0]["input"]] == [
            "commentary",
            "final_answer",
            None,
        ]


async def test_response_output_phase_schema(tmp_path: Path):
    """Phases that the model gives are in the output."""
    answer = [message("I am checking.", phase="commentary"), message("Four.", phase="final_answer")]
    async with suite(tmp_path, answer) as s:
        response = await s.respond(input="?")
        assert completed(response)
        assert [item["phase"] for item in response["output"]] == ["commentary", "final_answer"]


async def test_streaming_response(tmp_path: Path):
    """Events with `event:` equal to `type`, each of the specification, `[DONE]` last."""
    async with suite(tmp_path, [message("1 2 3 4 5")]) as s:
        answer = await s.post(
            "/v1/responses", {"model": "m", "input": [said("Count from 1 to 5.")], "stream": True}
        )
        assert answer.headers["content-type"].startswith("text/event-stream")
        *frames, done, nothing = answer.text.split("\n\n")
        assert (done, nothing) == ("data: [DONE]", "")
        events = []
        for frame in frames:
            kind, data = frame.split("\n")
            events.append(json.loads(data.removeprefix("data: ")))
            assert kind == f"event: {events[-1]['type']}"
        assert completed(streamed(events))


async def test_websocket_response(tmp_path: Path):
    """The same events, one a message, without `[DONE]`."""
    async with suite(tmp_path, [message("1 2 3")]) as s, s.socket() as socket:
        assert completed(await socket.turn(input=[said("Count from 1 to 3.")]))


async def test_websocket_sequential_responses(tmp_path: Path):
    """Two responses on one connection, one after the other."""
    async with suite(tmp_path, [message("first")], [message("second")]) as s, s.socket() as socket:
        first = await socket.turn(store=False, input="Reply with exactly: first")
        second = await socket.turn(store=False, input="Reply with exactly: second")
        assert completed(first)
        assert completed(second)
        assert first["id"] != second["id"]
        assert texts(s.world) == ["Reply with exactly: second"]


async def test_websocket_continuation(tmp_path: Path):
    """A response that is in no store is continued on its own connection with new input alone."""
    answers = [[message("OK")], [message("cobalt")], [message("yes")]]
    async with suite(tmp_path, *answers) as s, s.socket() as socket:
        first = await socket.turn(store=False, input=[said_with_a_picture("The code word: cobalt.")])
        second = await socket.turn(
            store=False, previous_response_id=first["id"], input="What is the code word?"
        )
        assert completed(second)
        assert second["previous_response_id"] == first["id"]
        assert texts(s.world)[-2:] == ["OK", "What is the code word?"]
        assert PIXEL in json.dumps(s.world.model.requests[-1])
        third = await socket.turn(store=True, previous_response_id=second["id"], input="Keep it.")
        assert await s.world.store.keys("response") == [third["id"]]
        s.world.model.answers.append([message("still")])
        assert completed(await s.respond(previous_response_id=third["id"], input="And now?"))
        assert texts(s.world)[-4:] == ["cobalt", "Keep it.", "yes", "And now?"], "all of it was kept"
        assert PIXEL in json.dumps(s.world.model.requests[-1])


def said_with_a_picture(text: str) -> Json:
    parts = [{"type": "input_text", "text": text}, {"type": "input_image", "image_url": PIXEL}]
    return {"type": "message", "role": "user", "content": parts}


async def test_websocket_reconnect_store_false_recovery(tmp_path: Path):
    """Another connection can't continue it, says so, and starts anew."""
    async with suite(tmp_path, [message("OK")], [message("recovered")]) as s:
        async with s.socket() as socket:
            first = await socket.turn(store=False, input="Remember the code word: copper.")
        async with s.socket() as socket:
            missed = await socket.turn(store=False, previous_response_id=first["id"], input="Go on")
            assert (missed["status"], missed["error"]["code"]) == (400, "previous_response_not_found")
            assert completed(await socket.turn(store=False, input=[said("Start a new response.")]))


async def test_websocket_previous_response_not_found(tmp_path: Path):
    """A response that never was is named as such."""
    async with suite(tmp_path) as s, s.socket() as socket:
        missed = await socket.turn(store=False, previous_response_id="resp_missing", input="This should fail")
        assert missed["error"]["code"] == "previous_response_not_found"


async def test_websocket_failed_continuation_evicts_cache(tmp_path: Path):
    """A continuation that is refused evicts what it continued; so does one that fails later."""
    failure = {"status": "failed", "output": [], "error": {"code": "server_error", "message": "no"}}
    async with suite(tmp_path, [message("OK")], [message("OK")], failure) as s, s.socket() as socket:
        first = await socket.turn(store=False, input="Remember the code word: ember.")
        stray = {"type": "function_call_output", "call_id": "call_missing", "output": "x"}
        refused = await socket.turn(store=False, previous_response_id=first["id"], input=[stray])
        assert refused["error"]["code"] == "call_mismatch"
        stale = await socket.turn(store=False, previous_response_id=first["id"], input="stale")
        assert stale["error"]["code"] == "previous_response_not_found"
        again = await socket.turn(store=False, input="Remember the code word: ember.")
        failed = await socket.turn(store=False, previous_response_id=again["id"], input="go on")
        assert failed["status"] == "failed"
        stale = await socket.turn(store=False, previous_response_id=again["id"], input="stale")
        assert stale["error"]["code"] == "previous_response_not_found"


async def test_websocket_compact_new_chain(tmp_path: Path):
    """What `compact` gives back, passed on as it is, begins a new chain."""
    async with suite(tmp_path, [message("the word is slate")], [message("compacted")]) as s:
        history = [said_with_a_picture("slate"), said("OK.", "assistant"), said("Compress this.")]
        answer = await s.post("/v1/responses/compact", {"model": "m", "input": history})
        output = answer.json()["output"]
        async with s.socket() as socket:
            response = await socket.turn(store=False, input=[*output, said("Continue from here.")], tools=[])
        assert completed(response)
        sent = json.dumps(s.world.model.requests[-1]["input"])
        assert "the word is slate" in sent
        assert PIXEL in sent


async def test_system_prompt(tmp_path: Path):
    """A system message in the input reaches the model as one."""
    async with suite(tmp_path, [message("Ahoy")]) as s:
        assert completed(await s.respond(input=[said("You are a pirate.", "system"), said("Say hello.")]))
        assert s.world.model.requests[0]["input"][0]["role"] == "system"


async def test_tool_calling(tmp_path: Path):
    """A declared function is called; no other tool was added to the request."""
    tool = {"type": "function", "name": "get_weather", "description": "d", "parameters": {"type": "object"}}
    async with suite(tmp_path, [function("get_weather", {"location": "San Francisco"})]) as s:
        response = await s.respond(input=[said("What's the weather?")], tools=[tool])
        assert [item["type"] for item in response["output"]] == ["function_call"]
        assert [one["name"] for one in response["tools"]] == ["get_weather"]
        assert s.world.model.requests[0]["tools"] == [tool]


async def test_image_input(tmp_path: Path):
    """A picture in the user's content reaches the model as it was."""
    async with suite(tmp_path, [message("A heart.")]) as s:
        assert completed(await s.respond(input=[said_with_a_picture("What do you see?")]))
        assert s.world.model.requests[0]["input"][0]["content"][1]["image_url"] == PIXEL


async def test_multi_turn(tmp_path: Path):
    """A history of both sides is sent on in its order."""
    async with suite(tmp_path, [message("Alice")]) as s:
        history = [said("My name is Alice."), said("Hello Alice!", "assistant"), said("What is my name?")]
        assert completed(await s.respond(input=history))
        assert texts(s.world) == ["My name is Alice.", "Hello Alice!", "What is my name?"]


async def test_compact_response(tmp_path: Path):
    """A short conversation becomes a CompactResource with a compaction item."""
    async with suite(tmp_path, [message("Launch on Tuesday.")]) as s:
        history = [said_with_a_picture("We agreed to launch on Tuesday."), said("Understood.", "assistant")]
        body = {"model": "m", "prompt_cache_key": "a-key", "input": history}
        answer = await s.post("/v1/responses/compact", body)
        assert answer.status_code == 200
        found = answer.json()
        spec.CompactResource.model_validate(found)
        assert found["object"] == "response.compaction"
        assert "compaction" in [item["type"] for item in found["output"]]


async def test_compact_missing_model(tmp_path: Path):
    """Without a model it is refused, by name."""
    async with suite(tmp_path) as s:
        answer = await s.post("/v1/responses/compact", {"input": [said("Compact this conversation.")]})
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == "model"
