"""An expectation states something that can be read back, or it is refused."""

from __future__ import annotations

import pytest

from bodyd.contract.actions import parse_action
from bodyd.errors import InvalidRequest

REGION = {"x": 0, "y": 0, "width": 10, "height": 10}


@pytest.mark.parametrize(
    "expect",
    [
        {"field": "pixels"},
        {"field": "pixels", "equals": "white"},
        {"field": "window_title"},
        {"field": "clipboard", "bounds": REGION},
        {"field": "colour", "equals": "red"},
        {"field": "window_title", "equals": "a", "within_ms": 10_001},
        {"field": "window_title", "equals": "a", "within_ms": 2.5},
    ],
)
def test_what_states_nothing_is_refused(expect: dict[str, object]) -> None:
    """Pixels need bounds, text fields a text, every field must be known and its deadline bounded."""
    with pytest.raises(InvalidRequest):
        parse_action({"type": "click", "x": 1, "y": 2, "expect": expect}, param="inputs[0]")


@pytest.mark.parametrize(
    "expect",
    [
        {"field": "pixels", "bounds": REGION},
        {"field": "window_title", "contains": "penguin", "within_ms": 0},
        {"field": "checked", "equals": "true"},
    ],
)
def test_what_can_be_read_back_is_taken(expect: dict[str, object]) -> None:
    """Each kind of expectation, stated in full, is part of the action."""
    action = parse_action({"type": "click", "x": 1, "y": 2, "expect": expect}, param="inputs[0]")
    assert action.model_dump()["expect"]["field"] == expect["field"]
