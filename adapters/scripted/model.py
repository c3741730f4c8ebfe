"""A model that is a script, behind the same port as real ones: for the demo and for tests."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Any

import trio

from . import wire
from .script import Say, Step, decide

Json = dict[str, Any]


class ScriptedUpstream:
    """An `UpstreamPort` that can do one task, the filters task of the demo's site, by looking.

    Stateless: each answer follows from the input items of its request alone.
    """

    def __init__(
        self,
        *,
        token: Callable[[], str] = lambda: secrets.token_hex(12),
        now: Callable[[], float] = time.time,
    ) -> None:
        """*token* makes ids unique; *now* is Unix time in seconds."""
        self._token = token
        self._now = now
        self._one_look = trio.CapacityLimiter(1)

    async def respond(self, request: Mapping[str, Any]) -> Json:
        """One blocking round: a request body in, a Response object out.

        Cancellation:
            A look at a screenshot that has begun (a tenth of a second) is waited for.
        """
        return await self._complete(self._begin(request), request)

    def stream(self, request: Mapping[str, Any]) -> AbstractAsyncContextManager[AsyncIterator[Json]]:
        """The same round as a stream of events; leaving the context ends it."""
        return self._streaming(request)

    @asynccontextmanager
    async def _streaming(self, request: Mapping[str, Any]) -> AsyncIterator[AsyncIterator[Json]]:
        async with aclosing(self._events(request)) as events:
            yield events

    async def _events(self, request: Mapping[str, Any]) -> AsyncGenerator[Json]:  # noqa: ASYNC900
        begun = self._begin(request)
        yield {"type": "response.created", "sequence_number": 0, "response": begun}
        yield {"type": "response.in_progress", "sequence_number": 1, "response": begun}
        done = await self._complete(begun, request)
        for number, event in enumerate(wire.events(done), start=2):
            yield {**event, "sequence_number": number}

    def _begin(self, request: Mapping[str, Any]) -> Json:
        return wire.begun(request, token=self._token(), created_at=int(self._now()))

    async def _complete(self, begun: Json, request: Mapping[str, Any]) -> Json:
        step: Step
        if wire.has_computer(request):
            step = await trio.to_thread.run_sync(decide, wire.rounds(request), limiter=self._one_look)
        else:
            await trio.lowlevel.checkpoint()
            step = Say("I failed: I can only work with the computer tool, and the request has none.")
        return wire.completed(begun, wire.item(step, token=self._token()))
