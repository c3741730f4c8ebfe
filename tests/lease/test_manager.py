"""The running lease: grants, waits, fences, hand-overs and time."""

from __future__ import annotations

import hashlib
import json

import pytest
import trio

from bodyd.contract.lease import HolderKind
from bodyd.errors import (
    BodyStopped,
    Busy,
    Draining,
    Forbidden,
    LeaseLapsed,
    LeasePaused,
    LeaseRequired,
    PersonDriving,
    QueueFull,
    RecoveryRequired,
    StaleEpoch,
    StaleLease,
    Unavailable,
    WrongState,
)
from bodyd.lease.manager import random_token

from .fakes import DRIVER, OWNER, VIEWER, Bench, eventually, running


class TestAcquire:
    async def test_a_grant_is_journalled_before_it_is_returned(self, autojump_clock):
        """The token is not out before the disk knows; and the disk knows only its hash."""
        async with running(Bench()) as bench, trio.open_nursery() as nursery:
            bench.store.hold()
            grants = []
            nursery.start_soon(collect, bench, grants, "conv-a")
            await trio.testing.wait_all_tasks_blocked()
            assert grants == []
            with pytest.raises(Draining):
                bench.leases.admit("token-1", None)
            bench.store.open.set()
            await eventually(lambda: bool(grants))
            assert bench.store.history[-1]["status"] == "held"
            token_hash = hashlib.sha256(b"token-1").hexdigest()
            assert bench.store.history[-1]["claim"]["token_sha256"] == token_hash
            assert "token-1" not in json.dumps(bench.store.history)
            assert "token-1" not in json.dumps([event.model_dump() for event in bench.told])

    async def test_a_grant_admits_its_token(self, autojump_clock):
        """Epoch, claim and permit are those of the grant."""
        async with running(Bench()) as bench:
            grant = await bench.acquire()
            assert (grant.epoch, grant.lease.epoch, grant.lease_token) == (1, 1, "token-1")
            admission = bench.leases.admit(grant.lease_token, grant.epoch)
            assert admission.permit.valid
            assert admission.claim == grant.lease.claim
            assert bench.types() == ["lease.granted"]

    def test_tokens_are_long_and_random(self):
        """By default 32 bytes from the system."""
        assert len({random_token() for _ in range(10)}) == 10
        assert len(random_token()) == 43

    async def test_the_body_goes_to_those_who_wait_in_order(self, autojump_clock):
        """First in, first out."""
        async with running(Bench()) as bench, trio.open_nursery() as nursery:
            first = await bench.acquire()
            grants = []
            for name in ("b", "c", "d"):
                nursery.start_soon(collect, bench, grants, name, 30)
                await trio.testing.wait_all_tasks_blocked()
            assert bench.leases.view().queue == 3
            token = first.lease_token
            for count in (1, 2, 3):
                await bench.leases.release(token)
                await eventually(lambda count=count: len(grants) == count)
                token = grants[-1].lease_token
            assert [grant.lease.claim.conversation_id for grant in grants] == ["b", "c", "d"]
            assert [grant.epoch for grant in grants] == [2, 3, 4]
            assert bench.prover.proofs == 3

    async def test_a_wait_ends_in_busy_when_it_said(self, autojump_clock):
        """Neither before wait_ms nor long after."""
        async with running(Bench()) as bench:
            await bench.acquire(ttl=300)
            before = trio.current_time()
            with pytest.raises(Busy):
                await bench.acquire("conv-b", wait=12)
            assert trio.current_time() - before == pytest.approx(12)
            assert bench.leases.view().queue == 0

    async def test_without_a_wait_busy_comes_at_once(self, autojump_clock):
        """An agent never pre-empts."""
        async with running(Bench()) as bench:
            grant = await bench.acquire()
            with pytest.raises(Busy):
                await bench.acquire("conv-b")
            assert bench.leases.admit(grant.lease_token, 1).permit.valid

    async def test_the_queue_is_as_long_as_configured(self, autojump_clock):
        """One more is told so."""
        async with running(Bench(queue=1)) as bench, trio.open_nursery() as nursery:
            await bench.acquire(ttl=300)
            nursery.start_soon(refusal, bench, [], "b", 5)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(QueueFull):
                await bench.acquire("conv-c", wait=5)

    async def test_revoked_before_the_grant_is_durable(self, autojump_clock):
        """The waiter is told, nobody holds anything, and the next is granted a new epoch."""
        async with running(Bench()) as bench, trio.open_nursery() as nursery:
            bench.store.hold()
            errors = []
            nursery.start_soon(refusal, bench, errors, "conv-a", 0)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(revoke, bench)
            await eventually(lambda: bool(errors))
            assert isinstance(errors[0], StaleLease)
            bench.store.open.set()
            await eventually(lambda: bench.state == "vacant")
            assert (await bench.acquire("conv-b")).epoch == 2

    async def test_stopped_before_the_grant_is_durable(self, autojump_clock):
        """The owner's stop wins."""
        async with running(Bench()) as bench, trio.open_nursery() as nursery:
            bench.store.hold()
            errors = []
            nursery.start_soon(refusal, bench, errors, "conv-a", 0)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(stop, bench)
            await eventually(lambda: bool(errors))
            assert isinstance(errors[0], BodyStopped)
            bench.store.open.set()
            await eventually(lambda: bench.state == "stopped")

    async def test_in_doubt_before_the_grant_is_durable(self, autojump_clock):
        """Recovery comes first, and nobody has a token that recovery would void."""
        async with running(Bench()) as bench, trio.open_nursery() as nursery:
            bench.store.hold()
            errors = []
            nursery.start_soon(refusal, bench, errors, "conv-a", 0)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(bench.leases.delivery_uncertain, "late news")
            await eventually(lambda: bool(errors))
            assert isinstance(errors[0], RecoveryRequired)
            assert bench.leases.view().claim is None
            bench.store.open.set()
            await trio.testing.wait_all_tasks_blocked()
            assert bench.store.history[-1]["status"] == "recovery_required"


