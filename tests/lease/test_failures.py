"""The running lease when the store, the proof or the daemon fails."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from bodyd.errors import (
    BodyStopped,
    DisplayUnavailable,
    Draining,
    JournalUnavailable,
    RecoveryRequired,
    StaleLease,
    Unavailable,
)
from bodyd.lease.keeper import RETRY_SECONDS
from bodyd.lease.moves import QUIESCE_SECONDS

from .fakes import DRIVER, OWNER, Bench, FakeStore, eventually, running


class TestStore:
    async def test_a_grant_that_is_not_durable_is_none(self, autojump_clock):
        """The caller gets JournalUnavailable, nobody the body, and the epoch is not used again."""
        async with running(Bench()) as bench:
            bench.store.failing = True
            with pytest.raises(JournalUnavailable, match="no space left"):
                await bench.acquire()
            await eventually(lambda: bench.state == "vacant")
            assert bench.leases.store_error is not None
            with pytest.raises(StaleLease):
                bench.leases.admit("token-1", None)
            bench.store.failing = False
            assert (await bench.acquire()).epoch == 2
            assert bench.leases.store_error is None

    async def test_each_who_waits_is_told(self, autojump_clock):
        """The queue does not hang on a full disk."""
        async with running(Bench()) as bench, trio.open_nursery() as nursery:
            grant = await bench.acquire()
            errors = []

            async def wait() -> None:
                with pytest.raises(JournalUnavailable):
                    await bench.acquire("b", wait=30)
                errors.append(1)

            nursery.start_soon(wait)
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            bench.store.failing = True
            await bench.leases.release(grant.lease_token)
            await eventually(lambda: len(errors) == 2)
            await eventually(lambda: bench.state == "vacant")

    @pytest.mark.parametrize("how", ["release", "revoke", "pause", "stop"])
    async def test_what_is_fenced_stays_fenced(self, autojump_clock, how):
        """A full disk keeps nobody's hand on the body; the error is there to be seen, and retried."""
        async with running(Bench()) as bench:
            grant = await bench.acquire()
            admission = bench.leases.admit(grant.lease_token, 1)
            bench.store.failing = True
            match how:
                case "release":
                    view = await bench.leases.release(grant.lease_token)
                case "revoke":
                    view = await bench.leases.revoke(caller=OWNER)
                case "pause":
                    view = await bench.leases.pause(caller=OWNER)
                case _:
                    view = await bench.leases.stop(caller=OWNER)
            expected = {"release": "vacant", "revoke": "vacant", "pause": "paused", "stop": "stopped"}[how]
            assert view.state.value == expected
            assert not admission.permit.valid
            assert isinstance(bench.leases.store_error, JournalUnavailable)
            assert bench.store.record["status"] == "held"
            calls = bench.store.calls
            await trio.sleep(3 * RETRY_SECONDS)
            assert 2 <= bench.store.calls - calls <= 4
            bench.store.failing = False
            await trio.sleep(RETRY_SECONDS)
            assert bench.leases.store_error is None
            assert bench.store.record["status"] == expected

    async def test_a_slow_disk_keeps_no_key_down(self, autojump_clock):
        """The proof does not wait for the record."""
        async with running(Bench()) as bench, trio.open_nursery() as nursery:
            grant = await bench.acquire()
            bench.store.hold()
            nursery.start_soon(bench.leases.release, grant.lease_token)
            await eventually(lambda: bench.state == "vacant")
            bench.store.open.set()

    async def test_a_hand_back_that_is_not_durable_needs_recovery(self, autojump_clock):
        """The agent must not act under an epoch that the disk may forget."""
        async with running(Bench()) as bench:
            agent = await bench.acquire()
            person = await bench.leases.takeover(caller=OWNER)
            bench.store.failing = True
            with pytest.raises(JournalUnavailable):
                await bench.leases.handback(caller=OWNER, lease_token=person.lease_token)
            assert bench.state == "recovery_required"
            with pytest.raises(RecoveryRequired):
                bench.leases.admit(agent.lease_token, 3)
            bench.store.failing = False
            assert (await bench.leases.recover(caller=OWNER)).state.value == "vacant"
            assert (await bench.acquire()).epoch == 4

    async def test_a_take_over_that_is_not_durable_needs_recovery(self, autojump_clock):
        """Nobody drives, neither the person nor the agent."""
        async with running(Bench()) as bench:
            agent = await bench.acquire()
            bench.store.failing = True
            with pytest.raises(JournalUnavailable):
                await bench.leases.takeover(caller=OWNER)
            assert bench.state == "recovery_required"
            with pytest.raises(RecoveryRequired):
                bench.leases.admit(agent.lease_token, 1)

    async def test_nobody_acts_before_the_hand_back_is_durable(self, autojump_clock):
        """The agent has its token all the while."""
        async with running(Bench()) as bench, trio.open_nursery() as nursery:
            agent = await bench.acquire()
            person = await bench.leases.takeover(caller=OWNER)
            bench.store.hold()

            async def hand_back() -> None:
                await bench.leases.handback(caller=OWNER, lease_token=person.lease_token)

            nursery.start_soon(hand_back)
            await eventually(lambda: bench.leases.view().epoch == 3)
            with pytest.raises(Draining, match="not durable yet"):
                bench.leases.admit(agent.lease_token, 3)
            bench.store.open.set()
            await trio.testing.wait_all_tasks_blocked()
            assert bench.leases.admit(agent.lease_token, 3).permit.valid

    async def test_states_that_were_overtaken_are_not_written(self, autojump_clock):
        """The record is the whole lease, so only the newest counts."""
        async with running(Bench()) as bench, trio.open_nursery() as nursery:
            grant = await bench.acquire()
            bench.store.hold()
            calls = bench.store.calls
            for _ in range(5):
                nursery.start_soon(pause, bench)
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(resume, bench, grant.lease_token)
                await trio.testing.wait_all_tasks_blocked()
            assert bench.store.calls == calls + 1
            bench.store.open.set()
            await trio.testing.wait_all_tasks_blocked()
            assert bench.store.calls <= calls + 2
            assert bench.store.record["status"] == "held"


