"""Responses that are being made, each in a task that outlives its request, and how each of them ends.

A client that comes back finds its response here: by its id, or because it sends the same request again.
The end is persisted before the terminal event is told, and the body is given back before either.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import trio

from bodyd.contract.gateway import GatewaySettings
from bodyd.contract.ports import Caller
from bodyd.errors import BodydError, NotFound, RequestConflict

from . import public
from .failures import CANCELLED, INTERNAL, OUT_OF_TIME, RESTARTED, Ending, of_error
from .keeping import Keeper
from .log import Log
from .loop import Loop
from .presence import Presence
from .remembering import Memory
from .requests import Prepared

Json = dict[str, Any]

log = logging.getLogger("bodyd.gateway")

FINISH_SECONDS = 5.0
"""For the store to take the end of a response that was cancelled."""
REMEMBERED = 256
REMEMBERED_SECONDS = 600.0
"""How long a finished response can be joined as a stream, with its numbers, or by its Idempotency-Key."""
AGAIN_SECONDS = 60.0
"""How long the same body finds a response that failed or that nobody waits for."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What says that a request is the same as an earlier one."""

    caller: str
    body: bytes
    key: str | None
    retry: bool


@dataclass(eq=False)
class Run:
    """One response. `refused` is set where it failed before it had done anything: the request did.

    `memory` is of the connection that it is made on, if that has one.
    """

    prepared: Prepared
    attempt: Attempt
    response: Json
    loop: Loop
    log: Log
    presence: Presence
    memory: Memory | None = None
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    done: trio.Event = field(default_factory=trio.Event)
    refused: BodydError | None = None
    ended_at: float | None = None

    @property
    def id(self) -> str:
        return str(self.response["id"])

    @property
    def caller(self) -> Caller:
        return self.prepared.caller

    async def result(self) -> Json:
        """The Response object, once it is finished.

        Raises:
            BodydError: the request failed before anything was done.
        Cancellation:
            The client left: the response waits for it a while, then is cancelled.
        """
        self.presence.joined()
        try:
            await self.done.wait()
        finally:
            self.presence.left()
        if self.refused is not None:
            raise self.refused
        return self.response


