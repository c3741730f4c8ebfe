"""The pixels: PNG files kept once by content hash, within a byte budget.

Counterpart: screenshots.py keeps the facts; an image lives as long as a screenshot names it.
"""

from __future__ import annotations

import hashlib
import sqlite3

from bodyd.errors import JournalUnavailable


def put(connection: sqlite3.Connection, sha256: str, png: bytes) -> None:
    """Keep *png*, whose digest is *sha256*; the same one again costs nothing."""
    if connection.execute("SELECT 1 FROM images WHERE sha256 = ?", (sha256,)).fetchone() is None:
        connection.execute("INSERT INTO images VALUES (?, ?, ?)", (sha256, len(png), png))


def get(connection: sqlite3.Connection, sha256: str) -> bytes | None:
    """The PNG; None if it is not (or no longer) kept.

    Raises:
        JournalUnavailable: the stored bytes are not those that were put.
    """
    row = connection.execute("SELECT png FROM images WHERE sha256 = ?", (sha256,)).fetchone()
    if row is None:
        return None
    png: bytes = row[0]
    if hashlib.sha256(png).hexdigest() != sha256:
        raise JournalUnavailable(f"the stored image {sha256[:12]}… is damaged; take a new screenshot")
    return png


def drop_unnamed(connection: sqlite3.Connection, sha256: str) -> None:
    """Drop the image if no screenshot names it any more."""
    connection.execute(
        "DELETE FROM images WHERE sha256 = ? AND NOT EXISTS "
        "(SELECT 1 FROM screenshots WHERE screenshots.sha256 = images.sha256)",
        (sha256,),
    )


def usage(connection: sqlite3.Connection) -> int:
    """Bytes of all images and facts; triggers keep it."""
    value: int = connection.execute("SELECT bytes FROM usage").fetchone()[0]
    return value


def shrink(connection: sqlite3.Connection, *, budget: int, pages: int) -> bool:
    """Give up to *pages* free pages back to the disk if the file is well over *budget*.

    Returns:
        True if more are left to give back.
    """
    size = connection.execute("PRAGMA page_size").fetchone()[0]
    total = connection.execute("PRAGMA page_count").fetchone()[0]
    free = connection.execute("PRAGMA freelist_count").fetchone()[0]
    spare = min(free, total - (budget + budget // 4) // size)
    if spare <= 0:
        return False
    # execute() would stop after the first page: this pragma has steps, but no columns
    connection.executescript(f"PRAGMA incremental_vacuum({min(spare, pages)})")
    return bool(spare > pages)
