"""What runs now, and what ran last, with its output: for the owner's eyes, in memory alone.

Wraps the ports of the shell, its jobs and the code tool; whoever calls through a wrapper gets what the port
gives, and the board keeps a bounded copy. Nothing of it is written down: the audit has digests.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from bodyd.contract.code import CodeRequest
from bodyd.contract.events import Event
from bodyd.contract.lease import LeaseView
from bodyd.contract.ports import (
    CANCELLED_EXIT,
    Caller,
    CodeItem,
    CodeOutcome,
    CodePort,
    Job,
    JobsPort,
    JobState,
    ProcessChunk,
    ProcessPort,
    ProcessResult,
)
from bodyd.errors import BodydError, NotFound

KEPT = 16
"""How many that have ended stay on the board."""

MAX_OUTPUT = 32 * 1024
"""Characters of a call's output that are kept: the last."""

MAX_ASKED = 8 * 1024
"""Characters of each command, or of the code, that are shown."""

PICTURE = "[picture]\n"


@dataclass(eq=False)
class Posted:
    """One call on the board."""

    call_id: str
    kind: str
    conversation_id: str | None
    epoch: int
    asked: tuple[str, ...]
    started_at: int
    ended_at: int | None = None
    end: str | None = None
    outcomes: list[dict[str, Any]] = field(default_factory=list)
    omitted: int = 0
    _output: deque[dict[str, Any]] = field(default_factory=deque)
    _size: int = 0

    def say(self, command: int, stream: str, text: str) -> None:
        """Keep a piece of output; the first leaves for the last."""
        last = self._output[-1] if self._output else None
        if last is not None and (last["command"], last["stream"]) == (command, stream):
            last["text"] += text
        else:
            self._output.append({"command": command, "stream": stream, "text": text})
        self._size += len(text)
        while self._size > MAX_OUTPUT:
            self._drop(self._size - MAX_OUTPUT)

    def conclude(self, result: ProcessResult) -> None:
        """How one of its commands ended; a cancelled one says why on its last line."""
        lines = result.stderr.splitlines() if result.exit_code == CANCELLED_EXIT else []
        note = lines[-1] if lines else None
        self.outcomes.append(
            {
                "command": result.command,
                "exit_code": result.exit_code,
                "timed_out": result.timed_out,
                "note": note,
            }
        )

    def to_json(self, *, output: bool) -> dict[str, Any]:
        facts = {
            "call_id": self.call_id,
            "kind": self.kind,
            "conversation_id": self.conversation_id,
            "epoch": self.epoch,
            "asked": list(self.asked),
            "started_at": self.started_at,
            "ended_at": self.ended_at,
            "state": "running" if self.ended_at is None else "ended",
            "end": self.end,
            "outcomes": self.outcomes,
        }
        return {**facts, "output": list(self._output), "omitted": self.omitted} if output else facts

    def _drop(self, surplus: int) -> None:
        first = self._output[0]
        cut = min(surplus, len(first["text"]))
        first["text"] = first["text"][cut:]
        self._size -= cut
        self.omitted += cut
        if not first["text"]:
            self._output.popleft()


