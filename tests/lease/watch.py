"""The laws of the lease, checked at every step that a test takes.

Watched is the machine with a world around it: calls that were admitted hold permits until they are
fenced, and the body is unproved from the moment that someone may have acted on it.
"""

from __future__ import annotations

from bodyd.contract.lease import HolderKind, LeaseState
from bodyd.lease import events as e
from bodyd.lease.machine import step
from bodyd.lease.state import State

VACANT, HELD, PAUSED, LAPSED = LeaseState.VACANT, LeaseState.HELD, LeaseState.PAUSED, LeaseState.LAPSED
DRAINING, RECOVERY, STOPPED = LeaseState.DRAINING, LeaseState.RECOVERY_REQUIRED, LeaseState.STOPPED


class Watched:
    """A lease that fails the test as soon as a law is broken.

    Attributes:
        permits: Who may act now, and under which epoch: pairs of lease id and epoch.
        proved: The body was proved quiet since anyone could act.
    """

    def __init__(
        self, state: State, *, permits: frozenset[tuple[str, int]] = frozenset(), proved: bool = True
    ):
        self.state = state
        self.permits = permits
        self.proved = proved
        self.effects: tuple[e.Effect, ...] = ()

    def do(self, event: e.Event, now: float) -> None:
        before = self.state
        self.state, self.effects = step(before, event, now)
        self._note_proofs(before, event)
        self._note_permits(before, event)
        self._check_grants(before)
        self._check_claims(before, event)
        if self.state is not before:
            check_sense(self.state)
        assert len(self.permits) <= 1, "two may act"
        for name, epoch in self.permits:
            assert self.state.status is HELD, "someone may act on a body that nobody holds"
            assert (self.state.holder.lease_id, self.state.epoch) == (name, epoch), "another may act"

    def granted(self) -> list[str]:
        return [effect.lease_id for effect in self.effects if isinstance(effect, e.GrantTo)]

    def turned_away(self) -> set[str]:
        return {effect.to for effect in self.effects if isinstance(effect, e.Refuse) and effect.to}

    def refused(self) -> bool:
        return any(isinstance(effect, e.Refuse) and effect.to is None for effect in self.effects)

    def _note_proofs(self, before: State, event: e.Event) -> None:
        match event:
            case e.Quiesced(drain) if drain == before.drain:
                self.proved = True
            case e.Recovered() if before.status is RECOVERY:
                self.proved = True

    def _note_permits(self, before: State, event: e.Event) -> None:
        fences = [isinstance(effect, e.Fence) for effect in self.effects]
        assert not any(fences[1:]), "a fence comes first"
        if any(fences):
            self.permits = frozenset()
        if isinstance(event, e.Used) and not self.refused():
            holder = before.find(event.token_hash)
            assert before.status is HELD, "admitted to a body that nobody holds"
            assert holder is not None, "admitted by a strange token"
            assert holder[1] is before.claim, "admitted, but not the holder"
            assert event.epoch in (None, before.epoch), "admitted under an old epoch"
            assert before.drain is None, "admitted in the middle of a proof"
            self.permits = frozenset({(holder[1].lease_id, before.epoch)})
            self.proved = False

    def _check_grants(self, before: State) -> None:
        grants = [effect for effect in self.effects if isinstance(effect, e.GrantTo)]
        assert self.state.epoch == before.epoch + len(grants), "each grant, and nothing else, moves the epoch"
        assert len(grants) <= 1
        for grant in grants:
            assert grant.epoch == self.state.epoch
            assert self.proved, "granted without a proof of quiescence"
            assert before.status in (VACANT, DRAINING), "granted over a holder"
            assert not self.permits, "someone could still act at the grant"
            assert not before.stopped, "granted though stopped"
            self.proved = before.status is VACANT and self.proved

    def _check_claims(self, before: State, event: e.Event) -> None:
        after = self.state
        was = {claim.lease_id: claim for claim in before.claims()}
        now = {claim.lease_id: claim for claim in after.claims()}
        if isinstance(event, e.Renew | e.Used | e.TimePassed):
            assert was.keys() == now.keys(), "neither time nor use ends a claim"
            assert all(claim.paused == was[name].paused for name, claim in now.items()), "a pause was undone"
            assert after.stopped == before.stopped
        if after.status is HELD and before.status is not HELD and not self.granted():
            assert before.status in (PAUSED, LAPSED), "held out of nowhere"
        if (
            before.status is LAPSED
            and isinstance(event, e.Renew)
            and event.token_hash == before.holder.token_hash
        ):
            assert not self.refused(), "a lapsed claim can be renewed until someone has taken the body"
            assert after.status is (PAUSED if before.holder.paused else HELD)
        if isinstance(event, e.HandBack) and before.status is not DRAINING and not self.refused():
            assert after.incoming == before.suspended, "the suspended claim comes back as it was"
            assert after.incoming is not None
        if isinstance(event, e.Revoke | e.Stop):
            assert not now, "a claim survived"
        if isinstance(event, e.DeliveryUncertain):
            assert after.status is RECOVERY
        if before.status is RECOVERY and after.status is not RECOVERY:
            assert isinstance(event, e.Recovered), "only a proof ends recovery"
            assert after.status is (STOPPED if before.stopped else VACANT)
        if before.stopped and not after.stopped:
            assert isinstance(event, e.ResumeBody), "only the owner ends a stop"
        if isinstance(event, e.Recover) and not event.owner and was and before.status is not RECOVERY:
            assert after == before, "a driver gets at nobody's body by recovering it"


def check_sense(state: State) -> None:
    """What holds in every state by itself."""
    out_of_use = (VACANT, STOPPED, RECOVERY)
    assert (state.claim is not None) or state.status not in (HELD, PAUSED, LAPSED)
    assert not state.claims() or state.status not in (VACANT, STOPPED)
    assert not state.queue or state.status in (HELD, PAUSED, DRAINING)
    assert state.incoming is None or state.status is DRAINING
    assert (state.drain is not None) or state.status is not DRAINING
    assert state.drain is None or state.status not in out_of_use
    assert state.stopped == (state.status is STOPPED) or state.status in (DRAINING, RECOVERY)
    if state.stopped:
        assert not state.claims()
        assert not state.queue
    if state.status in (HELD, PAUSED):
        assert state.holder.paused == (state.status is PAUSED)
    if state.suspended is not None:
        person = state.incoming or state.claim
        assert state.suspended.kind is HolderKind.AGENT
        assert state.status is RECOVERY or (person is not None and person.kind is HolderKind.PERSON)
    agents = [claim for claim in state.claims() if claim.kind is HolderKind.AGENT]
    assert len(agents) <= 1
    assert len({claim.lease_id for claim in state.claims()}) == len(state.claims())
