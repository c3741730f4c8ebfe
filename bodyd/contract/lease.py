"""The lease as others see it: states, holders, grants, requests. The machine is lease/machine.py."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

DEFAULT_TTL_MS = 60_000
MAX_TTL_MS = 300_000
MAX_WAIT_MS = 30_000
QUEUE_LENGTH = 8

TtlMs = Annotated[int, Field(strict=True, ge=1, le=MAX_TTL_MS)]
ConversationId = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$")]


class LeaseState(StrEnum):
    VACANT = "vacant"
    HELD = "held"
    PAUSED = "paused"
    LAPSED = "lapsed"
    DRAINING = "draining"
    RECOVERY_REQUIRED = "recovery_required"
    STOPPED = "stopped"


class HolderKind(StrEnum):
    AGENT = "agent"
    PERSON = "person"


class Scope(StrEnum):
    """What a bearer token may do: owner > driver > viewer."""

    OWNER = "owner"
    DRIVER = "driver"
    VIEWER = "viewer"

    @property
    def rank(self) -> int:
        return ("viewer", "driver", "owner").index(self.value)

    def covers(self, needed: Scope) -> bool:
        return self.rank >= needed.rank


class Claim(BaseModel):
    """Who holds (or held, or is suspended from) the body; never the token. Times in Unix ms."""

    model_config = ConfigDict(frozen=True)
    body_id: str
    conversation_id: str
    lease_id: str
    kind: HolderKind
    issued_at: int
    heartbeat_at: int
    expires_at: int


class LeaseView(BaseModel):
    """The lease in `GET /v1/status`, and in the answer of every lease call."""

    model_config = ConfigDict(frozen=True)
    state: LeaseState
    epoch: int
    claim: Claim | None = None
    suspended: Claim | None = None
    queue: int = 0
    reason: str | None = None


class Grant(BaseModel):
    """The answer to an acquire: the token is shown this once, and stored only as a hash."""

    model_config = ConfigDict(frozen=True)
    lease_token: str
    epoch: int
    lease: LeaseView


class AcquireRequest(BaseModel):
    """Body of `POST /v1/lease/acquire`. `wait_ms` 0 answers `busy` at once if someone holds it."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    conversation_id: ConversationId
    ttl_ms: TtlMs = DEFAULT_TTL_MS
    wait_ms: Annotated[int, Field(strict=True, ge=0, le=MAX_WAIT_MS)] = 0


class RenewRequest(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    ttl_ms: TtlMs | None = None


class ReasonRequest(BaseModel):
    """Body of revoke, pause, stop and takeover: why, for the audit and the driver."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    reason: Annotated[str, Field(max_length=500)] = ""


class RecoverRequest(BaseModel):
    """Step 1: release all and read back. 2: new connections. 3: restart the display (owner; apps die)."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    step: Literal[1, 2, 3] = 1