class TestProof:
    @pytest.mark.parametrize("answer", [False, DisplayUnavailable("the display is down"), TypeError("a bug")])
    async def test_a_proof_that_fails_requires_recovery(self, autojump_clock, answer):
        """Whatever the reason, and whoever waits is told."""
        async with running(Bench()) as bench, trio.open_nursery() as nursery:
            grant = await bench.acquire()
            errors = []

            async def wait() -> None:
                with pytest.raises(RecoveryRequired):
                    await bench.acquire("b", wait=30)
                errors.append(1)

            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            bench.prover.answer = answer
            view = await bench.leases.release(grant.lease_token)
            assert view.state.value == "recovery_required"
            assert "quiescence was not proved" in (view.reason or "")
            await eventually(lambda: bool(errors))

    @pytest.mark.parametrize("stubborn", [False, True])
    async def test_a_proof_that_does_not_come_in_time(self, autojump_clock, stubborn):
        """After 2 s, even if the prover hangs in a thread that can't be cancelled."""
        async with running(Bench()) as bench:
            grant = await bench.acquire()
            bench.prover.hold()
            bench.prover.stubborn = stubborn
            before = trio.current_time()
            view = await bench.leases.release(grant.lease_token)
            assert view.state.value == "recovery_required"
            assert trio.current_time() - before == pytest.approx(QUIESCE_SECONDS)
            assert bench.prover.running == stubborn
            bench.prover.open.set()
            await eventually(lambda: bench.prover.running == 0)
            assert bench.state == "recovery_required"

    async def test_a_take_over_that_is_not_proved_is_refused(self, autojump_clock):
        """The person does not get a body that may still be moving."""
        async with running(Bench()) as bench:
            await bench.acquire()
            bench.prover.answer = False
            with pytest.raises(RecoveryRequired):
                await bench.leases.takeover(caller=OWNER)


