"""Drives the pure machine by hand, so that tests read as transcripts."""

from __future__ import annotations

import hashlib
from typing import TypeVar

from bodyd.contract.lease import HolderKind, LeaseState
from bodyd.errors import BodydError
from bodyd.lease import events as e
from bodyd.lease.machine import step
from bodyd.lease.state import Applicant, State

E = TypeVar("E")


def token(name: str) -> bytes:
    """The hash of *name*'s token."""
    return hashlib.sha256(name.encode()).digest()


def applicant(name: str, *, kind: HolderKind = HolderKind.AGENT, ttl: float = 60.0) -> Applicant:
    return Applicant(name, token(name), f"conv-{name}", kind, ttl)


def person(name: str = "person", *, ttl: float = 60.0) -> Applicant:
    return applicant(name, kind=HolderKind.PERSON, ttl=ttl)


class Play:
    """A lease, a clock that moves when it is told to, and what the last step asked for."""

    def __init__(self, state: State | None = None) -> None:
        self.state = state or State(LeaseState.VACANT, 0)
        self.now = 1000.0
        self.effects: tuple[e.Effect, ...] = ()

    def do(self, event: e.Event) -> Play:
        self.state, self.effects = step(self.state, event, self.now)
        return self

    def wait(self, seconds: float) -> Play:
        self.now += seconds
        return self.do(e.TimePassed())

    # -- what is asked for often ---------------------------------------------------------------------

    def acquire(self, name: str, *, wait: float = 0.0, ttl: float = 60.0) -> Play:
        return self.do(e.Acquire(applicant(name, ttl=ttl), wait))

    def take_over(self, name: str = "person", *, ttl: float = 60.0) -> Play:
        return self.do(e.TakeOver(person(name, ttl=ttl), "owner", "let me see"))

    def hand_back(self, name: str = "person") -> Play:
        return self.do(e.HandBack(token(name)))

    def release(self, name: str) -> Play:
        return self.do(e.Release(token(name)))

    def renew(self, name: str, ttl: float | None = None) -> Play:
        return self.do(e.Renew(token(name), ttl))

    def use(self, name: str, epoch: int | None = None) -> Play:
        return self.do(e.Used(token(name), epoch))

    def pause(self) -> Play:
        return self.do(e.Pause("owner", "lunch"))

    def resume(self, name: str | None = None) -> Play:
        return self.do(e.Resume(None if name is None else token(name), "owner"))

    def stop(self) -> Play:
        return self.do(e.Stop("owner", "enough"))

    def revoke(self) -> Play:
        return self.do(e.Revoke("owner", "no"))

    def quiesced(self) -> Play:
        assert self.state.drain is not None
        return self.do(e.Quiesced(self.state.drain))

    def not_quiesced(self) -> Play:
        assert self.state.drain is not None
        return self.do(e.QuiescenceFailed(self.state.drain, "a key is stuck"))

    # -- what came of it -----------------------------------------------------------------------------

    @property
    def status(self) -> str:
        return self.state.status.value

    @property
    def holder(self) -> str | None:
        return self.state.claim and self.state.claim.lease_id

    @property
    def suspended(self) -> str | None:
        return self.state.suspended and self.state.suspended.lease_id

    @property
    def queue(self) -> list[str]:
        return [waiter.applicant.lease_id for waiter in self.state.queue]

    def all(self, kind: type[E]) -> list[E]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    @property
    def fenced(self) -> bool:
        return bool(self.effects) and isinstance(self.effects[0], e.Fence)

    @property
    def granted(self) -> list[tuple[str, int]]:
        return [(grant.lease_id, grant.epoch) for grant in self.all(e.GrantTo)]

    @property
    def refused(self) -> type[BodydError] | None:
        """How whoever asked was refused."""
        return next((refusal.error for refusal in self.all(e.Refuse) if refusal.to is None), None)

    @property
    def turned_away(self) -> dict[str, type[BodydError]]:
        """How those who wait for a token were refused."""
        return {refusal.to: refusal.error for refusal in self.all(e.Refuse) if refusal.to is not None}

    @property
    def told(self) -> list[str]:
        return [announce.type for announce in self.all(e.Announce)]


def held(name: str = "a", **options: float) -> Play:
    """A body that *name* holds under epoch 1."""
    return Play().acquire(name, **options)


def taken_over(agent: str = "a", **options: float) -> Play:
    """A body that a person has taken over from *agent*, under epoch 2."""
    return held(agent, **options).take_over().quiesced()
