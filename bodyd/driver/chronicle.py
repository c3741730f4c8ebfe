"""What becomes of the lease, written into the audit: grants, hand-overs, stops, and by whom and why.

A fence waits for no disk, so the rows come after it: in order, soon, and at the latest before the daemon
ends. What a disk refuses is tried again. Counterpart of journal/, which chains the rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol

import structlog
import trio

from bodyd.contract.events import Event
from bodyd.errors import JournalUnavailable

log = structlog.get_logger("bodyd.chronicle")

MOST_WAITING = 10_000
"""Rows that wait for a disk; further ones are counted, and the count is written."""

RETRY_SECONDS = 1.0
LAST_SECONDS = 2.0

_KINDS = ("lease.", "body.stopped", "body.resumed")


class Audit(Protocol):
    """Of the journal: a durable row."""

    async def audit(self, kind: str, data: Mapping[str, Any], /) -> int: ...


class Chronicle:
    """Takes events as they come and writes those of the lease."""

    def __init__(self, journal: Audit) -> None:
        self._journal = journal
        self._waiting: deque[Event] = deque()
        self._missed = 0
        self._came = trio.Event()

    def note(self, event: Event) -> None:
        """Have *event* written, if it is of the lease; must not block, and doesn't."""
        if not event.type.startswith(_KINDS):
            return
        if len(self._waiting) >= MOST_WAITING:
            self._missed += 1
            return
        self._waiting.append(event)
        self._came.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Write until cancelled; what has come by then is written all the same, bounded."""
        task_status.started()
        try:
            while True:
                await self._came.wait()
                self._came = trio.Event()
                if not await self._write():
                    await trio.sleep(RETRY_SECONDS)
                    self._came.set()
        finally:
            with trio.move_on_after(LAST_SECONDS, shield=True):
                await self._write()

    async def _write(self) -> bool:
        """Everything that waits; False if the journal refused some of it.

        Cancellation:
            A row may be written twice, never lost.
        """
        try:
            while self._waiting:
                event = self._waiting[0]
                await self._journal.audit(event.type, {"told_at": event.at, **event.data})
                self._waiting.popleft()
            if self._missed:
                await self._journal.audit("lease.rows_missed", {"count": self._missed})
                self._missed = 0
        except JournalUnavailable as exc:
            log.warning("chronicle.behind", rows=len(self._waiting), error=exc.message)
            return False
        return True