class TestRecovery:
    async def test_an_uncertain_delivery_requires_recovery_and_recovery_vacates(self, autojump_clock):
        """The claim is void, and the next grant has a new epoch."""
        async with running(Bench()) as bench:
            grant = await bench.acquire()
            admission = bench.leases.admit(grant.lease_token, 1)
            await bench.leases.delivery_uncertain("the server went away in the middle of a click")
            assert (bench.state, admission.permit.valid) == ("recovery_required", False)
            assert bench.store.record["status"] == "recovery_required"
            with pytest.raises(RecoveryRequired):
                await bench.acquire(wait=30)
            assert (await bench.leases.recover(caller=DRIVER)).state.value == "vacant"
            with pytest.raises(StaleLease):
                bench.leases.admit(grant.lease_token, 1)
            assert (await bench.acquire()).epoch == 2

    async def test_each_step_is_its_own(self, autojump_clock):
        """A step that fails leaves recovery required and says why; the next may do better."""
        ran = []

        async def reconnect() -> bool:
            ran.append(2)
            raise DisplayUnavailable("still frozen")

        async def restart() -> bool:
            ran.append(3)
            return True

        async with running(Bench(recover_steps={2: reconnect, 3: restart})) as bench:
            await bench.leases.delivery_uncertain("")
            bench.prover.answer = False
            view = await bench.leases.recover(caller=DRIVER, step=1)
            assert (view.state.value, view.reason) == (
                "recovery_required",
                "recovery step 1 failed: not quiet",
            )
            view = await bench.leases.recover(caller=DRIVER, step=2)
            assert view.reason == "recovery step 2 failed: DisplayUnavailable: still frozen"
            view = await bench.leases.recover(caller=OWNER, step=3)
            assert (view.state.value, ran) == ("vacant", [2, 3])

    async def test_a_step_that_this_body_has_not_got_fails(self, autojump_clock):
        """It does not pass for done."""
        async with running(Bench()) as bench:
            await bench.leases.delivery_uncertain("")
            assert (await bench.leases.recover(caller=DRIVER, step=2)).state.value == "recovery_required"

    async def test_a_step_that_hangs_ends(self, autojump_clock):
        """And may be tried again."""
        async with running(Bench()) as bench:
            await bench.leases.delivery_uncertain("")
            bench.prover.hold()
            view = await bench.leases.recover(caller=DRIVER)
            assert view.reason == "recovery step 1 failed: no proof within 5 s"
            bench.prover.open.set()
            assert (await bench.leases.recover(caller=DRIVER)).state.value == "vacant"

    async def test_two_who_recover_at_once_share_one_step(self, autojump_clock):
        """The second must not void what was granted after the first."""
        async with running(Bench()) as bench, trio.open_nursery() as nursery:
            await bench.leases.delivery_uncertain("")
            bench.prover.hold()
            views = []

            async def recover() -> None:
                views.append(await bench.leases.recover(caller=OWNER))

            nursery.start_soon(recover)
            nursery.start_soon(recover)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(recover)
            await trio.testing.wait_all_tasks_blocked()
            bench.prover.open.set()
            await eventually(lambda: len(views) == 3)
            assert bench.prover.proofs == 1

    async def test_recovery_waits_for_a_proof_under_way(self, autojump_clock):
        """Two hands on one keyboard would prove nothing."""
        async with running(Bench()) as bench, trio.open_nursery() as nursery:
            grant = await bench.acquire()
            bench.prover.hold()
            nursery.start_soon(bench.leases.release, grant.lease_token)
            await trio.testing.wait_all_tasks_blocked()
            await bench.leases.delivery_uncertain("an input of the drained batch")
            nursery.start_soon(recover_as, bench, DRIVER)
            await trio.testing.wait_all_tasks_blocked()
            assert (bench.prover.running, bench.state) == (1, "recovery_required")
            bench.prover.open.set()
            await eventually(lambda: bench.state == "vacant")
            assert bench.prover.proofs == 2

    async def test_a_driver_recovers_nobody_elses_body(self, autojump_clock):
        """There is nothing to recover, and the holder goes on; the owner's call is another matter."""
        async with running(Bench()) as bench:
            grant = await bench.acquire()
            admission = bench.leases.admit(grant.lease_token, 1)
            assert (await bench.leases.recover(caller=DRIVER)).state.value == "held"
            assert admission.permit.valid
            assert (await bench.leases.recover(caller=OWNER)).state.value == "vacant"
            assert not admission.permit.valid

    async def test_recovery_does_not_undo_a_stop(self, autojump_clock):
        """Only the owner does."""
        async with running(Bench()) as bench:
            await bench.leases.delivery_uncertain("")
            await bench.leases.stop(caller=OWNER)
            assert (await bench.leases.recover(caller=DRIVER)).state.value == "stopped"


