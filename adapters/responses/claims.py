"""The body's lease, as responses hold it: taken at the first call, kept alive, given back at the end.

One claim a conversation, and one response at a time under it. With `lease = "conversation"` the claim
stays for the next response until it has been idle.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import trio

from bodyd.contract.gateway import GatewaySettings
from bodyd.contract.lease import DEFAULT_TTL_MS, AcquireRequest
from bodyd.contract.ports import BodyPort, Caller
from bodyd.errors import BodydError, ConversationBusy, IsolationUnavailable, LeaseError

log = logging.getLogger("bodyd.gateway")

RELEASE_SECONDS = 3.0
"""Quiescence is proved within two, or the lease needs recovery."""


@dataclass
class Claim:
    """A claim on the body; `epoch` moves when a person had it in between."""

    token: str
    epoch: int
    caller: Caller
    idle: trio.CancelScope | None = None


class Claims:
    """All of them. `nursery` outlives every response."""

    def __init__(self, body: BodyPort, settings: GatewaySettings, nursery: trio.Nursery) -> None:
        self._body = body
        self._settings = settings
        self._nursery = nursery
        self._idle: dict[str, Claim] = {}
        self._used: set[str] = set()

    @asynccontextmanager
    async def held(self, conversation: str, caller: Caller) -> AsyncIterator[Claim]:
        """The claim of *conversation*, renewed inside, given back (or left idle) afterwards.

        Raises:
            ConversationBusy: another response of it has the claim.
            IsolationUnavailable: the body has no walls: it is not used.
            BodydError: as BodyPort.acquire.
        """
        if conversation in self._used:
            raise ConversationBusy("another response of this conversation is using the body")
        self._used.add(conversation)
        try:
            claim = await self._claim(conversation, caller)
            # in the gateway's nursery: one of its own would wrap what is raised under the claim
            self._nursery.start_soon(self._keep, claim, renewing := trio.CancelScope())
            try:
                yield claim
            finally:
                renewing.cancel(reason="the response is over")
                with trio.move_on_after(RELEASE_SECONDS, shield=True):
                    await self._leave(conversation, claim)
        finally:
            self._used.discard(conversation)

    async def close(self) -> None:
        """Give every idle claim back."""
        for conversation in list(self._idle):
            claim = self._idle.pop(conversation)
            if claim.idle is not None:
                claim.idle.cancel(reason="the gateway closes")
            await self._release(claim)

    async def _claim(self, conversation: str, caller: Caller) -> Claim:
        waiting = self._idle.pop(conversation, None)
        if waiting is not None and waiting.idle is not None:
            waiting.idle.cancel(reason="the conversation goes on")
        if waiting is not None and waiting.caller == caller:
            try:
                view = await self._body.renew(waiting.token)
            except LeaseError:
                pass  # somebody else has had the body since: a new claim, and a new look
            else:
                return Claim(waiting.token, view.epoch, caller)
        elif waiting is not None:
            await self._release(waiting)
        isolation = (await self._body.status()).get("isolation") or {}
        if isolation.get("enforced") is not True:
            raise IsolationUnavailable("this body's status shows no enforced isolation; it is not used")
        request = AcquireRequest(
            conversation_id=conversation, ttl_ms=DEFAULT_TTL_MS, wait_ms=self._settings.lease_wait_ms
        )
        grant = await self._body.acquire(request, caller=caller)
        return Claim(grant.lease_token, grant.epoch, caller)

    async def _keep(self, claim: Claim, renewing: trio.CancelScope) -> None:
        with renewing:
            await self._renew(claim)

    async def _renew(self, claim: Claim) -> None:
        while True:
            await trio.sleep(DEFAULT_TTL_MS / 3000)
            try:
                await self._body.renew(claim.token)
            except BodydError as exc:
                log.info("a claim could not be renewed: %s", exc.code)  # the next use says so, too

    async def _leave(self, conversation: str, claim: Claim) -> None:
        if self._settings.lease == "response":
            await self._release(claim)
            return
        claim.idle = trio.CancelScope()
        self._idle[conversation] = claim
        self._nursery.start_soon(self._expire, conversation, claim)

    async def _expire(self, conversation: str, claim: Claim) -> None:
        assert claim.idle is not None
        with claim.idle:
            with trio.move_on_after(self._settings.idle_ttl_ms / 1000):
                await self._renew(claim)
            self._idle.pop(conversation, None)
            await self._release(claim)

    async def _release(self, claim: Claim) -> None:
        with trio.move_on_after(RELEASE_SECONDS, shield=True):
            try:
                await self._body.release(claim.token)
            except BodydError as exc:
                log.info("a claim could not be given back: %s", exc.code)
