"""Several clients and one body, over HTTP: one holder, a queue with an end and an order, growing epochs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import trio

from bodyd.client import BodyClient, ClientLease
from bodyd.errors import (
    Busy,
    LeasePaused,
    PersonDriving,
    QueueFull,
    StaleEpoch,
    StaleLease,
    StaleScreenshot,
)
from bodyd.journal.audit import read_audit
from tests.display.world import until

from .outsider import recording
from .world import World, bare_world, folder

CLICK = {"type": "click", "x": 40, "y": 40}
QUEUE = 3


@pytest.fixture(scope="module")
def bare() -> Iterator[World]:
    with folder() as root, bare_world(root, lease={"queue": QUEUE}) as running:
        yield running


async def queue_of(client: BodyClient) -> int:
    return (await client.status())["lease"]["queue"]


async def test_two_clients_that_race_never_both_hold_the_body(bare, times):
    """At each moment one has it; the other is told `busy`; every grant has a higher epoch than the last."""
    grants: list[int] = []
    holders: set[str] = set()
    refused = 0

    async def race(name: str) -> None:
        nonlocal refused
        async with bare.client() as client:
            while len(grants) < times(200):
                try:
                    lease = await client.acquire(name)
                except Busy:
                    refused += 1
                    continue
                assert not holders
                holders.add(name)
                grants.append(lease.epoch)
                await lease.input([{"type": "wait", "ms": 0}])
                holders.remove(name)
                await lease.release()

    async with trio.open_nursery() as nursery:
        for name in ("one", "two"):
            nursery.start_soon(race, name)
    assert refused
    assert grants == sorted(set(grants))


async def test_waiting_is_first_in_first_out_and_bounded(bare):
    """Those who wait get it in their order; one too many is refused at once; a wait that ends is `busy`."""
    served: list[str] = []

    async def wait(name: str) -> None:
        async with bare.client() as client:
            lease = await client.acquire(name, wait_ms=20_000)
            served.append(name)
            await lease.release()

    names = [f"waiter-{n}" for n in range(QUEUE)]
    async with bare.client() as client:
        lease = await client.acquire("holder")
        with pytest.raises(Busy):
            await client.acquire("impatient")
        with pytest.raises(Busy):
            await client.acquire("hopeful", wait_ms=50)
        async with trio.open_nursery() as nursery:
            for place, name in enumerate(names, start=1):
                nursery.start_soon(wait, name)
                await until(lambda place=place: _has_queue(client, place))
            with pytest.raises(QueueFull):
                await client.acquire("one-too-many", wait_ms=20_000)
            await lease.release()
    assert served == names


async def _has_queue(client: BodyClient, count: int) -> bool:
    return await queue_of(client) == count


async def test_a_waiter_who_goes_away_gives_its_place_up(bare):
    """Nobody is granted a body that they don't want any more."""
    async with bare.client() as client:
        lease = await client.acquire("holder")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_acquire_in_vain, bare)
            await until(lambda: _has_queue(client, 1))
            nursery.cancel_scope.cancel(reason="it has gone away")
        await until(lambda: _has_queue(client, 0))
        await lease.release()
        assert (await client.status())["lease"]["state"] == "vacant"


async def _acquire_in_vain(bare: World) -> None:
    async with bare.client() as client:
        await client.acquire("gone", wait_ms=20_000)


async def test_an_agent_comes_back_under_a_new_epoch_and_must_look_again(bare):
    """Take-over and hand-back: the same token, the new epoch in the error, a fresh screenshot first."""
    async with bare.client() as client, recording(bare, client) as app:
        agent = await client.acquire("agent")
        old = await agent.screenshot()
        person = await client.takeover()
        assert person.epoch > agent.epoch
        for refused in (agent.input([CLICK]), agent.screenshot(), agent.input([CLICK], binding="none")):
            with pytest.raises((PersonDriving, StaleEpoch)):
                await refused
        await person.hand_back()
        with pytest.raises(StaleLease):
            await person.input([CLICK], binding="none")
        with pytest.raises(StaleEpoch) as caught:
            await agent.input([CLICK], screenshot_id=old.screenshot_id)
        agent.epoch = caught.value.details["epoch"]
        assert agent.epoch > person.epoch
        for screenshot_id in (old.screenshot_id, None):
            with pytest.raises(StaleScreenshot):
                await agent.input([CLICK], screenshot_id=screenshot_id)
        assert app.seen() == []
        await agent.screenshot()
        assert (await agent.input([CLICK])).inputs[0].delivery.outcome == "confirmed"
        assert app.kinds() == ["motion", "press", "release"]
        await agent.release()


async def test_a_renewal_undoes_no_pause(bare):
    """Paused by anyone; renewed, it is still paused; resumed by its holder, it acts, under the same epoch."""
    async with bare.client() as client:
        lease: ClientLease = await client.acquire("agent")
        await client.pause()
        assert (await lease.renew()).state == "paused"
        with pytest.raises(LeasePaused):
            await lease.input([{"type": "wait", "ms": 0}])
        view = await lease.resume()
        assert (view.state, view.epoch) == ("held", lease.epoch)
        await lease.input([{"type": "wait", "ms": 0}])
        await lease.release()


async def test_who_took_and_stopped_the_body_is_in_the_audit(bare):
    """Each step with its reason, in the order it was taken, and the chain is whole."""
    async with bare.client() as client:
        await client.acquire("audited")
        person = await client.takeover(reason="to look at something")
        await person.hand_back()
        await client.stop(reason="enough of it")
        await client.resume()
        found: list[str] = []
        for _ in range(200):
            with read_audit(bare.config.state / "private") as audit:
                rows = [row for row in audit.tail(60) if row.kind.startswith(("lease.", "body."))]
            found = [row.kind for row in rows]
            if found[-1:] == ["body.resumed"]:
                break
            await trio.sleep(0.02)
        start = next(i for i, row in enumerate(rows) if row.data.get("conversation_id") == "audited")
        wanted = (
            "lease.granted lease.suspended lease.granted lease.granted body.stopped lease.revoked".split()
        )
        assert [kind for kind in found[start:] if kind in wanted] == wanted
        reasons = {row.kind: row.data.get("reason") for row in rows[start:]}
        assert reasons["lease.suspended"] == "to look at something"
        assert reasons["body.stopped"] == "enough of it"