class TestAdmission:
    async def test_no_token_is_no_lease(self, autojump_clock):
        """The error says what to send."""
        async with running(Bench()) as bench:
            with pytest.raises(LeaseRequired, match="bodyd-lease"):
                bench.leases.admit("", None)

    async def test_use_is_not_written(self, autojump_clock):
        """A thousand uses cost no write."""
        async with running(Bench()) as bench:
            grant = await bench.acquire()
            calls = bench.store.calls
            for _ in range(1000):
                bench.leases.admit(grant.lease_token, 1)
            await trio.testing.wait_all_tasks_blocked()
            assert bench.store.calls == calls

    async def test_calls_under_one_grant_share_a_permit(self, autojump_clock):
        """It is the grant's, not the call's."""
        async with running(Bench()) as bench:
            grant = await bench.acquire()
            first = bench.leases.admit(grant.lease_token, 1)
            assert bench.leases.admit(grant.lease_token, None).permit is first.permit
            assert bench.leases.admit_again(first).permit is first.permit

    async def test_a_permit_never_comes_back(self, autojump_clock):
        """Resumed, the lease has a new permit; a call in hand must be judged again."""
        async with running(Bench()) as bench:
            grant = await bench.acquire()
            old = bench.leases.admit(grant.lease_token, 1)
            await bench.leases.pause(caller=DRIVER)
            with pytest.raises(LeasePaused):
                bench.leases.admit_again(old)
            await bench.leases.resume(caller=DRIVER, lease_token=grant.lease_token)
            assert not old.permit.valid
            assert bench.leases.admit_again(old).permit.valid

    @pytest.mark.parametrize(
        "how", ["release", "revoke", "pause", "stop", "takeover", "doubt", "recover", "lapse"]
    )
    async def test_a_permit_dies_in_the_tick_of_the_fence(self, autojump_clock, how):
        """Before anyone is told, from every thread, and waits are woken."""
        async with running(Bench()) as bench, trio.open_nursery() as nursery:
            grant = await bench.acquire()
            admission = bench.leases.admit(grant.lease_token, 1)
            seen: list[bool] = []
            bench.on_tell = lambda event: seen.append(admission.permit.valid)
            calls = {
                "release": lambda: bench.leases.release(grant.lease_token),
                "revoke": lambda: bench.leases.revoke(caller=OWNER),
                "pause": lambda: bench.leases.pause(caller=DRIVER),
                "stop": lambda: bench.leases.stop(caller=DRIVER),
                "takeover": lambda: bench.leases.takeover(caller=OWNER),
                "doubt": lambda: bench.leases.delivery_uncertain("a click"),
                "recover": lambda: bench.leases.recover(caller=OWNER, step=1),
                "lapse": trio.lowlevel.checkpoint,
            }
            nursery.start_soon(calls[how])
            await admission.interrupted.wait()
            assert seen[0] is False
            assert await trio.to_thread.run_sync(lambda: admission.permit.valid) is False


