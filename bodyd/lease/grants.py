"""Grants on their way: made by the machine, not yet durable, perhaps not yet answered.

Kept apart from the state because they are nobody's business but the manager's: who waits for a
token in this process, and which claims must not act before the disk knows of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import trio

from bodyd import errors
from bodyd.contract.lease import LeaseState

from .state import Holding, State


@dataclass(slots=True)
class Reply:
    """What becomes of one request for a token; the first answer stands."""

    settled: trio.Event = field(default_factory=trio.Event)
    epoch: int = 0
    error: errors.BodydError | None = None

    def settle(self, *, epoch: int = 0, error: errors.BodydError | None = None) -> None:
        if not self.settled.is_set():
            self.epoch, self.error = epoch, error
            self.settled.set()

    async def wait(self) -> int:
        """The epoch of the grant, or the error that was answered."""
        await self.settled.wait()
        if self.error is not None:
            raise self.error
        return self.epoch


class Grants:
    """Who is owed a token or an epoch."""

    def __init__(self) -> None:
        self._replies: dict[str, Reply] = {}
        self._pending: dict[str, int] = {}

    @contextmanager
    def asked(self, lease_id: str) -> Iterator[Reply]:
        """Someone waits for the token of *lease_id* as long as this lasts."""
        reply = self._replies[lease_id] = Reply()
        try:
            yield reply
        finally:
            del self._replies[lease_id]

    def promise(self, lease_id: str, epoch: int) -> None:
        """Granted; not before it is durable may it be known, or act."""
        self._pending[lease_id] = epoch

    def is_pending(self, lease_id: str) -> bool:
        return lease_id in self._pending

    def refuse(self, lease_id: str, error: errors.BodydError) -> None:
        """Answer whoever waits, if they still do."""
        reply = self._replies.get(lease_id)
        if reply is not None:
            reply.settle(error=error)

    def refuse_all(self, error: errors.BodydError) -> None:
        for reply in self._replies.values():
            reply.settle(error=error)

    def confirm(self, durable: State) -> list[tuple[Holding, int]]:
        """Hand out what this record holds; each claim with the epoch of its grant."""
        granted = [
            (claim, epoch)
            for claim in durable.claims()
            if (epoch := self._pending.get(claim.lease_id)) is not None and epoch <= durable.epoch
        ]
        for claim, epoch in granted:
            del self._pending[claim.lease_id]
            reply = self._replies.get(claim.lease_id)
            if reply is not None:
                reply.settle(epoch=epoch)
        return granted

    def lose(self, refused: State, error: errors.BodydError) -> list[tuple[str, bool]]:
        """Take back what was to become durable with this record: lease ids, and whether they are new.

        A new claim is one whose token somebody here still waits for.
        """
        lost = [lease_id for lease_id, epoch in self._pending.items() if epoch <= refused.epoch]
        for lease_id in lost:
            del self._pending[lease_id]
            self.refuse(lease_id, error)
        return [(lease_id, lease_id in self._replies) for lease_id in lost]

    def forget_ended(self, state: State) -> None:
        """Answer for the grants that the machine has taken back by now."""
        needs_recovery = state.status is LeaseState.RECOVERY_REQUIRED
        alive = set() if needs_recovery else {claim.lease_id for claim in state.claims()}
        for lease_id in self._pending.keys() - alive:
            del self._pending[lease_id]
            self.refuse(lease_id, _taken_back(state))


def _taken_back(state: State) -> errors.BodydError:
    if state.status is LeaseState.RECOVERY_REQUIRED:
        return errors.RecoveryRequired(f"the body needs recovery first: {state.reason}")
    if state.stopped:
        return errors.BodyStopped("the owner has stopped the body; only the owner resumes it")
    return errors.StaleLease("the lease was revoked before its token was handed out")
