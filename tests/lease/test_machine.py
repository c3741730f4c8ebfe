"""The lease machine, transition by transition, as transcripts."""

from __future__ import annotations

import pytest

from bodyd.contract.lease import QUEUE_LENGTH, HolderKind, LeaseState
from bodyd.errors import (
    BodyStopped,
    Busy,
    Draining,
    LeaseLapsed,
    LeasePaused,
    PersonDriving,
    QueueFull,
    RecoveryRequired,
    StaleEpoch,
    StaleLease,
    WrongState,
)
from bodyd.lease import events as e
from bodyd.lease.machine import TABLE
from bodyd.lease.moves import TAKE_SECONDS
from bodyd.lease.state import State, next_deadline

from .playbook import Play, applicant, held, taken_over, token


def recovering() -> Play:
    return held().do(e.DeliveryUncertain("a click"))


def stopped() -> Play:
    return Play().stop()


def lapsed() -> Play:
    return held().wait(60).quiesced()


def test_every_event_has_an_answer_in_every_state():
    """The table has no hole."""
    assert all(set(row) == set(LeaseState) for row in TABLE.values())
    assert len(TABLE) == 21


class TestAcquire:
    def test_a_vacant_body_is_granted_at_once(self):
        """Out of a vacancy there is nothing to prove; the grant is epoch 1."""
        play = Play().acquire("a")
        assert (play.status, play.holder, play.granted) == ("held", "a", [("a", 1)])

    def test_a_held_body_answers_busy(self):
        """Without wait_ms, an agent never waits and never pre-empts."""
        play = held().acquire("b")
        assert (play.turned_away, play.holder, play.queue) == ({"b": Busy}, "a", [])

    def test_those_who_wait_are_served_in_order(self):
        """The queue is first in, first out, and each gets the body after a proof of its own."""
        play = held().acquire("b", wait=30).acquire("c", wait=30)
        assert play.queue == ["b", "c"]
        play.release("a")
        assert (play.status, play.fenced, play.granted) == ("draining", True, [])
        assert play.quiesced().granted == [("b", 2)]
        assert play.release("b").quiesced().granted == [("c", 3)]

    def test_the_queue_is_bounded(self):
        """The ninth in the queue is told to come back."""
        play = held()
        for number in range(QUEUE_LENGTH):
            assert play.acquire(f"w{number}", wait=30).turned_away == {}
        assert play.acquire("late", wait=30).turned_away == {"late": QueueFull}

    def test_a_wait_ends_in_busy(self):
        """wait_ms is kept to, and whoever waits longer stays."""
        play = held(ttl=300).acquire("b", wait=5).acquire("c", wait=10)
        assert next_deadline(play.state) == play.now + 5
        assert play.wait(5).turned_away == {"b": Busy}
        assert play.queue == ["c"]

    def test_one_may_wait_while_the_body_drains(self):
        """A hand-over under way is waited for like a holder; without wait_ms it is busy."""
        play = held().release("a")
        assert play.acquire("b").turned_away == {"b": Busy}
        assert play.acquire("c", wait=1).queue == ["c"]
        assert play.quiesced().granted == [("c", 2)]

    def test_a_wait_may_end_while_the_body_drains(self):
        """The proof then leaves the body vacant."""
        play = held().release("a").acquire("b", wait=1)
        assert play.wait(1).turned_away == {"b": Busy}
        assert play.quiesced().status == "vacant"

    @pytest.mark.parametrize(
        ("play", "error"),
        [
            (recovering(), RecoveryRequired),
            (stopped(), BodyStopped),
            (held().stop(), BodyStopped),
        ],
    )
    def test_a_body_that_is_out_of_use_takes_no_one(self, play, error):
        """Neither acquire nor take-over gets past a stop or a need of recovery, waiting or not."""
        assert play.acquire("b", wait=30).turned_away == {"b": error}
        assert play.take_over().turned_away == {"person": error}
        assert play.queue == []

    def test_a_waiter_who_goes_away_is_forgotten(self):
        """A closed connection leaves no place in the queue, whatever the state."""
        play = held().acquire("b", wait=30).do(e.WaitEnded("b"))
        assert (play.queue, play.holder) == ([], "a")
        play.acquire("c", wait=30).release("a").do(e.WaitEnded("c"))
        assert (play.queue, play.quiesced().status) == ([], "vacant")

    @pytest.mark.parametrize("play", [Play(), stopped(), recovering(), lapsed()])
    def test_a_stranger_who_goes_away_changes_nothing(self, play):
        """WaitEnded is sent for everyone who was refused, too."""
        before = play.state
        assert play.do(e.WaitEnded("stranger")).state == before
        assert play.effects == ()


