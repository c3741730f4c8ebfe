"""How the demo shows what happens: one line an action, with the facts of its receipt.

Pure. Whatever came from a page or a model is escaped before it reaches a terminal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from bodyd.contract.receipts import InputReceipt, Outcome, Receipt


def lines(call: Mapping[str, Any], receipts: Sequence[Receipt]) -> Iterator[str]:
    """A line for each action of a `computer_call`, with what its receipt says."""
    entries = [entry for receipt in receipts for entry in receipt.inputs]
    for action, entry in zip_longest(call.get("actions", ()), entries):
        said = describe(action) if action is not None else printable(entry.type, 20)
        yield f"{said:<28} {facts(entry)}".rstrip()


def describe(action: Mapping[str, Any]) -> str:
    """An action in a few words; its text escaped."""
    kind = str(action.get("type"))
    match action:
        case {"type": "click", "x": x, "y": y}:
            return f"click {printable(str(action.get('button', 'left')), 8)} at {x},{y}"
        case {"x": x, "y": y}:
            return f"{printable(kind, 20)} at {x},{y}"
        case {"type": "type", "text": str(text)}:
            return f'type "{printable(text, 20)}"'
        case {"keys": [*keys]}:
            return f"{printable(kind, 20)} {printable('+'.join(map(str, keys)), 24)}"
        case _:
            return printable(kind, 20)


def facts(entry: InputReceipt | None) -> str:
    """A receipt's two facts, in columns."""
    if entry is None:
        return ""
    delivery, effect = entry.delivery, entry.effect
    sent = f"{delivery.sent.units}/{delivery.sent.of}"
    delivered = f"delivery {delivery.outcome.value} {sent}"
    if delivery.outcome is not Outcome.CONFIRMED:
        return f"{delivered} ({printable(delivery.reason or 'no reason given', 60)})"
    if effect.outcome is None:
        return delivered
    observed = effect.evidence or ("the screen changed" if effect.changed else "")
    seen = f" ({printable(observed, 60)})" if observed else ""
    return f"{delivered:<25} effect {effect.outcome.value}{seen}"


def printable(text: str, most: int) -> str:
    """*text* in at most *most* characters, fit for a terminal: what a page says may be an escape code."""
    whole = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return whole if len(whole) <= most else f"{whole[: most - 1]}…"


def message(output: Sequence[Mapping[str, Any]]) -> str:
    """The text of a model's last word."""
    parts = [part for item in output if item.get("type") == "message" for part in item.get("content", ())]
    return " ".join(str(part.get("text", "")) for part in parts) or "(nothing)"
