"""The site's record: what a page reports, taken once and in order, and nothing else."""

from __future__ import annotations

import pytest
from bodyd_fixtures_site.record import MAX_EVENTS, MAX_TEXT, BadEvent, Record


@pytest.fixture
def record() -> Record:
    return Record(run="r", seed=7, panel_open_at_start=False)


def test_events_are_applied_in_order(record: Record) -> None:
    """The state is that after the last event; the log has them all, numbered across pages."""
    record.take("a", [{"n": 1, "type": "shown"}, {"n": 2, "type": "toggle", "open": True}])
    record.take("b", [{"n": 1, "type": "search", "value": "pen"}, {"n": 2, "type": "search", "value": "p"}])
    state = record.state()
    assert (state["shown"], state["toggles"], state["panel_open"], state["search"]) == (1, 1, True, "p")
    assert [(event["n"], event["type"]) for event in state["log"]] == [
        (1, "shown"),
        (2, "toggle"),
        (3, "search"),
        (4, "search"),
    ]


def test_a_repeated_report_counts_once(record: Record) -> None:
    """A page whose answer was lost sends again; a click stays one click."""
    events = [{"n": 1, "type": "toggle", "open": True}]
    assert record.take("a", events) == 1
    assert record.take("a", [*events, {"n": 2, "type": "toggle", "open": False}]) == 1
    assert record.toggles == 2
    assert not record.panel_open


@pytest.mark.parametrize(
    "events",
    [
        {"n": 1, "type": "shown"},
        [{"n": 1, "type": "grade"}],
        [{"n": True, "type": "shown"}],
        [{"n": 1, "type": "toggle", "open": 1}],
        [{"n": 1, "type": "search", "value": None}],
        [{"n": 1, "type": "search", "value": "x" * (MAX_TEXT + 1)}],
        ["shown"],
    ],
)
def test_what_the_page_does_not_send_is_refused(record: Record, events: object) -> None:
    """A malformed report changes nothing, its well-formed part included."""
    before = record.state()
    good = [{"n": 1, "type": "toggle", "open": True}]
    with pytest.raises(BadEvent):
        record.take("a", [*good, *events] if isinstance(events, list) else events)
    assert record.state() == before


def test_a_run_has_a_bound(record: Record) -> None:
    """A page that never stops reporting is refused before it fills the memory."""
    record.take("a", [{"n": n, "type": "shown"} for n in range(1, MAX_EVENTS + 1)])
    with pytest.raises(BadEvent, match="reset"):
        record.take("a", [{"n": MAX_EVENTS + 1, "type": "shown"}])