class TestUndelivered:
    def test_a_grant_that_nobody_received_is_given_back(self):
        """The body drains and goes to the next."""
        play = held().acquire("b", wait=30).do(e.WaitEnded("a"))
        assert (play.status, play.fenced, play.holder) == ("draining", True, None)
        assert play.quiesced().granted == [("b", 2)]

    def test_a_take_over_broken_off_leaves_the_agent_paused(self):
        """Before the proof: the agent's claim comes back, but someone wanted it to halt."""
        play = held().take_over().do(e.WaitEnded("person")).quiesced()
        assert (play.status, play.holder, play.granted) == ("paused", "a", [("a", 2)])

    def test_a_take_over_granted_to_nobody_leaves_the_agent_paused(self):
        """After the grant, too."""
        play = taken_over().do(e.WaitEnded("person"))
        assert (play.status, play.fenced) == ("draining", True)
        play.quiesced()
        assert (play.status, play.holder, play.state.epoch) == ("paused", "a", 3)

    def test_a_grant_undelivered_is_no_claim_in_recovery(self):
        """Recovery shows no claim that nobody knows of."""
        assert recovering().do(e.WaitEnded("a")).holder is None

    def test_a_grant_that_is_not_durable_is_void(self):
        """The body drains, and nobody has it."""
        play = held().do(e.GrantLost("a", fresh=True))
        assert (play.status, play.fenced) == ("draining", True)
        assert play.quiesced().status == "vacant"
        assert play.state.epoch == 1

    def test_a_hand_back_that_is_not_durable_needs_recovery(self):
        """The agent knows its claim, and can't be told which epoch counts."""
        play = taken_over().hand_back().quiesced().do(e.GrantLost("a", fresh=False))
        assert (play.status, play.fenced, play.holder) == ("recovery_required", True, "a")

    def test_a_take_over_that_is_not_durable_needs_recovery(self):
        """There is a suspended claim that must not go on by itself."""
        play = taken_over().do(e.GrantLost("person", fresh=True))
        assert (play.status, play.suspended) == ("recovery_required", "a")

    def test_a_grant_lost_after_the_claim_was_set_aside(self):
        """A new claim is dropped from where it is now; one that is known stays suspended."""
        assert taken_over().do(e.GrantLost("a", fresh=True)).suspended is None
        assert taken_over().do(e.GrantLost("a", fresh=False)).suspended == "a"
        draining = held().take_over()
        assert draining.do(e.GrantLost("a", fresh=True)).suspended is None
        assert draining.quiesced().holder == "person"