class TestTime:
    async def test_a_lease_lapses_when_it_is_not_used(self, autojump_clock):
        """At its ttl; then it is renewed by the same token, in the same epoch."""
        async with running(Bench()) as bench:
            grant = await bench.acquire(ttl=10)
            await trio.sleep(9.9)
            assert bench.state == "held"
            await trio.sleep(0.2)
            assert bench.state == "lapsed"
            with pytest.raises(LeaseLapsed):
                bench.leases.admit(grant.lease_token, 1)
            await trio.sleep(1000)
            assert (await bench.leases.renew(grant.lease_token)).state.value == "held"
            assert bench.leases.admit(grant.lease_token, 1).permit.valid

    async def test_a_long_call_keeps_its_lease(self, autojump_clock):
        """A batch that touches its admission does not lapse in the middle; a dead one renews nothing."""
        async with running(Bench()) as bench:
            grant = await bench.acquire(ttl=10)
            admission = bench.leases.admit(grant.lease_token, 1)
            for _ in range(5):
                await trio.sleep(9)
                admission.touch()
            assert admission.permit.valid
            await trio.sleep(11)
            admission.touch()
            assert bench.state == "lapsed"

    async def test_a_renewal_can_shorten_the_ttl(self, autojump_clock):
        """The alarm follows."""
        async with running(Bench()) as bench:
            grant = await bench.acquire(ttl=300)
            await bench.leases.renew(grant.lease_token, ttl_ms=1000)
            await trio.sleep(1.1)
            assert bench.state == "lapsed"

    async def test_a_lapsed_lease_is_taken_after_a_proof(self, autojump_clock):
        """wait_ms 0 suffices; the old token is stale."""
        async with running(Bench()) as bench, trio.open_nursery() as nursery:
            old = await bench.acquire(ttl=1)
            await trio.sleep(2)
            bench.prover.hold()
            grants = []
            nursery.start_soon(collect, bench, grants, "conv-b")
            await trio.sleep(1)
            assert (grants, bench.state) == ([], "draining")
            bench.prover.open.set()
            await eventually(lambda: bool(grants))
            assert grants[0].epoch == 2
            with pytest.raises(StaleLease):
                await bench.leases.renew(old.lease_token)

    async def test_a_renewal_returns_when_the_next_call_is_admitted(self, autojump_clock):
        """Not in the middle of the proof that the lapse began."""
        async with running(Bench()) as bench, trio.open_nursery() as nursery:
            grant = await bench.acquire(ttl=1)
            bench.prover.hold()
            await trio.sleep(1.5)
            renewed = trio.Event()

            async def renew() -> None:
                await bench.leases.renew(grant.lease_token)
                renewed.set()

            nursery.start_soon(renew)
            await trio.testing.wait_all_tasks_blocked()
            assert not renewed.is_set()
            bench.prover.open.set()
            await renewed.wait()
            assert bench.leases.admit(grant.lease_token, 1).permit.valid

    async def test_the_view_tells_unix_time(self, autojump_clock):
        """Issued, heard from, expires: in milliseconds."""
        async with running(Bench()) as bench:
            grant = await bench.acquire(ttl=10)
            await trio.sleep(5)
            bench.leases.admit(grant.lease_token, 1)
            claim = bench.leases.view().claim
            assert claim is not None
            assert claim.heartbeat_at - claim.issued_at == 5000
            assert claim.expires_at - claim.heartbeat_at == 10_000


