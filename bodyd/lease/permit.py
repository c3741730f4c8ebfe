"""The right to act under one lease, as the dispatcher holds it; manager.py gives and kills it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from bodyd.contract.lease import Claim


class HeldPermit:
    """A contract.ports.Permit: valid until the lease is fenced, and never again.

    `valid` is one attribute read, so any thread may ask it; it turns False in the very tick in
    which the lease is paused, lapses, drains, stops or needs recovery.
    """

    __slots__ = ("_valid", "interrupted")

    def __init__(self) -> None:
        self._valid = True
        self.interrupted = trio.Event()

    @property
    def valid(self) -> bool:
        return self._valid

    def kill(self) -> None:
        self._valid = False
        self.interrupted.set()


@dataclass(frozen=True, slots=True)
class Admission:
    """One call that the lease lets through.

    Attributes:
        claim: Whose claim it is, as it was at that moment.
        epoch: The epoch of the grant.
        permit: Asked at the last synchronous point before every effect.
        interrupted: Set when the permit dies: waits end early by it.
        touch: Renews the claim while the call still runs, if the permit is valid; synchronous.
    """

    claim: Claim
    epoch: int
    permit: HeldPermit
    touch: Callable[[], None] = field(repr=False)
    token_hash: bytes = field(repr=False)

    @property
    def interrupted(self) -> trio.Event:
        return self.permit.interrupted