class TestUse:
    def test_use_renews(self):
        """A claim that is used does not lapse."""
        play = held().wait(50).use("a", 1)
        assert (play.effects, play.wait(59).status) == ((), "held")
        assert play.wait(1).status == "lapsed"

    def test_an_old_epoch_is_named_the_new_one(self):
        """The error says which epoch counts; it still is a sign of life."""
        play = taken_over().hand_back().quiesced().wait(50).use("a", 1)
        assert play.refused is StaleEpoch
        assert play.all(e.Refuse)[0].epoch == 3
        assert play.use("a", 3).effects == ()
        assert play.wait(59).status == "held"

    def test_no_epoch_is_no_mismatch(self):
        """A call that states none is judged by its token."""
        assert held().use("a").effects == ()

    @pytest.mark.parametrize(
        "play", [Play(), held(), held().pause(), lapsed(), held().release("a"), taken_over()]
    )
    def test_a_token_that_opens_nothing_is_stale(self, play):
        """Whatever the state: no claim, no call."""
        assert play.use("b").refused is StaleLease
        assert play.renew("b").refused is StaleLease
        assert play.release("b").refused is StaleLease
        assert play.hand_back("b").refused is StaleLease

    def test_a_suspended_claim_is_told_that_a_person_drives(self):
        """It may not act, but its asking keeps it alive."""
        play = taken_over().wait(50)
        assert play.use("a", 1).refused is PersonDriving
        assert play.wait(40).hand_back().quiesced().status == "held"

    def test_a_paused_claim_may_not_act_and_is_kept_alive_by_asking(self):
        """A pause is not an absence."""
        play = held().pause().quiesced().wait(50)
        assert play.use("a", 1).refused is LeasePaused
        assert play.wait(50).status == "paused"

    def test_a_lapsed_claim_must_renew_first(self):
        """Use alone does not undo the fence, else there were none."""
        play = lapsed()
        expired = play.state.holder.expires
        assert play.use("a", 1).refused is LeaseLapsed
        assert play.state.holder.expires == expired
        assert (play.status, play.use("a", 0).refused) == ("lapsed", StaleEpoch)

    def test_nothing_is_admitted_while_the_body_is_being_proved_quiet(self):
        """A renewal or a resumption in the middle of a proof waits for its end."""
        play = held().pause().resume("a")
        assert (play.status, play.use("a", 1).refused) == ("held", Draining)
        assert play.quiesced().use("a", 1).effects == ()

    def test_while_it_is_handed_back_the_agent_waits(self):
        """Its token is right, the time is not."""
        play = taken_over().hand_back()
        assert play.use("a", 1).refused is Draining
        assert play.renew("a").refused is None

    def test_while_it_is_taken_over_the_agent_is_told_so(self):
        """The suspended claim may be renewed, too."""
        play = held().take_over()
        assert play.use("a", 1).refused is PersonDriving
        assert play.renew("a").refused is None

    @pytest.mark.parametrize(("play", "error"), [(recovering(), RecoveryRequired), (stopped(), BodyStopped)])
    def test_a_body_out_of_use_admits_nobody(self, play, error):
        """The holder of before is told what is the matter."""
        assert play.use("a", 1).refused is error
        assert play.renew("a").refused is error
        assert play.hand_back("a").refused is error
        assert play.pause().refused is error
        assert play.resume("a").refused is error


class TestLapse:
    def test_expiry_fences_and_keeps_the_claim(self):
        """The world stays; the same token renews it, under the same epoch."""
        play = held().wait(60)
        assert (play.status, play.fenced, play.holder) == ("lapsed", True, "a")
        assert play.told == ["lease.lapsed"]
        assert play.quiesced().renew("a").told == ["lease.renewed"]
        assert (play.status, play.state.epoch, play.use("a", 1).effects) == ("held", 1, ())

    def test_a_lapsed_claim_that_nobody_wants_stays(self):
        """Expiry never kills."""
        play = lapsed().wait(100_000)
        assert (play.status, play.renew("a").status) == ("lapsed", "held")

    def test_a_stranger_does_not_renew_it(self):
        """Lapsed is not free for all."""
        play = lapsed()
        assert play.renew("b").refused is StaleLease
        assert play.status == "lapsed"

    def test_another_takes_it_only_after_a_proof(self):
        """Even for wait_ms 0 the taker waits for the proof; then the old token is stale."""
        play = lapsed().acquire("b")
        assert (play.status, play.fenced, play.granted, play.turned_away) == ("draining", True, [], {})
        assert (play.renew("a").refused, play.use("a", 1).refused) == (Draining, Draining)
        assert play.wait(TAKE_SECONDS - 0.1).turned_away == {}
        assert play.quiesced().granted == [("b", 2)]
        assert play.told == ["lease.taken"]
        assert play.renew("a").refused is StaleLease

    def test_it_comes_back_if_the_taker_goes_away(self):
        """Nobody has taken the body, so the claim is as good as before."""
        play = lapsed().acquire("b").do(e.WaitEnded("b")).quiesced()
        assert (play.status, play.holder, play.granted) == ("lapsed", "a", [])
        assert play.renew("a").status == "held"

    def test_whoever_waits_already_takes_it_at_once(self):
        """Expiry with a queue starts the hand-over; later waiters' time still runs out."""
        play = held(ttl=10).acquire("b", wait=10).acquire("c", wait=10).wait(10)
        assert (play.status, play.queue, play.turned_away) == ("draining", ["b"], {"c": Busy})
        assert play.quiesced().granted == [("b", 2)]

    def test_its_holder_may_release_it_while_it_is_taken(self):
        """The taker gets the body all the same."""
        play = lapsed().acquire("b").release("a").do(e.WaitEnded("b")).quiesced()
        assert play.status == "vacant"

    def test_a_renewal_may_change_the_ttl(self):
        """The new ttl is kept for later uses."""
        play = held(ttl=10).renew("a", 100).wait(50).use("a").wait(99)
        assert (play.status, play.wait(1).status) == ("held", "lapsed")


