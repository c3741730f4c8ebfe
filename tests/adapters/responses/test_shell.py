"""Shell calls that the gateway carries out: limits, outcomes, cuts, and streams that stay whole."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from bodyd import errors
from bodyd.contract.ports import ProcessChunk, ProcessResult

from .streams import faults
from .test_loop import kinds
from .world import LOWERED, Json, Listed, World, function, message, read, shell, world

LOCAL = {"type": "shell", "environment": {"type": "local"}}


def result(stdout: str = "", stderr: str = "", code: int | None = 0, **more: Any) -> ProcessResult:
    return ProcessResult(stdout, stderr, code, **{"timed_out": False, "omitted_bytes": 0, **more})


def outputs(w: World) -> list[Json]:
    """The shell's outputs as the model was last sent them."""
    return [item for item in w.model.requests[-1]["input"] if item["type"] == "shell_call_output"]


async def test_outcomes_and_limits(tmp_path: Path):
    """Exit codes, timeouts and truncation are what the executor said; it is told the call's limits."""
    asked: list[Json] = []
    call = shell("a", "b", "c", timeout_ms=1500, max_output_length=99)
    async with world(tmp_path, [call], [message("done")], shell="body") as w:
        run = w.shell.run

        def noted(commands: Any, **how: Any) -> Any:
            asked.append(how)
            return run(commands, **how)

        w.shell.run = noted
        w.shell.results = lambda command: {
            "a": result("ok", "warn", 0),
            "b": result("", "no such file", 2),
            "c": result("head\n[9 bytes]\ntail", "", None, timed_out=True, omitted_bytes=9),
        }[command]
        await w.create(LOCAL)
        (how,) = asked
        assert (how["timeout_ms"], how["max_output_length"], how["epoch"]) == (1500, 99, 1)
        (output,) = outputs(w)
        assert output["max_output_length"] == 99
        assert [chunk["outcome"] for chunk in output["output"]] == [
            {"type": "exit", "exit_code": 0},
            {"type": "exit", "exit_code": 2},
            {"type": "timeout"},
        ]
        assert output["output"][2]["stdout"] == "head\n[9 bytes]\ntail"


async def test_pairs_are_whole_streams(tmp_path: Path):
    """Each command's deltas, then its result; with output in pieces, without any, and cut in the middle."""
    async with world(
        tmp_path, [shell("a", "b", "c")], [message("done")], shell="body", executed_items="pairs"
    ) as w:
        w.shell.results = lambda command: result("x" if command == "a" else "", "y" if command == "c" else "")
        events = await w.stream(LOCAL)
        assert faults(events) == []
        told = [e["type"].rpartition("_")[2] for e in events if "output_content" in e["type"]]
        assert told == ["content.delta", "content.done", "content.done", "content.delta", "content.done"]


@pytest.mark.parametrize("streamed", [True, False])
async def test_an_executor_that_fails_in_the_middle(tmp_path: Path, streamed: bool):
    """What had ended stays; the command that ran has what it printed, and why; the model goes on."""
    async with world(
        tmp_path, [shell("a", "b", "c")], [message("hm")], shell="body", executed_items="pairs"
    ) as w:

        def results(command: str) -> ProcessResult:
            if command == "b":
                raise errors.IsolationUnavailable("the sandbox broke")
            return result("fine")

        w.shell.results = results
        if streamed:
            events = await w.stream(LOCAL)
            assert faults(events) == []
            response = events[-1]["response"]
        else:
            response = await w.create(LOCAL)
        assert response["status"] == "completed"
        first, second = response["output"][1]["output"]
        assert first["stdout"] == "fine"
        assert second == {
            "stdout": "",
            "stderr": "the sandbox broke",
            "outcome": {"type": "exit", "exit_code": 1},
        }


@pytest.mark.parametrize(
    "nonsense",
    [
        lambda command: result(code=None),
        lambda command: "text",
    ],
    ids=["no outcome", "no result"],
)
async def test_an_executor_that_answers_nonsense(tmp_path: Path, nonsense: Any):
    """The response fails as executor_failed, by a whole stream, and nothing is made up."""
    async with world(tmp_path, [shell("a")], shell="body", executed_items="pairs") as w:
        w.shell.results = nonsense
        if nonsense("a") == "text":
            w.shell.run = _saying("text")
        events = await w.stream(LOCAL)
        assert faults(events) == []
        assert events[-1]["response"]["error"]["type"] == "executor_failed"
        assert events[-1]["response"]["output"][-1]["status"] == "incomplete"