class TestHandOver:
    async def test_release_returns_when_the_body_is_quiet(self, autojump_clock):
        """And not before."""
        async with running(Bench()) as bench, trio.open_nursery() as nursery:
            grant = await bench.acquire()
            bench.prover.hold()
            views = []

            async def release() -> None:
                views.append(await bench.leases.release(grant.lease_token))

            nursery.start_soon(release)
            await trio.sleep(1)
            assert (views, bench.state) == ([], "draining")
            nursery.start_soon(release)
            await trio.sleep(0.5)
            bench.prover.open.set()
            await eventually(lambda: len(views) == 2)
            assert [view.state.value for view in views] == ["vacant", "vacant"]
            assert bench.prover.proofs == 1

    async def test_take_over_and_hand_back(self, autojump_clock):
        """The agent's token comes back under a new epoch, and the old epoch is answered with it."""
        async with running(Bench()) as bench:
            agent = await bench.acquire()
            person = await bench.leases.takeover(caller=OWNER, reason="a CAPTCHA")
            assert (person.epoch, bench.leases.person_driving) == (2, True)
            assert person.lease.suspended == agent.lease.claim
            with pytest.raises(PersonDriving):
                bench.leases.admit(agent.lease_token, 1)
            assert bench.leases.admit(person.lease_token, 2).claim.kind is HolderKind.PERSON
            view = await bench.leases.handback(caller=OWNER, lease_token=person.lease_token)
            assert (view.state.value, view.epoch, bench.leases.person_driving) == ("held", 3, False)
            with pytest.raises(StaleEpoch) as stale:
                bench.leases.admit(agent.lease_token, 1)
            assert stale.value.to_json()["epoch"] == 3
            assert bench.leases.admit(agent.lease_token, 3).permit.valid
            with pytest.raises(StaleLease):
                bench.leases.admit(person.lease_token, 2)

    async def test_a_person_drives_until_the_body_is_quiet(self, autojump_clock):
        """What they typed may still be on its way."""
        async with running(Bench()) as bench, trio.open_nursery() as nursery:
            person = await bench.leases.takeover(caller=OWNER)
            bench.prover.hold()
            nursery.start_soon(bench.leases.release, person.lease_token)
            await trio.testing.wait_all_tasks_blocked()
            assert (bench.state, bench.leases.person_driving) == ("draining", True)
            bench.prover.open.set()
            await eventually(lambda: bench.state == "vacant")
            assert not bench.leases.person_driving

    async def test_there_is_nothing_to_hand_back_in_a_vacant_body(self, autojump_clock):
        """Release is for that."""
        async with running(Bench()) as bench:
            person = await bench.leases.takeover(caller=OWNER)
            with pytest.raises(WrongState):
                await bench.leases.handback(caller=OWNER, lease_token=person.lease_token)

    async def test_pause_and_resume(self, autojump_clock):
        """Anyone who drives may pause; resuming needs the lease token, or the owner."""
        async with running(Bench()) as bench:
            grant = await bench.acquire()
            view = await bench.leases.pause(caller=DRIVER, reason="lunch")
            assert (view.state.value, view.reason) == ("paused", "paused: lunch")
            with pytest.raises(Forbidden):
                await bench.leases.resume(caller=DRIVER)
            assert (await bench.leases.renew(grant.lease_token)).state.value == "paused"
            assert (await bench.leases.resume(caller=OWNER)).state.value == "held"

    async def test_stop_and_resume(self, autojump_clock):
        """A driver may stop the body; only the owner resumes it."""
        async with running(Bench()) as bench:
            grant = await bench.acquire()
            assert (await bench.leases.stop(caller=DRIVER, reason="fire")).state.value == "stopped"
            with pytest.raises(BodyStopped):
                await bench.acquire()
            with pytest.raises(BodyStopped):
                bench.leases.admit(grant.lease_token, 1)
            with pytest.raises(BodyStopped):
                await bench.leases.resume(caller=DRIVER, lease_token=grant.lease_token)
            with pytest.raises(Forbidden):
                await bench.leases.resume_body(caller=DRIVER)
            assert (await bench.leases.resume(caller=OWNER)).state.value == "vacant"
            with pytest.raises(WrongState):
                await bench.leases.resume_body(caller=OWNER)

    async def test_revocation_lets_the_next_in(self, autojump_clock):
        """And the old token never again."""
        async with running(Bench()) as bench, trio.open_nursery() as nursery:
            old = await bench.acquire()
            grants = []
            nursery.start_soon(collect, bench, grants, "b", 30)
            await trio.testing.wait_all_tasks_blocked()
            view = await bench.leases.revoke(caller=OWNER, reason="enough")
            await eventually(lambda: bool(grants))
            assert view.claim is not None
            assert view.claim.conversation_id == "b"
            with pytest.raises(StaleLease):
                await bench.leases.release(old.lease_token)