class TestPause:
    def test_a_pause_fences_and_keeps_the_claim(self):
        """The hand lets go, and nobody else gets the body."""
        play = held().pause()
        assert (play.status, play.fenced, play.holder) == ("paused", True, "a")
        assert play.quiesced().acquire("b").turned_away == {"b": Busy}
        assert play.pause().effects == ()

    def test_renewal_never_undoes_a_pause(self):
        """Neither while it is paused, nor after a lapse."""
        play = held().pause().quiesced().renew("a")
        assert play.status == "paused"
        play.wait(60).quiesced()
        assert (play.status, play.renew("a").status) == ("lapsed", "paused")

    def test_a_lapsed_claim_can_be_paused(self):
        """Whoever renews it finds it paused."""
        assert lapsed().pause().renew("a").status == "paused"

    def test_whoever_has_the_lease_resumes(self):
        """By the token, under the same epoch."""
        play = held().pause().quiesced().resume("a")
        assert (play.status, play.state.epoch, play.told) == ("held", 1, ["lease.resumed"])
        assert play.use("a", 1).effects == ()

    def test_the_owner_resumes_without_a_token(self):
        """It is the owner's body; but only the token renews a lapsed claim."""
        assert held().pause().quiesced().resume().status == "held"
        play = held().pause().quiesced().wait(60).quiesced().resume()
        assert (play.status, play.renew("a").status) == ("lapsed", "held")

    def test_resuming_a_lapsed_claim_by_its_token_renews_it(self):
        """Resuming is a use."""
        assert lapsed().pause().resume("a").status == "held"

    def test_resuming_what_is_not_paused_changes_nothing(self):
        """Asking twice is no error."""
        assert held().resume().effects == ()
        assert held().resume("a").effects == ()
        assert held().resume("b").refused is StaleLease
        assert taken_over().resume("a").refused is StaleLease

    def test_there_must_be_a_claim(self):
        """A vacant or draining body has nobody to pause; stop is for that."""
        assert Play().pause().refused is WrongState
        assert Play().resume().refused is WrongState
        assert held().release("a").pause().refused is Draining
        assert held().release("a").resume().refused is Draining

    def test_a_pause_during_a_hand_back_holds(self):
        """The agent comes back paused."""
        play = taken_over().hand_back().pause().quiesced()
        assert (play.status, play.holder) == ("paused", "a")

    def test_a_pause_survives_a_take_over(self):
        """The hand-back gives back what was taken: a paused claim."""
        play = held().pause().quiesced().take_over().quiesced().hand_back().quiesced()
        assert (play.status, play.state.epoch) == ("paused", 3)


