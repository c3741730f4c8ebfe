"""Reading the audit from outside the daemon, while it runs or without it: `bodyd audit`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from . import chain, schema
from .chain import Checkpoint, Entry, Verdict, Verifier
from .database import open_read_only, translated
from .directory import JOURNAL_FILE
from .intents import canonical

ROWS = 1000


class AuditReader:
    """Made by `read_audit`. Blocking, and never writes."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def tail(self, count: int) -> tuple[Entry, ...]:
        """The last *count* rows, oldest first."""
        return chain.tail(self._connection, count)

    def verify(self, checkpoints: Sequence[Checkpoint] = ()) -> Verdict:
        """Walk the whole chain, and hold it against *checkpoints* that left the machine."""
        verifier = Verifier(checkpoints)
        while rows := chain.chunk(self._connection, verifier.position, ROWS):
            if not verifier.feed(rows):
                break
        return verifier.verdict()


@contextmanager
def read_audit(directory: Path) -> Iterator[AuditReader]:
    """Open the audit of the journal in *directory* for reading.

    Raises:
        JournalUnavailable: there is none, or it can't be read.
    """
    path = directory / JOURNAL_FILE
    connection = open_read_only(path, schema.JOURNAL)
    try:
        with translated(path, schema.JOURNAL):
            yield AuditReader(connection)
    finally:
        connection.close()


def main(
    directory: Path, *, what: Literal["verify", "tail"], count: int = 20, checkpoints: Sequence[str] = ()
) -> int:
    """`bodyd audit verify|tail`: prints, and returns the exit status (1: the chain is broken).

    Raises:
        JournalUnavailable: it can't be read.
        ValueError: a checkpoint is not SEQ:HASH.
    """
    with read_audit(directory) as audit:
        if what == "tail":
            for entry in audit.tail(count):
                print(entry.seq, entry.at, entry.kind, canonical(entry.data))
            return 0
        verdict = audit.verify([Checkpoint.parse(text) for text in checkpoints])
    print(verdict)
    return 0 if verdict.sound else 1
