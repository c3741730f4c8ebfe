"""Python SDKs against the real body: each does the task, executing every call itself, or none."""

from __future__ import annotations

import pytest

from tests.adapters.responses.world import computer, message, shell

from .scenes import COMMAND, mixed, was_mixed
from .world import OWNERS, Clients

pytestmark = pytest.mark.soak  # each SDK is installed into an environment of its own, and a body is started

LOOPS = [
    "sync",
    "replay",
    "conversation",
    "background",
    "background, reread",
    "stream=True",
    ".stream()",
    "async",
    "async .stream()",
    "connect()",
    "lanes",
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


def test_openai_agents_acknowledges_safety_checks(clients: Clients):
    """What its on_safety_check allows comes back acknowledged, and reaches the model's server so."""
    check = {"id": "check_1", "code": "malicious_instructions", "message": "careful"}
    clients.fresh([computer(call_id="c1", pending_safety_checks=[check])], [message("done")])
    assert clients.run("python_agents", "client", "checked")["final"] == "done"
    assert clients.mind.told()[-1]["acknowledged_safety_checks"] == [check]


@pytest.mark.parametrize("owner", OWNERS)
def test_openai_agents_with_the_preview_tool(clients: Clients, owner: str):
    """`computer_use_preview`, which names its screen, and has one action in a call."""
    call = computer(call_id="c1")
    (call["action"],) = call.pop("actions")
    clients.fresh([call], [message("done")])
    result = clients.run("python_agents", owner, "previewed")
    assert result["final"] == "done"
    assert result["executed"] == (["screenshot"] if owner == "client" else [])
    assert clients.exchanges(owner)[0].request["tools"][0]["type"] == "computer_use_preview"
    assert "data:image/png;base64,iVBOR" in str(clients.mind.told()[-1]["output"])


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
