"""Each of the lease's calls, cancelled at each of its awaits: nothing is left half done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.abc
import trio.testing

from bodyd.errors import BodydError

from .fakes import DRIVER, OWNER, Bench, FakeStore, eventually, running

AWAITS = 12


class CancelAt(trio.abc.Instrument):
    """Cancels *scope* when *task* is about to run for the *number*th time."""

    def __init__(self, task: trio.lowlevel.Task, scope: trio.CancelScope, number: int) -> None:
        self.task, self.scope, self.left = task, scope, number

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self.task:
            self.left -= 1
            if self.left == 0:
                self.scope.cancel(reason="the test says so")


async def cancelled_at(number: int, call: Callable[[], Awaitable[Any]]) -> tuple[Any, bool]:
    """What *call* returned, if it did, and whether it was cancelled."""
    result = None
    with trio.CancelScope() as scope:
        instrument = CancelAt(trio.lowlevel.current_task(), scope, number)
        trio.lowlevel.add_instrument(instrument)
        try:
            result = await call()
        finally:
            trio.lowlevel.remove_instrument(instrument)
    return result, scope.cancelled_caught


class SlowStore(FakeStore):
    """Takes a few steps, so that there is something to be cancelled in."""

    async def save_lease(self, record: dict[str, Any]) -> None:
        for _ in range(3):
            await trio.lowlevel.checkpoint()
        await super().save_lease(record)


@pytest.mark.parametrize("number", range(1, AWAITS))
async def test_an_acquire_is_granted_or_never_was(autojump_clock, number):
    """Cancelled, the body is as free as before."""
    async with running(Bench(SlowStore())) as bench:
        grant, cancelled = await cancelled_at(number, bench.acquire)
        assert (grant is None) == cancelled
        if cancelled:
            await eventually(lambda: bench.state == "vacant")
            with pytest.raises(BodydError):
                bench.leases.admit("token-1", None)
            grant = await bench.acquire("conv-b")
        assert bench.leases.admit(grant.lease_token, grant.epoch).permit.valid


@pytest.mark.parametrize("number", range(1, AWAITS))
async def test_a_wait_that_is_cancelled_leaves_no_place(autojump_clock, number):
    """Whoever comes next is not held up, even if the body came free in the meantime."""
    async with running(Bench(SlowStore())) as bench, trio.open_nursery() as nursery:
        first = await bench.acquire()
        nursery.start_soon(bench.leases.release, first.lease_token)

        async def wait() -> Any:
            return await bench.acquire("conv-b", wait=30)

        grant, cancelled = await cancelled_at(number, wait)
        if cancelled:
            await eventually(lambda: bench.state == "vacant")
            assert bench.leases.view().queue == 0
        else:
            assert bench.leases.admit(grant.lease_token, grant.epoch).permit.valid


@pytest.mark.parametrize("number", range(1, AWAITS))
async def test_taking_a_lapsed_lease_can_be_cancelled(autojump_clock, number):
    """Nobody took it, so its holder renews it; or, granted already, it is given back."""
    async with running(Bench(SlowStore())) as bench:
        old = await bench.acquire(ttl=1)
        await trio.sleep(2)

        async def take() -> Any:
            return await bench.acquire("conv-b")

        grant, cancelled = await cancelled_at(number, take)
        await trio.testing.wait_all_tasks_blocked()
        if not cancelled:
            assert bench.leases.admit(grant.lease_token, 2).permit.valid
        elif bench.leases.view().epoch == 1:
            assert (await bench.leases.renew(old.lease_token)).state.value == "held"
        else:
            assert bench.state == "vacant"


@pytest.mark.parametrize("number", range(1, AWAITS))
async def test_a_take_over_happens_or_leaves_the_agent_paused(autojump_clock, number):
    """The agent has its claim back, under the same token, and does not go on by itself."""
    async with running(Bench(SlowStore())) as bench:
        agent = await bench.acquire()

        async def take_over() -> Any:
            return await bench.leases.takeover(caller=OWNER)

        person, cancelled = await cancelled_at(number, take_over)
        await trio.testing.wait_all_tasks_blocked()
        if not cancelled:
            assert bench.leases.admit(person.lease_token, person.epoch).permit.valid
            return
        assert bench.state == "paused"
        await bench.leases.resume(caller=OWNER)
        assert bench.leases.admit(agent.lease_token, None).epoch in (2, 3)


@pytest.mark.parametrize("number", range(1, AWAITS))
@pytest.mark.parametrize("how", ["release", "revoke", "stop", "handback", "doubt", "recover"])
async def test_what_was_begun_is_finished(autojump_clock, number, how):
    """A drain, a stop, a hand-back, a recovery do not depend on whoever asked."""
    async with running(Bench(SlowStore())) as bench:
        await bench.acquire()
        person = await bench.leases.takeover(caller=OWNER)
        admission = bench.leases.admit(person.lease_token, 2)
        token = person.lease_token
        if how == "recover":
            await bench.leases.delivery_uncertain("")
        calls = {
            "release": lambda: bench.leases.release(token),
            "revoke": lambda: bench.leases.revoke(caller=OWNER),
            "stop": lambda: bench.leases.stop(caller=DRIVER),
            "handback": lambda: bench.leases.handback(caller=OWNER, lease_token=token),
            "doubt": lambda: bench.leases.delivery_uncertain(""),
            "recover": lambda: bench.leases.recover(caller=OWNER),
        }
        _, cancelled = await cancelled_at(number, calls[how])
        await trio.testing.wait_all_tasks_blocked()
        if cancelled and how == "recover" and bench.state == "recovery_required":
            assert bench.prover.running == 0, "cancelled before it began"
            return
        expected = {
            "release": "vacant",
            "revoke": "vacant",
            "stop": "stopped",
            "handback": "held",
            "doubt": "recovery_required",
            "recover": "vacant",
        }
        assert bench.state == expected[how]
        assert bench.store.record["status"] == bench.state
        assert not admission.permit.valid
