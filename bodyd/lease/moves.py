"""The moves that several transitions share: fence, drain, settle, grant, require recovery. Pure.

Nobody is granted the body but by `grant`: out of a vacancy, or from `settle` after a proof of
quiescence; and always under a new epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bodyd import errors
from bodyd.contract.lease import HolderKind, LeaseState

from . import events as e
from .state import Holding, State

QUIESCE_SECONDS = 2.0
"""A body that is not proved quiet within this needs recovery."""

TAKE_SECONDS = QUIESCE_SECONDS + 0.5
"""Whoever takes a lapsed lease waits at least this long: a proof comes first, even for `wait_ms` 0."""

Step = tuple[State, tuple[e.Effect, ...]]
Handler = Callable[[State, Any, float], Step]

VACANT, HELD, PAUSED, LAPSED = LeaseState.VACANT, LeaseState.HELD, LeaseState.PAUSED, LeaseState.LAPSED
DRAINING, RECOVERY, STOPPED = LeaseState.DRAINING, LeaseState.RECOVERY_REQUIRED, LeaseState.STOPPED

IS_STALE = e.Refuse(
    errors.StaleLease, "the lease token is not (or no longer) that of the current claim; acquire the lease"
)
IS_STOPPED = e.Refuse(errors.BodyStopped, "the owner has stopped the body; only the owner resumes it")


# -- answers -------------------------------------------------------------------------------------


def ignore(state: State, event: e.Event, now: float) -> Step:
    return state, ()


def stale(state: State, event: e.Event, now: float) -> Step:
    return state, (IS_STALE,)


def refuse_stopped(state: State, event: e.Event, now: float) -> Step:
    return state, (IS_STOPPED,)


def refuse_in_recovery(state: State, event: e.Event, now: float) -> Step:
    return refuse(state, errors.RecoveryRequired, f"the body needs recovery first: {state.reason}")


def refuse_draining(state: State, event: e.Event, now: float) -> Step:
    return refuse(state, errors.Draining, "a hand-over is under way; try again at once")


def refuse_vacant(state: State, event: e.Event, now: float) -> Step:
    return refuse(
        state, errors.WrongState, "nobody has the body: acquire it, or stop it to keep everyone out"
    )


def refuse(state: State, error: type[errors.BodydError], message: str, to: str | None = None) -> Step:
    return state, (e.Refuse(error, message, to),)


def told(kind: str, *claims: Holding, **more: object) -> tuple[e.Effect, ...]:
    """One announcement for each claim; *more* says by whom, and why."""
    return tuple(
        e.Announce(
            kind,
            {
                "lease_id": claim.lease_id,
                "conversation_id": claim.conversation_id,
                "kind": claim.kind.value,
                **more,
            },
        )
        for claim in claims
    )


def dismiss(state: State, error: type[errors.BodydError], message: str) -> tuple[e.Effect, ...]:
    """Refuse everyone who waits for a token: the queue, and the person of a take-over."""
    queue = (waiter.applicant.lease_id for waiter in state.queue)
    return (*dismiss_person(state, error, message), *(e.Refuse(error, message, to) for to in queue))


def dismiss_person(state: State, error: type[errors.BodydError], message: str) -> tuple[e.Effect, ...]:
    person = state.incoming
    if person is None or person.kind is not HolderKind.PERSON:
        return ()
    return (e.Refuse(error, message, person.lease_id),)


# -- moves ---------------------------------------------------------------------------------------


def fence(state: State, *effects: e.Effect) -> Step:
    """Kill the permits and have the body proved quiet; a proof already under way will do.

    It will do because nothing is admitted while one is under way.
    """
    if state.drain is not None:
        return state, (e.Fence(), *effects)
    drain = state.drains + 1
    return replace(state, drain=drain, drains=drain), (e.Fence(), e.StartDrain(drain), *effects)


def drain(state: State, *effects: e.Effect) -> Step:
    """Let go of the body; who is next is settled once it is proved quiet."""
    return fence(replace(state, status=DRAINING), *effects)


def take(state: State, now: float) -> Step:
    """The first of the queue takes a lapsed lease, which comes back if nobody does in the end."""
    head, *others = state.queue
    patient = replace(head, deadline=max(head.deadline, now + TAKE_SECONDS))
    return drain(replace(state, queue=(patient, *others), reason="a lapsed lease is being taken"))


def settle(state: State, now: float) -> Step:
    """The body is proved quiet: stopped, or the next one's, or the lapsed one's again, or nobody's."""
    if state.stopped:
        return rest(state)
    if state.incoming is not None:
        fresh = state.incoming.kind is HolderKind.PERSON
        return grant(state, state.incoming.renewed(now) if fresh else state.incoming, now)
    if state.queue:
        head, *others = state.queue
        after, effects = grant(
            replace(state, suspended=None, queue=tuple(others)), head.applicant.holding(now), now
        )
        return after, (*effects, *told("lease.taken", *state.claims()))
    if state.claim is not None:
        reason = "paused" if state.claim.paused else None
        return replace(state, status=LAPSED, drain=None, left=None, reason=reason), ()
    return rest(state)


def grant(state: State, claim: Holding, now: float) -> Step:
    """Give the quiet body to *claim*, in the state that the claim is in, under the next epoch."""
    status = LAPSED if claim.expires <= now else PAUSED if claim.paused else HELD
    after = State(
        status,
        state.epoch + 1,
        claim=claim,
        suspended=state.suspended,
        queue=state.queue,
        drains=state.drains,
        person=claim.kind is HolderKind.PERSON,
        reason="paused" if claim.paused else None,
    )
    effects: tuple[e.Effect, ...] = (e.GrantTo(claim.lease_id, after.epoch),)
    if status is not LAPSED:
        return after, effects
    effects = (*effects, *told("lease.lapsed", claim))
    if not after.queue:
        return after, effects
    taken, first = take(after, now)
    return taken, (*first, *effects)


def rest(state: State) -> Step:
    """Nobody has the body, and it is quiet."""
    after = State(
        STOPPED if state.stopped else VACANT,
        state.epoch,
        drains=state.drains,
        stopped=state.stopped,
        reason=state.reason if state.stopped else None,
    )
    return after, (e.Announce("lease.vacant", {"epoch": state.epoch, "stopped": state.stopped}),)


def require_recovery(state: State, reason: str, *effects: e.Effect) -> Step:
    """Fail closed: nobody gets the body until it is recovered. The claims are kept to be seen."""
    coming = state.incoming if state.incoming and state.incoming.kind is HolderKind.AGENT else None
    after = State(
        RECOVERY,
        state.epoch,
        claim=state.claim or coming,
        suspended=state.suspended,
        drains=state.drains,
        stopped=state.stopped,
        person=state.person,
        reason=reason,
    )
    gone = dismiss(state, errors.RecoveryRequired, f"the body needs recovery first: {reason}")
    return after, (e.Fence(), *gone, e.Announce("lease.recovery_required", {"reason": reason}), *effects)