class TestReleaseAndRevoke:
    def test_release_drains_before_it_is_vacant(self):
        """The token is dead at once; the body is vacant when proved quiet."""
        play = held().release("a")
        assert (play.status, play.fenced, play.use("a", 1).refused) == ("draining", True, StaleLease)
        assert play.quiesced().status == "vacant"
        assert play.told == ["lease.vacant"]

    def test_a_release_asked_twice_is_one(self):
        """A client that lost the answer may ask again while it drains."""
        play = held().release("a")
        assert play.release("a").effects == ()
        assert play.quiesced().release("a").refused is StaleLease

    def test_a_suspended_claim_can_be_released(self):
        """The person keeps the body; there is nobody to hand it back to."""
        play = taken_over().release("a")
        assert (play.status, play.suspended, play.holder) == ("held", None, "person")
        assert play.hand_back().refused is WrongState
        assert held().take_over().release("a").suspended is None

    def test_a_claim_can_be_released_while_it_is_handed_back(self):
        """The body is vacant then."""
        play = taken_over().hand_back().release("a")
        assert (play.told, play.quiesced().status) == (["lease.released"], "vacant")

    def test_a_person_who_releases_does_not_hand_back(self):
        """An agent goes on only when it is told to."""
        play = taken_over().release("person")
        assert play.told == ["lease.released", "lease.released"]
        assert play.use("a", 1).refused is StaleLease
        assert play.quiesced().status == "vacant"
        assert play.use("a", 1).refused is StaleLease

    def test_revocation_is_final(self):
        """No renewal, no release, no use brings it back."""
        play = held().revoke()
        assert (play.status, play.fenced) == ("draining", True)
        for _ in range(2):
            assert play.use("a", 1).refused is StaleLease
            assert play.renew("a").refused is StaleLease
            assert play.release("a").refused is StaleLease
            play.do(e.Quiesced(1))
        assert play.status == "vacant"

    def test_revocation_lets_the_queue_move_on(self):
        """It ends claims, not waits."""
        assert held().acquire("b", wait=30).revoke().quiesced().granted == [("b", 2)]

    def test_revocation_ends_a_take_over_and_whom_it_suspended(self):
        """Both claims are void; a person still waiting for the body is told."""
        assert taken_over().revoke().told == ["lease.revoked", "lease.revoked"]
        play = held().take_over().revoke()
        assert play.turned_away == {"person": StaleLease}
        assert play.quiesced().status == "vacant"

    @pytest.mark.parametrize("play", [Play(), stopped()])
    def test_revoking_nothing_is_no_error(self, play):
        """Revoke works in every state."""
        before = play.state
        assert play.revoke().state == before

    def test_release_and_revoke_work_in_recovery(self):
        """The claim goes, the need of recovery stays."""
        play = recovering()
        assert play.release("b").refused is StaleLease
        assert play.release("a").told == ["lease.released"]
        assert (play.status, play.holder) == ("recovery_required", None)
        play = recovering().revoke()
        assert (play.status, play.holder, play.told) == ("recovery_required", None, ["lease.revoked"])

    def test_the_reason_of_a_stop_outlives_a_revocation(self):
        """A stopped body says why it is stopped."""
        play = held().stop().revoke().quiesced()
        assert (play.status, play.state.reason) == ("stopped", "stopped: enough")

    def test_no_reason_is_no_reason(self):
        """A reason is optional."""
        assert held().do(e.Revoke()).state.reason == "revoked"


