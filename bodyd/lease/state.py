"""What the lease machine knows: claims, waiters, and the state that binds them. Pure.

Times are seconds of a monotonic clock. Tokens are here as SHA-256 only. The wire's shapes are in
contract/lease.py, the durable one in record.py.
"""

from __future__ import annotations

import hmac
import math
from dataclasses import dataclass, field, replace
from enum import Enum

from bodyd.contract.lease import HolderKind, LeaseState


@dataclass(frozen=True, slots=True)
class Holding:
    """One claim on the body, from its grant to its end.

    Attributes:
        paused: Deliberately paused; survives renewal, lapse and suspension.
    """

    lease_id: str
    token_hash: bytes = field(repr=False)
    conversation_id: str
    kind: HolderKind
    ttl: float
    issued: float
    heartbeat: float
    expires: float
    paused: bool = False

    def renewed(self, now: float, ttl: float | None = None) -> Holding:
        """The same claim, heard from now."""
        ttl = self.ttl if ttl is None else ttl
        return replace(self, ttl=ttl, heartbeat=now, expires=now + ttl)


@dataclass(frozen=True, slots=True)
class Applicant:
    """Someone who asks for the body; the token is made before, so that only its hash is ever kept."""

    lease_id: str
    token_hash: bytes = field(repr=False)
    conversation_id: str
    kind: HolderKind
    ttl: float

    def holding(self, now: float) -> Holding:
        """The claim that a grant now would make."""
        return Holding(
            self.lease_id,
            self.token_hash,
            self.conversation_id,
            self.kind,
            self.ttl,
            now,
            now,
            now + self.ttl,
        )


@dataclass(frozen=True, slots=True)
class Waiter:
    """An applicant in the queue, until *deadline*."""

    applicant: Applicant
    deadline: float


class Place(Enum):
    """Where in the state a claim is."""

    CLAIM = "claim"
    SUSPENDED = "suspended"
    INCOMING = "incoming"


@dataclass(frozen=True, slots=True)
class State:
    """The whole lease.

    Attributes:
        epoch: Fencing number; each grant is made under the next one, and it never goes back.
        claim: Who holds the body, or held it when it lapsed or needed recovery. While draining: a
            lapsed claim that someone is taking, and that comes back if nobody does in the end.
        suspended: The agent's claim that a person has taken over.
        incoming: While draining: whom the body is for, before the queue (a take-over's person, or
            the agent it is handed back to).
        left: While draining: the token hash that was given back, so that asking twice is no error.
        drain: The proof of quiescence under way. Nothing is admitted meanwhile, in any status.
        drains: How many proofs were begun; the last one's id.
        stopped: The owner's stop is in force, or will be once draining or recovery is over.
        person: A person drives, or did so last and the body is not yet proved quiet.
        reason: Why it is paused, stopped, draining or in need of recovery; for people.
    """

    status: LeaseState
    epoch: int
    claim: Holding | None = None
    suspended: Holding | None = None
    incoming: Holding | None = None
    queue: tuple[Waiter, ...] = ()
    left: bytes | None = field(default=None, repr=False)
    drain: int | None = None
    drains: int = 0
    stopped: bool = False
    person: bool = False
    reason: str | None = None

    @property
    def holder(self) -> Holding:
        """The claim, in the states that always have one: held, paused, lapsed."""
        assert self.claim is not None
        return self.claim

    def claims(self) -> tuple[Holding, ...]:
        """Every claim that is not over."""
        return tuple(claim for claim in (self.claim, self.suspended, self.incoming) if claim is not None)

    def granted(self) -> tuple[Holding, ...]:
        """Those of them that were granted at some time: all but the person of a take-over under way."""
        waiting = self.incoming if self.incoming and self.incoming.kind is HolderKind.PERSON else None
        return tuple(claim for claim in self.claims() if claim is not waiting)

    def find(self, token_hash: bytes) -> tuple[Place, Holding] | None:
        """The claim that this token opens; each comparison takes the same time."""
        found = None
        for place in Place:
            claim = self.at(place)
            if claim is not None and hmac.compare_digest(claim.token_hash, token_hash):
                found = (place, claim)
        return found

    def gave_back(self, token_hash: bytes) -> bool:
        """Whether the body is draining because the holder of this token gave it back."""
        return self.left is not None and hmac.compare_digest(self.left, token_hash)

    def at(self, place: Place) -> Holding | None:
        return {Place.CLAIM: self.claim, Place.SUSPENDED: self.suspended, Place.INCOMING: self.incoming}[
            place
        ]

    def put(self, place: Place, claim: Holding | None) -> State:
        """The same state with *claim* there."""
        match place:
            case Place.CLAIM:
                return replace(self, claim=claim)
            case Place.SUSPENDED:
                return replace(self, suspended=claim)
            case Place.INCOMING:
                return replace(self, incoming=claim)


def next_deadline(state: State) -> float:
    """When TimePassed would next change something; infinity if never."""
    waits = [waiter.deadline for waiter in state.queue]
    if state.claim is not None and state.status in (LeaseState.HELD, LeaseState.PAUSED):
        waits.append(state.claim.expires)
    return min(waits, default=math.inf)
