"""Receipts: the order of outcomes, and how two facts are joined."""

from __future__ import annotations

import pytest

from bodyd.contract.receipts import (
    Delivery,
    Effect,
    Outcome,
    Receipt,
    Sent,
    greatest,
    input_receipt,
    not_attempted,
)

C, F, U = Outcome.CONFIRMED, Outcome.FAILED, Outcome.UNCERTAIN


@pytest.mark.parametrize(
    ("delivery", "effect", "outcome"),
    [(C, C, C), (C, F, F), (C, U, U), (F, U, U), (U, C, U), (C, None, C), (F, None, F)],
)
def test_the_outcome_is_the_greater_of_delivery_and_effect(delivery, effect, outcome):
    """confirmed < failed < uncertain; an inapplicable effect is left out."""
    receipt = input_receipt(
        0, "click", Delivery(outcome=delivery, sent=Sent(units=1, of=1)), Effect(outcome=effect)
    )
    assert receipt.outcome is outcome


def test_a_batch_is_as_good_as_its_worst_input():
    """`outcome` and `delivery` of a receipt are the greatest of its inputs'."""
    inputs = (
        input_receipt(0, "click", Delivery(outcome=C, sent=Sent(units=3, of=3)), Effect(outcome=U)),
        not_attempted(1, "type", 5),
    )
    receipt = Receipt(
        request_id="r", epoch=1, screenshot_id=None, started_at=0, completed_at=1,
        outcome=greatest(i.outcome for i in inputs), inputs=inputs, settled=True,
    )  # fmt: skip
    assert receipt.outcome is U
    assert receipt.delivery is F
    assert greatest([]) is C


def test_what_was_not_attempted_sent_nothing():
    """Zero of its units, failed, with the reason; a wait has no effect to fail."""
    receipt = not_attempted(3, "type", 9)
    assert (receipt.delivery.sent.units, receipt.delivery.sent.of) == (0, 9)
    assert receipt.delivery.reason == "not_attempted"
    assert receipt.outcome is F
    assert not_attempted(0, "wait", 40).effect.outcome is None
