"""What the lease's tests stand on: a store, a prover and a manager that obey the test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio
import trio.testing

from bodyd.clock import Clock
from bodyd.contract.events import Event
from bodyd.contract.lease import AcquireRequest, Scope
from bodyd.contract.ports import Caller
from bodyd.errors import JournalUnavailable
from bodyd.lease.manager import LeaseManager

OWNER = Caller("owner-1", Scope.OWNER)
DRIVER = Caller("driver-1", Scope.DRIVER)
VIEWER = Caller("viewer-1", Scope.VIEWER)

WALL_MS = 1_750_000_000_000


def clock() -> Clock:
    """A wall that moves with Trio's (mock) clock."""
    return Clock(lambda: WALL_MS + round(trio.current_time() * 1000))


class FakeStore:
    """A LeaseStore in memory.

    `failing` makes saves fail; `hold` keeps them waiting until it is set again; `calls` counts them.
    """

    def __init__(self, record: dict[str, Any] | None = None, highest: int = 0) -> None:
        self.record = record
        self.highest = highest
        self.history: list[dict[str, Any]] = []
        self.failing = False
        self.unreadable = False
        self.calls = 0
        self.open = trio.Event()
        self.open.set()

    def hold(self) -> None:
        self.open = trio.Event()

    async def load_lease(self) -> dict[str, Any] | None:
        await trio.lowlevel.checkpoint()
        if self.unreadable:
            raise JournalUnavailable("the lease record is damaged")
        return self.record

    async def save_lease(self, record: dict[str, Any]) -> None:
        self.calls += 1
        await trio.lowlevel.checkpoint()
        await self.open.wait()
        if self.failing:
            raise JournalUnavailable("no space left on device")
        assert record["epoch"] >= max([self.highest, *(old["epoch"] for old in self.history)])
        self.record = record
        self.history.append(record)

    async def highest_epoch(self) -> int:
        await trio.lowlevel.checkpoint()
        if self.unreadable and self.failing:
            raise JournalUnavailable("the database is not a database")
        return max([self.highest, *(old["epoch"] for old in self.history)])


class FakeProver:
    """Quiescence as the test wants it: True, False, an exception, or when `open` is set."""

    def __init__(self) -> None:
        self.answer: bool | Exception = True
        self.proofs = 0
        self.running = 0
        self.stubborn = False
        self.open = trio.Event()
        self.open.set()

    def hold(self) -> None:
        self.open = trio.Event()

    async def __call__(self) -> bool:
        self.running += 1
        try:
            await trio.lowlevel.checkpoint()
            with trio.CancelScope(shield=self.stubborn):
                await self.open.wait()
        finally:
            self.running -= 1
        if isinstance(self.answer, Exception):
            raise self.answer
        self.proofs += 1
        return self.answer


class Bench:
    """A running manager and its parts."""

    def __init__(self, store: FakeStore | None = None, **options: Any) -> None:
        self.store = store or FakeStore()
        self.prover = FakeProver()
        self.told: list[Event] = []
        self.on_tell: Callable[[Event], None] = lambda event: None
        self.tokens = 0
        options = {"random_token": self._token, **options}
        self.leases = LeaseManager(
            body_id="body_test",
            store=self.store,
            clock=clock(),
            quiesce=self.prover,
            announce=self._tell,
            **options,
        )

    def _tell(self, event: Event) -> None:
        self.told.append(event)
        self.on_tell(event)

    def _token(self) -> str:
        self.tokens += 1
        return f"token-{self.tokens}"

    def types(self) -> list[str]:
        return [event.type for event in self.told]

    @property
    def state(self) -> str:
        return self.leases.view().state.value

    async def acquire(
        self, conversation: str = "conv-a", *, ttl: float = 60, wait: float = 0, **more: Any
    ) -> Any:
        request = AcquireRequest(
            conversation_id=conversation, ttl_ms=round(ttl * 1000), wait_ms=round(wait * 1000)
        )
        return await self.leases.acquire(request, caller=more.pop("caller", DRIVER), **more)


@asynccontextmanager
async def running(bench: Bench) -> AsyncIterator[Bench]:
    async with trio.open_nursery() as nursery:
        await nursery.start(bench.leases.run)
        yield bench
        nursery.cancel_scope.cancel()


async def eventually(condition: Callable[[], bool]) -> None:
    """Let everyone else run until *condition* holds; fails if they come to rest before."""
    for _ in range(200):
        if condition():
            return
        await trio.testing.wait_all_tasks_blocked()
    raise AssertionError("it never came true")
