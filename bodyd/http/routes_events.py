"""`/v1/events`: what happens, as server-sent events (WHATWG HTML, 9.2)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack

import trio
from quart import Response

from bodyd.contract.events import Event
from bodyd.contract.lease import Scope
from bodyd.errors import Unavailable

from .listener import CLOSERS
from .routing import Api
from .services import EventSource, caller, connection_state, services

KEEP_ALIVE_SECONDS = 15.0
LEAVE_SECONDS = 1.0


def add(api: Api) -> None:
    @api.get("/v1/events", Scope.VIEWER)
    async def events() -> Response:
        source = services().events
        if source is None:
            raise Unavailable("this body publishes no events; poll GET /v1/status")
        closers: set[Callable[[], None]] = connection_state().get(CLOSERS, set())
        owner = caller().scope is Scope.OWNER
        return Response(EventStream(source, closers, owner=owner), content_type="text/event-stream")


class EventStream:
    """Frames until the source, the server or the client ends; a comment where nothing happens.

    An iterator and not a generator: whoever drops it in the middle still closes it (`aclose`), and
    no scope is open between two frames.
    """

    def __init__(self, source: EventSource, closers: set[Callable[[], None]], *, owner: bool = False) -> None:
        self._source = source
        self._owner = owner
        self._closers = closers
        self._subscription = AsyncExitStack()
        self._channel: trio.MemoryReceiveChannel[Event] | None = None

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> bytes:
        if self._channel is None:
            self._channel = await self._subscription.enter_async_context(
                self._source.subscribe(owner=self._owner)
            )
            self._closers.add(self._channel.close)
            return b": bodyd\n\n"
        try:
            with trio.move_on_after(KEEP_ALIVE_SECONDS):
                return frame(await self._channel.receive())
        except (trio.EndOfChannel, trio.ClosedResourceError):
            raise StopAsyncIteration from None
        return b": still here\n\n"

    async def aclose(self) -> None:
        """End the subscription, also when the request was cancelled."""
        if self._channel is not None:
            self._closers.discard(self._channel.close)
        with trio.move_on_after(LEAVE_SECONDS, shield=True):
            await self._subscription.aclose()


def frame(event: Event) -> bytes:
    """One event as a frame; JSON has no raw newlines, so that it is one line of data."""
    return f"event: {event.type}\ndata: {event.model_dump_json()}\n\n".encode()
