"""Keeps the newest state of the lease durable: one write at a time, states overtaken are never written.

The record is the whole lease, so the newest is all that counts. A write that fails is tried again
every second until it succeeds or is overtaken. Its counterpart is manager.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import trio

from bodyd.errors import BodydError

from .state import State

RETRY_SECONDS = 1.0


class LeaseStore(Protocol):
    """Where the record is kept; implemented by journal/."""

    async def load_lease(self) -> dict[str, Any] | None:
        """The record; None if none was ever saved.

        Raises:
            JournalUnavailable: it can't be read, or is not what was saved.
        """
        ...

    async def save_lease(self, record: dict[str, Any]) -> None:
        """Durable when it returns.

        Raises:
            JournalUnavailable: it may or may not have been written.
        """
        ...

    async def highest_epoch(self) -> int:
        """The highest epoch that any record or receipt was ever written under; 0 for none."""
        ...


class Keeper:
    """Writes what it is offered.

    Args:
        write: Makes one state durable, or raises.
        saved: Told of each state that is durable now; synchronous.
        failed: Told of each that is not, and why; synchronous.

    Attributes:
        error: Why the last attempt failed; None once one has succeeded.
    """

    def __init__(
        self,
        write: Callable[[State], Any],
        saved: Callable[[State], None],
        failed: Callable[[State, BodydError], None],
    ) -> None:
        self._write = write
        self._saved = saved
        self._failed = failed
        self._newest: State | None = None
        self._refused: State | None = None
        self._writing = False
        self._offered = trio.Event()
        self.error: BodydError | None = None

    def offer(self, state: State) -> None:
        """Have *state* written next, in place of any that still waits."""
        self._newest = state
        self._offered.set()

    @property
    def caught_up(self) -> bool:
        """Every state offered has been tried at least once, or was overtaken."""
        return not self._writing and (self._newest is None or self._newest is self._refused)

    async def run(self) -> None:
        """Write for ever."""
        while True:
            if self.error is None:
                await self._offered.wait()
            else:
                with trio.move_on_after(RETRY_SECONDS):
                    await self._offered.wait()
            self._offered = trio.Event()
            if self._newest is not None:
                await self._try(self._newest)

    async def _try(self, state: State) -> None:
        self._writing, self._newest = True, None
        try:
            await self._write(state)
        except BodydError as exc:
            self._writing, self.error = False, exc
            self._refused = state
            self._newest = self._newest or state
            self._failed(state, exc)
        else:
            self._writing, self.error = False, None
            self._saved(state)
