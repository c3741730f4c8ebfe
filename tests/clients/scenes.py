"""Rounds of the model that clients are put through, and how it is told that all went well."""

from __future__ import annotations

from typing import Any

from tests.adapters.responses.world import computer, message, shell

from .world import Clients

Json = dict[str, Any]
COMMAND = "echo found > it; cat it; pwd; exit 3"


def mixed() -> list[list[Json]]:
    """A round with calls of both kinds, one after it, and the end."""
    move = computer({"type": "move", "x": 200, "y": 300}, call_id="c2")
    return [[computer(call_id="c1"), shell(COMMAND, call_id="s1")], [move], [message("done")]]


def was_mixed(clients: Clients, owner: str, result: Json) -> None:
    """All three calls were carried out by their owner alone, and the model was told of each by call_id."""
    acted = [one for one in result["executed"] if owner == "body" or one != "screenshot"]
    assert sorted(acted) == ([COMMAND, "move"] if owner == "client" else [])
    assert result["final"] == "done"
    outputs = {item["call_id"]: item["output"] for item in clients.mind.told() if "output" in item}
    assert outputs.keys() == {"c1", "s1", "c2"}
    (command,) = outputs["s1"]
    assert command["outcome"] == {"type": "exit", "exit_code": 3}
    found, where = command["stdout"].split()
    assert (found, where == "/workspace") == ("found", owner == "body")
    for one in ("c1", "c2"):
        assert outputs[one]["image_url"].startswith("data:image/png;base64,iVBOR")
    assert clients.exchanges(owner)
