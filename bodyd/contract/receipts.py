"""Receipts: what is known about each input, never more than what is known.

`delivery` says whether every atom reached the display server in order; `effect` whether a readback
showed that it did something. Callers decide by `delivery`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from .screenshots import Screenshot


class Outcome(StrEnum):
    """Ordered: confirmed < failed < uncertain."""

    CONFIRMED = "confirmed"
    FAILED = "failed"
    UNCERTAIN = "uncertain"

    @property
    def rank(self) -> int:
        return ("confirmed", "failed", "uncertain").index(self.value)


NOT_APPLICABLE = "not_applicable"


class Sent(BaseModel):
    """How many atoms (characters, path points, notches, key and button edges) were acknowledged."""

    model_config = ConfigDict(frozen=True)
    units: int
    of: int


class Delivery(BaseModel):
    """`reason` is set unless confirmed: refused, interrupted, not_attempted, display_lost, …"""

    model_config = ConfigDict(frozen=True)
    outcome: Outcome
    sent: Sent
    reason: str | None = None


class Effect(BaseModel):
    """`outcome` is None where an effect is not applicable (wait, screenshot).

    `evidence` names the readback that confirmed or refuted it; `changed` reports pixels that
    changed, which alone never confirm anything.
    """

    model_config = ConfigDict(frozen=True)
    outcome: Outcome | None
    evidence: str | None = None
    changed: bool | None = None


class InputReceipt(BaseModel):
    """One input of a batch."""

    model_config = ConfigDict(frozen=True)
    index: int
    type: str
    delivery: Delivery
    effect: Effect
    outcome: Outcome


class Receipt(BaseModel):
    """The durable answer to one request id.

    Attributes:
        outcome: The greatest of its inputs'.
        settled: The screen was quiet before the cap was reached.
        replayed: This answer was read from the journal: nothing was sent this time.
        screenshot: The capture asked for in the same request, if any.
    """

    model_config = ConfigDict(frozen=True)
    request_id: str
    epoch: int
    screenshot_id: str | None
    started_at: int
    completed_at: int
    outcome: Outcome
    inputs: tuple[InputReceipt, ...]
    settled: bool
    reason: str | None = None
    replayed: bool = False
    screenshot: Screenshot | None = None

    @property
    def delivery(self) -> Outcome:
        """The greatest delivery outcome of its inputs."""
        return greatest(i.delivery.outcome for i in self.inputs)


def greatest(outcomes: Iterable[Outcome]) -> Outcome:
    """The worst of *outcomes*, by the order above; confirmed for none."""
    worst = Outcome.CONFIRMED
    for outcome in outcomes:
        if outcome.rank > worst.rank:
            worst = outcome
    return worst


def input_receipt(index: int, kind: str, delivery: Delivery, effect: Effect) -> InputReceipt:
    """Join the two facts: the outcome is the greater, an inapplicable effect left out."""
    outcomes = [delivery.outcome] + ([effect.outcome] if effect.outcome is not None else [])
    return InputReceipt(index=index, type=kind, delivery=delivery, effect=effect, outcome=greatest(outcomes))


def not_attempted(index: int, kind: str, units: int, reason: str = "not_attempted") -> InputReceipt:
    """The receipt of an input of which nothing was sent."""
    effect = Effect(outcome=None if kind in ("wait", "screenshot") else Outcome.FAILED)
    delivery = Delivery(outcome=Outcome.FAILED, sent=Sent(units=0, of=units), reason=reason)
    return input_receipt(index, kind, delivery, effect)
