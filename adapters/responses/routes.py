"""The HTTP of the gateway: what goes in and out of each operation. Sources: OpenAI's Responses API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic_core import to_json

from bodyd.contract.adapters import HttpReply, HttpRequest, Route
from bodyd.contract.lease import Scope
from bodyd.errors import InvalidRequest

from . import compaction, conversations
from .gateway import Gateway, Started
from .listing import included
from .runs import Run
from .streams import RetoldStream, RunStream

Json = dict[str, Any]


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
        events = await self._gateway.told(id, caller, int(after))
        return HttpReply(content_type="text/event-stream", stream=RetoldStream(events, int(after)))

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
        stream = RunStream(run, after, keep_alive=self._gateway.settings.keep_alive_ms / 1000)
        return HttpReply(content_type="text/event-stream", headers=_headers(started), stream=stream)


def _headers(started: Started | None) -> dict[str, str]:
    if started is None or not started.warnings:
        return {}
    return {"bodyd-warning": "left out, as the model's server has none: " + ", ".join(started.warnings)}


def _json(value: Json, started: Started | None = None) -> HttpReply:
    return HttpReply(_dump(value), headers=_headers(started))


def _dump(value: Json) -> bytes:
    return to_json(value, inf_nan_mode="null")
