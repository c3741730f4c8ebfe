"""Who may change the home and when: real leases and journal, copies that do as they are told."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio

from bodyd.clock import Clock
from bodyd.config import Config
from bodyd.contract.lease import AcquireRequest, LeaseState, Scope
from bodyd.contract.ports import Caller
from bodyd.desktop.snapshots import Snapshot
from bodyd.driver import homes as module
from bodyd.driver.homes import Homes
from bodyd.errors import Busy, DiskFull, Forbidden, NotFound, SnapshotExists, StaleLease, WrongState
from bodyd.journal.journal import Journal, open_journal
from bodyd.lease.manager import LeaseManager

OWNER = Caller(id="owner", scope=Scope.OWNER)
DRIVER = Caller(id="driver", scope=Scope.DRIVER)
KEPT = Snapshot("a", 1, 2, 3, "0", None)
SOON = 10.0


class FakeSnapshots:
    """Notes what is done; waits while `hold` is set; raises what it is given."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.hold: trio.Event | None = None
        self.begun = trio.Event()
        self.swept = 0
        self.error: Exception | None = None

    def list(self) -> list[Snapshot]:
        return [KEPT]

    async def _do(self, what: str) -> Snapshot:
        self.begun.set()
        if self.hold is not None:
            await self.hold.wait()
        if self.error is not None:
            raise self.error
        self.done.append(what)
        return KEPT

    async def may_create(self, name: str) -> None:
        if name == "taken":
            raise SnapshotExists("taken")

    may_restore = may_create

    def recover(self) -> None:
        self.done.append("recover")

    async def sweep(self) -> None:
        await trio.lowlevel.checkpoint()
        self.swept += 1

    async def create(self, name: str, *, progress: Any) -> Snapshot:
        progress(2, 5)
        return await self._do(f"create {name}")

    async def restore(self, name: str, *, progress: Any) -> Snapshot:
        return await self._do(f"restore {name}")

    async def reset(self) -> None:
        await self._do("reset")

    async def delete(self, name: str) -> None:
        await self._do(f"delete {name}")


@dataclass
class World:
    homes: Homes
    copies: FakeSnapshots
    leases: LeaseManager
    journal: Journal
    quiet: list[bool] = field(default_factory=lambda: [True])
    apps: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def without_apps(self) -> AsyncIterator[None]:
        self.apps.append("end")
        yield
        self.apps.append("begin")

    async def acquire(self, ttl_ms: int = 60_000) -> str:
        request = AcquireRequest(conversation_id="talk", ttl_ms=ttl_ms)
        return (await self.leases.acquire(request, caller=DRIVER)).lease_token

    async def audited(self) -> list[tuple[Any, ...]]:
        rows = [row for row in await self.journal.tail(100) if row.kind.startswith("home.")]
        return [(row.kind, row.data["name"], row.data["by"], row.data.get("end")) for row in rows]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    clock, quiet = Clock(), [True]

    async def quiesce() -> bool:
        return quiet[0]

    async with (
        open_journal(tmp_path, clock=clock, settings=Config().journal, key=os.urandom(32)) as journal,
        trio.open_nursery() as nursery,
    ):
        leases = LeaseManager(
            body_id="body_x", store=journal, clock=clock, quiesce=quiesce, announce=lambda _: None
        )
        await nursery.start(leases.run)
        copies = FakeSnapshots()
        here = World(None, copies, leases, journal, quiet)  # type: ignore[arg-type]
        here.homes = Homes(copies, here, leases, journal)  # type: ignore[arg-type]
        yield here
        nursery.cancel_scope.cancel()


async def test_a_vacant_body_is_had_meanwhile(world: World):
    """Nobody can begin while the home is copied; then the body is vacant, and all of it is in the audit."""
    world.copies.hold = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: world.homes.create("a", caller=OWNER))
        with trio.fail_after(SOON):
            await world.copies.begun.wait()
        assert world.homes.doing == {"what": "create", "name": "a", "phase": "copying", "files": 2, "of": 5}
        with pytest.raises(Busy):
            await world.acquire()
        world.copies.hold.set()
    assert world.homes.doing is None
    assert world.apps == ["end", "begin"]
    assert world.leases.view().state is LeaseState.VACANT
    assert await world.audited() == [
        ("home.create", "a", "owner", None),
        ("home.ended", "a", "owner", "done"),
    ]


@pytest.mark.parametrize("what", ["create", "restore", "reset"])
async def test_who_drives_is_not_disturbed(world: World, what: str):
    """While somebody drives, all but deleting is refused; the error says what an owner can do."""
    token = await world.acquire()
    call = getattr(world.homes, what)
    with pytest.raises(Busy, match="take the body over, or stop it") as caught:
        await call(*(() if what == "reset" else ("a",)), caller=OWNER)
    assert caught.value.retryable
    assert world.copies.done == []
    assert world.apps == []
    assert await world.audited() == []
    await world.homes.delete("a", caller=OWNER)
    assert world.copies.done == ["delete a"]
    await world.leases.release(token)


