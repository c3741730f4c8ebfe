"""One SQLite file: opened once, used by one thread at a time, its errors told in bodyd's words.

The only place that connects. Every piece of work is one call in a worker thread: one that has
started ends, so a transaction is never cut in two by a cancellation.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Literal, TypeVar

import trio

from bodyd.errors import JournalUnavailable

from .schema import Schema, damaged, prepare

T = TypeVar("T")

BUSY_SECONDS = 1.0
"""How long a lock of another program is waited for."""
CLOSE_SECONDS = 5.0
WAL_BYTES = 16 * 1024 * 1024
SPARE_BYTES = 1024 * 1024
"""With less than this left on its disk, a file is not called writable: the next commit may not fit."""

_REASONS = {
    sqlite3.SQLITE_FULL: "no space is left for it: free some under the state directory; nothing was written",
    sqlite3.SQLITE_BUSY: "another program holds its lock: close that one (only bodyd may write here)",
    sqlite3.SQLITE_LOCKED: "another program holds its lock: close that one (only bodyd may write here)",
    sqlite3.SQLITE_READONLY: "it can't be written: check the owner, the mode and the mount of its directory",
    sqlite3.SQLITE_PERM: "it may not be opened: check the owner and the mode of its directory",
    sqlite3.SQLITE_AUTH: "it may not be opened: check the owner and the mode of its directory",
    sqlite3.SQLITE_CANTOPEN: "it can't be opened: check the owner, the mode and the mount of its directory",
    sqlite3.SQLITE_IOERR: "the disk failed: see the kernel's log",
    sqlite3.SQLITE_PROTOCOL: "its locks don't work here: the state directory must be on a local disk",
    sqlite3.SQLITE_NOLFS: "it is too large for this file system",
}
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)


class Database:
    """One open file. Made by `open_database`."""

    def __init__(
        self, connection: sqlite3.Connection, path: Path, schema: Schema, limiter: trio.CapacityLimiter
    ) -> None:
        self._connection = connection
        self._path = path
        self._schema = schema
        self._limiter = limiter

    async def write(self, work: Callable[[sqlite3.Connection], T], *, erase: bool = False) -> T:
        """Run *work* in one transaction; committed, as durably as the file is, when this returns.

        Args:
            erase: What *work* deletes is overwritten in the file, and the WAL is emptied.
        Raises:
            JournalUnavailable: nothing of it was written.
        Cancellation:
            Atomic: before the start nothing happens; what has started is committed and returns.
        """
        return await self._run(lambda connection: (_erasing if erase else _transaction)(connection, work))

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run *work*, which only reads. Errors and cancellation as in `write`."""
        return await self._run(work)

    async def check_room(self) -> None:
        """Prove that the next commit has room: an empty one touches no disk, so it proves nothing of it.

        Raises:
            JournalUnavailable: there is too little.
        """
        await self._run(lambda connection: _check_room(self._path))

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        def translated_work() -> T:
            with translated(self._path, self._schema):
                return work(self._connection)

        return await trio.to_thread.run_sync(translated_work, limiter=self._limiter)


@asynccontextmanager
async def open_database(
    path: Path, schema: Schema, *, synchronous: Literal["FULL", "NORMAL"]
) -> AsyncIterator[Database]:
    """Open or make *path* (0600) in WAL mode, migrated and checked.

    Args:
        synchronous: FULL: a commit outlives the machine. NORMAL: it outlives the process.
    Raises:
        JournalUnavailable: unreadable, locked, damaged, or of a newer version.
    """
    limiter = trio.CapacityLimiter(1)
    connection = await trio.to_thread.run_sync(_open, path, schema, synchronous, limiter=limiter)
    try:
        yield Database(connection, path, schema, limiter)
    finally:
        with trio.move_on_after(CLOSE_SECONDS, shield=True):
            await trio.to_thread.run_sync(connection.close, limiter=limiter)


def open_read_only(path: Path, schema: Schema) -> sqlite3.Connection:
    """A second, reading connection, beside the daemon or without it. The caller closes it.

    Raises:
        JournalUnavailable: not there, damaged, or of another version.
    """
    with translated(path, schema):
        connection = _connect(f"{path.absolute().as_uri()}?mode=ro")
        try:
            connection.execute("PRAGMA query_only = ON")
            prepare(connection, schema, str(path), migrate=False)
        except BaseException:
            connection.close()
            raise
        return connection


@contextmanager
def translated(path: Path, schema: Schema) -> Iterator[None]:
    """Tell SQLite's and the file system's errors as JournalUnavailable; bugs stay what they are."""
    try:
        yield
    except sqlite3.Error as exc:
        code = getattr(exc, "sqlite_errorcode", None)
        if code is None and not isinstance(exc, sqlite3.OperationalError):
            raise  # a misuse of the module
        primary = sqlite3.SQLITE_CORRUPT if code is None else code & 0xFF  # no code: text that is not UTF-8
        if primary in _DAMAGE:
            raise damaged(str(path), schema, str(exc)) from exc
        if primary not in _REASONS:
            raise
        raise JournalUnavailable(f"{path}: {_REASONS[primary]}") from exc
    except OSError as exc:
        raise JournalUnavailable(f"{path}: {exc.strerror or exc}") from exc


def _open(path: Path, schema: Schema, synchronous: str) -> sqlite3.Connection:
    with translated(path, schema):
        # made before SQLite does: its -wal and -shm take over this mode, whatever the umask
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        connection = _connect(str(path))
        try:
            _configure(connection, path, schema, synchronous)
            prepare(connection, schema, str(path), migrate=True)
        except BaseException:
            connection.close()
            raise
        return connection


def _connect(name: str) -> sqlite3.Connection:
    return sqlite3.connect(
        name,
        uri=name.startswith("file:"),
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )


def _configure(connection: sqlite3.Connection, path: Path, schema: Schema, synchronous: str) -> None:
    for pragma in (
        f"page_size = {schema.page_size}",
        f"auto_vacuum = {'INCREMENTAL' if schema.shrinks else 'NONE'}",
        "trusted_schema = OFF",
        "secure_delete = OFF",
        "cell_size_check = ON",
        "temp_store = MEMORY",
        f"synchronous = {synchronous}",
        f"wal_autocheckpoint = {4 * 1024 * 1024 // schema.page_size}",
        f"journal_size_limit = {WAL_BYTES}",
    ):
        connection.execute(f"PRAGMA {pragma}")
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise JournalUnavailable(f"{path}: this file system can't keep a WAL; use a local disk")
    verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if verdict != "ok":
        raise damaged(str(path), schema, verdict)


def _check_room(path: Path) -> None:
    disk = os.statvfs(path)
    blocks = disk.f_bfree if os.geteuid() == 0 else disk.f_bavail  # root may use the reserve
    if blocks * disk.f_frsize < SPARE_BYTES:
        raise JournalUnavailable(f"{path}: {_REASONS[sqlite3.SQLITE_FULL]}")


def _transaction(connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
    connection.execute("BEGIN IMMEDIATE")
    try:
        value = work(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return value


def _erasing(connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
    connection.execute("PRAGMA secure_delete = ON")
    try:
        value = _transaction(connection, work)
        busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    finally:
        connection.execute("PRAGMA secure_delete = OFF")
    if busy:
        raise JournalUnavailable("a reader of the image database keeps erased pages in its WAL: close it")
    return value
