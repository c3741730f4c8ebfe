"""The home's snapshots under the lease: whoever changes the home has the body, and the apps are ended.

A body that somebody else drives is not touched: `busy`. A stopped one is, for nobody can act in it.
Counterpart: desktop/snapshots.py copies.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Protocol

import trio

from bodyd.contract.lease import MAX_TTL_MS, AcquireRequest, HolderKind, LeaseState
from bodyd.contract.ports import Caller
from bodyd.desktop.snapshots import Snapshots
from bodyd.errors import BodydError, Busy, JournalUnavailable, WrongState
from bodyd.journal.journal import Journal
from bodyd.lease.manager import LeaseManager

RENEWAL_SECONDS = 60.0
END_SECONDS = 5.0
MIN_RENEWAL_SECONDS = 0.02


class AppsPort(Protocol):
    """What is needed of desktop/."""

    def without_apps(self) -> AbstractAsyncContextManager[None]: ...


@dataclass
class Doing:
    """What is being done to the home just now. `phase`: ending_apps, then copying; `files` of how many."""

    what: str
    name: str
    phase: str = "ending_apps"
    files: int = 0
    of: int = 0

    def copied(self, files: int, of: int) -> None:
        self.phase, self.files, self.of = "copying", files, of


class Homes:
    """One body's snapshots, as its owner's.

    What changes the home, or copies it, needs the body: it is had for as long as that takes, or the caller
    names the claim that they hold it by; in a stopped body nobody can act, so there nothing is needed.
    """

    def __init__(
        self, snapshots: Snapshots, desktop: AppsPort, leases: LeaseManager, journal: Journal
    ) -> None:
        self._snapshots = snapshots
        self._desktop = desktop
        self._leases = leases
        self._journal = journal
        self._turn = trio.Lock()
        self._doing: Doing | None = None
        self._replaced = trio.Event()

    async def keep_house(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Remove what is left of replaced homes, and of steps that a crash cut off, until cancelled.

        Started once it knows the latter: no step before that.
        """
        await trio.to_thread.run_sync(self._snapshots.recover)
        task_status.started()
        while True:
            await self._snapshots.sweep()
            await self._replaced.wait()
            self._replaced = trio.Event()

    async def list(self) -> list[dict[str, Any]]:
        """{name, created_at, bytes, files, bodyd_version, browser_version} of each, oldest first."""
        return [asdict(one) for one in await trio.to_thread.run_sync(self._snapshots.list)]

    @property
    def doing(self) -> dict[str, Any] | None:
        """{what, name, phase, files, of} of what is being done, if anything is."""
        return None if self._doing is None else asdict(self._doing)

    async def create(self, name: str, *, caller: Caller, lease_token: str | None = None) -> dict[str, Any]:
        """Copy the home under *name*; the apps are ended for as long as it takes, and begin again.

        Raises:
            LeaseError, InvalidRequest, SnapshotExists, DiskFull, Unavailable: nothing was changed.
        Cancellation: nothing is left of it.
        """
        first = partial(self._snapshots.may_create, name)
        async with self._alone("create", name, caller, lease_token, first) as doing:
            return asdict(await self._snapshots.create(name, progress=doing.copied))

    async def restore(self, name: str, *, caller: Caller, lease_token: str | None = None) -> dict[str, Any]:
        """Put *name* in the home's place; what is in the home now is gone.

        Raises:
            LeaseError, NotFound, DiskFull, Unavailable: nothing was changed.
        Cancellation: the home is whole, the old or the new.
        """
        first = partial(self._snapshots.may_restore, name)
        async with self._alone("restore", name, caller, lease_token, first) as doing:
            return asdict(await self._snapshots.restore(name, progress=doing.copied))

    async def reset(self, *, caller: Caller, lease_token: str | None = None) -> None:
        """Begin with an empty home. Raises and is cancelled as `restore`."""
        async with self._alone("reset", "", caller, lease_token):
            await self._snapshots.reset()

    async def delete(self, name: str, *, caller: Caller) -> None:
        """Remove one, whoever drives.

        Raises:
            NotFound, InvalidRequest.
        """
        async with self._turn, self._audited("delete", name, caller):
            await self._snapshots.delete(name)

    @asynccontextmanager
    async def _alone(
        self,
        what: str,
        name: str,
        caller: Caller,
        lease_token: str | None,
        first: Callable[[], Awaitable[object]] = trio.lowlevel.checkpoint,
    ) -> AsyncIterator[Doing]:
        """The body, its apps at rest. *first* may refuse while they still run."""
        async with self._turn:
            held = self._claimed(caller) if lease_token is None else self._holding(lease_token)
            async with held, self._audited(what, name, caller):
                await first()
                self._doing = Doing(what, name[:80])
                try:
                    async with self._desktop.without_apps():
                        yield self._doing
                finally:
                    self._doing = None
            self._replaced.set()

    @asynccontextmanager
    async def _audited(self, what: str, name: str, caller: Caller) -> AsyncIterator[None]:
        """A row before, without which nothing is done, and one that says how it ended."""
        facts = {"name": name[:80], "by": caller.id}
        await self._journal.audit(f"home.{what}", facts)
        end = "cancelled"
        try:
            yield
            end = "done"
        except BodydError as exc:
            end = exc.code
            raise
        finally:
            with trio.move_on_after(END_SECONDS, shield=True), suppress(JournalUnavailable):
                await self._journal.audit("home.ended", {**facts, "what": what, "end": end})

    @asynccontextmanager
    async def _holding(self, lease_token: str) -> AsyncIterator[None]:
        """Keep the claim of a caller who has the body already, so that it does not lapse meanwhile."""
        admission = self._leases.admit(lease_token, None)

        async def keep() -> None:
            while True:
                admission.touch()
                await trio.sleep(max(MIN_RENEWAL_SECONDS, ttl / 3))

        ttl = (admission.claim.expires_at - admission.claim.heartbeat_at) / 1000
        async with _beside(keep):
            yield

    @asynccontextmanager
    async def _claimed(self, caller: Caller) -> AsyncIterator[None]:
        """Have the body, so that nobody else does; in a stopped one nobody can anyway."""
        state = self._leases.view().state
        if state is LeaseState.STOPPED:
            yield
            return
        if state is LeaseState.RECOVERY_REQUIRED:
            raise WrongState("the body needs recovery first: `bodyd recover`")
        request = AcquireRequest(conversation_id="home", ttl_ms=MAX_TTL_MS)
        try:
            grant = await self._leases.acquire(request, caller=caller, kind=HolderKind.PERSON)
        except Busy as exc:
            details: dict[str, Any] = exc.details
            raise Busy(
                "somebody drives: wait, or take the body over, or stop it (`bodyd stop`) first", **details
            ) from None

        async def keep() -> None:
            while True:
                await trio.sleep(RENEWAL_SECONDS)
                await self._leases.renew(grant.lease_token, MAX_TTL_MS)

        try:
            async with _beside(keep):
                yield
        finally:
            with trio.move_on_after(END_SECONDS, shield=True):
                await self._leases.release(grant.lease_token)


@asynccontextmanager
async def _beside(task: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Run *task* for as long as the context lasts. The context's errors come out as they are, in no group."""
    failed: Exception | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(task)
        try:
            yield
        except Exception as exc:
            failed = exc
        nursery.cancel_scope.cancel(reason="the context was left")
    if failed is not None:
        raise failed