async def test_the_owner_who_has_taken_over_need_not_let_go(world: World):
    """By the claim of the take-over; the agent's stays suspended, and comes back with the hand-back."""
    await world.acquire()
    grant = await world.leases.takeover(caller=OWNER)
    await world.homes.restore("a", caller=OWNER, lease_token=grant.lease_token)
    assert world.copies.done == ["restore a"]
    assert world.leases.view().suspended is not None
    await world.leases.handback(caller=OWNER, lease_token=grant.lease_token)
    with pytest.raises(StaleLease):
        await world.homes.reset(caller=OWNER, lease_token=grant.lease_token)


async def test_a_claim_does_not_lapse_meanwhile(world: World):
    """Copying is using: a claim with a short ttl is there when the copy is whole."""
    token = await world.acquire(ttl_ms=200)
    world.copies.hold = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: world.homes.restore("a", caller=OWNER, lease_token=token))
        await trio.sleep(0.8)  # four times the ttl
        assert world.leases.view().state is LeaseState.HELD
        world.copies.hold.set()
    assert world.copies.done == ["restore a"]


async def test_a_stopped_body_needs_no_claim(world: World):
    """Nobody can act in it; it stays stopped."""
    await world.leases.stop(caller=OWNER)
    await world.homes.reset(caller=OWNER)
    assert world.leases.view().state is LeaseState.STOPPED
    assert world.copies.done == ["reset"]


async def test_a_body_that_needs_recovery_is_left_alone(world: World):
    """What it does is not known, so it is not copied."""
    world.quiet[0] = False
    await world.leases.release(await world.acquire())
    with pytest.raises(WrongState, match="recover"):
        await world.homes.create("a", caller=OWNER)
    assert world.copies.done == []


async def test_a_driver_is_no_owner(world: World):
    """The body is had as a person, and no driver's token makes one."""
    with pytest.raises(Forbidden):
        await world.homes.reset(caller=DRIVER)
    assert world.apps == []


@pytest.mark.parametrize("error", [DiskFull("full"), NotFound("none")])
async def test_a_failure_comes_out_as_it_is(world: World, error: Exception):
    """In no group; the apps begin again, the body is given back, and the audit has the code."""
    world.copies.error = error
    with pytest.raises(type(error)):
        await world.homes.restore("a", caller=OWNER)
    assert world.apps[:1] == ["end"]
    assert world.leases.view().state is LeaseState.VACANT
    assert (await world.audited())[-1] == ("home.ended", "a", "owner", error.code)  # type: ignore[attr-defined]


async def test_what_is_refused_at_once_ends_no_apps(world: World):
    """A name that is taken, or no room, is found before anything is disturbed; and it is in the audit."""
    for call in (world.homes.create, world.homes.restore):
        with pytest.raises(SnapshotExists):
            await call("taken", caller=OWNER)
    assert world.apps == []
    assert (await world.audited())[-1] == ("home.ended", "taken", "owner", "snapshot_exists")


async def test_a_cancelled_step_is_written_down(world: World):
    """The client has hung up: the body is given back, and the audit says cancelled."""
    world.copies.hold = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: world.homes.restore("a", caller=OWNER))
        await world.copies.begun.wait()
        nursery.cancel_scope.cancel()
    assert world.homes.doing is None
    assert world.leases.view().state is LeaseState.VACANT
    assert (await world.audited())[-1] == ("home.ended", "a", "owner", "cancelled")


async def test_a_long_copy_keeps_the_body(world: World, monkeypatch: pytest.MonkeyPatch):
    """The claim that is had for it is renewed, too."""
    monkeypatch.setattr(module, "MAX_TTL_MS", 300)
    monkeypatch.setattr(module, "RENEWAL_SECONDS", 0.05)
    world.copies.hold = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: world.homes.restore("a", caller=OWNER))
        await trio.sleep(1.0)  # three times the ttl
        assert world.leases.view().state is LeaseState.HELD
        world.copies.hold.set()


async def test_steps_take_turns(world: World):
    """Two at once are done one after the other, not refused and never together."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: world.homes.restore("a", caller=OWNER))
        nursery.start_soon(lambda: world.homes.reset(caller=OWNER))
        nursery.start_soon(lambda: world.homes.create("b", caller=OWNER))
    assert sorted(world.copies.done) == ["create b", "reset", "restore a"]
    assert world.apps == ["end", "begin"] * 3
    assert (await world.homes.list())[0]["files"] == 3


async def test_what_is_left_of_a_home_goes_in_the_background(world: World):
    """What a crash left is known before the first step; each step's rest goes after its answer."""
    async with trio.open_nursery() as nursery:
        await nursery.start(world.homes.keep_house)
        assert world.copies.done == ["recover"]
        for expected in (1, 2):
            with trio.fail_after(SOON):
                while world.copies.swept < expected:  # noqa: ASYNC110
                    await trio.sleep(0.001)
            await world.homes.reset(caller=OWNER)
        nursery.cancel_scope.cancel()
