"""The lease's record and the highest epoch that was ever granted.

The epoch is kept apart from the record: a record that can't be read must not let an epoch repeat.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Mapping
from typing import Any

from bodyd.errors import JournalUnavailable

from .intents import canonical


class CorruptLease(JournalUnavailable):
    """The lease record is not what was written: fail closed, under a higher epoch than any."""


def load(connection: sqlite3.Connection) -> dict[str, Any] | None:
    """The saved record; None before the first.

    Raises:
        CorruptLease: it can't be what was saved.
    """
    row = connection.execute("SELECT record, sha256 FROM lease").fetchone()
    if row is None:
        return None
    if _digest(row[0]) != row[1]:
        raise CorruptLease("the lease record in the journal is damaged; who holds the body is not known")
    value: dict[str, Any] = json.loads(row[0])
    return value


def save(connection: sqlite3.Connection, record: Mapping[str, Any]) -> None:
    """Replace the record. Its `epoch`, if it has one, raises the highest; a lower one is a bug.

    Raises:
        ValueError: the epoch is lower than one that was granted.
    """
    epoch = record.get("epoch")
    if epoch is not None:
        highest = highest_epoch(connection)
        if not isinstance(epoch, int) or epoch < highest:
            raise ValueError(f"epoch {epoch!r} after epoch {highest}: epochs only grow")
        connection.execute("UPDATE highest_epoch SET epoch = ?", (epoch,))
    text = canonical(record)
    connection.execute("INSERT OR REPLACE INTO lease VALUES (1, ?, ?)", (text, _digest(text)))


def highest_epoch(connection: sqlite3.Connection) -> int:
    """The highest epoch of any saved record or journalled request; 0 for none."""
    value: int = connection.execute("SELECT epoch FROM highest_epoch").fetchone()[0]
    return value


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
