"""Whether a response still has a client: work that only a client justifies stops when the last one leaves.

A background response is always wanted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio


class Presence:
    """Counts the clients of one response. It begins with none: the first has yet to start reading."""

    def __init__(self, *, always: bool) -> None:
        self._always = always
        self._clients = 0
        self._back = trio.Event()
        self._gone = trio.Event()
        self._work: set[trio.CancelScope] = set()

    @property
    def here(self) -> bool:
        return self._always or self._clients > 0

    def joined(self) -> None:
        self._clients += 1
        self._back.set()
        self._gone = trio.Event()

    def left(self) -> None:
        self._clients -= 1
        if not self.here:
            self._back = trio.Event()
            self._gone.set()
            for scope in self._work:
                scope.cancel(reason="the client left")

    async def wait(self) -> None:
        """Return once there is a client."""
        while not self.here:
            await self._back.wait()

    async def gone(self) -> None:
        """Return once there is none."""
        while self.here:
            await self._gone.wait()

    @contextmanager
    def needed(self) -> Iterator[trio.CancelScope]:
        """Work inside is cancelled when the last client leaves."""
        with trio.CancelScope() as scope:
            self._work.add(scope)
            if not self.here:
                scope.cancel(reason="the client left")
            try:
                yield scope
            finally:
                self._work.discard(scope)
