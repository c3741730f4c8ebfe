"""What is well, and when it is time to mend (pure)."""

from __future__ import annotations

import pytest

from bodyd.driver.vitals import BLANK, DEAD, FROZEN, HUNG, READY, UNKNOWN, Escalation, Patience, Vitals

WELL = Vitals(READY, READY, READY, READY)


def test_what_has_not_answered_is_not_well():
    """A look begins with the worst; nobody can judge the rest while the X server is silent."""
    assert Vitals().states() == {
        "x": FROZEN, "window_manager": UNKNOWN, "capture": UNKNOWN, "screen": UNKNOWN,
    }  # fmt: skip
    assert Vitals(READY).states() == {
        "x": READY, "window_manager": HUNG, "capture": DEAD, "screen": UNKNOWN,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("vitals", "told"),
    [
        (WELL, None),
        (Vitals(), "x frozen"),
        (Vitals(READY, HUNG, READY, READY), "window_manager hung"),
        (Vitals(READY, UNKNOWN, DEAD, UNKNOWN), "capture dead"),
        (Vitals(READY, READY, READY, BLANK), "screen blank"),
        (Vitals(READY, HUNG, READY, BLANK), "window_manager hung, screen blank"),
    ],
)
def test_the_four_troubles_are_told_apart(vitals, told):
    """In the words of a receipt; what is unknown is no trouble of its own."""
    assert vitals.trouble() == told


def test_a_busy_machine_is_given_time():
    """Three misses in a row, over long enough; one answer forgives them; a mend begins the count anew."""
    patience = Patience(5.0)
    assert [patience.note(False, t) for t in (0, 1, 2, 3, 4, 4.9)] == [False] * 6
    assert patience.note(False, 5.0)
    assert [patience.note(False, t) for t in (6, 12)] == [False] * 2
    assert not patience.note(True, 13)
    assert [patience.note(False, t) for t in (14, 15)] == [False] * 2
    assert patience.note(False, 30)


def test_the_gentle_remedy_comes_first():
    """The strong one only where the same was needed again soon; then it begins anew."""
    again = Escalation(60.0)
    assert [again.strong(t) for t in (0, 30, 40, 200, 230)] == [False, True, False, False, True]
