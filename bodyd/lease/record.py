"""The lease as it is kept and as it is shown: State to a JSON dict and back, and to a LeaseView. Pure.

Renewals are not kept: a restart voids every claim anyway, and a write for each use would cost more
than the use. So a record read back shows a claim's first expiry. Times are Unix milliseconds
outside and monotonic seconds inside; the caller has the clock.

A record that is not exactly what this version writes fails closed: recovery is required, the epoch
is above every known one, and the body counts as stopped unless the record itself says it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from bodyd.contract.lease import Claim, HolderKind, LeaseState, LeaseView

from .state import Holding, State

VERSION = 1

Record = dict[str, Any]
T = TypeVar("T")


def to_record(state: State, body_id: str, to_ms: Callable[[float], int]) -> Record:
    """What must survive the daemon; the queue and a drain under way do not."""

    def kept(claim: Holding | None) -> Record | None:
        if claim is None:
            return None
        return {
            "lease_id": claim.lease_id,
            "token_sha256": claim.token_hash.hex(),
            "conversation_id": claim.conversation_id,
            "kind": claim.kind.value,
            "ttl_ms": round(claim.ttl * 1000),
            "issued_at": to_ms(claim.issued),
            "paused": claim.paused,
        }

    return {
        "version": VERSION,
        "body_id": body_id,
        "status": state.status.value,
        "epoch": state.epoch,
        "claim": kept(state.claim),
        "suspended": kept(state.suspended),
        "incoming": kept(state.incoming),
        "stopped": state.stopped,
        "person": state.person,
        "reason": state.reason,
    }


def durable(state: State) -> tuple[object, ...]:
    """Equal for two states whose records say the same."""
    claims = (
        None if claim is None else (claim.lease_id, claim.ttl, claim.paused)
        for claim in (state.claim, state.suspended, state.incoming)
    )
    return (state.status, state.epoch, *claims, state.stopped, state.person, state.reason)


def from_record(
    record: Mapping[str, Any] | None, *, body_id: str, floor: int, to_monotonic: Callable[[int], float]
) -> State:
    """The state on record.

    Args:
        record: None if there is none.
        floor: The highest epoch that the journal knows; no epoch up to it is used again.
    """
    if record is None:
        return State(LeaseState.VACANT, 0) if floor == 0 else damaged(None, floor, "it is missing")
    try:
        return _read(record, body_id, floor, to_monotonic)
    except (KeyError, TypeError, ValueError, OverflowError) as exc:
        return damaged(record, floor, f"{type(exc).__name__}: {exc}")


def damaged(record: object, floor: int, why: str) -> State:
    """Fail closed: who had the body is not known, nor whether the owner had stopped it."""
    said = record if isinstance(record, dict) else {}
    epoch = said.get("epoch")
    known = max(floor, epoch) if type(epoch) is int else floor
    return State(
        LeaseState.RECOVERY_REQUIRED,
        known + 1,
        stopped=said.get("stopped") is not False,
        person=said.get("person") is not False,
        reason=f"the lease record can't be read ({why:.200})",
    )


def _read(record: Mapping[str, Any], body_id: str, floor: int, to_monotonic: Callable[[int], float]) -> State:
    if _field(record, "version", int) != VERSION:
        raise ValueError(f"version {record['version']!r} is not {VERSION}")
    if _field(record, "body_id", str) != body_id:
        raise ValueError("it is another body's")
    status = LeaseState(_field(record, "status", str))
    claim, suspended, incoming = (
        _claim(record[name], to_monotonic) for name in ("claim", "suspended", "incoming")
    )
    epoch, stopped = _field(record, "epoch", int), _field(record, "stopped", bool)
    if epoch < 0:
        raise ValueError(f"epoch {epoch} is negative")
    if status in (LeaseState.HELD, LeaseState.PAUSED, LeaseState.LAPSED) and claim is None:
        raise ValueError(f"{status.value} without a claim")
    if status in (LeaseState.VACANT, LeaseState.STOPPED) and (claim or suspended or incoming):
        raise ValueError(f"{status.value} with a claim")
    if stopped and status in (LeaseState.VACANT, LeaseState.HELD, LeaseState.PAUSED, LeaseState.LAPSED):
        raise ValueError(f"{status.value} though stopped")
    if status is LeaseState.STOPPED and not stopped:
        raise ValueError("stopped and not stopped")
    return State(
        status,
        max(epoch, floor),
        claim=claim,
        suspended=suspended,
        incoming=incoming,
        stopped=stopped,
        person=_field(record, "person", bool),
        reason=None if record["reason"] is None else _field(record, "reason", str),
    )


def _claim(record: Any, to_monotonic: Callable[[int], float]) -> Holding | None:  # noqa: ANN401
    if record is None:
        return None
    token_hash = bytes.fromhex(_field(record, "token_sha256", str))
    if len(token_hash) != 32:
        raise ValueError("token_sha256 is not 32 bytes")
    ttl, issued = _field(record, "ttl_ms", int) / 1000, to_monotonic(_field(record, "issued_at", int))
    return Holding(
        lease_id=_field(record, "lease_id", str),
        token_hash=token_hash,
        conversation_id=_field(record, "conversation_id", str),
        kind=HolderKind(_field(record, "kind", str)),
        ttl=ttl,
        issued=issued,
        heartbeat=issued,
        expires=issued + ttl,
        paused=_field(record, "paused", bool),
    )


def _field(record: Mapping[str, Any], name: str, kind: type[T]) -> T:
    value = record[name]
    if type(value) is not kind:
        raise TypeError(f"{name} is {type(value).__name__}, not {kind.__name__}")
    return value


def to_view(state: State, body_id: str, to_ms: Callable[[float], int]) -> LeaseView:
    """The state as anyone may see it."""

    def shown(claim: Holding | None) -> Claim | None:
        if claim is None:
            return None
        return Claim(
            body_id=body_id,
            conversation_id=claim.conversation_id,
            lease_id=claim.lease_id,
            kind=claim.kind,
            issued_at=to_ms(claim.issued),
            heartbeat_at=to_ms(claim.heartbeat),
            expires_at=to_ms(claim.expires),
        )

    return LeaseView(
        state=state.status,
        epoch=state.epoch,
        claim=shown(state.claim),
        suspended=shown(state.suspended),
        queue=len(state.queue),
        reason=state.reason,
    )
