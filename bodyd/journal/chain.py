"""The audit's chain: append-only rows, each with a digest over itself and the one before.

`verify` finds rows that were changed, reordered or removed. What it can't find by itself: a tail
that was cut off, or a chain that was rewritten from some row to its end. Both show against a
checkpoint (the chain's head, as the daemon sends it off the machine); what came since the last one
is the undetectable tail, and the verdict says so. docs/explanation/journal.md.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .intents import canonical

GENESIS = "0" * 64


@dataclass(frozen=True, slots=True)
class Entry:
    """One row. `at` is Unix ms; `data` JSON-able facts, never a secret or a typed text."""

    seq: int
    at: int
    kind: str
    data: Mapping[str, Any]
    hash: str


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The head of the chain at some time, kept where the machine can't rewrite it: "SEQ:HASH"."""

    seq: int
    hash: str

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"

    @classmethod
    def parse(cls, text: str) -> Checkpoint:
        """Read what `str` wrote.

        Raises:
            ValueError: it is not a checkpoint.
        """
        seq, _, digest = text.strip().partition(":")
        if not (seq.isdecimal() and len(digest) == 64 and set(digest) <= set("0123456789abcdef")):
            raise ValueError(f"{text[:80]!r} is not a checkpoint: SEQ:HASH, as bodyd logs it")
        return cls(int(seq), digest)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a verification found.

    Attributes:
        rows: How many rows are linked from the first on.
        head: The last of them.
        fault: The first thing that is wrong; None: nothing is.
        proven: Up to this row, the chain is the one that left the machine; 0 without checkpoints.
    """

    rows: int
    head: Checkpoint
    fault: str | None
    proven: int

    @property
    def sound(self) -> bool:
        return self.fault is None

    def __str__(self) -> str:
        if self.fault is not None:
            return f"BROKEN after row {self.rows}: {self.fault}"
        tail = self.rows - self.proven
        proof = f"proven to row {self.proven} by a checkpoint" if self.proven else "no checkpoint was given"
        return (
            f"unbroken: {self.rows} rows, head {self.head}; {proof}. Not provable: that the last {tail} "
            "rows were not rewritten, or that none was cut off after them"
        )


def append(connection: sqlite3.Connection, kind: str, data: Mapping[str, Any], *, at: int) -> Checkpoint:
    """Add one row inside the caller's transaction; returns the new head."""
    last = head(connection)
    text = canonical(data)
    row = Checkpoint(last.seq + 1, link(last.hash, last.seq + 1, at, kind, text))
    connection.execute("INSERT INTO audit VALUES (?, ?, ?, ?, ?)", (row.seq, at, kind, text, row.hash))
    return row


def head(connection: sqlite3.Connection) -> Checkpoint:
    """The last row's place and digest."""
    row = connection.execute("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1").fetchone()
    return Checkpoint(0, GENESIS) if row is None else Checkpoint(row[0], row[1])


def link(previous: str, seq: int, at: int, kind: str, data: str) -> str:
    """The digest of a row: SHA-256 over the canonical JSON of [previous digest, seq, at, kind, data text]."""
    return hashlib.sha256(canonical([previous, seq, at, kind, data]).encode()).hexdigest()


def tail(connection: sqlite3.Connection, count: int) -> tuple[Entry, ...]:
    """The last *count* rows, oldest first."""
    rows = connection.execute(
        "SELECT seq, at, kind, data, hash FROM audit ORDER BY seq DESC LIMIT ?", (count,)
    ).fetchall()
    return tuple(
        Entry(seq, at, kind, json.loads(data), digest) for seq, at, kind, data, digest in reversed(rows)
    )


def chunk(connection: sqlite3.Connection, after: int, limit: int) -> list[tuple[Any, ...]]:
    """Up to *limit* raw rows behind row *after*, in order, for a Verifier."""
    return connection.execute(
        "SELECT seq, at, kind, data, hash FROM audit WHERE seq > ? ORDER BY seq LIMIT ?", (after, limit)
    ).fetchall()


@dataclass(slots=True)
class Verifier:
    """Walks the chain row by row. Feed it every row in order, then ask for the verdict."""

    checkpoints: Sequence[Checkpoint] = ()
    _last: Checkpoint = field(default=Checkpoint(0, GENESIS), init=False)
    _fault: str | None = field(default=None, init=False)
    _proven: int = field(default=0, init=False)

    @property
    def position(self) -> int:
        """The last row that is in order."""
        return self._last.seq

    def feed(self, rows: Iterable[tuple[Any, ...]]) -> bool:
        """Take the next rows; False once a fault was found."""
        for seq, at, kind, data, digest in rows:
            if self._fault is None:
                self._check(seq, at, kind, data, digest)
        return self._fault is None

    def _check(self, seq: int, at: int, kind: str, data: str, digest: str) -> None:
        expected = self._last.seq + 1
        if seq != expected:
            self._fault = f"row {expected} is missing (the next one is {seq})"
        elif digest != link(self._last.hash, seq, at, kind, data):
            self._fault = f"row {seq} is not what was written, or not in its place"
        elif any(c.seq == seq and c.hash != digest for c in self.checkpoints):
            self._fault = f"row {seq} is not the one that its checkpoint names: the chain was rewritten"
        else:
            self._last = Checkpoint(seq, digest)
            if self._last in self.checkpoints:
                self._proven = seq

    def verdict(self) -> Verdict:
        """After the last row."""
        fault = self._fault
        beyond = max((c.seq for c in self.checkpoints), default=0)
        if fault is None and beyond > self._last.seq:
            fault = f"the chain ends here, but a checkpoint names row {beyond}: the tail was cut off"
        return Verdict(self._last.seq, self._last, fault, self._proven)
