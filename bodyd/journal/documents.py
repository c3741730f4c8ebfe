"""The gateway's store: JSON documents by kind and key, and images once by hash, in a file of its own.

Implements contract.ports.StorePort. Not the journal: nothing here proves anything about the body, and
losing the file loses conversations alone.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bodyd.contract.ports import Document

from .database import Database, open_database
from .schema import Schema

Json = dict[str, Any]

GATEWAY_FILE = "gateway.db"
ITEM = "item"
"""Documents of this kind live only as parts of others."""
AT_ONCE = 500
"""Keys in one statement; SQLite takes more, but not without end."""

GATEWAY = Schema(
    migrations=(
        (
            """CREATE TABLE documents (
                 id INTEGER PRIMARY KEY,
                 kind TEXT NOT NULL,
                 key TEXT NOT NULL,
                 at INTEGER NOT NULL,
                 body TEXT NOT NULL,
                 UNIQUE (kind, key))""",
            "CREATE INDEX documents_age ON documents (kind, at)",
            """CREATE TABLE parts (
                 whole INTEGER NOT NULL, part INTEGER NOT NULL, PRIMARY KEY (whole, part)) WITHOUT ROWID""",
            "CREATE INDEX parts_of ON parts (part)",
            """CREATE TABLE images (
                 id INTEGER PRIMARY KEY, sha256 TEXT NOT NULL UNIQUE, size INTEGER NOT NULL)""",
            "CREATE TABLE pixels (id INTEGER PRIMARY KEY, data BLOB NOT NULL)",
            """CREATE TABLE shown (
                 document INTEGER NOT NULL, image INTEGER NOT NULL,
                 PRIMARY KEY (document, image)) WITHOUT ROWID""",
            "CREATE INDEX shown_image ON shown (image)",
        ),
    ),
    page_size=4096,
    shrinks=True,
    loss="the gateway's stored responses and conversations",
)


@asynccontextmanager
async def open_documents(directory: Path, *, now_ms: Callable[[], int]) -> AsyncIterator[Documents]:
    """Open or make the store in *directory*, which is private already.

    Raises:
        JournalUnavailable: as `open_database`.
    """
    async with open_database(directory / GATEWAY_FILE, GATEWAY, synchronous="NORMAL") as database:
        yield Documents(database, now_ms)


class Documents:
    """See StorePort for the contract."""

    def __init__(self, database: Database, now_ms: Callable[[], int]) -> None:
        self._database = database
        self._now_ms = now_ms

    async def put(self, documents: Sequence[Document], images: Mapping[str, bytes] | None = None) -> None:
        at = self._now_ms()

        def work(connection: sqlite3.Connection) -> None:
            for sha256, data in (images or {}).items():
                _keep_image(connection, sha256, data)
            for document in documents:
                _keep(connection, document, at)

        await self._database.write(work)

    async def get(self, kind: str, key: str) -> Json | None:
        return (await self.get_all(kind, [key])).get(key)

    async def get_all(self, kind: str, keys: Sequence[str]) -> dict[str, Json]:
        def work(connection: sqlite3.Connection) -> list[tuple[str, str]]:
            query = "SELECT key, body FROM documents WHERE kind = ? AND key IN ({})"
            return _in(connection, query, keys, kind)

        found = await self._database.read(work)
        return {key: json.loads(body) for key, body in found}

    async def delete(self, kind: str, key: str) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            query = "SELECT id FROM documents WHERE kind = ? AND key = ?"
            ids = [row[0] for row in connection.execute(query, (kind, key))]
            _remove(connection, ids)
            return bool(ids)

        return await self._database.write(work)

    async def keys(self, kind: str) -> Sequence[str]:
        def work(connection: sqlite3.Connection) -> list[str]:
            query = "SELECT key FROM documents WHERE kind = ? ORDER BY at, id"
            return [row[0] for row in connection.execute(query, (kind,))]

        return await self._database.read(work)

    async def image_sizes(self, hashes: Sequence[str]) -> dict[str, int]:
        query = "SELECT sha256, size FROM images WHERE sha256 IN ({})"
        return dict(await self._database.read(lambda connection: _in(connection, query, hashes)))

    async def images(self, hashes: Sequence[str]) -> dict[str, bytes]:
        query = "SELECT sha256, data FROM images JOIN pixels USING (id) WHERE sha256 IN ({})"
        return dict(await self._database.read(lambda connection: _in(connection, query, hashes)))

    async def remove_before(self, kinds: Sequence[str], before_ms: int) -> int:
        def work(connection: sqlite3.Connection) -> int:
            ids: list[int] = []
            for kind in kinds:
                query = "SELECT id FROM documents WHERE kind = ? AND at < ? LIMIT ?"
                ids += [row[0] for row in connection.execute(query, (kind, before_ms, AT_ONCE))]
            _remove(connection, ids)
            return len(ids)

        removed = 0
        while (now := await self._database.write(work)) > 0:
            removed += now
        return removed


def _in(connection: sqlite3.Connection, query: str, keys: Sequence[str], *first: object) -> list[Any]:
    """All rows of *query*, whose `IN ({})` gets *keys*, some at a time."""
    rows: list[Any] = []
    for start in range(0, len(keys), AT_ONCE):
        some = keys[start : start + AT_ONCE]
        marks = ",".join("?" * len(some))
        rows += connection.execute(query.format(marks), (*first, *some)).fetchall()
    return rows


def _keep(connection: sqlite3.Connection, document: Document, at: int) -> None:
    body = json.dumps(document.body, ensure_ascii=False, separators=(",", ":"))
    (number,) = connection.execute(
        "INSERT INTO documents (kind, key, at, body) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (kind, key) DO UPDATE SET at = excluded.at, body = excluded.body RETURNING id",
        (document.kind, document.key, at, body),
    ).fetchone()
    before = {row[0] for row in connection.execute("SELECT part FROM parts WHERE whole = ?", (number,))}
    connection.execute("DELETE FROM parts WHERE whole = ?", (number,))
    connection.executemany(
        "INSERT OR IGNORE INTO parts SELECT ?, id FROM documents WHERE kind = ? AND key = ?",
        ((number, ITEM, key) for key in document.parts),
    )
    connection.execute("DELETE FROM shown WHERE document = ?", (number,))
    connection.executemany(
        "INSERT OR IGNORE INTO shown SELECT ?, id FROM images WHERE sha256 = ?",
        ((number, sha256) for sha256 in document.images),
    )
    if before:
        _remove(connection, _unused_items(connection, before))


def _keep_image(connection: sqlite3.Connection, sha256: str, data: bytes) -> None:
    # the pixels stand apart: sizes are read without passing over them
    if connection.execute("SELECT 1 FROM images WHERE sha256 = ?", (sha256,)).fetchone() is None:
        made = connection.execute("INSERT INTO images (sha256, size) VALUES (?, ?)", (sha256, len(data)))
        connection.execute("INSERT INTO pixels (id, data) VALUES (?, ?)", (made.lastrowid, data))


def _remove(connection: sqlite3.Connection, ids: Iterable[int]) -> None:
    """Remove documents, the items that nothing is made of any more, and the images that nothing shows."""
    left = list(ids)
    suspects: set[int] = set()
    while left:
        items: set[int] = set()
        for number in left:
            items |= {
                row[0] for row in connection.execute("SELECT part FROM parts WHERE whole = ?", (number,))
            }
            query = "SELECT image FROM shown WHERE document = ?"
            suspects |= {row[0] for row in connection.execute(query, (number,))}
            for table, column in (("parts", "whole"), ("shown", "document"), ("documents", "id")):
                connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (number,))
        left = _unused_items(connection, items)
    for image in suspects:
        if connection.execute("SELECT 1 FROM shown WHERE image = ? LIMIT 1", (image,)).fetchone() is None:
            connection.execute("DELETE FROM images WHERE id = ?", (image,))
            connection.execute("DELETE FROM pixels WHERE id = ?", (image,))


def _unused_items(connection: sqlite3.Connection, items: Iterable[int]) -> list[int]:
    query = "SELECT 1 FROM parts WHERE part = ? LIMIT 1"
    return [item for item in items if connection.execute(query, (item,)).fetchone() is None]
