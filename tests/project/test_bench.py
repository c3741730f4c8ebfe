"""The benchmark runner: what it prints, what it keeps, and what makes it fail."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from bench import __main__ as bench
from bench.comparison import Comparison
from bench.targets import arrived


def benchmark(name: str, rows: object) -> ModuleType:
    module = ModuleType(f"bench.{name}", "What it measures.\n\nMore.")
    module.NAME = name

    def measure() -> object:
        if isinstance(rows, Exception):
            raise rows
        return rows

    module.rows = measure
    return module


@pytest.fixture(autouse=True)
def _out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "OUT", tmp_path / "out")


def with_benchmarks(monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> None:
    monkeypatch.setattr(bench, "discover", lambda: iter(modules))


def test_a_missed_bar_is_shown_and_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A row over its bar is named in the summary; the exit status stays 0 and the rows are kept."""
    rows = [
        {"name": "click", "value": 9.5, "unit": "ms", "bar": "<= 8", "ok": False},
        {"name": "grab", "value": 0.5, "unit": "ms", "peer": {"name": "mss", "value": 1.5}},
        {
            "name": "type",
            "value": 1.0,
            "unit": "s",
            "peer": {"name": "absent", "value": None, "note": "no wheel"},
        },
    ]
    with_benchmarks(monkeypatch, benchmark("engine", rows))
    assert bench.main([]) == 0
    shown = capsys.readouterr().out
    assert "MISSED" in shown
    assert "BAR MISSED: click" in shown
    assert "3x" in shown
    assert "no wheel" in shown
    assert json.loads((tmp_path / "out/engine.json").read_text())["rows"] == rows


def test_a_crash_fails_the_run_and_hides_no_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A benchmark that raises makes the status 1; those after it still run."""
    later = benchmark("later", [{"name": "b", "value": 1, "unit": "s"}])
    with_benchmarks(monkeypatch, benchmark("early", RuntimeError("no X")), later)
    assert bench.main([]) == 1
    printed = capsys.readouterr()
    assert "no X" in printed.err
    assert "== later" in printed.out
    assert "crashed: early" in printed.out


def test_only_runs_one_and_refuses_an_unknown_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """--only NAME runs that benchmark alone; a name that doesn't exist lists those that do."""
    one, two = benchmark("one", []), benchmark("two", [])
    with_benchmarks(monkeypatch, one, two)
    assert bench.main(["--only", "two"]) == 0
    assert "== one" not in capsys.readouterr().out
    with pytest.raises(SystemExit):
        bench.main(["--only", "three"])
    assert "one, two" in capsys.readouterr().err


def test_every_module_of_the_folder_can_be_imported() -> None:
    """Each benchmark has a name of its own and says in its first line what it measures."""
    found = list(bench.discover())
    assert len({module.NAME for module in found}) == len(found)
    assert all((module.__doc__ or "").strip() for module in found)


def test_the_kept_table_is_printed_as_markdown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """--markdown measures nothing: the last run's rows, what they share with the one above said once."""
    rows = [
        {"name": "click", "value": 2.0, "unit": "ms", "peer": {"name": "one", "value": 4.0}},
        {"name": "click", "value": 2.0, "unit": "ms", "peer": {"name": "two", "value": None, "note": "gone"}},
    ]
    with_benchmarks(monkeypatch, benchmark("engine", rows))
    bench.main(["--only", "engine"])
    with_benchmarks(monkeypatch, benchmark("engine", RuntimeError("measured again")))
    capsys.readouterr()
    assert bench.main(["--only", "engine", "--markdown"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2:] == ["| click | 2 ms |  |  | one | 4 ms | 2x |", "|  |  |  |  | two | gone |  |"]


def test_a_peer_that_fails_keeps_its_row() -> None:
    """Its value is None, and the note says why."""
    ours = SimpleNamespace(name="bodyd")
    peer = SimpleNamespace(name="peer", why=lambda do: f"can't {do}")
    made = Comparison("click", ours, [peer])
    for figure in (1.0, 5.0, 2.0):
        made.add("call", ours, figure)
    (row,) = made.rows("call", "click", "ms", 3.0)
    assert row["value"] == 2
    assert row["ok"]
    assert row["peer"] == {"name": "peer", "value": None, "note": "can't click"}


@pytest.mark.parametrize(
    ("got", "count"), [("abcd", 4), ("", 0), ("bcd", 3), ("axbxcxd", 4), ("dcba", 1), ("acbd", 3)]
)
def test_characters_count_as_arrived_in_their_order(got: str, count: int) -> None:
    """One that is lost costs one, and does not spoil those after it."""
    assert arrived("abcd", got) == count