@pytest.mark.parametrize("many", [0, 3])
async def test_results_that_are_too_few_or_too_many(tmp_path: Path, many: int):
    """As many results as commands, or it is none of ours to guess."""
    async with world(tmp_path, [shell("a", "b")], shell="body") as w:
        w.shell.run = _saying(*[result("x")] * many)
        response = await w.create(LOCAL)
        assert response["error"]["type"] == "executor_failed"


def _saying(*said: Any) -> Any:
    """A shell that answers just that."""

    @asynccontextmanager
    async def run(commands: Any, **how: Any) -> Any:
        yield Listed(said)

    return run


async def test_a_cancelled_call_leaves_a_whole_stream_and_a_record(tmp_path: Path):
    """What the command had printed is kept, as incomplete; the conversation can go on from there."""
    body = {"model": "m", "input": "go", "tools": [LOCAL], "stream": True, "background": True}
    async with world(tmp_path, [shell("hang", "ls")], shell="body", executed_items="pairs") as w:
        reply = await w.call("POST", "/v1/responses", body)
        events: list[Json] = []
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                events.extend(await read(reply))

            nursery.start_soon(watch)
            await w.shell.waiting.wait()
            (run,) = w.adapter.gateway.runs._by_id.values()
            with trio.fail_after(5):
                cancelled = await w.ask(f"/v1/responses/{run.id}/cancel")
        assert cancelled["status"] == "cancelled"
        assert faults(events) == []
        call, output = cancelled["output"]
        assert (call["status"], output["status"]) == ("completed", "incomplete")
        (chunk,) = output["output"]
        assert chunk["stdout"] == "begun\n"
        assert chunk["outcome"] == {"type": "exit", "exit_code": 137}
        assert w.shell.cancelled == 1
        w.model.answers.append([message("on")])
        await w.create(LOCAL, input="and?", previous_response_id=run.id)
        assert kinds(w.model.requests[-1]["input"]) == [
            "message",
            "shell_call",
            "shell_call_output",
            "message",
        ]


async def test_a_lease_that_is_lost_in_the_middle(tmp_path: Path):
    """Revoked while a command ran: the response fails by name; a hand-over only means looking again."""
    for raised, ends in (
        (errors.StaleLease("revoked"), "failed"),
        (errors.StaleEpoch("x", epoch=7), "completed"),
    ):
        async with world(tmp_path, [shell("a")], [message("hm")], shell="body") as w:

            def results(command: str, raised: Exception = raised) -> ProcessResult:
                raise raised

            w.shell.results = results
            response = await w.create(LOCAL)
            assert response["status"] == ends
            if ends == "failed":
                assert response["error"]["type"] == "stale_lease"
            else:
                assert "a person had the desktop" in outputs(w)[0]["output"][0]["stderr"]


async def test_through_functions(tmp_path: Path):
    """A server without the tool reads the whole result as JSON, limits included."""
    call = function("shell", {"commands": ["ls"], "max_output_length": 10}, "s1")
    async with world(tmp_path, [call], [message("done")], shell="body", upstream=LOWERED) as w:
        response = await w.create(LOCAL)
        assert response["status"] == "completed"
        sent = w.model.requests[-1]["input"]
        assert kinds(sent) == ["message", "function_call", "function_call_output"]
        assert '"stdout": "out:ls\\n"' in sent[2]["output"]


async def test_output_of_more_pieces_than_readers_like(tmp_path: Path):
    """Many chunks are many deltas, in order, and their sum is the result."""
    pieces = [ProcessChunk(0, "stdout", f"{number}\n") for number in range(300)]
    whole = result("".join(piece.text for piece in pieces))
    async with world(tmp_path, [shell("a")], [message("done")], shell="body", executed_items="pairs") as w:
        w.shell.run = _saying(*pieces, whole)
        events = await w.stream(LOCAL)
        assert faults(events) == []
        assert sum("output_content.delta" in event["type"] for event in events) == 300
