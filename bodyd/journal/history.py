"""What was done, newest first, as its owner is shown it: intents beside their receipts, no typed text.

A text is its length here: the digests that intents.py keeps are the audit's affair.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

from .intents import Intent
from .requests import loads

HIDDEN_KEY = "a key"


def recent(connection: sqlite3.Connection, *, before: int | None, limit: int) -> list[dict[str, Any]]:
    """Up to *limit* requests with a lower sequence than *before*, running ones without a receipt.

    Raises:
        JournalUnavailable: one of them is not what was written.
    """
    rows = connection.execute(
        "SELECT sequence, request_id, intent, intent_sha256, receipt, receipt_sha256 FROM requests "
        "WHERE ?1 IS NULL OR sequence < ?1 ORDER BY sequence DESC LIMIT ?2",
        (before, limit),
    ).fetchall()
    return [_entry(*row) for row in rows]


def _entry(
    sequence: int, request_id: str, intent: str, intent_sha256: str, receipt: str | None, receipt_sha256: str
) -> dict[str, Any]:
    asked = Intent.from_json(loads(request_id, intent, intent_sha256))
    return {
        "sequence": sequence,
        "request_id": request_id,
        "conversation_id": asked.conversation_id,
        "epoch": asked.epoch,
        "at": asked.created_at,
        "screenshot_id": asked.screenshot_id,
        "inputs": [{"type": one.type, "units": one.units, **_shown(one.facts)} for one in asked.inputs],
        "receipt": None if receipt is None else loads(request_id, receipt, receipt_sha256),
    }


def _shown(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of an input without what was typed, or what a text was to be."""
    shown = {name: value for name, value in facts.items() if name != "expect"}
    if isinstance(text := shown.get("text"), Mapping):
        shown["text"] = {"length": text["length"]}
    if isinstance(keys := shown.get("keys"), list):
        shown["keys"] = [HIDDEN_KEY if isinstance(key, Mapping) else key for key in keys]
    return shown
