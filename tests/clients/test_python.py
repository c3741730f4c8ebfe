"""Python SDKs against the real body: each does the task, executing every call itself, or none."""

from __future__ import annotations

import pytest

from .world import OWNERS, Clients

pytestmark = pytest.mark.soak  # each SDK is installed into an environment of its own, and a body is started

LOOPS = [
    "sync",
    "replay",
    "conversation",
    "background",
    "stream=True",
    ".stream()",
    "async",
    "async .stream()",
    "ComputerToolset",
]


@pytest.mark.parametrize("mode", LOOPS)
@pytest.mark.parametrize("owner", OWNERS)
def test_openai(clients: Clients, owner: str, mode: str):
    """The panel is opened once, the word typed, by whoever is to; the body was taken once for it."""
    clients.fresh()
    before = clients.epoch()
    result = clients.run("python_openai", owner, mode)
    clients.was_done(owner, result)
    assert clients.epoch() == before + 1


RUNS = [
    "",
    "stream",
    "previous",
    "previous stream",
    "conversation",
    "conversation stream",
    "session",
    "websocket",
]


@pytest.mark.parametrize("mode", RUNS)
@pytest.mark.parametrize("owner", OWNERS)
def test_openai_agents(clients: Clients, owner: str, mode: str):
    """A ComputerTool over the body does the task, in every way that the runner can go on; or is never called."""
    clients.fresh()
    if "session" in mode:
        clients.mind.after_the_task.append([message("You are welcome.")])
    result = clients.run("python_agents", owner, mode)
    clients.was_done(owner, result)


@pytest.mark.parametrize("mode", ["", "stream", "previous"])
@pytest.mark.parametrize("owner", OWNERS)
def test_langchain(clients: Clients, owner: str, mode: str):
    """It carries out what it is shown, and replays it in shapes of its own; what the body did it doesn't see."""
    clients.fresh()
    clients.was_done(owner, clients.run("python_langchain", owner, mode))
