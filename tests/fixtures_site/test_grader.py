"""The grader: success is one state of the panel, of its button and of the search box."""

from __future__ import annotations

import pytest
from bodyd_fixtures_site import grade


def state(**changes: object) -> dict[str, object]:
    done = {"panel_open_at_start": False, "panel_open": True, "toggles": 1, "search": "penguin"}
    return done | changes


def test_a_panel_opened_once_and_the_word_is_success() -> None:
    """One click and the word, when the panel was closed."""
    verdict = grade(state())
    assert verdict.success
    assert verdict.reasons == ()


def test_an_open_panel_must_be_left_alone() -> None:
    """When it was open at the start, no click is success, and any click is not."""
    assert grade(state(panel_open_at_start=True, toggles=0)).success
    verdict = grade(state(panel_open_at_start=True, toggles=2))
    assert verdict.reasons == ("the panel's button was clicked 2 times, not never",)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"panel_open": False}, "closed"),
        ({"toggles": 0}, "clicked never, not once"),
        ({"toggles": 3}, "clicked 3 times, not once"),
        ({"search": ""}, "holds ''"),
        ({"search": "Penguin"}, "'Penguin'"),
        ({"search": "penguin "}, "'penguin '"),
    ],
)
def test_anything_else_fails_with_its_reason(changes: dict[str, object], reason: str) -> None:
    """Each fault is named."""
    verdict = grade(state(**changes))
    assert not verdict.success
    assert any(reason in said for said in verdict.reasons)


def test_all_faults_are_named_together() -> None:
    """A run that did nothing hears of the panel, the button and the box."""
    assert len(grade(state(panel_open=False, toggles=0, search="")).reasons) == 3
