"""`/v1/tools/shell/jobs`: commands in the background, which alone run on after their call."""

from __future__ import annotations

from typing import Any

from quart import Response

from bodyd.contract.lease import Scope
from bodyd.contract.ports import Job, JobsPort, JobState, ProcessResult
from bodyd.contract.shell import ShellRequest
from bodyd.errors import Unavailable

from .routing import Api
from .services import caller, lease_token, optional_lease_token, path_id, reply, services

PATH = "/v1/tools/shell/jobs"


def add(api: Api) -> None:
    @api.get(PATH, Scope.DRIVER)
    async def index() -> Response:
        """Without their output."""
        found = _jobs().jobs(caller=caller(), lease_token=optional_lease_token())
        return reply({"jobs": [_facts(job) for job in found]})

    @api.get(f"{PATH}/<job_id>", Scope.DRIVER)
    async def show(job_id: str) -> Response:
        wanted = path_id(job_id, "job")
        return reply(to_json(_jobs().job(wanted, caller=caller(), lease_token=optional_lease_token())))

    @api.add("DELETE", f"{PATH}/<job_id>", Scope.DRIVER)
    async def end(job_id: str) -> Response:
        """Kill it; the answer is the last that is heard of it."""
        wanted = path_id(job_id, "job")
        ended = await _jobs().end_job(wanted, caller=caller(), lease_token=optional_lease_token())
        return reply(to_json(ended))


async def started(wanted: ShellRequest) -> Response:
    """The answer to a shell call that asks for the background."""
    job = await _jobs().start(
        wanted.commands[0],
        lease_token=lease_token(),
        timeout_ms=wanted.timeout_ms,
        max_output_length=wanted.max_output_length,
        working_directory=wanted.working_directory,
        epoch=wanted.epoch,
    )
    return reply({"job": _facts(job)}, 202)


def to_json(job: Job) -> dict[str, Any]:
    """A job with its output; `outcome` is null until it has ended."""
    told = outcome(job.result)
    if job.state is not JobState.ENDED:
        told["outcome"] = None
    return {**_facts(job), **told}


def outcome(result: ProcessResult) -> dict[str, Any]:
    """One entry of a `shell_call_output`, with what was omitted beside it."""
    end = {"type": "timeout"} if result.timed_out else {"type": "exit", "exit_code": result.exit_code}
    return {
        "stdout": result.stdout,
        "stderr": result.stderr,
        "outcome": end,
        "omitted_bytes": result.omitted_bytes,
    }


def _facts(job: Job) -> dict[str, Any]:
    return {
        "job_id": job.job_id,
        "conversation_id": job.conversation_id,
        "state": job.state.value,
        "started_at": job.started_at,
        "ended_at": job.ended_at,
    }


def _jobs() -> JobsPort:
    jobs = services().jobs
    if jobs is None:
        raise Unavailable("no jobs can be run here ([shell] enabled, and a policy)")
    return jobs
