"""kill -9 at a chosen moment of a batch's life, found by looking at what is durable, not by luck.

The daemon is stopped (SIGSTOP) and its journal and progress file are read: where it stands is then
known exactly. A stopped daemon also lets the X server finish what it was sent, so that what an app
saw is complete before the kill. The step from a durable intent to the dispatch is a handful of
microseconds: it is made long by a main thread that has to share its core with someone busier.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from bodyd.journal import schema
from bodyd.journal.database import open_read_only
from bodyd.journal.directory import JOURNAL_FILE, PROGRESS_FILE
from bodyd.journal.traces import SLOTS, Unknown, trace

from .world import World

_WORDS = struct.Struct(f"={SLOTS}Q")
_HEADER = 64  # of the progress file, before its words


class Moment(Enum):
    """How far a request has come, by what would outlive the daemon now."""

    UNKNOWN = "before its intent was durable"
    INTENT = "between intent and dispatch"
    DISPATCH = "between dispatch and receipt"
    RECEIPT = "after its receipt"


class Hunter:
    """Watches one daemon from outside. Everything blocks: run it in a thread."""

    def __init__(self, world: World, journal: sqlite3.Connection, progress: int) -> None:
        assert world.process is not None
        self._pid = world.process.pid
        self._journal = journal
        self._progress = progress

    def moment(self, request_id: str) -> Moment:
        """What the files say; exact while the daemon is stopped."""
        row = self._journal.execute(
            "SELECT sequence, receipt IS NOT NULL FROM requests WHERE request_id = ?", (request_id,)
        ).fetchone()
        if row is None:
            return Moment.UNKNOWN
        if row[1]:
            return Moment.RECEIPT
        words = _WORDS.unpack(os.pread(self._progress, _WORDS.size, _HEADER))
        return Moment.INTENT if trace(words, row[0]) is Unknown.NEVER_STARTED else Moment.DISPATCH

    def stop_between_intent_and_dispatch(self, request_id: str) -> Moment:
        """Starve the main thread, and stop everything as soon as the intent is durable."""
        with _starved(self._pid), _urgent():
            while self.moment(request_id) is Moment.UNKNOWN:
                time.sleep(0.0002)
            return self.stop_after(request_id, 0)

    def stop_during_dispatch(self, request_id: str, after: float) -> Moment:
        """Stop it *after* seconds of dispatch (or at the receipt, if that comes first)."""
        while self.moment(request_id) in (Moment.UNKNOWN, Moment.INTENT):
            time.sleep(0.0005)
        return self.stop_after(request_id, after)

    def stop_after(self, request_id: str, after: float) -> Moment:
        """Stop it *after* seconds, wherever it is."""
        time.sleep(after)
        self._stop()
        return self.moment(request_id)

    def _stop(self) -> None:
        os.kill(self._pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self._pid, os.WSTOPPED)  # every thread of it stands still


@contextmanager
def hunting(world: World) -> Iterator[Hunter]:
    """A hunter for the daemon that runs now."""
    private = world.config.state / "private"
    journal = open_read_only(private / JOURNAL_FILE, schema.JOURNAL)
    progress = os.open(private / PROGRESS_FILE, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield Hunter(world, journal, progress)
    finally:
        os.close(progress)
        journal.close()


@contextmanager
def _starved(thread: int) -> Iterator[None]:
    """Give *thread* the least share of a core that someone else never leaves; it stays there."""
    core = max(os.sched_getaffinity(0))
    hog = subprocess.Popen(
        [sys.executable, "-c", f"import os\nos.sched_setaffinity(0, [{core}])\nwhile 1: 0"]
    )
    try:
        os.sched_setaffinity(thread, [core])
        os.setpriority(os.PRIO_PROCESS, thread, 19)  # on Linux: of this one thread
        yield
    finally:
        hog.kill()
        hog.wait()


@contextmanager
def _urgent() -> Iterator[None]:
    """Where that is allowed, let this thread run before every other; elsewhere fewer hunts succeed."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        yield
        return
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