class Runs:
    """All responses in the making, and those that ended lately."""

    def __init__(self, settings: GatewaySettings, keeper: Keeper, nursery: trio.Nursery) -> None:
        self._settings = settings
        self._keeper = keeper
        self._nursery = nursery
        self._closing = False
        self._by_id: dict[str, Run] = {}
        self._by_key: dict[tuple[str, str], Run] = {}
        self._by_body: dict[tuple[str, bytes], Run] = {}
        self._ended: deque[Run] = deque()

    def get(self, id: str) -> Run | None:
        return self._by_id.get(id)

    def find(self, attempt: Attempt) -> Run | None:
        """The response that *attempt* asks for again, if it does.

        Raises:
            RequestConflict: its Idempotency-Key was used with another body.
        """
        self._forget()
        if attempt.key is not None:
            found = self._by_key.get((attempt.caller, attempt.key))
            if found is not None and found.attempt.body != attempt.body:
                raise RequestConflict("this Idempotency-Key was used with another body")
            return found
        found = self._by_body.get((attempt.caller, attempt.body))
        return found if found is not None and (attempt.retry or self._is_left(found)) else None

    def forget(self, id: str) -> None:
        """Let go of a response that has ended."""
        run = self._by_id.get(id)
        if run is not None and run.done.is_set():
            self._drop(id, run)

    def busy(self, conversation: str) -> bool:
        """Whether a response of a conversation is being made."""
        return any(
            run.prepared.conversation == conversation and not run.done.is_set()
            for run in self._by_id.values()
        )

    def start(self, run: Run) -> None:
        """Begin to make it, in the background."""
        self._by_id[run.id] = run
        self._by_body[run.attempt.caller, run.attempt.body] = run
        if run.attempt.key is not None:
            self._by_key[run.attempt.caller, run.attempt.key] = run
        self._nursery.start_soon(self._make, run)

    async def cancel(self, id: str) -> Json:
        """Stop a response, and return it once it has stopped.

        Raises:
            NotFound: it is not being made.
        """
        run = self._by_id.get(id)
        if run is None:
            raise NotFound("no response of this id is being made")
        run.scope.cancel(reason="the client cancelled the response")
        await run.done.wait()
        return run.response

    async def close(self) -> None:
        """Stop every response; each ends as its kind does when the daemon stops."""
        self._closing = True
        running = [run for run in self._by_id.values() if not run.done.is_set()]
        for run in running:
            run.scope.cancel(reason="the gateway closes")
        for run in running:
            await run.done.wait()

    # -- inside ------------------------------------------------------------------------------------

    async def _make(self, run: Run) -> None:
        ending = CANCELLED
        try:
            ending = await self._supervised(run)
        finally:
            if self._closing and ending is CANCELLED and run.prepared.background:
                ending = RESTARTED
            with trio.move_on_after(FINISH_SECONDS, shield=True):
                await self._finished(run, ending)
            run.ended_at = trio.current_time()
            if run.memory is not None:
                _remember(run, run.memory)
            for images in (run.loop.images, run.prepared.images):
                images.clear()  # they are in the store, and an ended run stays for a while
            self._ended.append(run)
            run.log.close()
            run.done.set()

    async def _supervised(self, run: Run) -> Ending:
        ending = CANCELLED
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch, run)
            with run.scope, trio.move_on_after(self._settings.max_wall_ms / 1000) as wall:
                ending = await self._attempt(run)
            if wall.cancelled_caught:
                ending = OUT_OF_TIME
            nursery.cancel_scope.cancel(reason="the response is over")
        return ending

    async def _attempt(self, run: Run) -> Ending:
        try:
            await self._keeper.begun(run.prepared, run.response)
            self._announce(run)
            return await run.loop.run()
        except BodydError as exc:
            if not (run.loop.made or run.prepared.stream or run.prepared.background):
                run.refused = exc
            return of_error(exc)
        except Exception:
            log.exception("response %s failed unexpectedly", run.id)
            return INTERNAL

    def _announce(self, run: Run) -> None:
        if run.prepared.background:
            queued = {**run.response, "status": "queued"}
            run.log.add({"type": "response.created", "response": queued})
            run.log.add({"type": "response.queued", "response": queued})
        else:
            run.log.add({"type": "response.created", "response": run.response})
        run.log.add({"type": "response.in_progress", "response": run.response})

    async def _watch(self, run: Run) -> None:
        """Cancel a response whose client left and did not come back in time."""
        while True:
            await run.presence.gone()
            with trio.move_on_after(self._settings.rejoin_ms / 1000) as waiting:
                await run.presence.wait()
            if waiting.cancelled_caught:
                run.scope.cancel(reason="the client did not come back")
                return

    async def _finished(self, run: Run, ending: Ending) -> None:
        """As `_finish`; where that has a bug, this response alone fails of it, and not every other."""
        try:
            await self._finish(run, ending)
        except Exception:
            log.exception("response %s could not be ended as %s", run.id, ending.status)
            run.response = {**run.response, "status": "failed", "error": INTERNAL.error}
            run.log.add({"type": INTERNAL.event, "response": run.response})

    async def _finish(self, run: Run, ending: Ending) -> None:
        if ending.status != "completed":
            run.loop.cut_off()
        if run.refused is None:
            try:
                final = self._final(run, ending)
                await self._keeper.ended(run.prepared, final, run.loop, run.log.events)
            except BodydError as exc:
                log.error("response %s could not be stored: %s", run.id, exc.message)
                ending = of_error(exc)
        run.response = self._final(run, ending)
        run.log.add({"type": ending.event, "response": run.response})

    def _final(self, run: Run, ending: Ending) -> Json:
        done = ending.status == "completed"
        return {
            **run.response,
            "status": ending.status,
            "completed_at": self._keeper.now() if done else None,
            "error": ending.error,
            "incomplete_details": {"reason": ending.reason} if ending.reason else None,
            "output": list(run.loop.shown),
            "usage": public.total(run.loop.usages),
        }

    def _is_left(self, run: Run) -> bool:
        """Unfinished with nobody waiting, or ended badly a moment ago: the same body means this one."""
        if run.ended_at is None:
            return not run.presence.here
        recent = trio.current_time() - run.ended_at < AGAIN_SECONDS
        return recent and run.response["status"] in ("failed", "cancelled") and run.refused is None

    def _forget(self) -> None:
        now = trio.current_time()
        while self._ended:
            run = self._ended[0]
            assert run.ended_at is not None
            if len(self._ended) <= REMEMBERED and now - run.ended_at <= REMEMBERED_SECONDS:
                break
            self._ended.popleft()
            if self._by_id.get(run.id) is run:  # not deleted meanwhile
                self._drop(run.id, run)

    def _drop(self, id: str, run: Run) -> None:
        del self._by_id[id]
        for found, key in (
            (self._by_body, (run.attempt.caller, run.attempt.body)),
            (self._by_key, (run.attempt.caller, run.attempt.key)),
        ):
            index: dict[Any, Run] = found
            if index.get(key) is run:
                del index[key]


def _remember(run: Run, memory: Memory) -> None:
    prepared = run.prepared
    if run.response["status"] not in ("completed", "incomplete"):
        memory.evict(prepared.body.get("previous_response_id"))
    elif not prepared.store:
        items = (*prepared.before, *prepared.fed, *run.loop.made)
        memory.keep(run.id, prepared.root or run.id, items, run.loop.images)