class TestTakeOver:
    def test_the_agents_claim_is_suspended_and_comes_back(self):
        """Same token, new epoch, and the old epoch is refused."""
        play = held().take_over()
        assert (play.status, play.fenced, play.suspended, play.granted) == ("draining", True, "a", [])
        assert play.told == ["lease.suspended"]
        assert play.quiesced().granted == [("person", 2)]
        assert (play.status, play.state.person) == ("held", True)
        play.hand_back()
        assert (play.status, play.fenced, play.state.person) == ("draining", True, True)
        assert play.hand_back().effects == ()
        assert play.quiesced().granted == [("a", 3)]
        assert (play.holder, play.suspended, play.state.person) == ("a", None, False)
        assert play.use("a", 1).refused is StaleEpoch
        assert play.use("person").refused is StaleLease

    def test_a_vacant_body_is_granted_at_once(self):
        """There is nobody to suspend, and nothing to hand back."""
        play = Play().take_over()
        assert (play.granted, play.hand_back().refused) == ([("person", 1)], WrongState)

    def test_the_agent_cannot_hand_back(self):
        """Only the person's token does."""
        assert taken_over().hand_back("a").refused is StaleLease

    def test_a_suspended_claim_still_lapses(self):
        """Unheard of since its expiry, it comes back lapsed: fenced, and renewable by its token."""
        play = taken_over(ttl=10).wait(20).hand_back().quiesced()
        assert (play.status, play.holder, play.granted) == ("lapsed", "a", [("a", 3)])
        assert play.told == ["lease.lapsed"]
        assert (play.renew("a").status, play.use("a", 3).effects) == ("held", ())

    def test_a_claim_that_lapsed_when_suspended_makes_way_for_the_queue(self):
        """Whoever waits takes it, after another proof."""
        play = taken_over(ttl=10).acquire("b", wait=30).wait(20).hand_back().quiesced()
        assert (play.status, play.fenced, play.granted) == ("draining", True, [("a", 3)])
        assert play.quiesced().granted == [("b", 4)]

    def test_the_agent_comes_before_the_queue(self):
        """A take-over costs it no place."""
        play = held().acquire("b", wait=30).take_over().quiesced().hand_back().quiesced()
        assert (play.holder, play.queue) == ("a", ["b"])

    def test_a_take_over_from_a_person_ends_that_claim(self):
        """The agent stays suspended, for the new person to hand back to."""
        play = taken_over().take_over("boss")
        assert play.told == ["lease.taken"]
        assert play.quiesced().granted == [("boss", 3)]
        assert (play.suspended, play.use("person").refused) == ("a", StaleLease)
        assert play.hand_back("boss").quiesced().holder == "a"

    def test_the_last_of_two_take_overs_wins(self):
        """The first is refused while it waits."""
        play = held().take_over().take_over("boss")
        assert (play.turned_away, play.suspended) == ({"person": Busy}, "a")
        assert play.quiesced().granted == [("boss", 2)]

    def test_a_hand_back_can_be_taken_over(self):
        """The agent is suspended again before it had the body."""
        play = taken_over().hand_back().take_over("boss").quiesced()
        assert (play.holder, play.suspended) == ("boss", "a")

    def test_a_lapsed_take_over_can_be_renewed_or_taken(self):
        """Lapse treats people like agents; whoever takes the body ends the suspended claim, too."""
        play = taken_over(ttl=300).wait(60).quiesced()
        assert (play.status, play.holder, play.suspended) == ("lapsed", "person", "a")
        assert play.renew("a").status == "lapsed"
        assert play.acquire("b").quiesced().granted == [("b", 3)]
        assert (play.told, play.suspended) == (["lease.taken", "lease.taken"], None)

    def test_a_lapsed_take_over_can_be_handed_back(self):
        """It still is the person's to give."""
        assert taken_over(ttl=300).wait(60).quiesced().hand_back().quiesced().holder == "a"

    def test_the_persons_ttl_starts_with_the_grant(self):
        """The proof does not count."""
        play = held().take_over()
        play.now += 2
        assert play.quiesced().state.holder.expires == play.now + 60