class TestRestart:
    async def test_a_claim_is_not_taken_up_again(self, autojump_clock):
        """After a restart the body needs recovery first; epochs go on from where they were."""
        before = Bench()
        async with running(before):
            await before.acquire()
            grant = await before.leases.takeover(caller=OWNER)
        async with running(Bench(before.store)) as bench:
            assert bench.state == "recovery_required"
            assert bench.leases.view().claim.kind.value == "person"
            assert bench.leases.person_driving
            with pytest.raises(RecoveryRequired):
                bench.leases.admit(grant.lease_token, 2)
            assert (await bench.leases.recover(caller=DRIVER)).state.value == "vacant"
            assert (await bench.acquire()).epoch == 3

    async def test_a_hand_over_in_the_middle_needs_recovery(self, autojump_clock):
        """Nobody has proved the body quiet."""
        before = Bench()
        async with trio.open_nursery() as nursery, running(before):
            grant = await before.acquire()
            before.prover.hold()

            async def release() -> None:
                with pytest.raises(Unavailable):
                    await before.leases.release(grant.lease_token)

            nursery.start_soon(release)
            await eventually(lambda: before.store.record["status"] == "draining")
        async with running(Bench(before.store)) as bench:
            assert bench.state == "recovery_required"

    async def test_a_vacant_body_is_vacant_again(self, autojump_clock):
        """A clean end needs no recovery."""
        before = Bench()
        async with running(before):
            grant = await before.acquire()
            await before.leases.release(grant.lease_token)
        async with running(Bench(before.store)) as bench:
            assert (bench.state, (await bench.acquire()).epoch) == ("vacant", 2)

    async def test_a_stop_outlives_the_daemon(self, autojump_clock):
        """It is the owner's to end."""
        before = Bench()
        async with running(before):
            await before.leases.stop(caller=OWNER)
        async with running(Bench(before.store)) as bench:
            with pytest.raises(BodyStopped):
                await bench.acquire()

    @pytest.mark.parametrize("record", [{}, {"version": 1, "status": "held"}, "nonsense"])
    async def test_a_record_that_makes_no_sense_fails_closed(self, autojump_clock, record):
        """Under a higher epoch than any that the journal knows, and stopped: nobody knows better."""
        async with running(Bench(FakeStore(record, highest=41))) as bench:
            assert (bench.state, bench.leases.view().epoch) == ("recovery_required", 42)
            assert (await bench.leases.recover(caller=DRIVER)).state.value == "stopped"
            await bench.leases.resume(caller=OWNER)
            assert (await bench.acquire()).epoch == 43

    async def test_a_record_that_the_journal_calls_damaged_fails_closed(self, autojump_clock):
        """And is written anew."""
        store = FakeStore(highest=3)
        store.unreadable = True
        async with running(Bench(store)) as bench:
            assert (bench.state, bench.leases.view().epoch) == ("recovery_required", 4)
            await eventually(lambda: bool(store.history))
            assert store.record["status"] == "recovery_required"

    async def test_a_journal_that_cannot_be_read_lets_nobody_in(self, autojump_clock):
        """Without it no epoch is safe: recovery fails until it can be read, and then goes by what it says."""
        before = Bench()
        async with running(before):
            await before.acquire()
        before.store.unreadable = before.store.failing = True
        async with running(Bench(before.store)) as bench:
            assert bench.state == "recovery_required"
            assert isinstance(bench.leases.store_error, JournalUnavailable)
            with pytest.raises(JournalUnavailable):
                await bench.leases.recover(caller=OWNER)
            await bench.leases.stop(caller=DRIVER)
            written = len(before.store.history)
            await trio.sleep(10)
            assert len(before.store.history) == written
            before.store.unreadable = before.store.failing = False
            assert (await bench.leases.recover(caller=OWNER)).state.value == "stopped"
            await bench.leases.resume(caller=OWNER)
            assert (await bench.acquire()).epoch == 2
            assert bench.leases.store_error is None


async def pause(bench: Bench) -> None:
    await bench.leases.pause(caller=DRIVER)


async def resume(bench: Bench, token: str) -> None:
    await bench.leases.resume(caller=DRIVER, lease_token=token)


async def recover_as(bench: Bench, caller) -> None:
    await bench.leases.recover(caller=caller)
