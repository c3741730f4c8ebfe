"""Real SDKs against the real listener: each does its turn, and executes nothing that the gateway executed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.adapters.responses.test_sdk import served
from tests.adapters.responses.world import computer, message, shell

pytestmark = pytest.mark.soak  # each SDK is installed into an environment of its own: minutes, and the index

CLICK = {"type": "click", "button": "left", "x": 1, "y": 1}
Command = Callable[..., list[str]]


async def run(command: list[str]) -> dict[str, Any]:
    done = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return json.loads(done.stdout.decode().splitlines()[-1])


def answers() -> list[Any]:
    first = [computer({"type": "screenshot"}, call_id="c1"), shell("ls", call_id="s1")]
    return [first, [computer(CLICK, call_id="c2")], [message("done")]]


MODES = ["plain", "stream", "previous", "previous stream", "conversation", "conversation stream"]


@pytest.mark.parametrize("mode", MODES)
async def test_agents_executes_its_own_calls(tmp_path: Path, client_command: Command, mode: str):
    """Nothing configured: the SDK's computer and shell run every call, once, and the gateway none."""
    async with served(tmp_path, *answers()) as (w, client):
        command = await trio.to_thread.run_sync(
            client_command, "agents", str(client.base_url), client.api_key, mode
        )
        result = await run(command)
        assert result == {"final": "done", "executed": ["screenshot", "ls", "click", "screenshot"]}
        assert w.executed == 0


@pytest.mark.parametrize("mode", MODES)
async def test_agents_does_not_repeat_what_the_gateway_executed(
    tmp_path: Path, client_command: Command, mode: str
):
    """Configured: the body acts, the SDK declares the same tools and executes nothing."""
    async with served(tmp_path, *answers(), computer="body", shell="body") as (w, client):
        command = await trio.to_thread.run_sync(
            client_command, "agents", str(client.base_url), client.api_key, mode
        )
        result = await run(command)
        assert result == {"final": "done", "executed": []}
        assert w.executed == 3


@pytest.mark.parametrize("owner", ["client", "body"])
async def test_langchain(tmp_path: Path, client_command: Command, owner: str):
    """It executes computer calls that it is shown, and is answered; what the body did it doesn't see."""
    made = [[computer(call_id="c1")], [computer({"type": "wait"}, call_id="c2")], [message("done")]]
    async with served(tmp_path, *made, computer=owner) as (w, client):
        command = await trio.to_thread.run_sync(
            client_command, "langchain", str(client.base_url), client.api_key, ""
        )
        result = await run(command)
        mine = ["screenshot", "wait"]
        assert result == {"final": "done", "executed": mine if owner == "client" else []}
        assert [action.type for action in w.body.acted] == ([] if owner == "client" else mine)