class TestStop:
    def test_stop_puts_everyone_out(self):
        """Claims, waiters and a person on the way, until the owner resumes."""
        play = held().acquire("b", wait=30).take_over().stop()
        assert (play.turned_away, play.queue) == ({"b": BodyStopped, "person": BodyStopped}, [])
        assert (play.status, play.told) == ("draining", ["body.stopped", "lease.revoked"])
        assert play.quiesced().status == "stopped"
        assert play.stop().effects == ()
        assert play.do(e.ResumeBody("owner")).status == "vacant"
        assert play.acquire("a").holder == "a"

    def test_a_vacant_body_stops_at_once(self):
        """There is nothing to prove."""
        assert Play().stop().status == "stopped"

    def test_a_stop_can_be_taken_back_while_it_drains(self):
        """The claims are over all the same."""
        play = held().stop().do(e.ResumeBody("owner"))
        assert (play.told, play.quiesced().status) == (["body.resumed"], "vacant")

    def test_resuming_what_is_not_stopped_is_refused(self):
        """In every state."""
        for play in (Play(), held(), lapsed(), held().pause(), held().release("a"), recovering()):
            assert play.do(e.ResumeBody("owner")).refused is WrongState

    def test_a_stop_outlives_recovery(self):
        """Recovery by a driver does not undo what the owner has stopped."""
        play = recovering().stop()
        assert (play.status, play.holder) == ("recovery_required", None)
        assert play.do(e.Recovered(1)).status == "stopped"

    def test_a_stop_in_recovery_can_be_taken_back(self):
        """The need of recovery stays."""
        play = recovering().stop().do(e.ResumeBody("owner"))
        assert (play.status, play.do(e.Recovered(1)).status) == ("recovery_required", "vacant")

    def test_a_body_that_does_not_stop_needs_recovery(self):
        """And is stopped after it."""
        play = held().stop().not_quiesced()
        assert (play.status, play.do(e.Recovered(2)).status) == ("recovery_required", "stopped")


class TestProof:
    def test_an_old_proof_counts_for_nothing(self):
        """Only the drain under way can be answered."""
        play = held().release("a")
        before = play.state
        assert play.do(e.Quiesced(99)).state == before
        assert play.do(e.QuiescenceFailed(99, "")).state == before
        play = held().pause().do(e.Quiesced(99)).resume("a")
        assert play.use("a", 1).refused is Draining
        play = held().wait(60).do(e.QuiescenceFailed(99, ""))
        assert play.status == "lapsed"
        for idle in (Play(), recovering(), stopped()):
            before = idle.state
            assert idle.do(e.Quiesced(1)).do(e.QuiescenceFailed(1, "")).state == before

    def test_one_proof_serves_what_comes_meanwhile(self):
        """Nothing was admitted since it began."""
        play = held().pause().release("a")
        assert (play.state.drain, play.all(e.StartDrain)) == (1, [])
        assert play.quiesced().status == "vacant"

    @pytest.mark.parametrize(
        "play", [held().wait(60), held().pause(), held().pause().resume("a"), held().release("a")]
    )
    def test_a_body_not_proved_quiet_needs_recovery(self, play):
        """Wherever the proof was for."""
        play.not_quiesced()
        assert (play.status, play.fenced) == ("recovery_required", True)
        assert play.state.reason == "quiescence was not proved: a key is stuck"

    def test_those_who_wait_are_told(self):
        """Nobody waits for a recovery that no one may be doing."""
        play = held().acquire("b", wait=30).take_over().not_quiesced()
        assert play.turned_away == {"b": RecoveryRequired, "person": RecoveryRequired}
        assert (play.suspended, play.holder) == ("a", None)

    def test_a_failed_hand_back_shows_the_agent(self):
        """The claim on its way back is the one to be seen."""
        assert taken_over().hand_back().not_quiesced().holder == "a"

    @pytest.mark.parametrize(
        "play", [Play(), held(), lapsed(), held().pause(), held().stop(), stopped(), recovering()]
    )
    def test_an_uncertain_delivery_needs_recovery(self, play):
        """In every state, in the same step."""
        play.do(e.DeliveryUncertain("the server went away"))
        assert (play.status, play.fenced) == ("recovery_required", True)


