"""`/v1/events`: what happens, as server-sent events (WHATWG HTML, 9.2)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import trio
from quart import Response, request

from bodyd.contract.events import Event
from bodyd.contract.lease import Scope
from bodyd.errors import Unavailable

from .listener import CLOSERS
from .routing import Api
from .services import EventSource, services

KEEP_ALIVE_SECONDS = 15.0


def add(api: Api) -> None:
    @api.get("/v1/events", Scope.VIEWER)
    async def events() -> Response:
        source = services().events
        if source is None:
            raise Unavailable("this body publishes no events; poll GET /v1/status")
        state = cast(dict[str, Any], request.scope.get("state") or {})
        closers: set[Callable[[], None]] = state.get(CLOSERS, set())
        return Response(stream(source, closers), content_type="text/event-stream")


async def stream(source: EventSource, closers: set[Callable[[], None]]) -> AsyncIterator[bytes]:
    """Frames until the source, the server or the client ends; a comment where nothing happens.

    It only reads a channel: no scope of its own is open across a yield.
    """
    async with source.subscribe() as channel:
        closers.add(channel.close)
        try:
            yield b": bodyd\n\n"
            while True:
                event: Event | None = None
                with trio.move_on_after(KEEP_ALIVE_SECONDS):
                    event = await channel.receive()
                yield frame(event) if event is not None else b": still here\n\n"
        except (trio.EndOfChannel, trio.ClosedResourceError):
            return
        finally:
            closers.discard(channel.close)


def frame(event: Event) -> bytes:
    """One event as a frame; JSON has no raw newlines, so that it is one line of data."""
    return f"event: {event.type}\ndata: {event.model_dump_json()}\n\n".encode()
