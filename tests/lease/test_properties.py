"""Random interleavings of everything that can happen to a lease, over real times and restarts.

test_every_state.py visits every state of a small world; here are many drivers, odd times, a full
queue, and records that are written and read back. The laws of each step are in watch.py.
"""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bodyd.contract.lease import QUEUE_LENGTH, HolderKind, LeaseState
from bodyd.lease import events as e
from bodyd.lease.record import damaged, durable, from_record, to_record
from bodyd.lease.state import State, next_deadline

from .playbook import applicant, person, token
from .watch import DRAINING, HELD, RECOVERY, STOPPED, VACANT, Watched


class Lease(RuleBasedStateMachine):
    """A manager that does all that the machine asks, and a world that does anything at any time.

    `out` are those whose claim is over for good, or who were refused; `owed` those who asked for a
    token and have no answer yet.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lease = Watched(State(LeaseState.VACANT, 0))
        self.now = 1000.0
        self.names: list[str] = []
        self.out: set[str] = set()
        self.owed: set[str] = set()
        self.highest = 0

    @property
    def state(self) -> State:
        return self.lease.state

    def do(self, event: e.Event) -> None:
        before = {claim.lease_id for claim in self.state.granted()}
        self.lease.do(event, self.now)
        granted, refused = set(self.lease.granted()), self.lease.turned_away()
        assert not granted & self.out, "who was out came back"
        self.out |= refused | (before - {claim.lease_id for claim in self.state.claims()})
        self.owed -= granted | refused
        assert self.state.epoch >= self.highest, "epochs only grow"
        self.highest = self.state.epoch

    def someone(self, data: st.DataObject, *, waiting: bool = False) -> str:
        """Mostly one who counts for something just now; those who wait have no token yet."""
        live = [claim.lease_id for claim in self.state.claims()]
        live += [waiter.applicant.lease_id for waiter in self.state.queue]
        names = [name for name in live * 3 + self.names[-4:] if waiting or name not in self.owed]
        return data.draw(st.sampled_from(names or ["nobody"]))

    def newcomer(self) -> str:
        name = f"n{len(self.names)}"
        self.names.append(name)
        self.owed.add(name)
        return name

    # -- what is asked ---------------------------------------------------------------------------------

    @rule(
        wait=st.sampled_from([0, 5, 30]),
        ttl=st.sampled_from([0.001, 5, 60]),
        kind=st.sampled_from(HolderKind),
    )
    def acquire(self, wait: float, ttl: float, kind: HolderKind) -> None:
        self.do(e.Acquire(applicant(self.newcomer(), kind=kind, ttl=ttl), wait))

    @precondition(lambda self: self.state.status in (HELD, DRAINING))
    @rule(count=st.integers(2, QUEUE_LENGTH + 1))
    def crowd(self, count: int) -> None:
        for _ in range(count):
            self.acquire(30, 60, HolderKind.AGENT)
        assert len(self.state.queue) <= QUEUE_LENGTH

    @rule()
    def take_over(self) -> None:
        self.do(e.TakeOver(person(self.newcomer())))

    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        """Only those whose token is not handed out yet, which the manager alone knows."""
        name = self.someone(data, waiting=True)
        if name in self.owed or (self.state.claim and name == self.state.claim.lease_id):
            self.owed.discard(name)
            self.out.add(name)
            self.do(e.WaitEnded(name))

    @rule(data=st.data(), behind=st.sampled_from([None, 0, 1]))
    def use(self, data: st.DataObject, behind: int | None) -> None:
        epoch = None if behind is None else self.state.epoch - behind
        self.do(e.Used(token(self.someone(data)), epoch))

    @precondition(lambda self: self.state.status is HELD)
    @rule()
    def drive(self) -> None:
        self.do(e.Used(self.state.holder.token_hash, self.state.epoch))

    @rule(data=st.data(), ttl=st.sampled_from([None, 0.001, 300]))
    def renew(self, data: st.DataObject, ttl: float | None) -> None:
        self.do(e.Renew(token(self.someone(data)), ttl))

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        self.do(e.Release(token(self.someone(data))))

    @rule(data=st.data())
    def hand_back(self, data: st.DataObject) -> None:
        self.do(e.HandBack(token(self.someone(data))))

    @rule()
    def pause(self) -> None:
        self.do(e.Pause())

    @rule(data=st.data(), owner=st.booleans())
    def resume(self, data: st.DataObject, owner: bool) -> None:
        self.do(e.Resume(None if owner else token(self.someone(data))))

    # -- what happens ----------------------------------------------------------------------------------

    @rule(seconds=st.one_of(st.sampled_from([0.001, 4.999, 70.0]), st.floats(0, 100)))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.do(e.TimePassed())
        assert next_deadline(self.state) > self.now, "something is overdue still"

    @precondition(lambda self: self.state.drain is not None)
    @rule(late=st.sampled_from([False, False, True]))
    def prove(self, late: bool) -> None:
        self.do(e.Quiesced(self.state.drains - late))

    @rule(
        what=st.sampled_from(["revoke", "stop", "doubt", "no proof", "lost", "recover", "restart"]),
        data=st.data(),
    )
    def go_wrong(self, what: str, data: st.DataObject) -> None:
        """One rule for all that ends claims, so that most runs get somewhere before it comes."""
        match what:
            case "revoke":
                self.do(e.Revoke())
            case "stop":
                self.do(e.Stop())
            case "doubt":
                self.do(e.DeliveryUncertain("who knows"))
            case "no proof" if self.state.drain is not None:
                self.do(e.QuiescenceFailed(self.state.drain, "stuck"))
            case "lost" if self.state.granted():
                lost = data.draw(st.sampled_from([claim.lease_id for claim in self.state.granted()]))
                self.do(e.GrantLost(lost, data.draw(st.booleans())))
            case "recover":
                self.do(e.Recover(3, data.draw(st.booleans())))
            case "restart":
                self.restart(corrupt=data.draw(st.booleans()))

    def restart(self, *, corrupt: bool) -> None:
        """What comes back from the record lets nobody act, and its epoch is no lower."""
        was, record = self.state, to_record(self.state, "body", lambda s: round(s * 1000))
        if corrupt:
            loaded = damaged(record, self.highest, "a test")
        else:
            loaded = from_record(
                record, body_id="body", floor=self.highest, to_monotonic=lambda ms: ms / 1000
            )
            assert durable(loaded) == durable(was)
        self.lease = Watched(loaded, proved=loaded.status in (VACANT, STOPPED))
        self.owed.clear()
        self.do(e.Restarted())
        kept = was.status in (VACANT, STOPPED) and not corrupt
        assert self.state.status is (was.status if kept else RECOVERY)
        assert self.state.stopped >= was.stopped

    @precondition(lambda self: self.state.status in (STOPPED, RECOVERY))
    @rule(resume=st.booleans())
    def mend(self, resume: bool) -> None:
        """Often enough that no run spends itself in a body out of use."""
        self.do(e.Recovered(1))
        if resume:
            self.do(e.ResumeBody())

    @invariant()
    def nobody_waits_forever(self) -> None:
        """Whoever asked and has no answer is in the queue, or on the way in."""
        waiting = {waiter.applicant.lease_id for waiter in self.state.queue}
        if self.state.incoming is not None:
            waiting.add(self.state.incoming.lease_id)
        assert self.owed <= waiting


TestLease = Lease.TestCase
TestLease.settings = settings(
    settings.get_profile(settings.get_current_profile_name()), stateful_step_count=50
)
