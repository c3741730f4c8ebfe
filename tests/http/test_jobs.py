"""`/v1/tools/shell/jobs`: what the routes ask of the shell, what they tell, and the client's side."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from bodyd.client import BodyClient, ClientLease
from bodyd.contract.lease import Scope
from bodyd.contract.ports import Caller, Job, JobState, ProcessResult
from bodyd.errors import LeaseRequired, NotFound, PolicyRefused, Unavailable

from .wire import head, unix

SO_FAR = ProcessResult("up\n", "", None, timed_out=False, omitted_bytes=0)
RUNNING = Job("job_1", "talk", JobState.RUNNING, 5, None, SO_FAR)
OVER = dataclasses.replace(
    RUNNING,
    state=JobState.ENDED,
    ended_at=9,
    result=ProcessResult("up\n", "no\n", 3, timed_out=False, omitted_bytes=4),
)


class FakeJobs:
    """One job; remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []
        self.job_now = RUNNING

    async def start(self, command: str, *, lease_token: str, **how: Any) -> Job:
        self.asked.append((command, lease_token, how))
        if command == "forbidden":
            raise PolicyRefused("commands[0]: it is denied", param="commands[0]", rule="deny:x")
        return RUNNING

    def jobs(self, *, caller: Caller, lease_token: str | None) -> list[Job]:
        self.asked.append((caller.scope, lease_token))
        if lease_token is None and caller.scope is not Scope.OWNER:
            raise LeaseRequired("no lease")
        return [self.job_now]

    def job(self, job_id: str, **who: Any) -> Job:
        if job_id != RUNNING.job_id:
            raise NotFound("there is no such job")
        return self.job_now

    async def end_job(self, job_id: str, **who: Any) -> Job:
        return dataclasses.replace(self.job(job_id), **dataclasses.asdict(OVER) | {"result": OVER.result})


@pytest.fixture
def jobs(services):
    services.processes = services.jobs = FakeJobs()
    return services.jobs


@pytest.fixture
async def lease(client: BodyClient) -> ClientLease:
    return await client.acquire("talk")


async def test_a_job_is_started_listed_read_and_ended(jobs: FakeJobs, lease: ClientLease):
    """Each step tells what is known; an outcome only once there is one."""
    facts = {
        "job_id": "job_1",
        "conversation_id": "talk",
        "state": "running",
        "started_at": 5,
        "ended_at": None,
    }
    assert await lease.start_job("sleep 9", timeout_ms=7, working_directory="a") == facts
    command, token, how = jobs.asked[-1]
    assert (command, token) == ("sleep 9", lease.token)
    assert how == {"timeout_ms": 7, "max_output_length": None, "working_directory": "a", "epoch": None}
    assert await lease.jobs() == [facts]
    output = {"stdout": "up\n", "stderr": "", "outcome": None, "omitted_bytes": 0}
    assert await lease.job("job_1") == {**facts, **output}
    over = await lease.end_job("job_1")
    assert (over["state"], over["ended_at"], over["stderr"], over["omitted_bytes"]) == ("ended", 9, "no\n", 4)
    assert over["outcome"] == {"type": "exit", "exit_code": 3}


async def test_what_is_refused_has_a_status(jobs: FakeJobs, lease: ClientLease, services):
    """A denied command, a job that is not there, a shell that is not."""
    with pytest.raises(PolicyRefused):
        await lease.start_job("forbidden")
    for name in ("job_2", "../x", "x" * 99):
        with pytest.raises(NotFound):
            await lease.job(name)
    services.jobs = None
    for call in (lease.jobs(), lease.job("job_1"), lease.end_job("job_1"), lease.start_job("a")):
        with pytest.raises(Unavailable):
            await call


async def test_the_owner_alone_needs_no_lease(jobs: FakeJobs, bound, bearer):
    """A driver's token without a lease is refused, a viewer's altogether."""
    for scope, status in ((Scope.VIEWER, 403), (Scope.DRIVER, 401), (Scope.OWNER, 200)):
        async with unix(bound.unix_path) as wire:
            await wire.send(head("GET", "/v1/tools/shell/jobs", **bearer(scope)))
            assert (await wire.reply()).status == status
