"""Request ids, their intents and their receipts, in the journal's database.

One id is one act, per body, whoever asks. Every function runs inside a transaction of database.py;
the audit row of a step is written in the same one.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from bodyd.contract.receipts import Receipt
from bodyd.errors import JournalUnavailable

from . import chain
from .intents import Intent, canonical
from .recovery import Recovered, Unfinished


@dataclass(frozen=True, slots=True)
class Stored:
    """The id and the body are known, and this was the answer."""

    receipt: Receipt


@dataclass(frozen=True, slots=True)
class Conflict:
    """The id is known with another body: refused."""


@dataclass(frozen=True, slots=True)
class Running:
    """The id and the body are known, and have no receipt yet."""


Found = Stored | Conflict | Running


def find(connection: sqlite3.Connection, request_id: str, fingerprint: str) -> Found | None:
    """What the journal knows of this request; None: nothing."""
    row = connection.execute(
        "SELECT fingerprint, receipt, receipt_sha256 FROM requests WHERE request_id = ?", (request_id,)
    ).fetchone()
    if row is None:
        return None
    if row[0] != fingerprint:
        return Conflict()
    return Running() if row[1] is None else Stored(_receipt(request_id, row[1], row[2]))


def begin(connection: sqlite3.Connection, intent: Intent) -> int:
    """Keep a new intent; returns its sequence, which grows with every request of this body's life."""
    text = canonical(intent.to_json())
    cursor = connection.execute(
        "INSERT INTO requests (request_id, fingerprint, epoch, intent, intent_sha256) VALUES (?, ?, ?, ?, ?)",
        (intent.request_id, intent.fingerprint, intent.epoch, text, _digest(text)),
    )
    connection.execute("UPDATE highest_epoch SET epoch = ? WHERE epoch < ?", (intent.epoch, intent.epoch))
    chain.append(connection, "action.requested", intent.to_json(), at=intent.created_at)
    sequence = cursor.lastrowid
    assert sequence is not None
    return sequence


def finish(connection: sqlite3.Connection, receipt: Receipt) -> None:
    """Keep the one receipt of a begun request; the same one again is no harm.

    Raises:
        LookupError: the request was never begun, or has another receipt (a bug of the caller's).
    """
    text = _store(connection, receipt)
    if text is not None:
        chain.append(connection, "action.completed", _facts(receipt, text), at=receipt.completed_at)


def finish_recovered(connection: sqlite3.Connection, recovered: Iterable[Recovered]) -> None:
    """Keep the receipts that a restart made."""
    for item in recovered:
        text = _store(connection, item.receipt)
        assert text is not None, "only unfinished requests are recovered"
        facts = {**_facts(item.receipt, text), "proof": item.proof}
        chain.append(connection, "action.recovered", facts, at=item.receipt.completed_at)


def receipt(connection: sqlite3.Connection, request_id: str) -> Receipt | None:
    """The stored receipt; None while there is none."""
    row = connection.execute(
        "SELECT receipt, receipt_sha256 FROM requests WHERE request_id = ?", (request_id,)
    ).fetchone()
    return None if row is None or row[0] is None else _receipt(request_id, row[0], row[1])


def unfinished(connection: sqlite3.Connection) -> tuple[Unfinished, ...]:
    """Every intent without a receipt, oldest first."""
    rows = connection.execute(
        "SELECT sequence, request_id, intent, intent_sha256 FROM requests "
        "WHERE receipt IS NULL ORDER BY sequence"
    )
    return tuple(Unfinished(row[0], Intent.from_json(loads(row[1], row[2], row[3]))) for row in rows)


def prune(connection: sqlite3.Connection, *, before: int, limit: int) -> int:
    """Drop up to *limit* receipts that were complete before *before* (Unix ms); returns how many.

    Those of the highest epoch stay: its lease may still be held, so an id could be asked for again.
    """
    return connection.execute(
        "DELETE FROM requests WHERE sequence IN (SELECT sequence FROM requests WHERE receipt IS NOT NULL "
        "AND completed_at < ? AND epoch < (SELECT epoch FROM highest_epoch) LIMIT ?)",
        (before, limit),
    ).rowcount


def _store(connection: sqlite3.Connection, receipt: Receipt) -> str | None:
    """Returns the text that was written; None if this very receipt was there."""
    text = canonical(receipt.model_dump(mode="json", exclude={"screenshot", "replayed"}))
    changed = connection.execute(
        "UPDATE requests SET receipt = ?, receipt_sha256 = ?, completed_at = ? "
        "WHERE request_id = ? AND receipt IS NULL",
        (text, _digest(text), receipt.completed_at, receipt.request_id),
    ).rowcount
    if changed:
        return text
    row = connection.execute(
        "SELECT receipt FROM requests WHERE request_id = ?", (receipt.request_id,)
    ).fetchone()
    if row is None or row[0] != text:
        raise LookupError(f"request {receipt.request_id!r} was never begun, or has another receipt")
    return None


def _facts(receipt: Receipt, text: str) -> dict[str, object]:
    return {
        "request_id": receipt.request_id,
        "epoch": receipt.epoch,
        "outcome": receipt.outcome,
        "reason": receipt.reason,
        "settled": receipt.settled,
        "receipt_sha256": _digest(text),
        "inputs": [
            [
                i.type,
                i.delivery.outcome,
                i.delivery.sent.units,
                i.delivery.sent.of,
                i.delivery.reason,
                i.effect.outcome,
            ]
            for i in receipt.inputs
        ],
    }


def _receipt(request_id: str, text: str, digest: str) -> Receipt:
    return Receipt.model_validate({**loads(request_id, text, digest), "replayed": True})


def loads(request_id: str, text: str, digest: str) -> dict[str, object]:
    """Parse a stored text, or refuse one that is not what was written: a receipt must not lie."""
    if _digest(text) != digest:
        raise JournalUnavailable(
            f"the journal's record of request {request_id!r} is damaged: what became of it is not known; "
            "restore a backup, or ask for the act under another request id"
        )
    value: dict[str, object] = json.loads(text)
    return value


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
