"""Responses over a WebSocket: a `response.create` a message in, the same events as SSE out, one a message.

One response at a time: a second `response.create` meanwhile is refused, and the first goes on. The last
response with `store: false` can be continued on its own connection, until a continuation of it fails. A
client that leaves has left its response, as with HTTP. What carries a `stream_id`, the client's name for a
lane, is answered with it. Source: OpenAI Responses API, WebSocket mode.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import trio
from pydantic_core import to_json

from bodyd.contract.adapters import HttpRequest, Socket, SocketClosed, SocketRoute
from bodyd.contract.lease import Scope
from bodyd.errors import BodydError, ConversationBusy, InvalidRequest

from .gateway import Gateway, fresh_attempt
from .remembering import Memory
from .requests import read_json, take_pictures
from .runs import Run

Json = dict[str, Any]

CREATE = "response.create"


def sockets(gateway: Gateway) -> list[SocketRoute]:
    async def handle(request: HttpRequest, socket: Socket) -> None:
        await _Conversation(gateway, request, socket).run()

    return [SocketRoute("/v1/responses", Scope.DRIVER, handle)]


class _Conversation:
    """One connection."""

    def __init__(self, gateway: Gateway, request: HttpRequest, socket: Socket) -> None:
        self._gateway = gateway
        self._request = request
        self._socket = socket
        self._busy = False
        self._memory = Memory()

    async def run(self) -> None:
        """Answer until the client leaves."""
        async with trio.open_nursery() as nursery:
            try:
                while True:
                    await self._take(await self._socket.receive(), nursery)
            except SocketClosed:
                nursery.cancel_scope.cancel(reason="the client left")

    async def _take(self, message: str | bytes, nursery: trio.Nursery) -> None:
        lane: Json = {}
        try:
            body = read_json(message.encode() if isinstance(message, str) else message)
            if (name := body.pop("stream_id", None)) is not None:
                lane = {"stream_id": name}
            if body.pop("type", None) != CREATE:
                raise InvalidRequest(f"a message must be of type {CREATE}", param="type")
            if self._busy:
                raise ConversationBusy("a response is being made on this connection; wait for its end")
            self._busy = True
        except BodydError as exc:
            await self._refuse(exc, lane)
        else:
            nursery.start_soon(self._answer, {**body, "stream": True}, lane)

    async def _answer(self, body: Json, lane: Json) -> None:
        continued = body.get("previous_response_id")
        try:
            attempt = fresh_attempt(self._request.caller)
            started = await self._gateway.begin(
                self._request, body, take_pictures(body, self._gateway.recent), attempt, self._memory
            )
            await self._tell(started.run, lane)
        except BodydError as exc:
            self._memory.evict(continued)
            self._busy = False  # before the client can know
            await self._refuse(exc, lane)
        except SocketClosed:
            pass  # the receiving side ends this connection
        finally:
            self._busy = False

    async def _tell(self, run: Run, lane: Json) -> None:
        run.presence.joined()
        try:
            with run.log.reader() as reader:
                while events := await reader.next():
                    for event in events:
                        if event is run.log.events[-1] and run.log.closed:
                            self._busy = False  # before the client can know, so that it may go on at once
                        await self._socket.send(to_json({**event, **lane}).decode())
        finally:
            run.presence.left()

    async def _refuse(self, exc: BodydError, lane: Json) -> None:
        event = {"type": "error", "status": exc.status, "error": exc.to_json(), **lane}
        with suppress(SocketClosed):
            await self._socket.send(to_json(event).decode())
