"""Jobs: what runs on after its call because it was asked to; listed, bounded, dead with its lease."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from bodyd.contract.lease import AcquireRequest, Scope
from bodyd.contract.ports import Caller, Job, JobState
from bodyd.errors import InvalidRequest, LeaseRequired, NotFound, PolicyRefused, StaleEpoch, Unavailable
from bodyd.execution import jobs as jobs_module
from tests.desktop.conftest import descendants

from .test_lease import FENCES
from .trees import BOMB, TREE
from .world import OWNER, SOON, World, names_of, world

DRIVER = Caller(id="driver", scope=Scope.DRIVER)


async def start(w: World, command: str, **more: Any) -> Job:
    how = {"lease_token": w.token, "timeout_ms": None, "max_output_length": None, **more}
    return await w.shell.jobs.start(command, **how)


def now(w: World, job: Job) -> Job:
    return w.shell.jobs.job(job.job_id, caller=OWNER, lease_token=None)


async def told(w: World, job: Job, text: str) -> Job:
    """The job, once *text* is in its stdout."""
    with trio.fail_after(SOON):
        while text not in now(w, job).result.stdout:  # noqa: ASYNC110
            await trio.sleep(0.005)
    return now(w, job)


async def ended(w: World, job: Job) -> Job:
    with trio.fail_after(SOON):
        while now(w, job).state is not JobState.ENDED:  # noqa: ASYNC110
            await trio.sleep(0.005)
    return now(w, job)


async def test_a_job_runs_on_and_is_listed():
    """Its call returns at once; later calls see what it does; its output so far and its end are told."""
    async with world() as w:
        job = await start(w, "echo up; until test -e go; do sleep 0.01; done; echo on; exit 3")
        running = await told(w, job, "up")
        assert (running.state, running.result.exit_code, running.ended_at) == (JobState.RUNNING, None, None)
        assert running.conversation_id == "talk"
        await w.out("touch go")
        over = await ended(w, job)
        assert (over.result.stdout, over.result.exit_code) == ("up\non\n", 3)
        assert over.started_at <= (over.ended_at or 0)
        assert w.shell.jobs.jobs(caller=DRIVER, lease_token=w.token) == [over]
        assert w.shell.running == 0


async def test_a_job_is_ended_by_name():
    """Whatever it is, nothing of it is left; it has a last result and is no longer listed."""
    async with world(limits={"processes": 64}) as w:
        for command, sign in ((TREE, "up"), (BOMB, "full")):
            job = await start(w, command)
            await told(w, job, sign)
            with trio.fail_after(SOON):
                over = await w.shell.jobs.end_job(job.job_id, caller=DRIVER, lease_token=w.token)
            assert (over.state, over.result.exit_code) == (JobState.ENDED, 137)
            assert "the job was ended" in over.result.stderr
            assert descendants() == []
            with pytest.raises(NotFound):
                now(w, job)
        assert [row["how"] for row in await w.audited("shell.command")] == ["cancelled", "cancelled"]
        assert [row["background"] for row in await w.audited("shell.call")] == [True, True]


async def test_a_job_that_has_not_ended_stays_listed(monkeypatch):
    """Whatever takes its kill so long: the list does not deny what still runs."""
    async with world() as w:
        job = await start(w, "echo up; sleep 600")
        await told(w, job, "up")
        monkeypatch.setattr(jobs_module, "END_S", 0.0)
        still = await w.shell.jobs.end_job(job.job_id, caller=DRIVER, lease_token=w.token)
        assert still.state is JobState.RUNNING
        assert w.shell.jobs.jobs(caller=DRIVER, lease_token=w.token) != []
        over = await ended(w, job)
        assert (over.result.exit_code, descendants()) == (137, [])


@pytest.mark.parametrize("name", FENCES)
async def test_a_job_dies_with_its_lease(name):
    """Release, revoke, stop, take-over and pause: once proved, nothing is left; what came of it still is."""
    async with world() as w:
        job = await start(w, TREE)
        await told(w, job, "up")
        with trio.fail_after(SOON):
            await FENCES[name](w)
        assert descendants() == []
        over = await ended(w, job)
        assert (over.result.stdout, over.result.exit_code) == ("up\n", 137)


async def test_a_job_does_not_keep_the_claim():
    """A driver that is gone holds nothing by its job: the claim lapses, and the job dies with it."""
    async with world() as w:
        await w.release()
        request = AcquireRequest(conversation_id="talk", ttl_ms=300)
        w.token = (await w.leases.acquire(request, caller=OWNER)).lease_token
        over = await ended(w, await start(w, "sleep 600"))
        assert over.result.exit_code == 137
        assert descendants() == []


async def test_a_frozen_job_goes_on_after_the_hand_back():
    """With freeze, a take-over stops it, says so, and the hand-back lets it go on."""
    async with world(on_takeover="freeze") as w:
        job = await start(w, "echo up; until test -e go; do sleep 0.01; done; echo on")
        await told(w, job, "up")
        with trio.fail_after(SOON):
            grant = await w.leases.takeover(caller=OWNER)
        assert now(w, job).state is JobState.FROZEN
        (w.work() / "go").touch()
        with trio.fail_after(SOON):
            await w.leases.handback(caller=OWNER, lease_token=grant.lease_token)
        assert (await ended(w, job)).result.stdout == "up\non\n"


async def test_a_frozen_job_is_ended_by_name():
    """By the owner, while a person has the body: stopped processes die like any, a fork bomb's, too."""
    async with world(on_takeover="freeze", limits={"processes": 64}) as w:
        jobs = [(await start(w, command), sign) for command, sign in ((TREE, "up"), (BOMB, "full"))]
        for job, sign in jobs:
            await told(w, job, sign)
        with trio.fail_after(SOON):
            await w.leases.takeover(caller=OWNER)
            for job, _ in jobs:
                over = await w.shell.jobs.end_job(job.job_id, caller=OWNER, lease_token=None)
                assert (over.state, over.result.exit_code) == (JobState.ENDED, 137)
        assert descendants() == []


