"""The journal: an intent and its receipt, a screenshot, a mark; beside bare SQLite on the same disk."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import trio

from bodyd.clock import Clock
from bodyd.config import JournalConfig
from bodyd.contract.actions import parse_input_request
from bodyd.contract.geometry import Bounds
from bodyd.contract.receipts import Delivery, Effect, Outcome, Receipt, Sent, input_receipt
from bodyd.contract.screenshots import Cursor, Screenshot, ScreenTarget
from bodyd.journal.journal import Journal, New, open_journal

NAME = "journal"
BATCHES = 1000
SHOTS = 300
PNG_BYTES = 460_000
PEER = "bare SQLite, WAL"


def rows() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        return trio.run(_measure, Path(folder))


async def _measure(folder: Path) -> list[dict[str, Any]]:
    """Journal and peer in turns, so that whatever else the disk does meets both."""
    begun: list[float] = []
    finished: list[float] = []
    marks: list[float] = []
    two: list[float] = []
    put: list[float] = []
    blobs: list[float] = []
    settings = JournalConfig(image_bytes=PNG_BYTES * SHOTS // 2)
    synced, unsynced = _bare(folder / "bare.db", "FULL"), _bare(folder / "blobs.db", "NORMAL")
    async with open_journal(
        folder / "private", clock=Clock(), settings=settings, key=os.urandom(32)
    ) as journal:
        for number in range(BATCHES):
            await _batch(journal, number, begun, marks, finished)
            two.append(_commit(synced, "x" * 600) + _commit(synced, "x" * 600))
        looked = [await _timed(journal.lookup, f"req-{n}-", "") for n in range(BATCHES)]
        for number in range(SHOTS):
            put.append(await _put(journal, number))
            blobs.append(_commit(unsynced, os.urandom(PNG_BYTES)))
    synced.close()
    unsynced.close()
    both = [a + b for a, b in zip(begun, finished, strict=True)]
    evicting, blobs = put[SHOTS // 2 :], blobs[SHOTS // 2 :]
    return [
        _row("intent and receipt durable, p50", both, bar=1.5, peer=two),
        _row("the same, p99", both, peer=two, percent=99),
        _row("looking up an id, p50", looked),
        _row("one mark of progress, p50", marks),
        _row("keeping a screenshot of 460 KB at its budget, p50", evicting, peer=blobs),
        _row("the same, p99", evicting, peer=blobs, percent=99),
    ]


async def _batch(
    journal: Journal, number: int, begun: list[float], marks: list[float], finished: list[float]
) -> None:
    click = {"type": "click", "x": 3, "y": 4}
    asked = parse_input_request({"request_id": f"req-{number}", "epoch": 1, "inputs": [click]})
    delivery = Delivery(outcome=Outcome.CONFIRMED, sent=Sent(units=3, of=3))
    done = input_receipt(0, "click", delivery, Effect(outcome=Outcome.CONFIRMED, evidence="pointer"))
    receipt = Receipt(
        request_id=asked.request_id,
        epoch=1,
        screenshot_id=None,
        started_at=0,
        completed_at=0,
        outcome=done.outcome,
        inputs=(done,),
        settled=True,
    )
    intent = journal.intent(asked, conversation_id="bench", lease_id="bench")
    start = time.perf_counter()
    new = await journal.begin(intent)
    begun.append((time.perf_counter() - start) * 1000)
    assert isinstance(new, New)
    noted = new.dispatching()
    start = time.perf_counter()
    for unit in range(100):
        noted.note(0, unit)
    marks.append((time.perf_counter() - start) * 10)
    finished.append(await _timed(journal.finish, asked.request_id, receipt))


async def _put(journal: Journal, number: int) -> float:
    png = os.urandom(PNG_BYTES)
    bounds = Bounds(x=0, y=0, width=1280, height=800)
    shot = Screenshot(
        screenshot_id=f"shot-{number}",
        sequence=number,
        captured_at=0,
        epoch=1,
        width=1280,
        height=800,
        bounds=bounds,
        target=ScreenTarget(),
        cursor=Cursor(x=0, y=0),
        windows=(),
        sha256=hashlib.sha256(png).hexdigest(),
        input_ready=True,
    )
    return await _timed(journal.put_screenshot, shot, png)


async def _timed(call: Callable[..., Awaitable[object]], *args: object) -> float:
    start = time.perf_counter()
    await call(*args)
    return (time.perf_counter() - start) * 1000


def _bare(path: Path, synchronous: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("CREATE TABLE kept (value)")
    return connection


def _commit(connection: sqlite3.Connection, value: str | bytes) -> float:
    """One commit on this very thread: milliseconds."""
    start = time.perf_counter()
    connection.execute("INSERT INTO kept VALUES (?)", (value,))
    return (time.perf_counter() - start) * 1000


def _row(
    name: str,
    values: list[float],
    *,
    bar: float | None = None,
    peer: list[float] | None = None,
    percent: int = 50,
) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name, "value": round(_at(values, percent), 4), "unit": "ms"}
    if bar is not None:
        row |= {"bar": bar, "ok": row["value"] <= bar}
    if peer is not None:
        row["peer"] = {"name": PEER, "value": round(_at(peer, percent), 4)}
    return row


def _at(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100)[percent - 1]
