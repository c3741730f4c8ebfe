"""What a restart makes of batches that have no receipt: exactly one truthful receipt each. Pure.

Says never more than the intent and its trace prove. Nothing is sent again: the caller that wants
the act repeated must ask under another request id.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bodyd.contract.receipts import (
    Delivery,
    Effect,
    InputReceipt,
    Outcome,
    Receipt,
    Sent,
    greatest,
    input_receipt,
    not_attempted,
)

from .intents import InputSummary, Intent
from .traces import Reached, Trace, Unknown, trace

REASON = "daemon_restarted"


@dataclass(frozen=True, slots=True)
class Unfinished:
    """An intent without a receipt, and its place in the journal's order."""

    sequence: int
    intent: Intent


@dataclass(frozen=True, slots=True)
class Recovered:
    """The receipt of an unfinished batch, and by which proof: for the audit."""

    sequence: int
    receipt: Receipt
    proof: str


def recover(
    unfinished: Iterable[Unfinished], words: Sequence[int], *, trusted: bool, now: int
) -> tuple[Recovered, ...]:
    """One receipt for each of *unfinished*.

    Args:
        words: The traces, as progress.py left them.
        trusted: They are all there was; otherwise they are lower bounds (the machine went down).
        now: Unix milliseconds.
    """
    return tuple(_one(item, trace(words, item.sequence), trusted=trusted, now=now) for item in unfinished)


def _one(item: Unfinished, found: Trace, *, trusted: bool, now: int) -> Recovered:
    intent = item.intent
    inputs = tuple(
        _input(index, summary, found, trusted=trusted) for index, summary in enumerate(intent.inputs)
    )
    receipt = Receipt(
        request_id=intent.request_id,
        epoch=intent.epoch,
        screenshot_id=intent.screenshot_id,
        started_at=intent.created_at,
        completed_at=max(now, intent.created_at),
        outcome=greatest(i.outcome for i in inputs),
        inputs=inputs,
        settled=False,
        reason=REASON,
    )
    return Recovered(item.sequence, receipt, _proof(found, trusted=trusted))


def _input(index: int, summary: InputSummary, found: Trace, *, trusted: bool) -> InputReceipt:
    match found:
        case Unknown.NEVER_STARTED if trusted:
            return not_attempted(index, summary.type, summary.units)
        case Unknown():
            return _uncertain(index, summary, 0)
        case Reached() if index < found.index:
            return _delivered(index, summary)
        case Reached() if index > found.index:
            return (
                not_attempted(index, summary.type, summary.units)
                if trusted
                else _uncertain(index, summary, 0)
            )
        case _:
            if found.exact and trusted and found.units < summary.units:
                return _stopped(index, summary, found.units)
            return _uncertain(index, summary, found.units)


def _delivered(index: int, summary: InputSummary) -> InputReceipt:
    """Confirmed, or the batch would not have gone on; what it did was not written down in time."""
    sent = Sent(units=summary.units, of=summary.units)
    delivery = Delivery(outcome=Outcome.CONFIRMED, sent=sent)
    return input_receipt(index, summary.type, delivery, _open_effect(summary))


def _stopped(index: int, summary: InputSummary, units: int) -> InputReceipt:
    """It is known how much was sent, and that nothing more was on its way."""
    if units == 0:
        return not_attempted(index, summary.type, summary.units)
    sent = Sent(units=min(units, summary.units), of=summary.units)
    delivery = Delivery(outcome=Outcome.FAILED, sent=sent, reason=REASON)
    return input_receipt(index, summary.type, delivery, _open_effect(summary))


def _uncertain(index: int, summary: InputSummary, units: int) -> InputReceipt:
    """At least *units* were sent; whether more were, or all arrived as meant, can't be known."""
    sent = Sent(units=min(units, summary.units), of=summary.units)
    delivery = Delivery(outcome=Outcome.UNCERTAIN, sent=sent, reason=REASON)
    return input_receipt(index, summary.type, delivery, _open_effect(summary))


def _open_effect(summary: InputSummary) -> Effect:
    return Effect(outcome=None if summary.type in ("wait", "screenshot") else Outcome.UNCERTAIN)


def _proof(found: Trace, *, trusted: bool) -> str:
    """In the audit's words: what the receipt rests on."""
    match found:
        case Unknown():
            return found.value if trusted else "no trace outlived the machine's restart"
        case _:
            how = "exactly" if found.exact and trusted else "at least"
            return f"{how} {found.units} units of input {found.index}"
