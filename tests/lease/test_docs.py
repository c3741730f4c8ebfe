"""docs/explanation/lease.md tells what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from bodyd.contract.lease import LeaseState

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/explanation/lease.md").read_text()


def test_the_page_names_every_announcement_and_no_other():
    """What is told to watchers is documented."""
    kind = r"(?:lease|body)\.[a-z]+(?:_[a-z]+)*"
    code = "".join(path.read_text() for path in (ROOT / "bodyd/lease").glob("*.py"))
    told = set(re.findall(f'"({kind})"', code))
    listed = set(re.findall(f"`({kind})`", PAGE.partition("## What is told")[2].partition("##")[0]))
    assert told == listed


def test_the_page_has_a_row_for_every_state():
    """In the table of states."""
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == {state.value for state in LeaseState}
