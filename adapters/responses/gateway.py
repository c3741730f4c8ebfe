"""What the gateway does, one method an operation of the API. Counterpart: routes.py, which speaks HTTP."""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import trio
from pydantic_core import to_json

from bodyd.contract.adapters import AdapterContext, HttpRequest
from bodyd.contract.computer_run import ComputerRunner
from bodyd.contract.gateway import GatewaySettings
from bodyd.contract.ports import Caller
from bodyd.errors import BodydError, ConversationBusy, InvalidRequest

from . import notes, pictures, public, transcripts
from .claims import Claims
from .consent import Consent
from .hands import Hands
from .history import EVENTS, RESPONSE, History, Kept, may_read, new_token
from .keeping import Keeper
from .listing import Page, cut
from .log import Log
from .loop import Loop
from .presence import Presence
from .remembering import Memory
from .requests import FULL_PICTURES, Prepared, prepare, read_json, take_pictures
from .runs import Attempt, Run, Runs
from .upstreams import Upstream

Json = dict[str, Any]

log = logging.getLogger("bodyd.gateway")

SWEEP_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Started:
    """A response, new or found again, and what its answer's headers should say."""

    run: Run
    warnings: tuple[str, ...] = ()


class Gateway:
    """One gateway over one body. `nursery` owns the responses that are being made."""

    def __init__(self, context: AdapterContext, upstream: Upstream, nursery: trio.Nursery) -> None:
        self.settings: GatewaySettings = context.settings
        self.upstream = upstream
        self.history = History(context.store)
        self.keeper = Keeper(context.store, context.now_ms)
        self.claims = Claims(context.body, self.settings, nursery)
        self.runs = Runs(self.settings, self.keeper, nursery)
        self.recent = pictures.Recent()
        self._context = context
        self._runner = ComputerRunner(context.body)

    async def sweep(self) -> None:
        """Remove what is past its retention, now and every hour."""
        while True:
            try:
                await self.keeper.forget(self.settings.retention_days)
            except BodydError as exc:
                log.error("what is past its retention could not be removed: %s", exc.message)
            await trio.sleep(SWEEP_SECONDS)

    async def create(self, request: HttpRequest) -> Started:
        """Begin a response, or find the one that this request asks for again.

        Raises:
            BodydError: the request can't be carried out; nothing was begun.
        """
        body = read_json(request.body)
        images = take_pictures(body, self.recent)
        attempt = _attempt(request, body)
        known = self.runs.find(attempt)
        if known is not None:
            return Started(known)
        return await self.begin(request, body, images, attempt)

    async def begin(
        self,
        request: HttpRequest,
        body: Json,
        images: dict[str, bytes],
        attempt: Attempt,
        memory: Memory | None = None,
    ) -> Started:
        """Begin a response to *body*, from which *images* were taken."""
        prepared = await self.prepared(request, body, images, memory)
        known = self.runs.find(attempt)  # begun by the same request while this one's history was read
        if known is not None:
            return Started(known, prepared.registry.left_out)
        if prepared.conversation is not None and self.runs.busy(prepared.conversation):
            raise ConversationBusy("another response of this conversation is being made")
        run = self._run(prepared, attempt, memory)
        self.runs.start(run)
        return Started(run, prepared.registry.left_out)

    async def prepared(
        self,
        request: HttpRequest,
        body: Json,
        images: dict[str, bytes],
        memory: Memory | None = None,
    ) -> Prepared:
        """*body*, read and checked whole."""
        return await prepare(
            request,
            body,
            images,
            history=self.history,
            settings=self.settings,
            native=self.upstream.native,
            memory=memory,
        )

    async def response(self, id: str, caller: Caller, *, include: tuple[str, ...] = ()) -> Json:
        """A response as it is now, or as it ended.

        Raises:
            NotFound: none that this caller may read.
        """
        run = self.live(id, caller)
        if run is not None and not run.done.is_set():
            return {**run.response, "output": list(run.loop.shown)}
        found = await self.history.response(id, caller)
        response: Json = found["response"]
        if FULL_PICTURES in include:
            kept = await self.history.kept(found["made"])
            by_id = {one.item["id"]: one.item for one in kept}
            output = [by_id.get(item["id"], item) for item in response["output"]]
            full = await self.history.with_pictures(output)
            response = {**response, "output": [notes.public(item) for item in full]}
        return response

    def live(self, id: str, caller: Caller) -> Run | None:
        """A response that is being made, or ended lately, if *caller* may read it."""
        run = self.runs.get(id)
        return run if run is not None and may_read(caller, {"caller": run.caller.id}) else None

    async def told(self, id: str, caller: Caller, after: int) -> list[Json]:
        """The events of a response that has ended, with the numbers that they were first told by.

        Raises:
            NotFound: none that this caller may read.
        """
        response: Json = (await self.history.response(id, caller))["response"]
        kept = await self.history.store.get(EVENTS, id)
        return transcripts.anew(response, after) if kept is None else transcripts.unpack(kept, response)

    async def delete(self, id: str, caller: Caller) -> Json:
        await self.history.response(id, caller)
        await self.history.store.delete(RESPONSE, id)
        await self.history.store.delete(EVENTS, id)
        self.runs.forget(id)
        return {"id": id, "object": "response", "deleted": True}

    async def cancel(self, id: str, caller: Caller) -> Json:
        """Stop a background response; one that has ended is returned as it is.

        Raises:
            InvalidRequest: it is not a background response.
        """
        run = self.live(id, caller)
        if run is None:
            found = (await self.history.response(id, caller))["response"]
            background, done = found.get("background"), True
        else:
            found, background, done = run.response, run.prepared.background, run.done.is_set()
        if not background:
            raise InvalidRequest("only a background response can be cancelled", param="response_id")
        return found if done else await self.runs.cancel(id)

    async def input_items(self, id: str, caller: Caller, query: Mapping[str, tuple[str, ...]]) -> Json:
        """A page of everything that a response was given: the history, then its own input."""
        found = await self.history.response(id, caller)
        kept = await self.history.kept([*found["history"], *found["input"]])
        return await self.page(kept, query)

    async def page(self, kept: list[Kept], query: Mapping[str, tuple[str, ...]]) -> Json:
        wanted = Page.read(query)
        items, more = cut([one.item for one in kept], wanted)
        if FULL_PICTURES in wanted.include:
            items = await self.history.with_pictures(items)
        return wanted.answer(items, more=more)

    async def models(self) -> Json:
        """The models that can be asked for."""
        listed = [
            {"id": name, "object": "model", "created": 0, "owned_by": "bodyd"} for name in self._names()
        ]
        if not listed:
            list_upstream = getattr(self.upstream.port, "models", None)
            listed = await list_upstream() if list_upstream is not None else []
        return {"object": "list", "data": listed}

    def _names(self) -> list[str]:
        return list(self.upstream.names)

    def _run(self, prepared: Prepared, attempt: Attempt, memory: Memory | None) -> Run:
        response = public.begun(
            {**prepared.body, "tools": list(prepared.tools)},
            id=f"resp_{secrets.token_hex(16)}",
            created_at=self.keeper.now(),
            model=str(prepared.body.get("model") or self.upstream.model(None)),
            conversation=prepared.conversation,
        )
        log, presence = Log(), Presence(always=prepared.background)
        loop = Loop(
            prepared=prepared,
            upstream=self.upstream,
            settings=self.settings,
            history=self.history,
            hands=self._hands(prepared, response["id"], presence),
            presence=presence,
            log=log,
            images=dict(prepared.images),
        )
        return Run(prepared, attempt, response, loop, log, presence, memory)

    def _hands(self, prepared: Prepared, id: str, presence: Presence) -> Hands:
        return Hands(
            body=self._context.body,
            runner=self._runner,
            process=self._context.process,
            consent=self._consent(prepared),
            claims=self.claims,
            presence=presence,
            response_id=id,
            conversation=prepared.root or id,
            caller=prepared.caller,
        )

    def _consent(self, prepared: Prepared) -> Consent:
        blocking = not (prepared.stream or prepared.background)
        seconds = self.settings.approval_wait_ms / 1000 if blocking else math.inf
        return Consent(self._context.approvals, seconds)


def _attempt(request: HttpRequest, body: Json) -> Attempt:
    """*body* has its pictures by hash, so that they are not hashed a second time here."""
    count = request.headers.get("x-stainless-retry-count", "0")
    digest = sha256(to_json(body))
    for name in ("bodyd-execution", "bodyd-items"):
        digest.update(b"\0" + request.headers.get(name, "").encode())
    return Attempt(
        caller=request.caller.id,
        body=digest.digest(),
        key=request.headers.get("idempotency-key") or None,
        retry=count.isdigit() and int(count) > 0,
    )


def fresh_attempt(caller: Caller) -> Attempt:
    """One that is like no other."""
    return Attempt(caller.id, new_token().encode(), None, retry=False)
