"""The gateway alone: the body is another daemon's, reached over its API."""

from __future__ import annotations

import copy
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
import trio
from openai import AsyncOpenAI
from websockets.trio.client import connect

from bodyd.client import BodyClient
from bodyd.config import parse
from bodyd.contract.lease import LeaseState, Scope
from bodyd.http.alone import serve_gateway
from bodyd.http.app import create_app
from bodyd.http.listener import listen
from bodyd.http.services import Services
from bodyd.http.tokens import Tokens, read_token
from tests.http.fake_body import FakeBody

from .model_server import Answer, model_server
from .test_loop import kinds
from .test_sdk import pytestmark as pytestmark  # the SDK's own generators
from .world import Json, Shell, function, message

ACTIONS = {"actions": [{"type": "screenshot"}, {"type": "wait"}]}
SOON = 60


def answer(*items: Json) -> Answer:
    return Answer({"id": "r", "status": "completed", "output": copy.deepcopy(list(items))})


@dataclass
class There:
    """The other daemon: its body and shell in memory, its API on a real socket."""

    body: FakeBody
    shell: Shell
    tokens: Tokens
    socket: Path


@asynccontextmanager
async def other_daemon(folder: Path, *, shell: bool = True) -> AsyncIterator[There]:
    there = There(FakeBody(), Shell(), Tokens.fresh(), folder / "body.sock")
    processes = there.shell if shell else None
    services = Services(body=there.body, tokens=there.tokens, processes=processes)
    async with listen(create_app(services), unix_path=there.socket):
        yield there


def sdk(port: int, token: str) -> AsyncOpenAI:
    http = httpx2.AsyncClient(trust_env=False)
    return AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=token, http_client=http)


def settings(folder: Path, upstream: str) -> Json:
    return {
        "state_dir": str(folder / "state"),
        "run_dir": str(folder / "run"),
        "http": {"port": 0},
        "gateway": {
            "computer": "body",
            "shell": "body",
            "upstream": {"kind": "responses", "url": upstream},
        },
    }


async def test_a_remote_body_is_driven_through_its_api(tmp_path: Path):
    """The loop runs here, input and commands there, under a lease of the other daemon that is given back."""
    answers = [
        answer(function("computer", ACTIONS, "c1")),
        answer(function("shell", {"commands": ["ls", "id"]}, "s1")),
        answer(message("done")),
    ]
    async with (
        model_server(*answers) as server,
        other_daemon(tmp_path) as there,
        BodyClient(token=there.tokens.token(Scope.DRIVER), socket_path=there.socket) as remote,
    ):
        with trio.fail_after(SOON):
            async with (
                serve_gateway(parse(settings(tmp_path, server.url)), remote) as (bound, mine),
                sdk(bound.port, mine.token(Scope.DRIVER)) as client,
            ):
                response = await client.responses.create(
                    model="m", tools=[{"type": "computer"}, {"type": "shell"}], input="go"
                )
    assert response.output_text == "done"
    assert [action.type for action in there.body.acted] == ["screenshot", "wait"]
    assert there.shell.ran == ["ls", "id"]
    assert there.body.state is LeaseState.VACANT
    sent = server.seen[2][2]["input"]
    assert sent[2]["output"][-1]["image_url"].startswith("data:image/png")
    assert [chunk["stdout"] for chunk in json.loads(sent[4]["output"])["output"]] == ["out:ls\n", "out:id\n"]


async def test_a_remote_daemon_without_a_shell(tmp_path: Path):
    """The model is told that there is none, and goes on."""
    answers = [answer(function("shell", {"commands": ["ls"]}, "s1")), answer(message("sorry"))]
    async with (
        model_server(*answers) as server,
        other_daemon(tmp_path, shell=False) as there,
        BodyClient(token=there.tokens.token(Scope.DRIVER), socket_path=there.socket) as remote,
    ):
        with trio.fail_after(SOON):
            async with (
                serve_gateway(parse(settings(tmp_path, server.url)), remote) as (bound, mine),
                sdk(bound.port, mine.token(Scope.DRIVER)) as client,
            ):
                response = await client.responses.create(model="m", tools=[{"type": "shell"}], input="go")
    assert response.output_text == "sorry"
    assert "no shell is configured" in server.seen[1][2]["input"][-1]["output"]


