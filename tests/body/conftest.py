"""One daemon is kept for a module's tests; each test gets a clean lease."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from bodyd.client import BodyClient
from bodyd.contract.lease import LeaseState

from .world import World, folder, running_world


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with folder() as root, running_world(root) as running:
        yield running


@pytest.fixture
async def client(world: World) -> AsyncIterator[BodyClient]:
    """The owner's client; afterwards the lease is vacant again, whatever the test did."""
    async with world.client() as client:
        yield client
        status = await client.status()
        if status["lease"]["state"] == LeaseState.STOPPED:
            await client.resume()
        if status["lease"]["state"] == LeaseState.RECOVERY_REQUIRED:
            await client.recover(step=1)
        elif status["lease"]["state"] != LeaseState.VACANT:
            await client.revoke(reason="the test is over")
