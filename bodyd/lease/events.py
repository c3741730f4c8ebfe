"""What the lease machine is told, and what it answers. Pure.

Events say what is asked or what has happened; effects are what manager.py must then do, in order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bodyd.contract.lease import QUEUE_LENGTH
from bodyd.errors import BodydError

from .state import Applicant

# -- events: asked by someone ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Acquire:
    """*applicant* wants the body, and waits up to *wait* seconds for it, as one of *places* at most."""

    applicant: Applicant
    wait: float = 0.0
    places: int = QUEUE_LENGTH


@dataclass(frozen=True, slots=True)
class WaitEnded:
    """Whoever asked under this lease id has gone before the token was handed out."""

    lease_id: str


@dataclass(frozen=True, slots=True)
class Renew:
    """*ttl* None keeps the claim's own."""

    token_hash: bytes = field(repr=False)
    ttl: float | None = None


@dataclass(frozen=True, slots=True)
class Used:
    """A call came with the token: may it act? *epoch* None: the caller did not state one."""

    token_hash: bytes = field(repr=False)
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Release:
    token_hash: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Revoke:
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TakeOver:
    """A person takes the body from whoever has it."""

    applicant: Applicant
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class HandBack:
    """The person gives the body back to the claim that the take-over suspended."""

    token_hash: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Pause:
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Resume:
    """Ends a pause. *token_hash* None: the owner asks."""

    token_hash: bytes | None = field(default=None, repr=False)
    by: str = ""


@dataclass(frozen=True, slots=True)
class Stop:
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ResumeBody:
    """The owner ends a stop."""

    by: str = ""


@dataclass(frozen=True, slots=True)
class Recover:
    """Recovery *step* is asked for. Only the owner may recover a body that someone holds."""

    step: int
    owner: bool = False


# -- events: happened ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TimePassed:
    """Something may be overdue."""


@dataclass(frozen=True, slots=True)
class Quiesced:
    """Nothing is in flight and nothing is held, proved by reading back."""

    drain: int


@dataclass(frozen=True, slots=True)
class QuiescenceFailed:
    drain: int
    reason: str


@dataclass(frozen=True, slots=True)
class DeliveryUncertain:
    """It can't be known how much of an input was carried out."""

    reason: str


@dataclass(frozen=True, slots=True)
class GrantLost:
    """A grant could not be made durable. *fresh*: its token was never handed out."""

    lease_id: str
    fresh: bool


@dataclass(frozen=True, slots=True)
class Recovered:
    """A recovery step has proved the body quiet."""

    step: int


@dataclass(frozen=True, slots=True)
class RecoveryFailed:
    step: int
    reason: str


@dataclass(frozen=True, slots=True)
class Restarted:
    """The daemon has started with this state on record."""


Event = (
    Acquire
    | WaitEnded
    | Renew
    | Used
    | Release
    | Revoke
    | TakeOver
    | HandBack
    | Pause
    | Resume
    | Stop
    | ResumeBody
    | Recover
    | TimePassed
    | Quiesced
    | QuiescenceFailed
    | DeliveryUncertain
    | GrantLost
    | Recovered
    | RecoveryFailed
    | Restarted
)

# -- effects ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fence:
    """Every permit given out dies now. Always the first effect of its step."""


@dataclass(frozen=True, slots=True)
class StartDrain:
    """Stop dispatch, release everything, prove it; answer Quiesced or QuiescenceFailed with this id."""

    drain: int


@dataclass(frozen=True, slots=True)
class GrantTo:
    """Make the state durable; then hand out the token, or let the one already out act."""

    lease_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer with this error: the waiter *to*, or whoever asked."""

    error: type[BodydError]
    message: str
    to: str | None = None
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class RunRecovery:
    """Run this step of recovery; answer Recovered or RecoveryFailed."""

    step: int


@dataclass(frozen=True, slots=True)
class Announce:
    """Tell watchers and the audit: a type of docs/explanation/lease.md, and who and why."""

    type: str
    data: dict[str, object] = field(default_factory=dict)


Effect = Fence | StartDrain | GrantTo | Refuse | RunRecovery | Announce
