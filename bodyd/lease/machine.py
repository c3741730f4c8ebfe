"""The lease as a pure machine: who holds the body, who may act, what must be proved first.

`step` looks the pair (event, state) up in TABLE and calls the small function found there; it
answers with the next state and the effects that manager.py carries out, in order. It knows no
clock, no token (only hashes), no disk and no display: *now* is handed in, and quiescence,
durability and recovery are answers that come back as events. The rules in words are in
docs/explanation/lease.md.

Three things hold throughout: whoever loses the body is fenced in the same step; nobody is granted
the body but out of a vacancy or after a proof of quiescence; every grant is under a new epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bodyd import errors
from bodyd.contract.lease import LeaseState

from . import events as e
from . import holders as h
from . import owners as o
from .moves import (
    DRAINING,
    HELD,
    LAPSED,
    PAUSED,
    RECOVERY,
    STOPPED,
    VACANT,
    Handler,
    Step,
    fence,
    ignore,
    refuse_draining,
    refuse_in_recovery,
    refuse_stopped,
    refuse_vacant,
    require_recovery,
    settle,
    stale,
    take,
    told,
)
from .state import State


def step(state: State, event: e.Event, now: float) -> Step:
    """What *event* makes of *state* at *now* (monotonic seconds), and what must be done about it."""
    return TABLE[type(event)][state.status](state, event, now)


# -- time and proofs -----------------------------------------------------------------------------


def expire(state: State, event: e.TimePassed, now: float) -> Step:
    """Expiry fences and keeps the world; the body goes to whoever waits for it."""
    if state.holder.expires > now:
        return give_up_waiting(state, event, now)
    lapsed = told("lease.lapsed", state.holder)
    if not state.queue:
        return fence(replace(state, status=LAPSED), *lapsed)
    taken, effects = take(state, now)
    after, late = give_up_waiting(taken, event, now)
    return after, (*effects, *lapsed, *late)


def give_up_waiting(state: State, event: e.TimePassed, now: float) -> Step:
    late = tuple(waiter for waiter in state.queue if waiter.deadline <= now)
    message = "another driver still has the body, and wait_ms is over"
    busy = tuple(e.Refuse(errors.Busy, message, waiter.applicant.lease_id) for waiter in late)
    return replace(state, queue=tuple(waiter for waiter in state.queue if waiter.deadline > now)), busy


def become_quiet(state: State, event: e.Quiesced, now: float) -> Step:
    """Proved while the claim stays where it is: paused, lapsed, or on again in the meantime."""
    return (replace(state, drain=None), ()) if event.drain == state.drain else ignore(state, event, now)


def hand_over(state: State, event: e.Quiesced, now: float) -> Step:
    return settle(state, now) if event.drain == state.drain else ignore(state, event, now)


def fail_to_quiesce(state: State, event: e.QuiescenceFailed, now: float) -> Step:
    if event.drain != state.drain:
        return ignore(state, event, now)
    return require_recovery(state, f"quiescence was not proved: {event.reason}")


def doubt(state: State, event: e.DeliveryUncertain, now: float) -> Step:
    return require_recovery(state, f"an input's delivery is uncertain: {event.reason}")


def restart(state: State, event: e.Restarted, now: float) -> Step:
    return require_recovery(state, "the daemon was restarted while the body was in use")


# -- the table -----------------------------------------------------------------------------------

# fmt: off
TABLE: Mapping[type[e.Event], Mapping[LeaseState, Handler]] = {
    e.Acquire: {
        VACANT: h.acquire_vacant,
        HELD: h.acquire_taken, PAUSED: h.acquire_taken, LAPSED: h.acquire_lapsed,
        DRAINING: h.acquire_taken, RECOVERY: h.acquire_in_recovery, STOPPED: h.acquire_stopped,
    },
    e.WaitEnded: {
        VACANT: ignore,
        HELD: h.forget_holder, PAUSED: h.forget_holder, LAPSED: h.forget_holder,
        DRAINING: h.forget_draining, RECOVERY: h.forget, STOPPED: ignore,
    },
    e.GrantLost: {
        VACANT: ignore,
        HELD: h.lose_grant, PAUSED: h.lose_grant, LAPSED: h.lose_grant,
        DRAINING: h.lose_grant, RECOVERY: h.lose_elsewhere, STOPPED: ignore,
    },
    e.Renew: {
        VACANT: stale,
        HELD: h.renew_held, PAUSED: h.renew_held, LAPSED: h.renew_lapsed,
        DRAINING: h.renew_draining, RECOVERY: refuse_in_recovery, STOPPED: refuse_stopped,
    },
    e.Used: {
        VACANT: stale,
        HELD: h.use_held, PAUSED: h.use_paused, LAPSED: h.use_lapsed,
        DRAINING: h.use_draining, RECOVERY: refuse_in_recovery, STOPPED: refuse_stopped,
    },
    e.Release: {
        VACANT: stale,
        HELD: h.release_held, PAUSED: h.release_held, LAPSED: h.release_held,
        DRAINING: h.release_draining, RECOVERY: h.release_in_recovery, STOPPED: stale,
    },
    e.HandBack: {
        VACANT: stale,
        HELD: h.hand_back_held, PAUSED: h.hand_back_held, LAPSED: h.hand_back_held,
        DRAINING: h.hand_back_draining, RECOVERY: refuse_in_recovery, STOPPED: refuse_stopped,
    },
    e.Revoke: {
        VACANT: ignore,
        HELD: o.revoke_held, PAUSED: o.revoke_held, LAPSED: o.revoke_held,
        DRAINING: o.revoke_held, RECOVERY: o.revoke_in_recovery, STOPPED: ignore,
    },
    e.TakeOver: {
        VACANT: o.take_over_vacant,
        HELD: o.take_over_held, PAUSED: o.take_over_held, LAPSED: o.take_over_held,
        DRAINING: o.take_over_held, RECOVERY: h.acquire_in_recovery, STOPPED: h.acquire_stopped,
    },
    e.Pause: {
        VACANT: refuse_vacant,
        HELD: o.pause_held, PAUSED: ignore, LAPSED: o.pause_lapsed,
        DRAINING: o.pause_draining, RECOVERY: refuse_in_recovery, STOPPED: refuse_stopped,
    },
    e.Resume: {
        VACANT: refuse_vacant,
        HELD: o.resume_claim, PAUSED: o.resume_claim, LAPSED: o.resume_claim,
        DRAINING: refuse_draining, RECOVERY: refuse_in_recovery, STOPPED: refuse_stopped,
    },
    e.Stop: {
        VACANT: o.stop_vacant,
        HELD: o.stop_held, PAUSED: o.stop_held, LAPSED: o.stop_held,
        DRAINING: o.stop_held, RECOVERY: o.stop_in_recovery, STOPPED: ignore,
    },
    e.ResumeBody: {
        VACANT: o.resume_unstopped,
        HELD: o.resume_unstopped, PAUSED: o.resume_unstopped, LAPSED: o.resume_unstopped,
        DRAINING: o.resume_pending_stop, RECOVERY: o.resume_pending_stop, STOPPED: o.resume_stopped,
    },
    e.Recover: {
        VACANT: o.recover_idle,
        HELD: o.recover_held, PAUSED: o.recover_held, LAPSED: o.recover_held,
        DRAINING: o.recover_held, RECOVERY: o.recover_required, STOPPED: o.recover_idle,
    },
    e.TimePassed: {
        VACANT: ignore,
        HELD: expire, PAUSED: expire, LAPSED: ignore,
        DRAINING: give_up_waiting, RECOVERY: ignore, STOPPED: ignore,
    },
    e.Quiesced: {
        VACANT: ignore,
        HELD: become_quiet, PAUSED: become_quiet, LAPSED: become_quiet,
        DRAINING: hand_over, RECOVERY: ignore, STOPPED: ignore,
    },
    e.QuiescenceFailed: {
        VACANT: ignore,
        HELD: fail_to_quiesce, PAUSED: fail_to_quiesce, LAPSED: fail_to_quiesce,
        DRAINING: fail_to_quiesce, RECOVERY: ignore, STOPPED: ignore,
    },
    e.DeliveryUncertain: {
        VACANT: doubt,
        HELD: doubt, PAUSED: doubt, LAPSED: doubt,
        DRAINING: doubt, RECOVERY: doubt, STOPPED: doubt,
    },
    e.Recovered: {
        VACANT: ignore,
        HELD: ignore, PAUSED: ignore, LAPSED: ignore,
        DRAINING: ignore, RECOVERY: o.recovered, STOPPED: ignore,
    },
    e.RecoveryFailed: {
        VACANT: ignore,
        HELD: ignore, PAUSED: ignore, LAPSED: ignore,
        DRAINING: ignore, RECOVERY: o.fail_to_recover, STOPPED: ignore,
    },
    e.Restarted: {
        VACANT: ignore,
        HELD: restart, PAUSED: restart, LAPSED: restart,
        DRAINING: restart, RECOVERY: ignore, STOPPED: ignore,
    },
}
# fmt: on
