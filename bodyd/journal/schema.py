"""The tables of the two database files, version by version.

`user_version` counts the migrations that a file has seen; a file of a newer bodyd, of another
program or with other tables than these is refused, never repaired. database.py opens them.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from bodyd.errors import JournalUnavailable

APPLICATION_ID = 0x626F6479  # "body", at offset 68 of the file


@dataclass(frozen=True, slots=True)
class Schema:
    """One kind of file.

    Attributes:
        migrations: Statements that bring version n to n + 1, in order. Append, never edit.
        shrinks: Freed pages can be given back to the disk (they are reused in any case).
        loss: What is lost by moving a damaged file of this kind away.
    """

    migrations: tuple[tuple[str, ...], ...]
    page_size: int
    shrinks: bool
    loss: str


JOURNAL = Schema(
    migrations=(
        (
            """CREATE TABLE requests (
                 sequence INTEGER PRIMARY KEY AUTOINCREMENT,
                 request_id TEXT NOT NULL UNIQUE,
                 fingerprint TEXT NOT NULL,
                 epoch INTEGER NOT NULL,
                 intent TEXT NOT NULL,
                 intent_sha256 TEXT NOT NULL,
                 receipt TEXT,
                 receipt_sha256 TEXT,
                 completed_at INTEGER)""",
            "CREATE INDEX requests_unfinished ON requests (sequence) WHERE receipt IS NULL",
            "CREATE INDEX requests_completed ON requests (completed_at) WHERE receipt IS NOT NULL",
            """CREATE TABLE lease (
                 slot INTEGER PRIMARY KEY CHECK (slot = 1),
                 record TEXT NOT NULL,
                 sha256 TEXT NOT NULL)""",
            """CREATE TABLE highest_epoch (
                 slot INTEGER PRIMARY KEY CHECK (slot = 1),
                 epoch INTEGER NOT NULL)""",
            "INSERT INTO highest_epoch VALUES (1, 0)",
            """CREATE TABLE audit (
                 seq INTEGER PRIMARY KEY,
                 at INTEGER NOT NULL,
                 kind TEXT NOT NULL,
                 data TEXT NOT NULL,
                 hash TEXT NOT NULL)""",
            """CREATE TRIGGER audit_rows_stay BEFORE DELETE ON audit
                 BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END""",
            """CREATE TRIGGER audit_rows_keep_their_words BEFORE UPDATE ON audit
                 BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END""",
        ),
    ),
    page_size=4096,
    shrinks=False,
    loss="receipts, the lease's epoch and the audit",
)

IMAGES = Schema(
    migrations=(
        (
            """CREATE TABLE images (
                 sha256 TEXT NOT NULL UNIQUE,
                 size INTEGER NOT NULL,
                 png BLOB NOT NULL)""",
            """CREATE TABLE screenshots (
                 number INTEGER PRIMARY KEY,
                 screenshot_id TEXT NOT NULL UNIQUE,
                 epoch INTEGER NOT NULL,
                 captured_at INTEGER NOT NULL,
                 sha256 TEXT NOT NULL,
                 request_id TEXT,
                 facts TEXT NOT NULL)""",
            "CREATE INDEX screenshots_image ON screenshots (sha256)",
            "CREATE INDEX screenshots_epoch ON screenshots (epoch)",
            "CREATE INDEX screenshots_request ON screenshots (request_id) WHERE request_id IS NOT NULL",
            "CREATE TABLE blanked (epoch INTEGER PRIMARY KEY)",
            "CREATE TABLE usage (slot INTEGER PRIMARY KEY CHECK (slot = 1), bytes INTEGER NOT NULL)",
            "INSERT INTO usage VALUES (1, 0)",
            """CREATE TRIGGER image_in AFTER INSERT ON images
                 BEGIN UPDATE usage SET bytes = bytes + NEW.size; END""",
            """CREATE TRIGGER image_out AFTER DELETE ON images
                 BEGIN UPDATE usage SET bytes = bytes - OLD.size; END""",
            """CREATE TRIGGER facts_in AFTER INSERT ON screenshots
                 BEGIN UPDATE usage SET bytes = bytes + length(NEW.facts); END""",
            """CREATE TRIGGER facts_out AFTER DELETE ON screenshots
                 BEGIN UPDATE usage SET bytes = bytes - length(OLD.facts); END""",
        ),
    ),
    page_size=16384,
    shrinks=True,
    loss="kept screenshots alone",
)


def prepare(connection: sqlite3.Connection, schema: Schema, name: str, *, migrate: bool) -> None:
    """Bring the file to this version if *migrate* allows it, or refuse it.

    Raises:
        JournalUnavailable: it is another program's, a newer bodyd's, or not as the migrations leave it.
    """
    version = _pragma(connection, "user_version")
    owner = _pragma(connection, "application_id")
    fresh = version == 0 and owner == 0 and not _tables(connection)
    if not fresh and owner != APPLICATION_ID:
        raise JournalUnavailable(
            f"{name} is a database, but not one of bodyd's; move it away, or name another state directory"
        )
    known = len(schema.migrations)
    if version > known:
        raise JournalUnavailable(
            f"{name} was written by a newer bodyd (version {version}, this one knows {known}): "
            "install that bodyd again, or restore the backup made before the upgrade"
        )
    if version < known and not migrate:
        raise JournalUnavailable(f"{name} is not of this version yet: start bodyd on it once")
    for number in range(version, known):
        _migrate(connection, schema.migrations[number], number + 1)
    if _tables(connection) != _expected(schema):
        raise damaged(name, schema, "its tables are not those of its version")


def damaged(name: str, schema: Schema, detail: str) -> JournalUnavailable:
    """The refusal of a file that can't be what bodyd wrote."""
    return JournalUnavailable(
        f"{name} is damaged ({detail}) and bodyd does not recreate it by itself: restore a backup, or "
        f"move {name} and its -wal and -shm files away to start anew, which loses {schema.loss}"
    )


def _migrate(connection: sqlite3.Connection, statements: tuple[str, ...], version: int) -> None:
    """One version, or nothing of it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statement in statements:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {version}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value


def _tables(connection: sqlite3.Connection) -> list[tuple[str, str, str | None]]:
    return connection.execute(
        "SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_stat%' ESCAPE '\\' "
        "ORDER BY type, name"
    ).fetchall()


def _expected(schema: Schema) -> list[tuple[str, str, str | None]]:
    model = sqlite3.connect(":memory:", isolation_level=None)
    try:
        for statements in schema.migrations:
            for statement in statements:
                model.execute(statement)
        return _tables(model)
    finally:
        model.close()