async def test_jobs_are_bounded_in_number_and_time():
    """Beyond the limit one is refused, and calls still find room; each has its time."""
    async with world(limits={"jobs": 2, "job_timeout_ms": 1500, "concurrent": 1, "timeout_ms": 300}) as w:
        first = await start(w, "sleep 600", timeout_ms=600_000)
        await start(w, "sleep 600")
        with pytest.raises(Unavailable, match=r"shell\.limits\.jobs"):
            await start(w, "touch ran")
        assert await w.out("ls") == ""
        over = await ended(w, first)
        assert over.result.timed_out
    async with world(limits={"jobs": 0}) as w:
        with pytest.raises(Unavailable):
            await start(w, "true")


async def test_many_begun_at_once_are_bounded_too():
    """Places are taken before a request is judged and audited, not after."""
    refused = []
    async with world(limits={"jobs": 2}) as w:

        async def one() -> None:
            try:
                await start(w, "sleep 600")
            except Unavailable:
                refused.append(1)

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(one)
        assert len(refused) == 3
        assert len(w.shell.jobs.jobs(caller=OWNER, lease_token=None)) == 2


async def test_the_oldest_that_have_ended_are_forgotten(monkeypatch):
    """Only so many stay listed; those that run always do."""
    monkeypatch.setattr(jobs_module, "KEPT", 2)
    async with world() as w:
        running = await start(w, "sleep 600")
        done = [await start(w, f"echo {number}") for number in range(3)]
        await ended(w, done[-1])
        with trio.fail_after(SOON):
            while len(listed := w.shell.jobs.jobs(caller=OWNER, lease_token=None)) > 3:  # noqa: ASYNC110
                await trio.sleep(0.005)
        assert listed[0].job_id == running.job_id


async def test_others_see_nothing_of_a_job():
    """Another conversation finds neither list nor job; a driver needs a lease; the owner sees it."""
    async with world() as w:
        job = await ended(w, await start(w, "echo mine"))
        await w.release()
        await w.acquire("another")
        jobs = w.shell.jobs
        assert jobs.jobs(caller=DRIVER, lease_token=w.token) == []
        with pytest.raises(NotFound):
            jobs.job(job.job_id, caller=DRIVER, lease_token=w.token)
        with pytest.raises(NotFound):
            await jobs.end_job(job.job_id, caller=DRIVER, lease_token=w.token)
        with pytest.raises(LeaseRequired):
            jobs.jobs(caller=DRIVER, lease_token=None)
        assert jobs.jobs(caller=OWNER, lease_token=None) == [job]


async def test_a_job_is_judged_as_any_command():
    """What is denied, misplaced, or under an epoch that has passed does not begin, and takes no place."""
    async with world(policy={"default": "deny", "allow": ["touch", "ls", "sleep"]}, limits={"jobs": 1}) as w:
        with pytest.raises(PolicyRefused):
            await start(w, "curl example.org")
        with pytest.raises(InvalidRequest):
            await start(w, "touch ran", working_directory="..")
        with pytest.raises(StaleEpoch):
            await start(w, "touch ran", epoch=99)
        assert w.shell.jobs.jobs(caller=OWNER, lease_token=None) == []
        await start(w, "sleep 600")


async def test_closing_the_shell_kills_jobs():
    """A daemon that stops leaves no job."""
    async with world() as w:
        job = await start(w, TREE)
        await told(w, job, "up")
        assert "sleep" in names_of()
    assert descendants() == []
