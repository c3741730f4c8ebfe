"""A call of a tool as server-sent events. Dropped anywhere, the call is killed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, Generic, TypeVar

import trio
from quart import Response

from bodyd.errors import BodydError

from .listener import CLOSERS
from .services import connection_state

KEEP_ALIVE_SECONDS = 15.0
LEAVE_SECONDS = 10.0
"""The tools bound their own end by less."""

T = TypeVar("T")


async def streamed(
    opened: AbstractAsyncContextManager[AsyncIterator[T]], frame: Callable[[T], bytes], *, end: bytes = b""
) -> Response:
    """Begin the call, and answer with its frames, then *end*, or an `error`.

    Raises:
        What the call is refused with: a refusal has a status.
    """
    stream = CallStream(frame, end, connection_state().get(CLOSERS, set()))
    await stream.open(opened)
    return Response(stream, content_type="text/event-stream")


class CallStream(Generic[T]):
    """An iterator and not a generator: no scope is open between two frames."""

    def __init__(self, frame: Callable[[T], bytes], end: bytes, closers: set[Callable[[], None]]) -> None:
        self._frame = frame
        self._end = end
        self._closers = closers
        self._stack = AsyncExitStack()
        self._happenings: AsyncIterator[T] | None = None
        self._waiting: trio.CancelScope | None = None
        self._over = False

    async def open(self, opened: AbstractAsyncContextManager[AsyncIterator[T]]) -> None:
        """Begin; raises what the call is refused with."""
        self._happenings = await self._stack.enter_async_context(opened)
        self._closers.add(self._close)

    def __aiter__(self) -> CallStream[T]:
        return self

    async def __anext__(self) -> bytes:
        if self._over or self._happenings is None:
            raise StopAsyncIteration
        with trio.CancelScope() as self._waiting:
            try:
                with trio.move_on_after(KEEP_ALIVE_SECONDS):
                    return self._frame(await anext(self._happenings))
                return b": still here\n\n"
            except StopAsyncIteration:
                self._over = True
                if not self._end:
                    raise
                return self._end
            except BodydError as exc:
                self._over = True
                return event("error", exc.to_json())
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """End the call, also when the request was cancelled."""
        self._closers.discard(self._close)
        with trio.move_on_after(LEAVE_SECONDS, shield=True):
            await self._stack.aclose()

    def _close(self) -> None:
        self._over = True
        if self._waiting is not None:
            self._waiting.cancel(reason="the server is shutting down")


def event(name: str, data: dict[str, Any]) -> bytes:
    """One server-sent event."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()
