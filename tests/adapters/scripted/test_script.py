"""The script, read as a transcript: what was seen, what was done before, what comes next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from bodyd_adapters.scripted.eyes import Sight
from bodyd_adapters.scripted.ink import Box
from bodyd_adapters.scripted.script import (
    ATTEMPTS,
    LAG,
    MOST_ROUNDS,
    PATIENCE,
    Act,
    Round,
    Say,
    decide,
    judge,
)

from .sheets import Sheet

BUTTON = Box(100, 40, 200, 60)
FIELD = Box(300, 40, 600, 70)
NOTHING = Sight(show=None, hide=None, heading=None, field=None, typed=())
CLOSED = Sight(show=BUTTON, hide=None, heading=None, field=FIELD, typed=())
OPEN = Sight(show=None, hide=BUTTON, heading=None, field=FIELD, typed=())
TYPED = Sight(show=None, hide=BUTTON, heading=None, field=None, typed=(FIELD,))
PRESS = {"type": "click", "button": "left", "x": 150, "y": 50}
ENTER = ({"type": "click", "button": "left", "x": 450, "y": 55}, {"type": "type", "text": "penguin"})


def done(*actions: Mapping[str, Any]) -> Round:
    return Round(tuple(actions), None)


LOOKED = done({"type": "screenshot"})
PRESSED = done(PRESS)
ENTERED = done(*ENTER)
WAITED = done({"type": "wait"})


def test_it_begins_by_looking() -> None:
    """Nothing is clicked before the screen was seen."""
    assert decide([]) == Act(({"type": "screenshot"},))


def test_a_closed_panel_is_opened() -> None:
    """The button that reads Show filters is clicked in its middle, once."""
    assert judge(CLOSED, [LOOKED]) == Act((PRESS,))


def test_an_open_panel_is_not_touched() -> None:
    """With Hide filters in sight the first act is in the search box."""
    assert judge(OPEN, [LOOKED]) == Act(ENTER)


def test_a_slow_page_is_given_time() -> None:
    """After the click the panel may take a while; only then is it clicked again."""
    rounds = [LOOKED, PRESSED]
    for _ in range(LAG):
        assert judge(CLOSED, rounds) == Act(({"type": "wait"},))
        rounds.append(WAITED)
    assert judge(CLOSED, rounds) == Act((PRESS,))
    assert judge(OPEN, rounds) == Act(ENTER)


def test_it_says_done_only_when_it_sees_the_word() -> None:
    """The final message comes with the word in the box that was clicked, and tells what was done."""
    final = judge(TYPED, [LOOKED, PRESSED, ENTERED])
    assert isinstance(final, Say)
    assert "was closed" in final.text
    assert "already open" in judge(TYPED, [LOOKED, ENTERED]).text
    elsewhere = Sight(show=None, hide=BUTTON, heading=None, field=None, typed=(Box(0, 500, 90, 520),))
    assert judge(elsewhere, [LOOKED, PRESSED, ENTERED]) == Act(({"type": "wait"},))


def test_text_that_does_not_appear_is_typed_anew() -> None:
    """What stands in the box is selected first: half a word must not be doubled."""
    again = judge(OPEN, [LOOKED, ENTERED, *[WAITED] * LAG])
    assert [action["type"] for action in again.actions] == ["click", "keypress", "type"]
    assert again.actions[1]["keys"] == ["CTRL", "A"]
    assert (again.actions[0]["x"], again.actions[0]["y"]) == (450, 55)


@pytest.mark.parametrize(
    ("sight", "rounds", "reason"),
    [
        (NOTHING, [LOOKED, *[WAITED] * PATIENCE], "no button"),
        (CLOSED, [LOOKED, *[PRESSED, *[WAITED] * LAG] * ATTEMPTS], "stayed closed"),
        (OPEN, [LOOKED, *[ENTERED, *[WAITED] * LAG] * ATTEMPTS], "can't see it"),
        (Sight(None, BUTTON, None, None, ()), [LOOKED, *[WAITED] * LAG], "no search box"),
    ],
)
def test_it_gives_up_and_says_why(sight: Sight, rounds: list[Round], reason: str) -> None:
    """Every try is bounded, and the last message names what could not be found."""
    final = judge(sight, rounds)
    assert isinstance(final, Say)
    assert final.text.startswith("I failed")
    assert reason in final.text


def test_a_screen_that_is_still_coming_is_waited_for() -> None:
    """With neither button in sight it waits, a few times."""
    assert judge(NOTHING, [LOOKED]) == Act(({"type": "wait"},))
    assert judge(CLOSED, [LOOKED, WAITED]) == Act((PRESS,))


@pytest.mark.parametrize(
    ("rounds", "reason"),
    [
        ([LOOKED], "no screenshot"),
        ([Round((), b"nonsense")], "not a readable PNG"),
        ([Round((), Sheet().png)] * MOST_ROUNDS, f"{MOST_ROUNDS} rounds"),
    ],
)
def test_it_does_not_act_blindly(rounds: list[Round], reason: str) -> None:
    """No picture, a broken one, or too many rounds end it."""
    final = decide(rounds)
    assert isinstance(final, Say)
    assert reason in final.text
