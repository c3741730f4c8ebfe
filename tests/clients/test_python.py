"""Python SDKs against the real body: each does the task, executing every call itself, or none."""

from __future__ import annotations

import pytest

from tests.adapters.responses.world import message, shell

from .scenes import COMMAND, mixed, was_mixed
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


@pytest.mark.parametrize("mode", ["sync", "replay", ".stream()", "async .stream()"])
@pytest.mark.parametrize("owner", OWNERS)
def test_openai_with_both_tools(clients: Clients, owner: str, mode: str):
    """Calls of both kinds in one turn, each answered by its call_id."""
    clients.fresh(*mixed())
    was_mixed(clients, owner, clients.run("python_openai", owner, mode))


def test_openai_watches_pairs(clients: Clients):
    """Who asks for pairs is shown each call of the body with its output, and has nothing to carry out."""
    clients.fresh(*mixed())
    result = clients.run("python_openai", "body", "pairs", headers={"bodyd-items": "pairs"})
    was_mixed(clients, "body", result)
    first = ["computer_call", "shell_call", "computer_call_output", "shell_call_output"]
    assert result["shown"] == [*first, "computer_call", "computer_call_output", "message"]


def test_openai_lowers_ownership(clients: Clients):
    """The header makes every call of one request the client's, whatever is configured."""
    clients.fresh(*mixed())
    before = clients.epoch()
    result = clients.run("python_openai", "body", "sync", headers={"bodyd-execution": "client"})
    assert [one for one in result["executed"] if one != "screenshot"] == [COMMAND, "move"]
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
    """A ComputerTool over the body does the task, in every way that a run goes on; or is never called."""
    clients.fresh()
    result = clients.run("python_agents", owner, mode)
    clients.was_done(owner, result)
    if "session" in mode:  # the second turn has all of the first, hidden calls in their places
        assert result["thanked"] == "You are welcome."
        kinds = [item["type"] for item in clients.mind.told() if item.get("type", "message") != "message"]
        assert kinds == ["computer_call", "computer_call_output"] * len(clients.mind.asked)


@pytest.mark.parametrize("mode", ["", "stream", "previous"])
@pytest.mark.parametrize("owner", OWNERS)
def test_openai_agents_with_both_tools(clients: Clients, owner: str, mode: str):
    """Its outputs come back in another order than the calls; the body's calls it never sees."""
    clients.fresh(*mixed())
    was_mixed(clients, owner, clients.run("python_agents", owner, mode))


def test_openai_agents_must_not_be_shown_pairs(clients: Clients):
    """Why the table says hidden: shown a call of the body with its output, it carries it out once more."""
    clients.fresh([shell(COMMAND, call_id="s1")], [message("done")], [message("done")])
    result = clients.run("python_agents", "body", headers={"bodyd-items": "pairs"})
    assert result["executed"] == [COMMAND]


@pytest.mark.parametrize("mode", ["", "stream", "previous"])
@pytest.mark.parametrize("owner", OWNERS)
def test_langchain(clients: Clients, owner: str, mode: str):
    """It carries out what it is shown, and replays it in its own shapes; what the body did it doesn't see."""
    clients.fresh()
    clients.was_done(owner, clients.run("python_langchain", owner, mode))
