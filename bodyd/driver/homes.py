"""The home's snapshots under the lease: whoever changes the home has the body, and the apps are ended.

A body that somebody drives is not touched: `busy`. A stopped one is, for nobody can act in it. Counterpart:
desktop/snapshots.py copies.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict
from typing import Any, Protocol

import trio

from bodyd.contract.lease import MAX_TTL_MS, AcquireRequest, HolderKind, LeaseState
from bodyd.contract.ports import Caller
from bodyd.desktop.snapshots import Snapshots
from bodyd.errors import WrongState
from bodyd.journal.journal import Journal
from bodyd.lease.manager import LeaseManager

RENEWAL_SECONDS = 60.0
END_SECONDS = 5.0


class AppsPort(Protocol):
    """What is needed of desktop/."""

    def without_apps(self) -> AbstractAsyncContextManager[None]: ...


class Homes:
    """One body's snapshots, as its owner's."""

    def __init__(
        self, snapshots: Snapshots, desktop: AppsPort, leases: LeaseManager, journal: Journal
    ) -> None:
        self._snapshots = snapshots
        self._desktop = desktop
        self._leases = leases
        self._journal = journal
        self._turn = trio.Lock()

    async def list(self) -> list[dict[str, Any]]:
        """{name, created_at, bytes} of each, oldest first."""
        return [asdict(one) for one in await trio.to_thread.run_sync(self._snapshots.list)]

    async def create(self, name: str, *, caller: Caller) -> dict[str, Any]:
        """Copy the home under *name*; the apps are ended for as long as it takes, and begin again.

        Raises:
            Busy, InvalidRequest, SnapshotExists, DiskFull, Unavailable: nothing was changed.
        Cancellation: nothing is left of it.
        """
        async with self._alone("home.snapshot", name, caller):
            return asdict(await self._snapshots.create(name))

    async def restore(self, name: str, *, caller: Caller) -> dict[str, Any]:
        """Put *name* in the home's place; what is in the home now is gone.

        Raises:
            Busy, NotFound, DiskFull, Unavailable: nothing was changed.
        Cancellation: the home is whole, the old or the new.
        """
        async with self._alone("home.restore", name, caller):
            return asdict(await self._snapshots.restore(name))

    async def reset(self, *, caller: Caller) -> None:
        """Begin with an empty home. Raises and is cancelled as `restore`."""
        async with self._alone("home.reset", "", caller):
            await self._snapshots.reset()

    async def delete(self, name: str, *, caller: Caller) -> None:
        """Remove one, whoever drives.

        Raises:
            NotFound, InvalidRequest.
        """
        await self._journal.audit("home.delete", {"name": name[:80], "by": caller.id})
        async with self._turn:
            await self._snapshots.delete(name)

    @asynccontextmanager
    async def _alone(self, kind: str, name: str, caller: Caller) -> AsyncIterator[None]:
        async with self._turn, self._held(caller):
            await self._journal.audit(kind, {"name": name[:80], "by": caller.id})
            async with self._desktop.without_apps():
                yield

    @asynccontextmanager
    async def _held(self, caller: Caller) -> AsyncIterator[None]:
        """Have the body, so that nobody else does; in a stopped one nobody can anyway."""
        state = self._leases.view().state
        if state is LeaseState.STOPPED:
            yield
            return
        if state is LeaseState.RECOVERY_REQUIRED:
            raise WrongState("the body needs recovery first: `bodyd recover`")
        request = AcquireRequest(conversation_id="home", ttl_ms=MAX_TTL_MS)
        grant = await self._leases.acquire(request, caller=caller, kind=HolderKind.PERSON)
        failed: Exception | None = None
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._keep, grant.lease_token)
                try:
                    yield
                except Exception as exc:  # kept out of the nursery's exception group
                    failed = exc
                nursery.cancel_scope.cancel(reason="the home is as it is to be")
            if failed is not None:
                raise failed
        finally:
            with trio.move_on_after(END_SECONDS, shield=True):
                await self._leases.release(grant.lease_token)

    async def _keep(self, token: str) -> None:
        while True:
            await trio.sleep(RENEWAL_SECONDS)
            await self._leases.renew(token, MAX_TTL_MS)
