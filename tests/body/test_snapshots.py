"""The home put back under a real browser: its cookie is what it was when the snapshot was taken."""

from __future__ import annotations

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
    await client.restore_snapshot("known")
    assert await visit_of(world) == "once"
    assert [one["name"] for one in await client.snapshots()] == ["known"]
    await client.delete_snapshot("known")
    with pytest.raises(NotFound):
        await client.restore_snapshot("known")
    assert (await client.status())["lease"]["state"] == "vacant"


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
