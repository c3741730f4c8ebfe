"""Jobs: commands that were asked to run on after their call. Nothing else does.

Each is a call of one command that nobody waits for. It is listed until it is ended by name or, once it has
ended, until others have ended after it. Counterparts: shell.py admits them and ends them with their lease;
contract.ports.JobsPort is what is seen of them.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import trio

from bodyd.contract.lease import Scope
from bodyd.contract.ports import Caller, Job, JobState, ProcessResult
from bodyd.contract.shell import ShellRequest, checked
from bodyd.errors import LeaseRequired, NotFound, Unavailable
from bodyd.lease.manager import LeaseManager
from bodyd.lease.permit import Admission

from .calls import Call

END_S = 8.0
KEPT = 16
"""How many jobs that have ended stay listed."""


@dataclass(eq=False)
class _Listed:
    job_id: str
    conversation_id: str
    started_at: int
    call: Call | None
    """None once it has ended: then its buffers are let go."""
    ended_at: int | None = None
    result: ProcessResult | None = None

    def view(self) -> Job:
        state = JobState.ENDED
        if self.call is not None:
            state = JobState.FROZEN if self.call.frozen else JobState.RUNNING
        result = self.result if self.call is None else self.call.so_far(0)
        assert result is not None
        return Job(self.job_id, self.conversation_id, state, self.started_at, self.ended_at, result)


class Begun(Protocol):
    """A call that has begun, and what it was admitted under."""

    @property
    def call(self) -> Call: ...

    @property
    def admission(self) -> Admission: ...


class Jobs:
    """Those of one body; implements ports.JobsPort.

    Args:
        most: How many may run at once.
        begin: Admits a request and begins it; `ended` is to be called with its call, once that is over.
        now_ms: The wall clock.
    """

    def __init__(
        self,
        most: int,
        *,
        begin: Callable[[ShellRequest, str], Awaitable[Begun]],
        leases: LeaseManager,
        now_ms: Callable[[], int],
    ) -> None:
        self._most = most
        self._begin = begin
        self._leases = leases
        self._now_ms = now_ms
        self._listed: dict[str, _Listed] = {}
        self._coming = 0

    async def start(
        self,
        command: str,
        *,
        lease_token: str,
        timeout_ms: int | None,
        max_output_length: int | None,
        working_directory: str | None = None,
        epoch: int | None = None,
    ) -> Job:
        """As ports.JobsPort. Cancellation: atomic."""
        request = checked(
            commands=(command,),
            timeout_ms=timeout_ms,
            max_output_length=max_output_length,
            working_directory=working_directory,
            epoch=epoch,
            background=True,
        )
        with self._place():
            begun = await self._begin(request, lease_token)
        conversation_id = begun.admission.claim.conversation_id
        listed = _Listed(f"job_{secrets.token_hex(8)}", conversation_id, self._now_ms(), begun.call)
        self._listed[listed.job_id] = listed
        return listed.view()

    def jobs(self, *, caller: Caller, lease_token: str | None) -> list[Job]:
        """As ports.JobsPort."""
        whose = self._whose(caller, lease_token)
        return [one.view() for one in self._listed.values() if whose in (None, one.conversation_id)]

    def job(self, job_id: str, *, caller: Caller, lease_token: str | None) -> Job:
        """As ports.JobsPort."""
        return self._find(job_id, caller, lease_token).view()

    async def end_job(self, job_id: str, *, caller: Caller, lease_token: str | None) -> Job:
        """As ports.JobsPort; bounded by END_S, and one that has not ended by then stays listed."""
        listed = self._find(job_id, caller, lease_token)
        if listed.call is not None:
            listed.call.end("the job was ended")
            with trio.move_on_after(END_S):
                await listed.call.done.wait()
                self.ended(listed.call)
        if listed.call is None:  # else it runs still: the list must not deny that
            self._listed.pop(job_id, None)
        return listed.view()

    def ended(self, call: Call) -> None:
        """Note the end of a call, if it is a job's; the oldest that have ended leave the list."""
        for listed in self._listed.values():
            if listed.call is call:
                listed.result, listed.call = call.so_far(0), None
                listed.ended_at = self._now_ms()
        over = [one for one in self._listed.values() if one.ended_at is not None]
        for one in sorted(over, key=lambda one: one.ended_at or 0)[:-KEPT]:
            del self._listed[one.job_id]

    # -- inside ------------------------------------------------------------------------------------

    @contextmanager
    def _place(self) -> Iterator[None]:
        """A place for one that is being admitted."""
        running = sum(one.call is not None for one in self._listed.values())
        if running + self._coming >= self._most:
            raise Unavailable(f"{self._most} jobs run already (shell.limits.jobs); end one, or wait for it")
        self._coming += 1
        try:
            yield
        finally:
            self._coming -= 1

    def _find(self, job_id: str, caller: Caller, lease_token: str | None) -> _Listed:
        whose, listed = self._whose(caller, lease_token), self._listed.get(job_id)
        if listed is None or whose not in (None, listed.conversation_id):
            raise NotFound("there is no such job; the oldest that have ended are forgotten")
        return listed

    def _whose(self, caller: Caller, lease_token: str | None) -> str | None:
        """The conversation whose jobs may be seen; None: all."""
        if lease_token is not None:
            return self._leases.admit(lease_token, None).claim.conversation_id
        if caller.scope is not Scope.OWNER:
            raise LeaseRequired("this needs the header `bodyd-lease`; without it, the owner's token")
        return None
