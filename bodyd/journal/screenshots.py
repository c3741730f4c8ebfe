"""The facts of kept screenshots, oldest out first; nothing of an epoch that was blanked.

Counterpart: images.py keeps the pixels. Both live in the second database file.
"""

from __future__ import annotations

import sqlite3

from pydantic import ValidationError

from bodyd.contract.screenshots import Screenshot
from bodyd.errors import JournalUnavailable

from . import images


def put(
    connection: sqlite3.Connection, shot: Screenshot, png: bytes, *, request_id: str | None, budget: int
) -> bool:
    """Keep one capture, and let the oldest go until *budget* (bytes) holds.

    Returns:
        False if its epoch is blanked: nothing was kept.
    """
    if connection.execute("SELECT 1 FROM blanked WHERE epoch = ?", (shot.epoch,)).fetchone() is not None:
        return False
    images.put(connection, shot.sha256, png)
    connection.execute(
        "INSERT INTO screenshots (screenshot_id, epoch, captured_at, sha256, request_id, facts) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        (shot.screenshot_id, shot.epoch, shot.captured_at, shot.sha256, request_id, shot.model_dump_json()),
    )
    while images.usage(connection) > budget:
        _drop_oldest(connection, shot.screenshot_id)
    return True


def get(connection: sqlite3.Connection, screenshot_id: str) -> Screenshot | None:
    """The facts of a kept screenshot."""
    row = connection.execute(
        "SELECT facts FROM screenshots WHERE screenshot_id = ?", (screenshot_id,)
    ).fetchone()
    return None if row is None else _parse(row[0])


def of_request(connection: sqlite3.Connection, request_id: str) -> Screenshot | None:
    """The screenshot that was given with a request's receipt."""
    row = connection.execute(
        "SELECT facts FROM screenshots WHERE request_id = ? ORDER BY number DESC LIMIT 1", (request_id,)
    ).fetchone()
    return None if row is None else _parse(row[0])


def attach(connection: sqlite3.Connection, screenshot_id: str, request_id: str) -> None:
    """Say which request's receipt a kept screenshot belongs to."""
    connection.execute(
        "UPDATE screenshots SET request_id = ? WHERE screenshot_id = ?", (request_id, screenshot_id)
    )


def blank(connection: sqlite3.Connection, epoch: int) -> int:
    """Drop every screenshot of *epoch*, and keep none of it from now on; returns how many went."""
    connection.execute("INSERT OR IGNORE INTO blanked VALUES (?)", (epoch,))
    return _drop(connection, "epoch = ?", (epoch,))


def prune(connection: sqlite3.Connection, *, before: int, limit: int) -> int:
    """Drop up to *limit* screenshots captured before *before* (Unix ms); returns how many."""
    return _drop(
        connection,
        "number IN (SELECT number FROM screenshots WHERE captured_at < ? ORDER BY number LIMIT ?)",
        (before, limit),
    )


def _drop(connection: sqlite3.Connection, where: str, values: tuple[int, ...]) -> int:
    rows = connection.execute(f"SELECT DISTINCT sha256 FROM screenshots WHERE {where}", values).fetchall()
    count = connection.execute(f"DELETE FROM screenshots WHERE {where}", values).rowcount
    for (sha256,) in rows:
        images.drop_unnamed(connection, sha256)
    return count


def _drop_oldest(connection: sqlite3.Connection, newest: str) -> None:
    row = connection.execute(
        "SELECT number, screenshot_id, sha256 FROM screenshots ORDER BY number LIMIT 1"
    ).fetchone()
    if row[1] == newest:
        raise JournalUnavailable("one screenshot alone is over [journal] image_bytes: raise that setting")
    connection.execute("DELETE FROM screenshots WHERE number = ?", (row[0],))
    images.drop_unnamed(connection, row[2])


def _parse(facts: str) -> Screenshot:
    try:
        return Screenshot.model_validate_json(facts)
    except ValidationError:
        raise JournalUnavailable("the stored facts of a screenshot are damaged; take a new one") from None
