"""`/v1/tools`: what is listed, what the shell's route takes and gives, and clients that leave."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
import trio

from bodyd.contract.lease import Scope
from bodyd.contract.ports import ProcessChunk, ProcessResult
from bodyd.contract.shell import ShellRequest
from bodyd.errors import JournalUnavailable, PolicyRefused, Unavailable
from bodyd.http.routes_tools import SHELL

from .wire import SOON, head, post, still_answers, unix

PATH = "/v1/tools/shell"


class FakeShell:
    """Gives what it is told to; "hang" waits for ever. Remembers how it was left."""

    def __init__(self) -> None:
        self.asked: list[dict[str, object]] = []
        self.gives: list[ProcessChunk | ProcessResult | Exception] = []
        self.hang = False
        self.left = trio.Event()

    @asynccontextmanager
    async def run(self, commands: Sequence[str], **how: object) -> AsyncIterator[AsyncIterator[object]]:
        self.asked.append({"commands": commands, **how})
        if commands == ("forbidden",):
            raise PolicyRefused("commands[0]: it is denied", param="commands[0]", rule="deny:x")
        try:
            yield self
        finally:
            self.left.set()

    def __aiter__(self) -> FakeShell:
        return self

    async def __anext__(self) -> object:
        await trio.lowlevel.checkpoint()
        for one in self.gives:
            self.gives.remove(one)
            if isinstance(one, Exception):
                raise one
            return one
        if self.hang:
            await trio.sleep_forever()
        raise StopAsyncIteration


OK = ProcessResult("out\n", "err\n", 0, timed_out=False, omitted_bytes=7)
LATE = ProcessResult("", "", None, timed_out=True, omitted_bytes=0, command=1)


@pytest.fixture
def shell(services):
    services.processes = FakeShell()
    return services.processes


@pytest.fixture
def ask(bound, bearer):
    async def post_json(body, **headers):
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with unix(bound.unix_path) as wire:
            await wire.send(post(PATH, raw, **{**bearer(Scope.DRIVER), "bodyd-lease": "token", **headers}))
            return await wire.reply()

    return post_json


async def test_only_what_is_configured_is_listed(services, bound, bearer):
    """Without a shell there is no schema of it, and its route says that there is none."""
    async with unix(bound.unix_path) as wire:
        await wire.send(head("GET", "/v1/tools", **bearer(Scope.VIEWER)))
        assert (await wire.reply()).json == {"tools": []}
        await wire.send(post(PATH, b'{"commands": ["ls"]}', **bearer(Scope.DRIVER), bodyd_lease="t"))
        assert (await wire.reply()).code == "unavailable"
        services.processes = FakeShell()
        await wire.send(head("GET", "/v1/tools", **bearer(Scope.VIEWER)))
        assert (await wire.reply()).json == {"tools": [SHELL]}


def test_the_schema_fits_strict_function_calling():
    """Every property is required and nothing else is let in, as strict mode wants it."""
    parameters = SHELL["parameters"]
    assert sorted(parameters["required"]) == sorted(parameters["properties"])
    assert parameters["additionalProperties"] is False


async def test_results_are_a_shell_call_output(shell, ask):
    """One entry a command, in the shape of OpenAI's item; the request's fields reach the shell."""
    shell.gives = [ProcessChunk(0, "stdout", "out\n"), OK, LATE]
    body = {"commands": ["a", "b"], "timeout_ms": 5, "max_output_length": 9, "concurrent": True, "epoch": 2}
    answer = await ask({**body, "working_directory": "x"})
    assert answer.status == 200
    assert answer.json == {
        "max_output_length": 9,
        "output": [
            {
                "stdout": "out\n",
                "stderr": "err\n",
                "outcome": {"type": "exit", "exit_code": 0},
                "omitted_bytes": 7,
            },
            {"stdout": "", "stderr": "", "outcome": {"type": "timeout"}, "omitted_bytes": 0},
        ],
    }
    assert shell.asked == [
        {
            "commands": ("a", "b"),
            "lease_token": "token",
            "timeout_ms": 5,
            "max_output_length": 9,
            "concurrent": True,
            "working_directory": "x",
            "epoch": 2,
        }
    ]


@pytest.mark.parametrize(
    "body",
    [b"[]", b"{}", b'{"commands": "ls"}', b'{"commands": [1]}', b'{"commands": ["ls"], "env": {}}', b"no"],
)
async def test_malformed_bodies_never_reach_the_shell(shell, ask, body):
    """A body that is not exactly a request is refused."""
    assert (await ask(body)).code == "invalid_request"
    assert shell.asked == []


async def test_a_lease_and_a_drivers_token_are_needed(shell, bound, bearer):
    """Without a lease token: 401; with a viewer's bearer token: 403."""
    body = b'{"commands": ["ls"]}'
    async with unix(bound.unix_path) as wire:
        await wire.send(post(PATH, body, **bearer(Scope.DRIVER)))
        assert (await wire.reply()).code == "lease_required"
        await wire.send(post(PATH, body, **bearer(Scope.VIEWER), bodyd_lease="t"))
        assert (await wire.reply()).code == "forbidden"
    assert shell.asked == []