class TestScopes:
    async def test_a_viewer_only_looks(self, autojump_clock):
        """Every call refuses, and nothing changes."""
        async with running(Bench()) as bench:
            with pytest.raises(Forbidden):
                await bench.acquire(caller=VIEWER)
            for call in (
                bench.leases.revoke,
                bench.leases.pause,
                bench.leases.resume,
                bench.leases.stop,
                bench.leases.takeover,
                bench.leases.recover,
            ):
                with pytest.raises(Forbidden):
                    await call(caller=VIEWER)
            assert (bench.state, bench.told) == ("vacant", [])

    async def test_a_driver_is_no_owner(self, autojump_clock):
        """What an owner may do, and what a person may, no driver's token does."""
        async with running(Bench()) as bench:
            with pytest.raises(Forbidden):
                await bench.acquire(kind=HolderKind.PERSON)
            assert (await bench.acquire(kind=HolderKind.PERSON, caller=OWNER)).epoch == 1
            for call in (bench.leases.revoke, bench.leases.takeover):
                with pytest.raises(Forbidden):
                    await call(caller=DRIVER)
            with pytest.raises(Forbidden):
                await bench.leases.handback(caller=DRIVER, lease_token="token-1")
            with pytest.raises(Forbidden):
                await bench.leases.recover(caller=DRIVER, step=3)


class TestLife:
    async def test_nothing_works_before_it_runs(self, autojump_clock):
        """Fail closed until the record is read."""
        bench = Bench()
        assert bench.state == "recovery_required"
        with pytest.raises(Unavailable):
            await bench.acquire()
        with pytest.raises(Unavailable):
            bench.leases.admit("token-1", 1)

    async def test_the_end_of_the_manager_is_the_end_of_every_permit(self, autojump_clock):
        """And nobody is left waiting."""
        bench = Bench()
        async with trio.open_nursery() as waiters:
            async with running(bench):
                grant = await bench.acquire()
                admission = bench.leases.admit(grant.lease_token, 1)
                errors = []
                waiters.start_soon(refusal, bench, errors, "b", 30)
                await trio.testing.wait_all_tasks_blocked()
            await eventually(lambda: bool(errors))
            assert type(errors[0]) is Unavailable
        assert not admission.permit.valid
        with pytest.raises(Unavailable):
            bench.leases.admit(grant.lease_token, 1)

    async def test_a_wait_for_a_proof_ends_with_the_manager(self, autojump_clock):
        """Whoever waits for quiet is told that it will not come."""
        bench = Bench()
        async with trio.open_nursery() as waiters:
            async with running(bench):
                grant = await bench.acquire()
                bench.prover.hold()
                errors = []

                async def release() -> None:
                    try:
                        await bench.leases.release(grant.lease_token)
                    except Unavailable as exc:
                        errors.append(exc)

                waiters.start_soon(release)
                await trio.testing.wait_all_tasks_blocked()
            await eventually(lambda: bool(errors))


async def collect(bench: Bench, grants: list, conversation: str, wait: float = 0) -> None:
    grants.append(await bench.acquire(conversation, wait=wait))


async def refusal(bench: Bench, errors: list, conversation: str, wait: float) -> None:
    try:
        await bench.acquire(conversation, wait=wait)
    except Exception as exc:
        errors.append(exc)


async def revoke(bench: Bench) -> None:
    await bench.leases.revoke(caller=OWNER)


async def stop(bench: Bench) -> None:
    await bench.leases.stop(caller=OWNER)
