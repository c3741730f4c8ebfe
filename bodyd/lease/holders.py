"""What drivers ask of the lease: acquire, renew, use, release, hand back. Pure.

One small function for each (event, state) that differs; machine.py has the table.
"""

from __future__ import annotations

from dataclasses import replace

from bodyd import errors

from . import events as e
from .moves import (
    DRAINING,
    HELD,
    IS_STALE,
    LAPSED,
    PAUSED,
    Step,
    drain,
    grant,
    ignore,
    refuse,
    require_recovery,
    stale,
    take,
    told,
)
from .state import Holding, Place, State, Waiter

# -- Acquire, WaitEnded, GrantLost ---------------------------------------------------------------


def acquire_vacant(state: State, event: e.Acquire, now: float) -> Step:
    return grant(state, event.applicant.holding(now), now)


def acquire_taken(state: State, event: e.Acquire, now: float) -> Step:
    """Nobody pre-empts by asking: they are told so, or wait their turn."""
    to = event.applicant.lease_id
    if state.stopped:
        return acquire_stopped(state, event, now)
    if event.wait <= 0:
        return refuse(state, errors.Busy, "another driver has the body; come back, or wait with wait_ms", to)
    if len(state.queue) >= event.places:
        return refuse(state, errors.QueueFull, f"{event.places} drivers are waiting already; come back", to)
    return replace(state, queue=(*state.queue, Waiter(event.applicant, now + event.wait))), ()


def acquire_lapsed(state: State, event: e.Acquire, now: float) -> Step:
    return take(replace(state, queue=(Waiter(event.applicant, now + event.wait),)), now)


def acquire_in_recovery(state: State, event: e.Acquire | e.TakeOver, now: float) -> Step:
    message = f"the body needs recovery first: {state.reason}"
    return refuse(state, errors.RecoveryRequired, message, event.applicant.lease_id)


def acquire_stopped(state: State, event: e.Acquire | e.TakeOver, now: float) -> Step:
    message = "the owner has stopped the body; only the owner resumes it"
    return refuse(state, errors.BodyStopped, message, event.applicant.lease_id)


def forget_holder(state: State, event: e.WaitEnded, now: float) -> Step:
    """A grant that nobody was there to receive is given back; an agent it suspended comes back paused."""
    claim = state.claim
    if claim is None or claim.lease_id != event.lease_id:
        return forget(state, event, now)
    undone = replace(state, claim=None, incoming=_paused(state.suspended), suspended=None)
    return drain(undone, *told("lease.undelivered", claim))


def forget_draining(state: State, event: e.WaitEnded, now: float) -> Step:
    """A take-over that was broken off leaves the agent its claim, but paused: someone wanted it to halt."""
    after, effects = forget(state, event, now)
    if after.claim is state.claim and after.incoming is state.incoming:
        return after, effects
    return replace(after, incoming=after.incoming or _paused(after.suspended), suspended=None), effects


def forget(state: State, event: e.WaitEnded | e.GrantLost, now: float) -> Step:
    """Whoever it was holds nothing and waits for nothing any more."""
    queue = tuple(waiter for waiter in state.queue if waiter.applicant.lease_id != event.lease_id)
    state = replace(state, queue=queue)
    for place in Place:
        claim = state.at(place)
        if claim is not None and claim.lease_id == event.lease_id:
            state = state.put(place, None)
    return state, ()


def _paused(claim: Holding | None) -> Holding | None:
    return None if claim is None else replace(claim, paused=True)


def lose_grant(state: State, event: e.GrantLost, now: float) -> Step:
    """A grant that is not durable is none. A new claim goes; one that others knew of is in doubt."""
    if state.claim is None or state.claim.lease_id != event.lease_id:
        return lose_elsewhere(state, event, now)
    effects = told("lease.grant_lost", state.claim)
    if event.fresh and state.suspended is None:
        return drain(replace(state, claim=None), *effects)
    return require_recovery(state, "a hand-over could not be made durable", *effects)


def lose_elsewhere(state: State, event: e.GrantLost, now: float) -> Step:
    """The claim has been set aside since; only one whose token nobody has is dropped."""
    return forget(state, event, now) if event.fresh else ignore(state, event, now)


# -- Renew, Used ---------------------------------------------------------------------------------


def renew_held(state: State, event: e.Renew, now: float) -> Step:
    """Longer life and nothing else: a pause stays a pause, and who is suspended stays so."""
    match state.find(event.token_hash):
        case None:
            return stale(state, event, now)
        case place, claim:
            return state.put(place, claim.renewed(now, event.ttl)), ()


