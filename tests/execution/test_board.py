"""The board: what runs, what it said, and how it ended; in memory, and no more than its bounds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bodyd.contract.code import CodeRequest
from bodyd.contract.events import Event
from bodyd.contract.lease import LeaseState, LeaseView, Scope
from bodyd.contract.ports import Caller, CodeItem, Job, JobState, ProcessChunk, ProcessResult
from bodyd.errors import EndNotRecorded, NotFound, Unavailable
from bodyd.execution.board import KEPT, MAX_ASKED, MAX_OUTPUT, PICTURE, Board
from bodyd.execution.code_output import Outcome

OWNER = Caller("owner", Scope.OWNER)
HOW: dict[str, Any] = {"lease_token": "t", "timeout_ms": None, "max_output_length": None}


class Port:
    """Says what it was made with, as a shell or as the code tool."""

    def __init__(self, *said: object) -> None:
        self.said = said

    @asynccontextmanager
    async def run(self, commands: object, **how: Any) -> AsyncIterator[AsyncIterator[Any]]:
        if commands == ["refused"]:
            raise Unavailable("not now")
        yield self._say()

    @asynccontextmanager
    async def stream(self, request: CodeRequest, **who: Any) -> AsyncIterator[AsyncIterator[Any]]:
        yield self._say()

    def _say(self) -> Sayings:
        return Sayings(self.said)


class Sayings:
    """No generator, for it is left in the middle."""

    def __init__(self, said: tuple[object, ...]) -> None:
        self._said = iter(said)

    def __aiter__(self) -> Sayings:
        return self

    async def __anext__(self) -> Any:
        try:
            one = next(self._said)
        except StopIteration:
            raise StopAsyncIteration from None
        if isinstance(one, Exception):
            raise one
        return one


@pytest.fixture
def told() -> list[Event]:
    return []


@pytest.fixture
def board(told: list[Event]) -> Board:
    return Board(
        lease=lambda: LeaseView(state=LeaseState.HELD, epoch=3), now_ms=lambda: 7, announce=told.append
    )


def result(exit_code: int | None, stderr: str = "") -> ProcessResult:
    return ProcessResult("", stderr, exit_code, timed_out=False, omitted_bytes=0)


async def run(board: Board, port: Port, *commands: str) -> None:
    async with board.shell(port).run(list(commands), **HOW) as happenings:
        async for _one in happenings:
            pass


def only(board: Board) -> dict[str, Any]:
    (one,) = board.calls(caller=OWNER)
    return board.call(one["call_id"], caller=OWNER)


async def test_a_call_is_shown_while_it_runs_and_after(board: Board, told: list[Event]):
    """Its output grows; then its end is known. Events say that there was one, and nothing of it."""
    port = Port(
        ProcessChunk(0, "stdout", "a"),
        ProcessChunk(0, "stdout", "b"),
        ProcessChunk(0, "stderr", "!"),
        result(3),
    )
    async with board.shell(port).run(["secret"], **HOW) as happenings:
        await anext(happenings)
        assert only(board)["state"] == "running"
        assert only(board)["output"] == [{"command": 0, "stream": "stdout", "text": "a"}]
        async for _one in happenings:
            pass
    shown = only(board)
    assert (shown["state"], shown["end"], shown["epoch"], shown["asked"]) == ("ended", "ended", 3, ["secret"])
    assert [piece["text"] for piece in shown["output"]] == ["ab", "!"]
    assert shown["outcomes"] == [{"command": 0, "exit_code": 3, "timed_out": False, "note": None}]
    assert "output" not in board.calls(caller=OWNER)[0]
    assert [event.type for event in told] == ["call.began", "call.ended"]
    assert "secret" not in repr(told)


async def test_an_end_says_why(board: Board):
    """A cancelled command, an error in the middle, a caller that left; what is refused was never there."""
    with pytest.raises(Unavailable):
        await run(board, Port(), "refused")
    assert board.calls(caller=OWNER) == []
    await run(board, Port(result(137, "x\ncancelled: stopped\n")), "one")
    with pytest.raises(EndNotRecorded):
        await run(board, Port(EndNotRecorded("could not be written down")), "two")
    async with board.shell(Port(result(0))).run(["three"], **HOW):
        pass
    ended = board.calls(caller=OWNER)
    assert ended[0]["outcomes"][0]["note"] == "cancelled: stopped"
    assert [one["end"] for one in ended] == ["ended", "could not be written down", "left by its caller"]


async def test_the_board_has_bounds(board: Board):
    """Of output the last, of a command the first, of calls those that ended last."""
    await run(
        board, Port(ProcessChunk(0, "stdout", "x" * MAX_OUTPUT), ProcessChunk(0, "stderr", "end")), "y" * 9999
    )
    shown = only(board)
    assert len(shown["asked"][0]) == MAX_ASKED
    assert (sum(len(p["text"]) for p in shown["output"]), shown["omitted"]) == (MAX_OUTPUT, 3)
    await run(board, Port(ProcessChunk(0, "stdout", "x"), ProcessChunk(1, "stdout", "z" * MAX_OUTPUT)), "z")
    last = board.calls(caller=OWNER)[-1]["call_id"]
    assert [p["command"] for p in board.call(last, caller=OWNER)["output"]] == [1]
    for _ in range(KEPT):
        await run(board, Port(result(0)), "true")
    assert len(board.calls(caller=OWNER)) == KEPT
    with pytest.raises(NotFound):
        board.call(shown["call_id"], caller=OWNER)


async def test_code_is_heard_whether_it_is_streamed_or_not(board: Board):
    """Its outcome is what the tool gives; pictures are named, errors told."""
    outcome = Outcome("code_1")
    outcome.fail("exception", "ValueError: no")
    port = board.code(Port(CodeItem("text", "hi\n"), CodeItem("image", "data:…"), outcome))  # type: ignore[arg-type]
    assert await port.run(CodeRequest(code="go()"), caller=OWNER, lease_token="t") is outcome
    shown = only(board)
    assert (shown["kind"], shown["asked"], shown["end"]) == ("code", ["go()"], "exception")
    assert [p["text"] for p in shown["output"]] == [f"hi\n{PICTURE}", "ValueError: no"]
    broken = board.code(Port(EndNotRecorded("gone")))  # type: ignore[arg-type]
    with pytest.raises(EndNotRecorded):
        await broken.run(CodeRequest(code="x"), caller=OWNER, lease_token="t")
    assert board.calls(caller=OWNER)[-1]["end"] == "gone"


class FakeJobs:
    """One job, in a state."""

    def __init__(self) -> None:
        self.now = Job("job_1", "talk", JobState.FROZEN, 5, None, result(None))

    async def start(self, command: str, **how: Any) -> Job:
        return self.now

    def jobs(self, **who: Any) -> list[Job]:
        return [self.now]

    def job(self, job_id: str, **who: Any) -> Job:
        return self.now

    async def end_job(self, job_id: str, **who: Any) -> Job:
        return self.now


async def test_jobs_are_on_it_too(board: Board):
    """With what they were asked, their state and, once they have ended, their outcome."""
    fake = FakeJobs()
    jobs = board.jobs(fake)
    await jobs.start("serve", lease_token="t", timeout_ms=None, max_output_length=None)
    shown = only(board)
    assert (shown["kind"], shown["asked"], shown["state"], shown["epoch"]) == ("job", ["serve"], "frozen", 3)
    fake.now = Job("job_1", "talk", JobState.ENDED, 5, 9, result(1, "no\n"))
    assert only(board)["outcomes"][0]["exit_code"] == 1
    assert only(board)["output"] == [{"command": 0, "stream": "stderr", "text": "no\n"}]
    assert jobs.jobs(caller=OWNER, lease_token=None) == [jobs.job("job_1", caller=OWNER, lease_token=None)]
    assert await jobs.end_job("job_1", caller=OWNER, lease_token=None) is fake.now
    with pytest.raises(NotFound):
        board.call("job_2", caller=OWNER)
