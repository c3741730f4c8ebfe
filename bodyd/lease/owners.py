"""What is done to a claim from outside: revoke, take over, pause, stop, recover. Pure.

One small function for each (event, state) that differs; machine.py has the table.
"""

from __future__ import annotations

from dataclasses import replace

from bodyd import errors
from bodyd.contract.lease import HolderKind

from . import events as e
from .holders import acquire_stopped
from .moves import (
    HELD,
    IS_STOPPED,
    PAUSED,
    RECOVERY,
    Step,
    dismiss,
    dismiss_person,
    drain,
    fence,
    grant,
    ignore,
    refuse,
    require_recovery,
    rest,
    stale,
    told,
)
from .state import Place, State

# -- Revoke, TakeOver ----------------------------------------------------------------------------


def revoke_held(state: State, event: e.Revoke, now: float) -> Step:
    """Every claim ends for good; the queue moves on."""
    gone = dismiss_person(state, errors.StaleLease, "the lease was revoked before it was granted")
    ended = told("lease.revoked", *state.granted(), by=event.by, reason=event.reason)
    reason = state.reason if state.stopped else _because("revoked", event.reason)
    bare = replace(state, claim=None, suspended=None, incoming=None, left=None, reason=reason)
    return drain(bare, *gone, *ended)


def revoke_in_recovery(state: State, event: e.Revoke, now: float) -> Step:
    ended = told("lease.revoked", *state.granted(), by=event.by, reason=event.reason)
    return replace(state, claim=None, suspended=None), ended


def take_over_vacant(state: State, event: e.TakeOver, now: float) -> Step:
    return grant(state, event.applicant.holding(now), now)


def take_over_held(state: State, event: e.TakeOver, now: float) -> Step:
    """An agent's claim is suspended; a person's is over, and whom it suspended stays so."""
    if state.stopped:
        return acquire_stopped(state, event, now)
    agents = tuple(claim for claim in state.claims() if claim.kind is HolderKind.AGENT)
    people = tuple(claim for claim in state.granted() if claim.kind is HolderKind.PERSON)
    newly = tuple(claim for claim in agents if claim is not state.suspended)
    gone = dismiss_person(state, errors.Busy, "another take-over came after this one")
    taken = replace(
        state,
        claim=None,
        suspended=next(iter(agents), None),
        incoming=event.applicant.holding(now),
        left=None,
        reason=_because("a person takes over", event.reason),
    )
    by = {"by": event.by, "reason": event.reason}
    return drain(taken, *gone, *told("lease.taken", *people, **by), *told("lease.suspended", *newly, **by))


# -- Pause, Resume -------------------------------------------------------------------------------


def pause_held(state: State, event: e.Pause, now: float) -> Step:
    """The hand stops at the next atom and lets go; the claim stays."""
    after, effects = pause_lapsed(state, event, now)
    return fence(replace(after, status=PAUSED), *effects)


def pause_lapsed(state: State, event: e.Pause, now: float) -> Step:
    """Whoever renews it will find it paused."""
    paused = replace(state.holder, paused=True)
    effects = told("lease.paused", paused, by=event.by, reason=event.reason)
    return replace(state, claim=paused, reason=_because("paused", event.reason)), effects


def pause_draining(state: State, event: e.Pause, now: float) -> Step:
    """Whom the body goes to gets it paused; a queue has nobody to pause yet."""
    if state.incoming is None:
        return refuse(state, errors.Draining, "nobody has the body yet; try again, or stop the body")
    paused = replace(state.incoming, paused=True)
    effects = told("lease.paused", paused, by=event.by, reason=event.reason)
    return replace(state, incoming=paused), effects


def resume_claim(state: State, event: e.Resume, now: float) -> Step:
    """Whoever has the lease resumes it, which is a use; the owner needs no token, and renews nothing."""
    claim, status = state.holder, HELD if state.status is PAUSED else state.status
    if event.token_hash is not None:
        found = state.find(event.token_hash)
        if found is None or found[0] is not Place.CLAIM:
            return stale(state, event, now)
        claim, status = claim.renewed(now), HELD
    after = replace(state, status=status, claim=replace(claim, paused=False), reason=None)
    if status is state.status and not claim.paused:
        return after, ()
    return after, told("lease.resumed", claim, by=event.by)


# -- Stop, ResumeBody ----------------------------------------------------------------------------


def stop_held(state: State, event: e.Stop, now: float) -> Step:
    """Everyone is out, and those who wait too, until the owner resumes."""
    gone = dismiss(state, errors.BodyStopped, IS_STOPPED.message)
    bare = replace(state, claim=None, suspended=None, incoming=None, queue=(), left=None)
    return drain(_stopped(bare, event), *gone, *_stop_told(state, event))


def stop_vacant(state: State, event: e.Stop, now: float) -> Step:
    after, effects = rest(_stopped(state, event))
    return after, (*_stop_told(state, event), *effects)


def stop_in_recovery(state: State, event: e.Stop, now: float) -> Step:
    """It takes effect once the body is recovered; what recovery is for stays readable."""
    after = replace(state, claim=None, suspended=None, stopped=True)
    return after, _stop_told(state, event)


def _stopped(state: State, event: e.Stop) -> State:
    return replace(state, stopped=True, reason=_because("stopped", event.reason))


def _stop_told(state: State, event: e.Stop) -> tuple[e.Effect, ...]:
    ended = told("lease.revoked", *state.granted(), by=event.by, reason=event.reason)
    return (e.Announce("body.stopped", {"by": event.by, "reason": event.reason}), *ended)


def resume_stopped(state: State, event: e.ResumeBody, now: float) -> Step:
    after, effects = rest(replace(state, stopped=False))
    return after, (e.Announce("body.resumed", {"by": event.by}), *effects)


def resume_pending_stop(state: State, event: e.ResumeBody, now: float) -> Step:
    """A stop that still waits for a proof or for recovery is taken back; the rest goes its way."""
    if not state.stopped:
        return resume_unstopped(state, event, now)
    reason = state.reason if state.status is RECOVERY else "resumed"
    return replace(state, stopped=False, reason=reason), (e.Announce("body.resumed", {"by": event.by}),)


def resume_unstopped(state: State, event: e.ResumeBody, now: float) -> Step:
    return refuse(state, errors.WrongState, "the body is not stopped")


# -- Recover, Recovered, RecoveryFailed ----------------------------------------------------------


def recover_required(state: State, event: e.Recover, now: float) -> Step:
    return state, (e.RunRecovery(event.step),)


def recover_idle(state: State, event: e.Recover, now: float) -> Step:
    return require_recovery(state, "recovery was asked for", e.RunRecovery(event.step))


def recover_held(state: State, event: e.Recover, now: float) -> Step:
    """Recovery ends every claim, so a driver must not get at the body of another by asking for it."""
    return recover_idle(state, event, now) if event.owner else ignore(state, event, now)


def recovered(state: State, event: e.Recovered, now: float) -> Step:
    """The body is quiet, and nobody's: what any claim knew of it may no longer be so."""
    after, effects = rest(replace(state, reason="stopped"))
    ended = told("lease.ended", *state.claims())
    return after, (e.Announce("lease.recovered", {"step": event.step}), *ended, *effects)


def fail_to_recover(state: State, event: e.RecoveryFailed, now: float) -> Step:
    told_ = e.Announce("lease.recovery_failed", {"step": event.step, "reason": event.reason})
    return replace(state, reason=f"recovery step {event.step} failed: {event.reason}"), (told_,)


def _because(what: str, reason: str) -> str:
    return f"{what}: {reason}" if reason else what
