"""kill -9 at any moment: every request has exactly one receipt, and it says what the app saw."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from bodyd.contract.receipts import InputReceipt, Outcome, Receipt
from bodyd.journal.journal import Journal

from .conftest import Opener
from .killed import POINTS


class Doors:
    """Small doors, one after the other, in processes of their own."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.journal.killed"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self,
        directory: Path,
        log: Path,
        *,
        first: int = 1,
        point: str = "-",
        after: int = 0,
        pause: float = 0,
    ) -> tuple[set[str], set[str]]:
        """Run one until it kills itself at *point*, or is killed *pause* s after its *after*-th line.

        Returns:
            The ids that it told as begun, and those that it told as finished.
        """
        assert self._process.stdin is not None
        print(directory, log, first, point, file=self._process.stdin, flush=True)
        pid = int(self._next("pid")[0][1])
        told = []
        if point == "-":
            told = [self._next("begun", "finished")[0] for _ in range(after)]
            time.sleep(pause)  # where in a batch it dies is meant to be anywhere
            os.kill(pid, signal.SIGKILL)
        told += self._next("died")
        assert told.pop() == ("died", "-9")
        return {i for what, i in told if what == "begun"}, {i for what, i in told if what == "finished"}

    def _next(self, *until: str) -> list[tuple[str, str]]:
        """The lines up to the first of the kind *until*."""
        assert self._process.stdout is not None
        lines: list[tuple[str, str]] = []
        while not lines or lines[-1][0] not in until:
            what, which = self._process.stdout.readline().split()
            lines.append((what, which))
        return lines

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """What the app saw, by itself."""
    return tmp_path / "log"


@pytest.fixture(scope="module")
def doors() -> Iterator[Doors]:
    doors = Doors()
    yield doors
    doors.close()


def agrees(item: InputReceipt, seen: int) -> bool:
    """Whether what a receipt says of an input is true of an app that saw *seen* of its atoms."""
    sent = item.delivery.sent
    match item.delivery.outcome:
        case Outcome.CONFIRMED:
            return seen == sent.of == sent.units
        case Outcome.FAILED:
            return seen == sent.units < sent.of
        case Outcome.UNCERTAIN:
            return sent.units <= seen <= sent.of
    raise AssertionError(item)


async def check(journal: Journal, log: Path, begun: set[str], finished: set[str]) -> list[Receipt]:
    """Everything that one door told is there, once, and true; returns its receipts."""
    seen = Counter(tuple(line.split()) for line in _lines(log))
    recovered = {r.request_id for r in journal.recovered}
    assert finished.isdisjoint(recovered)
    receipts = []
    for request_id in sorted(begun | finished | recovered | {request_id for request_id, _ in seen}):
        receipt = await journal.receipt(request_id)
        assert receipt is not None, f"{request_id} has no receipt"
        for item in receipt.inputs:
            assert agrees(item, seen[request_id, str(item.index)]), (receipt, seen)
        receipts.append(receipt)
    assert await journal.unfinished() == []
    assert (await journal.verify()).sound
    return receipts


async def everything(journal: Journal) -> dict[str, str]:
    """The digest of the receipt of each request, as the audit has it: once, and as it is stored."""
    told = await journal._database.read(
        lambda c: c.execute(
            "SELECT json_extract(data, '$.request_id'), json_extract(data, '$.receipt_sha256') FROM audit "
            "WHERE kind IN ('action.completed', 'action.recovered')"
        ).fetchall()
    )
    stored = await journal._database.read(
        lambda c: c.execute("SELECT request_id, receipt_sha256 FROM requests").fetchall()
    )
    assert sorted(told) == sorted(stored)
    return dict(stored)


def _lines(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


EXPECTED = {
    "begun": ["failed", "failed", "failed"],
    "marked": ["uncertain", "failed", "failed"],
    "first_atom": ["uncertain", "failed", "failed"],
    "between": ["confirmed", "failed", "failed"],
    "last_input": ["confirmed", "confirmed", "confirmed"],
    "sent": ["confirmed", "confirmed", "confirmed"],
    "in_finish": ["confirmed", "confirmed", "confirmed"],
    "finished": ["confirmed", "confirmed", "confirmed"],
}


@pytest.mark.parametrize("point", POINTS)
async def test_a_kill_at_a_named_moment_leaves_the_one_true_receipt(
    reopen: Opener, doors, directory, log, point
):
    """Between intent and dispatch nothing was attempted; between dispatch and receipt it is known how far."""
    begun, finished = doors.run(directory, log, point=point)
    assert (begun, finished) == ({"req-1"}, set())
    async with reopen() as journal:
        assert len(journal.recovered) == (0 if point == "finished" else 1)
        [receipt] = await check(journal, log, begun, finished)
        assert [i.delivery.outcome.value for i in receipt.inputs] == EXPECTED[point]


async def test_kills_at_random_moments_lose_and_invent_nothing(
    reopen: Opener, doors, directory, tmp_path, times
):
    """One body's life with many deaths: all that was told stays, and every receipt stays true."""
    chance = random.Random(7)
    before: dict[str, str] = {}
    first = 1
    for death in range(times(200)):
        log = tmp_path / f"log-{death}"
        after, pause = chance.randrange(1, 40), chance.random() * 0.004
        told = doors.run(directory, log, first=first, after=after, pause=pause)
        async with reopen() as journal:
            receipts = await check(journal, log, *told)
            now = await everything(journal)
        assert before.items() <= now.items()
        assert now.keys() - before.keys() == {r.request_id for r in receipts}
        before, first = now, len(now) + 1
    assert len(before) > times(200)
