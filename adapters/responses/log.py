"""The events of one response, numbered once, for any number of readers at their own pace.

The loop that makes them waits while an attached reader is far behind: a client that doesn't read holds up
its own response, and no memory grows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import trio

Json = dict[str, Any]

AT_ONCE = 64
LAG = 4096
"""Events that a reader may be behind before the response waits for it."""


class Log:
    """Events in order. `sequence_number` counts from 0 and is never reset."""

    def __init__(self) -> None:
        self.events: list[Json] = []
        self.closed = False
        self._changed = trio.Event()
        self._read = trio.Event()
        self._readers: set[Reader] = set()

    def add(self, event: Json) -> None:
        """Number *event* and show it to the readers."""
        self.events.append({**event, "sequence_number": len(self.events)})
        self._wake()

    def close(self) -> None:
        """There will be no more."""
        self.closed = True
        self._wake()

    async def room(self) -> None:
        """Return once no reader is more than LAG events behind."""
        while any(len(self.events) - reader.at > LAG for reader in self._readers):
            await self._read.wait()

    async def changed(self) -> None:
        """Return at the next event, or the end."""
        await self._changed.wait()

    @contextmanager
    def reader(self, after: int = -1) -> Iterator[Reader]:
        """Reads the events with a number greater than *after*."""
        made = Reader(self, max(after + 1, 0))
        self._readers.add(made)
        try:
            yield made
        finally:
            self._readers.discard(made)
            self.was_read()

    def was_read(self) -> None:
        self._read.set()
        self._read = trio.Event()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


class Reader:
    """A place in a log."""

    def __init__(self, log: Log, at: int) -> None:
        self._log = log
        self.at = at

    async def next(self) -> list[Json]:
        """The events that are there, at least one; none at the end.

        Cancellation:
            Nothing is lost: the next call returns what this one would have.
        """
        while self.at >= len(self._log.events):
            if self._log.closed:
                return []
            await self._log.changed()
        found = self._log.events[self.at : self.at + AT_ONCE]
        self.at += len(found)
        self._log.was_read()
        return found