# -- as a program ---------------------------------------------------------------------------------------


class Gateway:
    """`bodyd gateway` in a process of its own."""

    def __init__(self, folder: Path, body: str, token_file: Path) -> None:
        self._command = [sys.executable, "-m", "bodyd", "--config", str(folder / "gateway.toml"), "gateway"]
        self._command += ["--body", body, "--token-file", str(token_file)]
        self.process: trio.Process | None = None

    async def start(self) -> int:
        """Returns the port once it serves."""
        self.process = await trio.lowlevel.open_process(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        assert self.process.stdout is not None
        said = b""
        while b" ends it\n" not in said:
            chunk = await self.process.stdout.receive_some()
            assert chunk, said.decode()
            said += chunk
        return int(said.split(b"http://127.0.0.1:")[1].split(b"/")[0])

    async def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        assert self.process.stdout is not None
        rest = b"".join([chunk async for chunk in self.process.stdout])
        assert b"Traceback" not in rest, rest.decode()
        return await self.process.wait()


@asynccontextmanager
async def program(folder: Path, body: str, token: str, upstream: str) -> AsyncIterator[Gateway]:
    token_file = trio.Path(folder / "token")
    await token_file.write_text(token + "\n")
    lines = [
        f'state_dir = "{folder}/state"',
        f'run_dir = "{folder}/run"',
        "[http]",
        "port = 0",
        "[gateway]",
        'computer = "body"',
        'shell = "body"',
        f'upstream = {{ kind = "responses", url = "{upstream}" }}',
    ]
    await trio.Path(folder / "gateway.toml").write_text("\n".join(lines) + "\n")
    gateway = Gateway(folder, body, Path(token_file))
    try:
        yield gateway
    finally:
        if gateway.process is not None and gateway.process.poll() is None:
            gateway.process.kill()
            with trio.CancelScope(shield=True):
                await gateway.process.wait()


async def test_the_program_serves_a_remote_body(tmp_path: Path):
    """Started as a user starts it: HTTP and WebSocket, SIGTERM is a clean end, and what it stored stays."""
    answers = [
        answer(function("computer", ACTIONS, "c1")),
        answer(function("shell", {"commands": ["ls"]}, "s1")),
        answer(message("done")),
        Answer([{"type": "response.completed", "response": answer(message("socket")).body}]),
        answer(message("later", id="msg_later")),
    ]
    async with model_server(*answers) as server, other_daemon(tmp_path) as there:
        token = there.tokens.token(Scope.DRIVER)
        async with program(tmp_path, str(there.socket), token, server.url) as gateway:
            with trio.fail_after(SOON):
                port = await gateway.start()
                mine = read_token(tmp_path / "state" / "gateway", Scope.DRIVER)
                async with sdk(port, mine) as client:
                    tools: Any = [{"type": "computer"}, {"type": "shell"}]
                    first = await client.responses.create(model="m", tools=tools, input="go")
                    assert first.output_text == "done"
                    assert [action.type for action in there.body.acted] == ["screenshot", "wait"]
                    assert there.shell.ran == ["ls"]
                    assert there.body.state is LeaseState.VACANT
                    with pytest.raises(openai.AuthenticationError):
                        await client.with_options(api_key=token).responses.create(model="m", input="x")
                headers = {"authorization": f"Bearer {mine}"}
                url = f"ws://127.0.0.1:{port}/v1/responses"
                async with connect(url, additional_headers=headers) as socket:
                    await socket.send(json.dumps({"type": "response.create", "model": "m", "input": "hi"}))
                    while (event := json.loads(await socket.recv()))["type"] != "response.completed":
                        pass
                    assert kinds(event["response"]["output"]) == ["message"]
                assert await gateway.stop() == 0
                port = await gateway.start()
                async with sdk(port, mine) as client:
                    again = await client.responses.create(
                        model="m", input="and?", previous_response_id=first.id
                    )
                    assert again.output_text == "later"
                assert await gateway.stop() == 0
    sent = server.seen[-1][2]["input"]
    assert [item["type"] for item in sent].count("function_call_output") == 2


async def test_killed_in_the_middle(tmp_path: Path):
    """What was stored is continued, the same request is made anew, and a background response has failed."""
    look = answer(function("computer", ACTIONS, "c1"))
    thinking = Answer([{"type": "response.created"}], hang=True)
    answers = [answer(message("before")), look, thinking, thinking, answer(message("after"))]
    answers += [look, answer(message("again", id="msg_again"))]
    async with model_server(*answers) as server, other_daemon(tmp_path) as there:
        token = there.tokens.token(Scope.DRIVER)
        async with program(tmp_path, str(there.socket), token, server.url) as gateway:
            with trio.fail_after(SOON):
                port = await gateway.start()
                mine = read_token(tmp_path / "state" / "gateway", Scope.DRIVER)
                tools: Any = [{"type": "computer"}]
                async with (
                    sdk(port, mine).with_options(max_retries=0) as client,
                    trio.open_nursery() as nursery,
                ):
                    first = await client.responses.create(model="m", input="remember")
                    chained: Any = {"model": "m", "input": "go", "previous_response_id": first.id}

                    async def cut_off() -> None:
                        with pytest.raises(openai.APIConnectionError):
                            await client.responses.create(**chained, tools=tools)

                    nursery.start_soon(cut_off)
                    await server.until_seen(3)
                    background = await client.responses.create(model="m", input="slow", background=True)
                    await server.until_seen(4)
                    assert gateway.process is not None
                    gateway.process.kill()
                    await gateway.process.wait()
                port = await gateway.start()
                async with sdk(port, mine) as client:
                    ended = await client.responses.retrieve(background.id)
                    assert ended.error is not None
                    assert ended.error.to_dict()["type"] == "daemon_restarted"
                    more = await client.responses.create(
                        model="m", input="and?", previous_response_id=first.id
                    )
                    assert more.output_text == "after"
                    await there.body.release(there.body.token or "")  # what its time to live does
                    again = await client.responses.create(**chained, tools=tools)
                    assert again.output_text == "again"
                assert await gateway.stop() == 0


async def test_a_body_that_is_not_there(tmp_path: Path):
    """The gateway serves all the same; a response that needs the body fails by name."""
    answers = [answer(function("computer", ACTIONS, "c1"))]
    async with (
        model_server(*answers) as server,
        program(tmp_path, str(tmp_path / "none.sock"), "t", server.url) as gateway,
    ):
        with trio.fail_after(SOON):
            port = await gateway.start()
            async with sdk(port, read_token(tmp_path / "state" / "gateway", Scope.DRIVER)) as client:
                response = await client.responses.create(model="m", tools=[{"type": "computer"}], input="go")
            assert await gateway.stop() == 0
    assert response.status == "failed"
    assert response.error is not None
    assert response.error.to_dict()["type"] == "not_running"


@pytest.mark.parametrize("missing", ["token", "upstream"])
async def test_what_refuses_the_start(tmp_path: Path, missing: str):
    """A token file that is not there, or no model's server: one line, and a status that is not 0."""
    config = tmp_path / "gateway.toml"
    await trio.Path(config).write_text(f'state_dir = "{tmp_path}/state"\nrun_dir = "{tmp_path}/run"\n')
    if missing == "upstream":
        await trio.Path(tmp_path / "token").write_text("t")
    command = [sys.executable, "-m", "bodyd", "--config", str(config), "gateway", "--body", "x"]
    with trio.fail_after(SOON):
        done = await trio.run_process(
            [*command, "--token-file", str(tmp_path / "token")], capture_stderr=True, check=False
        )
    assert done.returncode not in (0, None)
    assert missing in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()
