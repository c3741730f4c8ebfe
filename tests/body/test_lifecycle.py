"""Starting, stopping, killing and starting again: nothing left behind, nothing forgotten."""

from __future__ import annotations

import time

import pytest

from bodyd.errors import LeaseError, NotRunning

from .world import folder, processes_of, running_world


def gone(root, *, within: float = 10.0) -> bool:
    """Whether every process that names *root* ends within a bound."""
    deadline = time.monotonic() + within
    while processes_of(root):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.fixture(scope="module")
def root():
    with folder() as path:
        yield path


async def test_a_stop_leaves_no_process_and_a_second_start_keeps_the_cookie(root):
    """SIGINT ends every process; the browser's profile survives it."""
    with running_world(root) as world:
        assert await world.page.until(lambda page: page.entries("visit"), within=20)
        assert world.page.entries("visit")[0]["cookie"] is None
        assert await world.page.until(lambda page: page.entries("ready"), within=20)
        client = world.client()
        assert world.stop() == 0
        assert gone(root)
        async with client:
            with pytest.raises(NotRunning):
                await client.status()
        world.page.clear()
        world.start()
        assert await world.page.until(lambda page: page.entries("visit"), within=20)
        assert world.page.entries("visit")[0]["cookie"] == "once"


async def test_a_kill_leaves_no_process_and_the_next_start_requires_recovery(root):
    """kill -9 takes the whole body along; a claim comes back as recovery_required, never as held."""
    with running_world(root) as world:
        async with world.client() as client:
            lease = await client.acquire("killed")
            shot = await lease.screenshot()
            receipt = await lease.input([{"type": "move", "x": 5, "y": 5}], screenshot_id=shot.screenshot_id)
        world.kill()
        assert gone(root)
        world.start()
        async with world.client() as client:
            status = await client.status()
            assert status["lease"]["state"] == "recovery_required"
            assert status["lease"]["epoch"] >= lease.epoch
            stored = await client.receipt(receipt.request_id)
            assert stored.inputs == receipt.inputs
            with pytest.raises(LeaseError):
                await client.acquire("too-early")
            assert (await client.recover(step=1)).state == "vacant"
            fresh = await client.acquire("afterwards")
            assert fresh.epoch > lease.epoch
            await fresh.release()


async def test_two_daemons_never_own_one_body(root):
    """The second is refused, by name of the first, and changes nothing."""
    with running_world(root) as world:
        first, reports = world.process, world.reports
        with pytest.raises(RuntimeError, match=str(first.pid)):
            world.start()
        world.process, world.reports = first, reports
        async with world.client() as client:
            assert (await client.status())["lease"]["state"] in ("vacant", "recovery_required")
