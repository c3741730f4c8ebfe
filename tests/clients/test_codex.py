"""The codex CLI against a gateway: its tools are its own; it runs them, and the gateway nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.adapters.responses.world import function, message

from .codex_cli import codex_exec
from .world import OWNERS, Clients

pytestmark = pytest.mark.soak  # codex is installed, and a body is started

Json = dict[str, Any]
COMMAND = "echo found > it; cat it; pwd"


@pytest.mark.parametrize("websockets", [False, True], ids=["http", "websockets"])
@pytest.mark.parametrize("owner", OWNERS)
def test_codex_runs_its_own_commands(clients: Clients, owner: str, websockets: bool):
    """`exec_command` is codex's function: run once, by it, whoever owns `shell`; a warm-up asks no model."""
    clients.fresh([function("exec_command", {"cmd": COMMAND}, "f1")], [message("done")])
    before = clients.epoch()
    ran, said = codex_exec(clients, owner, "go", websockets=websockets)[-2:]
    assert ran["command"].endswith(f"'{COMMAND}'")
    assert ran["aggregated_output"].split()[0] == "found"
    assert "/workspace" not in ran["aggregated_output"]
    assert (said["type"], said["text"]) == ("agent_message", "done")
    assert len(clients.mind.seen) == 2
    assert clients.epoch() == before
    warm = [one for one in clients.exchanges(owner) if one.request.get("generate") is False]
    assert len(warm) == websockets


def test_codex_with_tools_among_its_items(clients: Clients):
    """Newer models' tools come as an item, in namespaces; their calls come back as codex made them."""
    code = f'const ran = await tools.exec_command({{cmd: "{COMMAND}"}}); text(ran.output)'
    clients.fresh(
        [function("functions__exec", {"input": code}, "f1")],
        [function("collaboration__list_agents", {}, "f2")],
        [message("done")],
    )
    items = codex_exec(clients, "client", "go", model="gpt-6-astra")
    assert [item["type"] for item in items] == ["command_execution", "agent_message"]
    assert items[0]["aggregated_output"].split()[0] == "found"
    sent = clients.exchanges("client")[-1].request
    assert "tools" not in sent
    assert sent["input"][0]["type"] == "additional_tools"
    called = {item["call_id"]: item for item in sent["input"] if item["type"].endswith("_call")}
    assert (called["f1"]["type"], called["f1"]["namespace"]) == ("custom_tool_call", "functions")
    assert (called["f1"]["name"], called["f1"]["input"]) == ("exec", code)
    assert (called["f2"]["namespace"], called["f2"]["name"]) == ("collaboration", "list_agents")
    answered = {item["call_id"]: item["output"] for item in sent["input"] if "output" in item}
    assert "found" in str(answered["f1"])
    assert "/root" in answered["f2"]


def test_codex_notifies_before_its_answer(clients: Clients):
    """A script that notifies gives one call two outputs: the model is told of both."""
    clients.fresh(
        [function("functions__exec", {"input": 'notify("half way"); text("all of it")'}, "f1")],
        [message("done")],
    )
    assert codex_exec(clients, "client", "go", model="gpt-6-astra")[-1]["text"] == "done"
    assert "half way" in str(clients.mind.told())
    assert "all of it" in str(clients.mind.told())