class Board:
    """Those of one body, newest last.

    Args:
        lease: Who has the body, for the calls that begin now.
        announce: Told of beginnings and ends, without a word of their text.
    """

    def __init__(
        self, *, lease: Callable[[], LeaseView], now_ms: Callable[[], int], announce: Callable[[Event], None]
    ) -> None:
        self._lease = lease
        self._now_ms = now_ms
        self._announce = announce
        self._posted: dict[str, Posted] = {}
        self._jobs: dict[str, tuple[str, int]] = {}
        self._listed: JobsPort | None = None

    # -- for the owner -------------------------------------------------------------------------------

    def calls(self, *, caller: Caller) -> list[dict[str, Any]]:
        """Those that run and the last that ended, oldest first, without their output."""
        posted = [one.to_json(output=False) for one in self._posted.values()]
        jobs = [self._job(job, output=False) for job in self._their_jobs(caller)]
        return sorted(posted + jobs, key=lambda one: int(one["started_at"]))

    def call(self, call_id: str, *, caller: Caller) -> dict[str, Any]:
        """One of them, with its output. Raises NotFound."""
        posted = self._posted.get(call_id)
        if posted is not None:
            return posted.to_json(output=True)
        for job in self._their_jobs(caller):
            if job.job_id == call_id:
                return self._job(job, output=True)
        raise NotFound("no call has this id, or it ended long ago")

    # -- for the ports -------------------------------------------------------------------------------

    def shell(self, port: ProcessPort) -> ProcessPort:
        return _Shell(port, self)

    def jobs(self, port: JobsPort) -> JobsPort:
        self._listed = port
        return _Jobs(port, self)

    def code(self, port: CodePort) -> CodePort:
        return _Code(port, self)

    def begin(self, kind: str, asked: Sequence[str]) -> Posted:
        """Put a call on the board: it was admitted a moment ago, under the lease as it is now."""
        lease = self._lease()
        posted = Posted(
            call_id=f"call_{secrets.token_hex(8)}",
            kind=kind,
            conversation_id=lease.claim.conversation_id if lease.claim is not None else None,
            epoch=lease.epoch,
            asked=tuple(text[:MAX_ASKED] for text in asked),
            started_at=self._now_ms(),
        )
        self._posted[posted.call_id] = posted
        self._tell("call.began", posted)
        return posted

    def end(self, posted: Posted, how: str) -> None:
        posted.end, posted.ended_at = how, self._now_ms()
        over = [key for key, one in self._posted.items() if one.ended_at is not None]
        for key in over[:-KEPT]:
            del self._posted[key]
        self._tell("call.ended", posted)

    def note_job(self, job: Job, command: str) -> None:
        """Remember what a job was asked to do; jobs are listed elsewhere, without it."""
        self._jobs[job.job_id] = (command[:MAX_ASKED], self._lease().epoch)
        for oldest in list(self._jobs)[: -4 * KEPT]:
            del self._jobs[oldest]
        facts: dict[str, object] = {"call_id": job.job_id, "kind": "job"}
        self._announce(Event(type="call.began", at=self._now_ms(), data=facts))

    # -- inside --------------------------------------------------------------------------------------

    def _tell(self, kind: str, posted: Posted) -> None:
        facts: dict[str, object] = {"call_id": posted.call_id, "kind": posted.kind}
        self._announce(Event(type=kind, at=self._now_ms(), data=facts))

    def _their_jobs(self, caller: Caller) -> list[Job]:
        return [] if self._listed is None else self._listed.jobs(caller=caller, lease_token=None)

    def _job(self, job: Job, *, output: bool) -> dict[str, Any]:
        command, epoch = self._jobs.get(job.job_id, ("", 0))
        over = job.state is JobState.ENDED
        posted = Posted(
            call_id=job.job_id,
            kind="job",
            conversation_id=job.conversation_id,
            epoch=epoch,
            asked=(command,),
            started_at=job.started_at,
            ended_at=job.ended_at,
            end="ended" if over else None,
        )
        for stream, text in (("stdout", job.result.stdout), ("stderr", job.result.stderr)):
            if output and text:
                posted.say(0, stream, text)
        if over:
            posted.conclude(job.result)
        return {**posted.to_json(output=output), "state": job.state.value}


class _Shell:
    """A ProcessPort whose calls are on the board."""

    def __init__(self, port: ProcessPort, board: Board) -> None:
        self._port = port
        self._board = board

    @asynccontextmanager
    async def run(
        self,
        commands: Sequence[str],
        *,
        lease_token: str,
        timeout_ms: int | None,
        max_output_length: int | None,
        concurrent: bool = False,
        working_directory: str | None = None,
        epoch: int | None = None,
    ) -> AsyncIterator[AsyncIterator[ProcessChunk | ProcessResult]]:
        """See ports.ProcessPort."""
        async with self._port.run(
            commands,
            lease_token=lease_token,
            timeout_ms=timeout_ms,
            max_output_length=max_output_length,
            concurrent=concurrent,
            working_directory=working_directory,
            epoch=epoch,
        ) as happenings:
            posted, how = self._board.begin("shell", commands), "left by its caller"
            try:
                yield _Heard(happenings, posted)
                if len(posted.outcomes) == len(commands):
                    how = "ended"
            except BodydError as exc:
                how = exc.message
                raise
            finally:
                self._board.end(posted, how)


