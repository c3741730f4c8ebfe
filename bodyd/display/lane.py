"""Lanes: one connection, one owner thread at a time, and a way out of every wait.

Xlib blocks and is not thread-safe, and a stopped X server answers nothing. A lane serialises the
work on its connection, runs it in worker threads, and cuts the connection when the server is
silent or a cancelled caller has waited long enough; the next call opens a new one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import trio

from bodyd.contract.ports import XEndpoint
from bodyd.errors import DisplayUnavailable

from .connection import LOST, PATIENCE, SPOILT, Wire, connect

GRACE = 0.25
"""Seconds that a cancelled call may take to end by itself before its connection is cut."""

T = TypeVar("T")


class Closable(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=Closable)


class Lane(Generic[C]):
    """The owner of one connection of kind C.

    Attributes:
        generation: Grows by one with each connection opened: 0 before the first.
    """

    def __init__(self, endpoint: XEndpoint, open_on: Callable[[Wire], C], *, patience: float | None) -> None:
        """
        Args:
            open_on: Makes the connection over a connected wire; runs in the thread.
            patience: Seconds for a whole piece of work, for libraries whose waits can't be bounded
                from within; None where they are (connection.py).
        """
        self.generation = 0
        self._endpoint = endpoint
        self._open_on = open_on
        self._patience = float("inf") if patience is None else patience
        self._turn = trio.Lock()
        self._limiter = trio.CapacityLimiter(1)
        self._wire: Wire | None = None
        self._connection: C | None = None
        self._closed = False

    async def run(self, work: Callable[[C], T], *, interrupt: Callable[[], None] | None = None) -> T:
        """Run *work* on the connection in a worker thread, after the work asked for earlier.

        Args:
            interrupt: Called when the caller is cancelled, to make *work* end early.
        Raises:
            DisplayUnavailable: no connection, a lost one, or a silent server; the connection is gone.
        Cancellation:
            Waits for *work* to end, at most GRACE before the connection is cut under it.
        """
        try:
            self._turn.acquire_nowait()  # a turn of the loop less, of the five that a piece of work takes
        except trio.WouldBlock:
            await self._turn.acquire()
        try:
            with trio.move_on_after(self._patience):
                try:
                    return await trio.to_thread.run_sync(
                        self._work, work, limiter=self._limiter, abandon_on_cancel=True
                    )
                except trio.Cancelled:
                    if interrupt is not None:
                        interrupt()
                    with trio.move_on_after(GRACE + PATIENCE, shield=True):
                        await self._join()
                    raise
            await self._cut()
            raise DisplayUnavailable(f"the X server has not answered for {self._patience:g} s")
        finally:
            self._turn.release()

    async def aclose(self) -> None:
        """Cut the connection and wait for its thread, bounded; no other is opened."""
        self._closed = True
        await self._cut()

    async def _join(self) -> None:
        """Wait for the abandoned thread: it holds the limiter's one token until it ends."""
        with trio.move_on_after(GRACE) as grace:
            async with self._limiter:
                pass
        if grace.cancelled_caught:
            await self._cut()

    async def _cut(self) -> None:
        if self._wire is not None:
            self._wire.abort()
        with trio.move_on_after(PATIENCE, shield=True):
            async with self._limiter:
                self._drop()

    def _work(self, work: Callable[[C], T]) -> T:
        if self._closed:
            raise DisplayUnavailable("the connection to the X server is closed")
        try:
            if self._connection is None:
                self._wire = connect(self._endpoint)
                self._connection = self._open_on(self._wire)
                self.generation += 1
            return work(self._connection)
        except LOST as exc:
            self._drop()
            raise DisplayUnavailable(f"the X connection is lost: {exc}") from exc
        except SPOILT as exc:
            self._drop()
            raise DisplayUnavailable(f"the X server refused what it took before: {exc!r}") from exc

    def _drop(self) -> None:
        connection, wire, self._connection, self._wire = self._connection, self._wire, None, None
        if connection is not None:
            connection.close()
        elif wire is not None:
            wire.close()