@pytest.mark.parametrize("stream", [False, True])
async def test_a_refusal_has_a_status_streamed_or_not(shell, ask, stream):
    """What is refused before anything runs is an error answer, not an event."""
    answer = await ask({"commands": ["forbidden"], "stream": stream})
    assert (answer.status, answer.code) == (403, "policy_refused")


async def _streamed(bound, bearer, body, **headers) -> str:
    async with unix(bound.unix_path) as wire:
        raw = json.dumps(body).encode()
        fields = {**bearer(Scope.DRIVER), "bodyd-lease": "t", "connection": "close", **headers}
        await wire.send(post(PATH, raw, **fields))
        return (await wire.closed()).decode()


@pytest.mark.parametrize(
    ("fields", "headers"), [({"stream": True}, {}), ({}, {"accept": "text/event-stream"})]
)
async def test_output_is_streamed_as_events(shell, bound, bearer, fields, headers):
    """Chunks, results, done; each a frame with one line of data."""
    shell.gives = [ProcessChunk(0, "stdout", "a\nb"), OK]
    text = await _streamed(bound, bearer, {"commands": ["x"], **fields}, **headers)
    events = [line[7:] for line in text.splitlines() if line.startswith("event: ")]
    data = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
    assert events == ["chunk", "result", "done"]
    assert data[0] == {"command": 0, "stream": "stdout", "text": "a\nb"}
    assert data[1]["outcome"] == {"type": "exit", "exit_code": 0}


async def test_an_error_in_the_middle_ends_the_stream(shell, bound, bearer):
    """Once begun, an error is an event in the one shape."""
    shell.gives = [OK, JournalUnavailable("the disk is full")]
    text = await _streamed(bound, bearer, {"commands": ["x"], "stream": True})
    assert '"code": "journal_unavailable"' in text
    assert "event: done" not in text
    assert shell.left.is_set()


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_ends_its_call(shell, bound, bearer, stream):
    """The call is left as soon as the connection is gone, and the server answers on."""
    shell.hang = True
    body = json.dumps({"commands": ["x"], "stream": stream}).encode()
    async with unix(bound.unix_path) as wire:
        await wire.send(post(PATH, body, **bearer(Scope.DRIVER), bodyd_lease="t"))
        with trio.fail_after(SOON):
            while not shell.asked:  # noqa: ASYNC110
                await trio.sleep(0.005)
        assert not shell.left.is_set()
    with trio.fail_after(SOON):
        await shell.left.wait()
    await still_answers(bound)


# -- the client's side ----------------------------------------------------------------------------------


async def listened(client, *commands: str) -> list[ProcessChunk | ProcessResult]:
    async with client.shell(ShellRequest(commands=commands), lease_token="token") as output:
        return [one async for one in output]


async def test_the_client_gets_what_the_shell_gave(shell, client):
    """Chunks and results are the same on both sides, and so is what was asked."""
    given = [ProcessChunk(0, "stdout", "o\u00fct"), OK, LATE]
    shell.gives = list(given)
    assert await listened(client, "a", "b") == given
    (asked,) = shell.asked
    assert (asked["commands"], asked["lease_token"], asked["timeout_ms"]) == (("a", "b"), "token", None)


async def test_the_client_is_told_of_refusals_and_failures(shell, client, services):
    """By their classes, before the call and in the middle of it."""
    with pytest.raises(PolicyRefused) as caught:
        await listened(client, "forbidden")
    assert caught.value.details["rule"] == "deny:x"
    shell.gives = [OK, JournalUnavailable("the disk is full")]
    with pytest.raises(JournalUnavailable, match="the disk is full"):
        await listened(client, "a")
    services.processes = None
    with pytest.raises(Unavailable):
        await listened(client, "a")


# httpx2 leaves a generator of its own unfinished when an answer is not read to its end
@pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_client_that_leaves_ends_the_call(shell, client):
    """Leaving the context closes the connection, and the shell sees its call dropped."""
    shell.hang = True
    shell.gives = [ProcessChunk(0, "stdout", "begun")]
    with trio.fail_after(SOON):
        async with client.shell(ShellRequest(commands=("a",)), lease_token="token") as output:
            assert await anext(aiter(output)) == ProcessChunk(0, "stdout", "begun")
        await shell.left.wait()
