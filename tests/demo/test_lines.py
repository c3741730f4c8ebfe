"""The demo's lines: an action and its facts, aligned, and nothing that a terminal would obey."""

from __future__ import annotations

import pytest

from bodyd.contract.receipts import (
    Delivery,
    Effect,
    InputReceipt,
    Outcome,
    Receipt,
    Sent,
    input_receipt,
    not_attempted,
)
from bodyd.demo.lines import describe, facts, lines, message, printable


def entry(kind: str, *, effect: Effect, units: int = 4) -> InputReceipt:
    delivery = Delivery(outcome=Outcome.CONFIRMED, sent=Sent(units=units, of=units))
    return input_receipt(0, kind, delivery, effect)


def receipt(*entries: InputReceipt) -> Receipt:
    return Receipt(
        request_id="r",
        epoch=1,
        screenshot_id=None,
        started_at=0,
        completed_at=0,
        outcome=Outcome.CONFIRMED,
        inputs=entries,
        settled=True,
    )


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ({"type": "click", "button": "left", "x": 0, "y": 7}, "click left at 0,7"),
        ({"type": "move", "x": 3, "y": 4}, "move at 3,4"),
        ({"type": "type", "text": "penguin"}, 'type "penguin"'),
        ({"type": "type", "text": "\x1b[31m" + "a" * 60}, 'type "\\x1b[31maaaaaaaaaaa…"'),
        ({"type": "keypress", "keys": ["CTRL", "A"]}, "keypress CTRL+A"),
        ({"type": "wait"}, "wait"),
        ({}, "None"),
    ],
)
def test_an_action_in_a_few_words(action: dict[str, object], said: str) -> None:
    """Every kind fits its column, its text escaped and cut."""
    assert describe(action) == said
    assert len(said) <= 28


def test_facts_stand_in_columns() -> None:
    """Delivery with its count, effect with its evidence or what was seen; a failure with its reason."""
    confirmed = Effect(outcome=Outcome.CONFIRMED, evidence="pointer")
    seen = Effect(outcome=Outcome.UNCERTAIN, changed=True)
    assert facts(entry("move", effect=confirmed)) == "delivery confirmed 4/4    effect confirmed (pointer)"
    assert facts(entry("type", effect=seen)) == (
        "delivery confirmed 4/4    effect uncertain (the screen changed)"
    )
    assert facts(entry("wait", effect=Effect(outcome=None))) == "delivery confirmed 4/4"
    assert facts(not_attempted(0, "click", 3)) == "delivery failed 0/3 (not_attempted)"
    assert facts(None) == ""


def test_each_action_gets_its_receipt() -> None:
    """Receipts of several batches are joined in order; one without the other is still shown."""
    nothing = Effect(outcome=Outcome.UNCERTAIN)
    call = {"actions": [{"type": "wait"}, {"type": "type", "text": "a"}, {"type": "screenshot"}]}
    shown = list(
        lines(call, [receipt(entry("wait", effect=nothing)), receipt(entry("type", effect=nothing))])
    )
    assert [line.split()[0] for line in shown] == ["wait", "type", "screenshot"]
    assert shown[0].index("delivery") == shown[1].index("delivery")
    (alone,) = lines({}, [receipt(entry("wait", effect=nothing))])
    assert alone.startswith("wait")


@pytest.mark.parametrize("text", ["\x1b]0;owned\x07", "a\r\nb", "\u202eevil", "\x9b31m", "\u2028"])
def test_nothing_that_a_terminal_obeys_is_printed(text: str) -> None:
    """Escapes, line ends and direction marks come out as their codes."""
    assert printable(text, 100).isprintable()
    assert printable(text, 100).isascii()


def test_long_text_is_cut() -> None:
    """To the column, with a mark."""
    assert printable("x" * 50, 10) == "x" * 9 + "…"
    assert printable("Grüße 你好", 10) == "Grüße 你好"


def test_the_last_word_is_the_messages_text() -> None:
    """Reasoning and empty answers have none."""
    said = {"type": "message", "content": [{"type": "output_text", "text": "done"}]}
    assert message([{"type": "reasoning"}, said]) == "done"
    assert message([]) == "(nothing)"
