"""Every state that a small world can reach, and every event in each of them.

Two agents and a person, one ttl, one wait, a queue of two. Times are kept relative, and epochs and
drains rebased, so that the states are few enough to be visited all. The laws are in watch.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bodyd.contract.lease import LeaseState
from bodyd.lease import events as e
from bodyd.lease.machine import TABLE
from bodyd.lease.state import Holding, State, Waiter

from .playbook import applicant, person, token
from .watch import Watched

TTL = 10.0
EPOCH = 7
Node = tuple[State, frozenset[tuple[str, int]], bool]

AGENTS, PERSON = ("a", "b"), "p"
EVENTS: tuple[e.Event, ...] = (
    *(e.Acquire(applicant(name, ttl=TTL), wait, 2) for name in AGENTS for wait in (0.0, TTL)),
    e.TakeOver(person(PERSON, ttl=TTL)),
    *(e.WaitEnded(name) for name in (*AGENTS, PERSON)),
    *(e.GrantLost(name, fresh) for name in (*AGENTS, PERSON) for fresh in (True, False)),
    *(kind(token(name)) for kind in (e.Renew, e.Release, e.HandBack, e.Resume) for name in (*AGENTS, PERSON)),
    *(e.Used(token(name), epoch) for name in (*AGENTS, PERSON) for epoch in (EPOCH, EPOCH - 1)),
    e.Resume(),
    e.Revoke(),
    e.Pause(),
    e.Stop(),
    e.ResumeBody(),
    e.Recover(1),
    e.Recover(3, owner=True),
    e.TimePassed(),
    e.Quiesced(1),
    e.Quiesced(99),
    e.QuiescenceFailed(1, ""),
    e.DeliveryUncertain(""),
    e.Recovered(1),
    e.RecoveryFailed(1, ""),
    e.Restarted(),
)


def rebased(state: State, now: float) -> State:
    """The same state as if it were time 0, epoch 7, and the first drain."""

    def claim(old: Holding | None) -> Holding | None:
        return old and replace(old, issued=0.0, heartbeat=0.0, expires=max(old.expires - now, 0.0))

    queue = tuple(Waiter(waiter.applicant, max(waiter.deadline - now, 0.0)) for waiter in state.queue)
    return replace(
        state,
        epoch=EPOCH,
        claim=claim(state.claim),
        suspended=claim(state.suspended),
        incoming=claim(state.incoming),
        queue=queue,
        drain=state.drain and 1,
        drains=0,
        reason=None,
    )


def impossible(state: State, event: e.Event) -> bool:
    """Nobody asks twice under one lease id, and a person on the way in has no token and no grant yet."""
    if isinstance(event, e.Acquire | e.TakeOver):
        known = {claim.lease_id for claim in state.claims()}
        known |= {waiter.applicant.lease_id for waiter in state.queue}
        return event.applicant.lease_id in known
    if state.incoming is None or state.incoming.lease_id != PERSON:
        return False
    if isinstance(event, e.GrantLost):
        return event.lease_id == PERSON
    return getattr(event, "token_hash", None) == token(PERSON)


def moves(node: Node) -> Iterator[tuple[Node, e.Event | None]]:
    """Where each event leads from here, and where time does."""
    state, permits, proved = node
    yield (rebased(state, TTL), permits, proved), None
    watched = Watched(state)
    for event in EVENTS:
        if impossible(state, event):
            continue
        watched.state, watched.permits, watched.proved = state, permits, proved
        try:
            watched.do(event, 0.0)
        except AssertionError as exc:
            raise AssertionError(f"{exc}: {event} in {node} made {watched.state}") from exc
        if watched.state is state and watched.permits == permits and watched.proved == proved:
            yield node, event
            continue
        renumbered = frozenset((name, EPOCH) for name, _ in watched.permits)
        yield (rebased(watched.state, 0.0), renumbered, watched.proved), event


def test_the_laws_hold_in_every_state_of_a_small_world():
    """From a vacant body, whatever happens in whatever order."""
    start: Node = (State(LeaseState.VACANT, EPOCH), frozenset(), True)
    seen, frontier, steps = {start}, [start], set()
    while frontier:
        node = frontier.pop()
        for after, event in moves(node):
            if event is not None:
                steps.add((type(event), node[0].status))
            if after not in seen:
                seen.add(after)
                frontier.append(after)
    assert steps == {(event, status) for event, row in TABLE.items() for status in row}
    assert len(seen) > 1000
