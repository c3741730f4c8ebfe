"""The HTTP of the gateway: what goes in and out of each operation. Sources: OpenAI's Responses API."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any

import trio

from bodyd.contract.adapters import HttpReply, HttpRequest, Route
from bodyd.contract.lease import Scope
from bodyd.errors import InvalidRequest

from . import compaction, conversations, lifecycle
from .gateway import Gateway, Started
from .listing import included
from .runs import Run

Json = dict[str, Any]

DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": still here\n\n"


def routes(gateway: Gateway) -> list[Route]:
    """Every route, all for drivers: a response is readable by the token that made it, or the owner."""
    api = _Api(gateway)
    table: list[tuple[str, str, Callable[[HttpRequest], Any]]] = [
        ("POST", "/v1/responses", api.create),
        ("GET", "/v1/responses/{response_id}", api.get),
        ("DELETE", "/v1/responses/{response_id}", api.delete),
        ("POST", "/v1/responses/{response_id}/cancel", api.cancel),
        ("GET", "/v1/responses/{response_id}/input_items", api.input_items),
        ("POST", "/v1/responses/compact", api.compact),
        ("POST", "/v1/responses/input_tokens", api.input_tokens),
        ("GET", "/v1/models", api.models),
    ]
    made = [Route(method, path, Scope.DRIVER, handler) for method, path, handler in table]
    return made + conversations.routes(gateway)


class _Api:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def create(self, request: HttpRequest) -> HttpReply:
        started = await self._gateway.create(request)
        run = started.run
        if run.prepared.stream:
            return self._streamed(run, -1, started)
        if run.prepared.background and not run.done.is_set():
            return _json({**run.response, "status": "queued"}, started)
        return _json(await run.result(), started)

    async def get(self, request: HttpRequest) -> HttpReply:
        id, caller = request.params["response_id"], request.caller
        if request.one("stream") != "true":
            return _json(await self._gateway.response(id, caller, include=included(request.query)))
        after = request.one("starting_after") or "-1"
        if not after.lstrip("-").isdigit():
            raise InvalidRequest("starting_after must be a whole number", param="starting_after")
        run = self._gateway.live(id, caller)
        if run is not None:
            return self._streamed(run, int(after))
        response = await self._gateway.response(id, caller)
        return HttpReply(content_type="text/event-stream", stream=_replayed(response, int(after)))

    async def delete(self, request: HttpRequest) -> HttpReply:
        return _json(await self._gateway.delete(request.params["response_id"], request.caller))

    async def cancel(self, request: HttpRequest) -> HttpReply:
        return _json(await self._gateway.cancel(request.params["response_id"], request.caller))

    async def input_items(self, request: HttpRequest) -> HttpReply:
        id, caller = request.params["response_id"], request.caller
        return _json(await self._gateway.input_items(id, caller, request.query))

    async def compact(self, request: HttpRequest) -> HttpReply:
        return _json(await compaction.compact(self._gateway, request))

    async def input_tokens(self, request: HttpRequest) -> HttpReply:
        reply = await compaction.input_tokens(self._gateway, request)
        return HttpReply(_dump(reply), headers={"bodyd-estimate": "true"})

    async def models(self, request: HttpRequest) -> HttpReply:
        return _json(await self._gateway.models())

    def _streamed(self, run: Run, after: int, started: Started | None = None) -> HttpReply:
        stream = events(run, after, keep_alive=self._gateway.settings.keep_alive_ms / 1000)
        return HttpReply(content_type="text/event-stream", headers=_headers(started), stream=stream)


async def events(run: Run, after: int, *, keep_alive: float) -> AsyncGenerator[bytes]:
    """The response's events as frames, a comment where nothing happens, `[DONE]` at the end.

    Left early, the response has lost a client.
    """
    run.presence.joined()
    try:
        with run.log.reader(after) as reader:
            while True:
                event: Json | None = None
                with trio.move_on_after(keep_alive) as quiet:
                    event = await reader.next()
                if quiet.cancelled_caught:
                    yield KEEP_ALIVE
                elif event is None:
                    break
                else:
                    yield frame(event)
        yield DONE
    finally:
        run.presence.left()


def frame(event: Json) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (event["type"].encode(), _dump(event))


async def _replayed(response: Json, after: int) -> AsyncGenerator[bytes]:
    """A stored response told anew: its items whole, numbered from 0."""
    for number, event in enumerate(_retold(response)):
        if number > after:
            yield frame({**event, "sequence_number": number})
    yield DONE


def _retold(response: Json) -> Iterator[Json]:
    begun = {**response, "status": "in_progress", "output": [], "usage": None, "completed_at": None}
    begun |= {"error": None, "incomplete_details": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(response["output"]):
        yield from lifecycle.events(item, index)
    last = response["status"] if response["status"] in ("completed", "incomplete") else "failed"
    yield {"type": f"response.{last}", "response": response}


def _headers(started: Started | None) -> dict[str, str]:
    if started is None or not started.warnings:
        return {}
    return {"bodyd-warning": "left out, as the model's server has none: " + ", ".join(started.warnings)}


def _json(value: Json, started: Started | None = None) -> HttpReply:
    return HttpReply(_dump(value), headers=_headers(started))


def _dump(value: Json) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
