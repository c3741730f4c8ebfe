"""docs/explanation/walls.md names a test for each attack, and each of them is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/explanation/walls.md").read_text()
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", PAGE)


def test_every_named_test_exists():
    """No row of the list has lost its test."""
    missing = [
        f"{path}::{name}"
        for path, name in NAMED
        if not re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE)
    ]
    assert missing == []


def test_every_attack_of_the_design_has_a_row():
    """The 24 that the walls were designed from, and those that came later, without a gap."""
    numbers = [int(number) for number in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 24
    rows = [line for line in PAGE.splitlines() if re.match(r"\| (\d+|[A-Z`].*) \|.*`tests/", line)]
    assert len(rows) >= len(numbers)


def test_every_attack_program_is_run():
    """A program that no test names attacks nothing."""
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    programs = {path.stem for path in (ROOT / "tests/walls/attacks").glob("*.py")} - {"attempt"}
    assert {name for name in programs if f'"{name}"' not in tests} == set()