class TestRecovery:
    def test_recovery_leaves_the_body_vacant(self):
        """Every claim is void, and the next grant has a new epoch."""
        play = recovering().do(e.Recover(1))
        assert play.all(e.RunRecovery) == [e.RunRecovery(1)]
        play.do(e.Recovered(1))
        assert (play.status, play.told) == ("vacant", ["lease.recovered", "lease.ended", "lease.vacant"])
        assert play.use("a", 1).refused is StaleLease
        assert play.acquire("b").granted == [("b", 2)]

    def test_a_step_that_fails_says_so(self):
        """The next step may do better."""
        play = recovering().do(e.RecoveryFailed(1, "not quiet"))
        assert (play.status, play.state.reason) == ("recovery_required", "recovery step 1 failed: not quiet")

    @pytest.mark.parametrize("play", [Play(), stopped()])
    def test_an_idle_body_can_be_recovered(self, play):
        """Nobody gets in meanwhile, and it ends as it was."""
        before = play.status
        play.do(e.Recover(1))
        assert play.acquire("b").turned_away == {"b": RecoveryRequired}
        assert play.do(e.Recovered(1)).status == before

    @pytest.mark.parametrize("play", [held(), held().pause(), lapsed(), held().release("a")])
    def test_only_the_owner_recovers_a_body_in_use(self, play):
        """For a driver it would be a way to pre-empt."""
        before = play.state
        assert play.do(e.Recover(1)).state == before
        assert play.do(e.Recover(3, owner=True)).status == "recovery_required"
        assert play.all(e.RunRecovery) == [e.RunRecovery(3)]

    def test_an_answer_that_nobody_waits_for_is_ignored(self):
        """Only a body in recovery is recovered."""
        for play in (Play(), held(), held().pause(), lapsed(), held().release("a"), stopped()):
            before = play.state
            assert play.do(e.Recovered(1)).do(e.RecoveryFailed(1, "")).state == before

    @pytest.mark.parametrize("play", [held(), held().pause(), lapsed(), held().release("a"), taken_over()])
    def test_a_restart_needs_recovery(self, play):
        """Nobody knows what happened to the body in between."""
        assert play.do(e.Restarted()).status == "recovery_required"

    @pytest.mark.parametrize("play", [Play(), stopped(), recovering()])
    def test_a_restart_changes_no_body_out_of_use(self, play):
        """Vacant, stopped and in need of recovery outlive the daemon."""
        before = play.state
        assert play.do(e.Restarted()).state == before


class TestOdds:
    def test_a_lost_grant_means_nothing_to_a_body_out_of_use(self):
        """The claim is gone already."""
        for play in (Play(), stopped()):
            before = play.state
            assert play.do(e.GrantLost("a", fresh=True)).state == before
        assert recovering().do(e.GrantLost("a", fresh=True)).holder is None
        assert recovering().do(e.GrantLost("a", fresh=False)).holder == "a"
        assert held().do(e.GrantLost("b", fresh=True)).holder == "a"

    def test_time_means_nothing_to_a_body_that_nobody_has(self):
        """There is no deadline to pass."""
        for play in (Play(), stopped(), recovering(), lapsed()):
            before = play.state
            assert next_deadline(before) == float("inf")
            assert play.wait(1_000_000).state == before

    def test_tokens_are_not_shown(self):
        """No representation has a token hash."""
        play = taken_over().hand_back().acquire("b", wait=1)
        assert token("a").hex() not in repr(play.state)
        assert str(token("a")) not in repr(play.state)
        assert "token_hash" not in repr((e.Used(token("a")), applicant("a"), play.state))

    def test_a_person_may_acquire_like_anyone(self):
        """Then a person drives, with nobody to hand back to."""
        play = Play().do(e.Acquire(applicant("p", kind=HolderKind.PERSON)))
        assert (play.state.person, play.holder) == (True, "p")
        assert play.release("p").state.person
        assert not play.quiesced().state.person

    def test_a_state_is_a_value(self):
        """The machine never changes what it was given."""
        before = State(LeaseState.VACANT, 7)
        Play(before).acquire("a").release("a")
        assert before == State(LeaseState.VACANT, 7)
