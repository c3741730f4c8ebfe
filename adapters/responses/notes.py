"""What the gateway tells the model beside a result, such as which actions were not executed.

Pure. A computer_call_output has room for a screenshot and nothing else; the note is kept in a field
of our own, which leaves the store only in the words that the model is sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bodyd.contract.receipts import Outcome, Receipt

Json = dict[str, Any]

NOTE = "bodyd_note"


def with_note(item: Json, note: str | None) -> Json:
    return {**item, NOTE: note} if note else item


def note_of(item: Json) -> str | None:
    note = item.get(NOTE)
    return note if isinstance(note, str) else None


def public(item: Json) -> Json:
    """*item* without what is ours alone."""
    return {key: value for key, value in item.items() if key != NOTE}


def about_receipts(receipts: Sequence[Receipt]) -> str | None:
    """Which actions of a call were not carried out, by number and type; None if all were."""
    failed: list[str] = []
    skipped: list[str] = []
    number = 0
    for receipt in receipts:
        for one in receipt.inputs:
            number += 1
            name = f"{number} ({one.type})"
            if one.delivery.outcome is Outcome.CONFIRMED:
                continue
            if one.delivery.reason == "not_attempted":
                skipped.append(name)
            else:
                why = one.delivery.reason or one.delivery.outcome.value
                sent = one.delivery.sent
                failed.append(f"{name}: {why}, {sent.units} of {sent.of} sent")
    if not failed and not skipped:
        return None
    if failed and all(": screenshot_first" in text for text in failed):
        return (
            "Nothing of this call was executed: you had not seen the screen as it is now. "
            "The screenshot shows it; aim again."
        )
    lines = []
    if failed:
        lines.append("Not carried out: action " + "; action ".join(failed) + ".")
    if skipped:
        lines.append("Not executed after that: action " + ", ".join(skipped) + ".")
    return " ".join([*lines, "The screenshot shows the screen as it is now."])


def about_refusal(message: str) -> str:
    """Nothing of the call ran, and why."""
    return f"Nothing of this call was executed: {message}. The screenshot shows the screen as it is now."