class _Heard:
    """An iterator and not a generator, as the one that it passes on: it may be dropped anywhere."""

    def __init__(self, happenings: AsyncIterator[ProcessChunk | ProcessResult], posted: Posted) -> None:
        self._happenings = happenings
        self._posted = posted

    def __aiter__(self) -> _Heard:
        return self

    async def __anext__(self) -> ProcessChunk | ProcessResult:
        one = await anext(self._happenings)
        if isinstance(one, ProcessChunk):
            self._posted.say(one.command, one.stream, one.text)
        else:
            self._posted.conclude(one)
        return one


class _Jobs:
    """A JobsPort that tells the board what each job was asked."""

    def __init__(self, port: JobsPort, board: Board) -> None:
        self._port = port
        self._board = board

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
        job = await self._port.start(
            command,
            lease_token=lease_token,
            timeout_ms=timeout_ms,
            max_output_length=max_output_length,
            working_directory=working_directory,
            epoch=epoch,
        )
        self._board.note_job(job, command)
        return job

    def jobs(self, *, caller: Caller, lease_token: str | None) -> list[Job]:
        return self._port.jobs(caller=caller, lease_token=lease_token)

    def job(self, job_id: str, *, caller: Caller, lease_token: str | None) -> Job:
        return self._port.job(job_id, caller=caller, lease_token=lease_token)

    async def end_job(self, job_id: str, *, caller: Caller, lease_token: str | None) -> Job:
        return await self._port.end_job(job_id, caller=caller, lease_token=lease_token)


class _Code:
    """A CodePort whose calls are on the board; also those that nobody streams are heard piece by piece."""

    def __init__(self, port: CodePort, board: Board) -> None:
        self._port = port
        self._board = board

    async def run(self, request: CodeRequest, *, caller: Caller, lease_token: str) -> CodeOutcome:
        async with self.stream(request, caller=caller, lease_token=lease_token) as happenings:
            async for one in happenings:
                if not isinstance(one, CodeItem):
                    return one
        raise AssertionError("a call's outcome comes last")

    def stream(
        self, request: CodeRequest, *, caller: Caller, lease_token: str
    ) -> AbstractAsyncContextManager[AsyncIterator[CodeItem | CodeOutcome]]:
        return self._stream(request, caller, lease_token)

    @asynccontextmanager
    async def _stream(
        self, request: CodeRequest, caller: Caller, lease_token: str
    ) -> AsyncIterator[AsyncIterator[CodeItem | CodeOutcome]]:
        async with self._port.stream(request, caller=caller, lease_token=lease_token) as happenings:
            posted = self._board.begin("code", (request.code,))
            heard = _CodeHeard(happenings, posted)
            try:
                yield heard
            except BodydError as exc:
                heard.how = exc.message
                raise
            finally:
                self._board.end(posted, heard.how)


class _CodeHeard:
    def __init__(self, happenings: AsyncIterator[CodeItem | CodeOutcome], posted: Posted) -> None:
        self.how = "left by its caller"
        self._happenings = happenings
        self._posted = posted

    def __aiter__(self) -> _CodeHeard:
        return self

    async def __anext__(self) -> CodeItem | CodeOutcome:
        one = await anext(self._happenings)
        if isinstance(one, CodeItem):
            self._posted.say(0, "stdout", one.value if one.kind == "text" else PICTURE)
        else:
            error = one.to_json()["error"]
            self.how = "ended" if error is None else error["type"]
            if error is not None:
                self._posted.say(0, "stderr", error["message"])
        return one
