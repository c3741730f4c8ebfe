"""SDKs on Node against the real body: each does the task, executing every call itself, or none."""

from __future__ import annotations

import pytest

from tests.adapters.responses.world import message

from .scenes import mixed, was_mixed
from .world import OWNERS, Clients

pytestmark = pytest.mark.soak  # each SDK is installed into an environment of its own, and a body is started


@pytest.mark.parametrize("mode", ["create", "stream: true", ".stream()", "conversation", "ComputerToolset"])
@pytest.mark.parametrize("owner", OWNERS)
def test_openai(clients: Clients, owner: str, mode: str):
    """Written as its users write it: the panel is opened once, the word typed, by whoever is to."""
    clients.fresh()
    clients.was_done(owner, clients.run("node_openai", owner, mode))


@pytest.mark.parametrize("mode", ["create", ".stream()"])
@pytest.mark.parametrize("owner", OWNERS)
def test_openai_with_both_tools(clients: Clients, owner: str, mode: str):
    """Calls of both kinds in one turn; the helper accumulates shell calls without complaint."""
    clients.fresh(*mixed())
    was_mixed(clients, owner, clients.run("node_openai", owner, mode))


@pytest.mark.parametrize("mode", ["", "stream", "previous stream", "conversation", "session"])
@pytest.mark.parametrize("owner", OWNERS)
def test_openai_agents(clients: Clients, owner: str, mode: str):
    """A computerTool over the body does the task, in every way that a run goes on; or is never called."""
    clients.fresh()
    result = clients.run("node_agents", owner, mode)
    clients.was_done(owner, result)
    if "session" in mode:  # the second turn has all of the first, hidden calls in their places
        assert result["thanked"] == "You are welcome."
        kinds = [item["type"] for item in clients.mind.told() if item.get("type", "message") != "message"]
        assert kinds == ["computer_call", "computer_call_output"] * len(clients.mind.asked)


@pytest.mark.parametrize("mode", ["", "stream"])
@pytest.mark.parametrize("owner", OWNERS)
def test_openai_agents_with_both_tools(clients: Clients, owner: str, mode: str):
    """Its outputs come back in another order than the calls; the body's calls it never sees."""
    clients.fresh(*mixed())
    was_mixed(clients, owner, clients.run("node_agents", owner, mode))


@pytest.mark.parametrize("mode", ["", "stream", "unstored"])
@pytest.mark.parametrize("owner", OWNERS)
def test_ai(clients: Clients, owner: str, mode: str):
    """It names stored items instead of sending them, and does the task; or sees its end alone."""
    clients.fresh()
    clients.was_done(owner, clients.run("node_ai", owner, mode))


@pytest.mark.parametrize("mode", ["", "stream", "conversation"])
@pytest.mark.parametrize("owner", OWNERS)
def test_ai_with_both_tools(clients: Clients, owner: str, mode: str):
    """Calls of both kinds in one step; a conversation is sent its task and all outputs again in each."""
    clients.fresh(*mixed())
    was_mixed(clients, owner, clients.run("node_ai", owner, mode))


def test_ai_with_a_previous_response(clients: Clients):
    """With previousResponseId it sends outputs without their calls: only the body's calls work."""
    clients.fresh([message("You are welcome.")], *mixed())
    was_mixed(clients, "body", clients.run("node_ai", "body", "previous"))
    clients.fresh([message("You are welcome.")], *mixed())
    with pytest.raises(AssertionError, match="No tool call found for this computer_call_output"):
        clients.run("node_ai", "client", "previous")