def renew_lapsed(state: State, event: e.Renew, now: float) -> Step:
    after, effects = renew_held(state, event, now)
    if after.holder is state.holder:
        return after, effects
    status = PAUSED if after.holder.paused else HELD
    return replace(after, status=status), told("lease.renewed", after.holder)


def renew_draining(state: State, event: e.Renew, now: float) -> Step:
    match state.find(event.token_hash):
        case Place.CLAIM, _:
            return refuse(state, errors.Draining, "the lease lapsed and is being taken; try once more")
        case _:
            return renew_held(state, event, now)


def use_held(state: State, event: e.Used, now: float) -> Step:
    after, refusal = _judge(state, event, now)
    if refusal is None and state.drain is not None:
        refusal = e.Refuse(errors.Draining, "the body is being proved quiet; try again at once")
    return after, (refusal,) if refusal else ()


def use_paused(state: State, event: e.Used, now: float) -> Step:
    after, refusal = _judge(state, event, now)
    return after, (refusal or e.Refuse(errors.LeasePaused, "the lease is paused; resume it first"),)


def use_lapsed(state: State, event: e.Used, now: float) -> Step:
    after, refusal = _judge(state, event, now)
    message = "the ttl ran out; renew with the same token, unless someone takes the body first"
    return after, (refusal or e.Refuse(errors.LeaseLapsed, message),)


def use_draining(state: State, event: e.Used, now: float) -> Step:
    after, refusal = _judge(state, event, now)
    message = "a hand-over is under way; try again at once"
    return after, (refusal or e.Refuse(errors.Draining, message),)


def _judge(state: State, event: e.Used, now: float) -> tuple[State, e.Refuse | None]:
    """Renew by use, and refuse what no state would admit.

    A call by a live token is a sign of life, whatever its answer; only a lapse asks for a renewal.
    """
    match state.find(event.token_hash):
        case None:
            return state, IS_STALE
        case Place.SUSPENDED, claim:
            message = "a person has taken over; the lease comes back with the hand-back, in a new epoch"
            return state.put(Place.SUSPENDED, claim.renewed(now)), e.Refuse(errors.PersonDriving, message)
        case place, claim:
            lapsed = place is Place.CLAIM and state.status in (LAPSED, DRAINING)
            after = state if lapsed else state.put(place, claim.renewed(now))
    if place is Place.INCOMING or event.epoch is None or event.epoch == state.epoch:
        return after, None
    message = (
        f"the lease's epoch is {state.epoch} now, not {event.epoch}: send that one, after a fresh screenshot"
    )
    return after, e.Refuse(errors.StaleEpoch, message, epoch=state.epoch)


# -- Release, HandBack ---------------------------------------------------------------------------


def release_held(state: State, event: e.Release, now: float) -> Step:
    """The holder gives the body up; a suspended agent goes on only when it is handed back to."""
    match state.find(event.token_hash):
        case None:
            return stale(state, event, now)
        case Place.CLAIM, _:
            after = replace(state, claim=None, suspended=None, left=event.token_hash, reason="released")
            return drain(after, *told("lease.released", *state.claims()))
        case place, claim:
            return state.put(place, None), told("lease.released", claim)


def release_draining(state: State, event: e.Release, now: float) -> Step:
    """Who gave the body back may say so twice; whom it was coming to no longer wants it."""
    if state.gave_back(event.token_hash):
        return state, ()
    match state.find(event.token_hash):
        case None:
            return stale(state, event, now)
        case Place.CLAIM, _:
            after = replace(state, claim=None, suspended=None, left=event.token_hash)
            return after, told("lease.released", *state.granted())
        case place, claim:
            after = replace(state.put(place, None), left=event.token_hash)
            return after, told("lease.released", claim)


def release_in_recovery(state: State, event: e.Release, now: float) -> Step:
    """The claim goes; the body still has to be recovered."""
    match state.find(event.token_hash):
        case None:
            return stale(state, event, now)
        case place, claim:
            return state.put(place, None), told("lease.released", claim)


def hand_back_held(state: State, event: e.HandBack, now: float) -> Step:
    """The person's claim ends, and the agent's comes back once the body is quiet."""
    match state.find(event.token_hash):
        case Place.CLAIM, _:
            pass
        case _:
            return stale(state, event, now)
    agent = state.suspended
    if agent is None:
        return refuse(state, errors.WrongState, "no claim is suspended; release the body instead")
    reason, left = "a person hands back", event.token_hash
    after = replace(state, claim=None, suspended=None, incoming=agent, left=left, reason=reason)
    return drain(after, *told("lease.handed_back", agent))


def hand_back_draining(state: State, event: e.HandBack, now: float) -> Step:
    return (state, ()) if state.gave_back(event.token_hash) else stale(state, event, now)
