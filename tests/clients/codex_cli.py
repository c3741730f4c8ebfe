"""The codex CLI as a client: its configuration for a gateway, and `codex exec`."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from . import kits
from .world import Clients

Json = dict[str, Any]
CONFIG = """
model = "{model}"
model_provider = "bodyd"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
web_search = "disabled"
[analytics]
enabled = false
[features]
plugins = false
apps = false
remote_plugin = false
memories = false
[model_providers.bodyd]
name = "bodyd"
base_url = "{url}"
env_key = "BODYD_KEY"
wire_api = "responses"
requires_openai_auth = false
supports_websockets = {websockets}
request_max_retries = 0
stream_max_retries = 0
"""


def codex_exec(
    clients: Clients, owner: str, prompt: str, *, model: str = "body-1", websockets: bool = False
) -> list[Json]:
    """Run `codex exec` against a gateway; the items that it completed."""
    with tempfile.TemporaryDirectory(prefix="bodyd-codex-") as home:
        url, sockets = clients.url(owner), str(websockets).lower()
        Path(home, "config.toml").write_text(CONFIG.format(model=model, url=url, websockets=sockets))
        words = [*kits.command("codex"), "exec", "--json", "--skip-git-repo-check", prompt]
        told = clients.launch(words, CODEX_HOME=home, BODYD_KEY=clients.key(owner)).splitlines()
    events = [json.loads(line) for line in told]
    assert events[-1]["type"] == "turn.completed", told
    return [event["item"] for event in events if event["type"] == "item.completed"]
