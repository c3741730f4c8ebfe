"""`/v1/snapshots`: what the routes ask of the home's keeper, the client's side, and the command line."""

from __future__ import annotations

import argparse
from typing import Any

import pytest
import trio

from bodyd import cli, cli_snapshots
from bodyd.client import BodyClient
from bodyd.contract.lease import Scope
from bodyd.contract.ports import Caller
from bodyd.errors import ConfigError, DiskFull, Forbidden, InvalidRequest, SnapshotExists, Unavailable

KEPT = {
    "name": "a",
    "created_at": 1_700_000_000_000,
    "bytes": 5_500_000,
    "files": 12,
    "bodyd_version": "0.1.0",
    "browser_version": None,
}


class FakeHomes:
    """Remembers what it was asked; `error` is raised instead."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []
        self.error: Exception | None = None
        self.doing: dict[str, Any] | None = None
        self.kept = [KEPT]
        self.wait: trio.Event | None = None

    async def list(self) -> list[dict[str, Any]]:
        return self.kept

    async def _asked(self, *what: object, caller: Caller, lease_token: str | None = None) -> dict[str, Any]:
        self.asked.append((*what, caller.scope, lease_token))
        if self.wait is not None:
            await self.wait.wait()
        if self.error is not None:
            raise self.error
        return KEPT

    async def create(self, name: str, **who: Any) -> dict[str, Any]:
        return await self._asked("create", name, **who)

    async def restore(self, name: str, **who: Any) -> dict[str, Any]:
        return await self._asked("restore", name, **who)

    async def reset(self, **who: Any) -> None:
        await self._asked("reset", **who)

    async def delete(self, name: str, **who: Any) -> None:
        await self._asked("delete", name, **who)


@pytest.fixture
def homes(services) -> FakeHomes:
    services.homes = FakeHomes()
    return services.homes


async def test_each_step_reaches_the_home(homes: FakeHomes, client: BodyClient):
    """With the claim that the caller names, if they name one."""
    assert await client.snapshots() == [KEPT]
    assert await client.create_snapshot("a") == KEPT
    assert await client.restore_snapshot("a", lease_token="token") == KEPT
    await client.reset_home(lease_token="token")
    await client.delete_snapshot("a")
    owner = Scope.OWNER
    assert homes.asked == [
        ("create", "a", owner, None),
        ("restore", "a", owner, "token"),
        ("reset", owner, "token"),
        ("delete", "a", owner, None),
    ]
    assert await client.home_progress() is None
    homes.doing = {"what": "create", "name": "a", "phase": "copying", "files": 2, "of": 5}
    assert await client.home_progress() == homes.doing


async def test_refusals_come_by_their_classes(homes: FakeHomes, client: BodyClient, services):
    """A name that is none, a taken one, a full disk; and a daemon that has no home."""
    for name in ("", "../x", "a b", ".a", "x" * 65):
        with pytest.raises(InvalidRequest):
            await client.create_snapshot(name)
    assert homes.asked == []
    for error in (SnapshotExists("taken"), DiskFull("full")):
        homes.error = error
        with pytest.raises(type(error)):
            await client.create_snapshot("a")
    services.homes = None
    with pytest.raises(Unavailable):
        await client.snapshots()


async def test_a_driver_has_no_say(homes: FakeHomes, bound, services):
    """Neither to look nor to change."""
    async with BodyClient(socket_path=bound.unix_path, token=services.tokens.token(Scope.DRIVER)) as driver:
        for call in (driver.snapshots(), driver.create_snapshot("a"), driver.reset_home()):
            with pytest.raises(Forbidden):
                await call
    assert homes.asked == []


# -- the command line -----------------------------------------------------------------------------------


@pytest.fixture
def command(bound, services):
    """`bodyd snapshot WORDS` against the server of this test, from a thread as the real one is a process."""

    async def run(*words: str) -> int:
        args = cli._parser().parse_args(["snapshot", *words])

        def call(_: argparse.Namespace, ask: cli_snapshots.Ask) -> Any:
            async def talk() -> Any:
                token = services.tokens.token(Scope.OWNER)
                async with BodyClient(socket_path=bound.unix_path, token=token) as client:
                    return await ask(client)

            return trio.run(talk)

        return await trio.to_thread.run_sync(cli_snapshots.run, args, call)

    return run


async def test_the_command_says_what_was_done(homes: FakeHomes, command, capsys):
    """A line for each step; sizes and versions in the list."""
    assert await command("list") == 0
    assert "a                              2023-11-1" in (told := capsys.readouterr().out)
    assert "5.5 MB      12 files  browser none" in told
    assert await command("create", "a") == 0
    assert "a: 12 files, 5.5 MB kept in " in capsys.readouterr().out
    assert await command("restore", "a", "--yes") == 0
    assert "a: 12 files, 5.5 MB put back in " in capsys.readouterr().out
    assert await command("reset", "--yes") == 0
    assert "the home is empty" in capsys.readouterr().out
    assert await command("delete", "a") == 0
    assert [asked[0] for asked in homes.asked] == ["create", "restore", "reset", "delete"]
    homes.kept = []
    await command("list")
    assert "bodyd snapshot create NAME" in capsys.readouterr().out


async def test_what_is_lost_has_to_be_allowed(homes: FakeHomes, command):
    """restore and reset do nothing without --yes."""
    for words in (("restore", "a"), ("reset",)):
        with pytest.raises(ConfigError, match="--yes"):
            await command(*words)
    assert homes.asked == []


async def test_a_failure_is_the_commands(homes: FakeHomes, command):
    """What the daemon refuses comes out of the command as it is, in no group."""
    homes.error = DiskFull("the disk is full")
    with pytest.raises(DiskFull, match="the disk is full"):
        await command("create", "a")


@pytest.mark.parametrize("terminal", [False, True])
async def test_progress_is_shown(homes: FakeHomes, command, capsys, monkeypatch, terminal):
    """On a terminal one line that counts, elsewhere a line for each phase."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    monkeypatch.setattr(cli_snapshots, "LOOK_SECONDS", 0.01)
    homes.wait = trio.Event()
    shown = ""

    async def told(text: str) -> None:
        nonlocal shown
        with trio.fail_after(10):
            while text not in shown:
                await trio.sleep(0.01)
                shown += capsys.readouterr().out

    async with trio.open_nursery() as nursery:
        nursery.start_soon(command, "restore", "a", "--yes")
        homes.doing = {"what": "restore", "name": "a", "phase": "ending_apps", "files": 0, "of": 0}
        await told("ending the apps …")
        homes.doing |= {"phase": "copying", "files": 3, "of": 12}
        await told("copying … 3 of 12 files" if terminal else "copying …")
        homes.wait.set()
        await told("put back in ")
    assert ("\r" in shown) is terminal
