"""The WebSocket transport: the same events, one a message; one response at a time; leaving is leaving."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import trio

from bodyd.contract.adapters import HttpRequest, SocketClosed

from .streams import faults
from .world import DRIVER, Json, World, computer, message, world

CREATE = {"type": "response.create", "model": "m", "input": "go"}


class Wire:
    """The client's end of a socket in memory."""

    def __init__(self) -> None:
        self._to_server, self._server_gets = trio.open_memory_channel[str](8)
        self._server_sends, self._from_server = trio.open_memory_channel[str](0)

    async def receive(self) -> str:
        try:
            return await self._server_gets.receive()
        except trio.EndOfChannel:
            raise SocketClosed from None

    async def send(self, text: str) -> None:
        try:
            await self._server_sends.send(text)
        except trio.BrokenResourceError:
            raise SocketClosed from None

    async def say(self, body: Json | str) -> None:
        await self._to_server.send(body if isinstance(body, str) else json.dumps(body))

    async def hear(self) -> Json:
        with trio.fail_after(10):
            return json.loads(await self._from_server.receive())

    async def response(self) -> list[Json]:
        events = [await self.hear()]
        while events[-1]["type"] not in ("response.completed", "response.failed", "response.incomplete"):
            events.append(await self.hear())
        return events

    def leave(self) -> None:
        self._to_server.close()
        self._from_server.close()


async def serve(w: World, wire: Wire) -> None:
    (route,) = w.adapter.sockets
    request = HttpRequest("GET", "/v1/responses", {}, {}, {}, b"", DRIVER)
    await route.handler(request, wire)


async def test_responses_one_after_the_other(tmp_path: Path, nursery: Any):
    """Each message gets its whole stream; the second continues the first."""
    async with world(tmp_path, [computer()], [message("one")], [message("two")], computer="body") as w:
        wire = Wire()
        nursery.start_soon(serve, w, wire)
        await wire.say({**CREATE, "tools": [{"type": "computer"}]})
        first = await wire.response()
        assert faults(first) == []
        await wire.say({**CREATE, "previous_response_id": first[-1]["response"]["id"]})
        second = await wire.response()
        assert faults(second) == []
        assert second[0]["sequence_number"] == 0
        assert len(w.body.acted) == 1
        wire.leave()


async def test_a_warm_up_asks_no_model(tmp_path: Path, nursery: Any):
    """codex sends its first input with generate: false: kept, but nothing is made or done."""
    async with world(tmp_path, [message("one")], computer="body") as w:
        wire = Wire()
        nursery.start_soon(serve, w, wire)
        await wire.say({**CREATE, "generate": False, "store": False})
        warm = await wire.response()
        assert faults(warm) == []
        assert (warm[-1]["response"]["status"], warm[-1]["response"]["output"]) == ("completed", [])
        assert w.model.requests == []
        more = {"input": "on", "previous_response_id": warm[-1]["response"]["id"], "store": False}
        await wire.say({**CREATE, **more})
        await wire.response()
        (sent,) = w.model.requests
        assert [item["content"][0]["text"] for item in sent["input"]] == ["go", "on"]
        assert "generate" not in sent
        wire.leave()


async def test_a_lane_is_answered_by_its_name(tmp_path: Path, nursery: Any):
    """Every event and refusal has the stream_id of its request; the model's server is not sent it."""
    async with world(tmp_path, [message("one")]) as w:
        wire = Wire()
        nursery.start_soon(serve, w, wire)
        await wire.say({**CREATE, "stream_id": "left"})
        assert {event["stream_id"] for event in await wire.response()} == {"left"}
        assert "stream_id" not in w.model.requests[0]
        await wire.say({**CREATE, "stream_id": "right", "tools": [{"type": "local_shell"}]})
        refused = await wire.hear()
        assert (refused["type"], refused["stream_id"]) == ("error", "right")
        wire.leave()


async def test_refusals_leave_the_connection_open(tmp_path: Path, nursery: Any):
    """What is no request, and a second one meanwhile, are errors with a status; the first goes on."""
    async with world(tmp_path, hold := trio.Event(), [message("one")]) as w:
        wire = Wire()
        nursery.start_soon(serve, w, wire)
        for bad in ("nope", {"type": "response.destroy"}, {**CREATE, "tools": [{"type": "local_shell"}]}):
            await wire.say(bad)
            error = await wire.hear()
            assert (error["type"], error["status"]) == ("error", 400)
        assert error["error"]["code"] == "unsupported_tool"
        await wire.say(CREATE)
        assert (await wire.hear())["type"] == "response.created"
        assert (await wire.hear())["type"] == "response.in_progress"
        await wire.say(CREATE)
        assert (await wire.hear())["error"]["code"] == "conversation_busy"
        hold.set()
        assert (await wire.response())[-1]["type"] == "response.completed"
        wire.leave()


async def test_leaving_leaves_the_response(tmp_path: Path, nursery: Any):
    """The socket closes in the middle: after rejoin_ms the response is cancelled, upstream too."""
    async with world(tmp_path, trio.Event(), rejoin_ms=10) as w:
        wire = Wire()
        nursery.start_soon(serve, w, wire)
        await wire.say(CREATE)
        created = await wire.hear()
        await w.model.waiting.wait()
        wire.leave()
        run = w.adapter.gateway.runs.get(created["response"]["id"])
        with trio.fail_after(10):
            await run.done.wait()
        assert run.response["status"] == "cancelled"
        assert w.model.cancelled == 1
