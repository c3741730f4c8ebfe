"""The home put back under a real browser: its cookie is what it was when the snapshot was taken."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from bodyd.client import BodyClient
from bodyd.errors import Busy, NotFound
from tests.display.world import until

from .world import World


async def test_a_cookie_comes_and_goes_with_the_home(world: World, client: BodyClient):
    """Snapshot, reset: a stranger. Restored: known again. The apps come back each time."""
    assert await world.page.until(lambda page: page.origin is not None, within=20)
    world.page.clear()
    made = await client.create_snapshot("known")
    assert made["bytes"] > 0
    assert await visit_of(world) == "once"
    await client.reset_home()
    assert await visit_of(world) is None
    lock_profile(world, "known")
    await client.restore_snapshot("known")
    assert await visit_of(world) == "once"
    (known,) = await client.snapshots()
    assert known == made
    assert known["files"] > 20
    assert known["browser_version"].count(".") == 3
    await client.delete_snapshot("known")
    with pytest.raises(NotFound):
        await client.restore_snapshot("known")
    assert (await client.status())["lease"]["state"] == "vacant"


def lock_profile(world: World, name: str) -> None:
    """Leave in a snapshot what a browser of another machine leaves behind when it is killed."""
    profile = world.config.state / "snapshots" / name / "home" / "chromium"
    assert profile.is_dir()
    for lock, target in (("SingletonLock", "elsewhere-4711"), ("SingletonCookie", "1234567890")):
        (profile / lock).unlink(missing_ok=True)
        (profile / lock).symlink_to(target)
        owner = profile.stat()
        os.chown(profile / lock, owner.st_uid, owner.st_gid, follow_symlinks=False)


async def visit_of(world: World) -> object:
    """The cookie of the visit that follows the start of the apps; each start is a visit."""
    cookie = (await until(lambda: world.page.entries("visit")[-1:]))[0]["cookie"]
    world.page.clear()
    return cookie


async def test_nobody_is_disturbed(client: BodyClient):
    """While somebody drives, the home is theirs; in a stopped body it is the owner's."""
    lease = await client.acquire("driver")
    with pytest.raises(Busy):
        await client.create_snapshot("x")
    with pytest.raises(Busy):
        await client.reset_home()
    await lease.release()
    await client.stop()
    await client.create_snapshot("stopped")
    await client.resume()
    await client.delete_snapshot("stopped")


async def test_the_owner_who_has_taken_over_goes_on(client: BodyClient):
    """A take-over is enough, named by its claim; the agent has its own back afterwards."""
    agent = await client.acquire("agent")
    person = await client.takeover()
    with pytest.raises(Busy, match="take the body over"):
        await client.create_snapshot("mine")
    await client.create_snapshot("mine", lease_token=person.token)
    await client.restore_snapshot("mine", lease_token=person.token)
    await person.hand_back()
    await agent.renew()
    await agent.release()
    await client.delete_snapshot("mine")


def bodyd(world: World, *words: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "bodyd", "--config", str(world.root / "bodyd.toml"), "snapshot", *words]
    return subprocess.run(line, capture_output=True, text=True, check=False)


def test_the_command_line(world: World):
    """What was made is told, and refused a second time with a reason."""
    made = bodyd(world, "create", "cli")
    assert made.returncode == 0, made.stderr
    assert "ending the apps" in made.stdout
    assert " kept in " in made.stdout
    again = bodyd(world, "create", "cli")
    assert (again.returncode, "already" in again.stderr) == (1, True)
    assert "cli" in bodyd(world, "list").stdout
