"""Hand-overs in the middle of an act: nothing stays down, nothing old comes after the new grant."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
import trio
from Xlib import X
from Xlib.ext import xtest

from bench import revoke
from bodyd.client import BodyClient, ClientLease, new_request_id
from bodyd.contract.receipts import Outcome, Receipt
from bodyd.display.connection import XConnection
from bodyd.errors import BodydError, NotFound, RecoveryRequired
from tests.display.recorder import Recorder, Seen
from tests.display.world import until

from .outsider import input_state, recording, x_server
from .world import World, bare_world, folder, running_world

CAPS_LOCK_CODE = 66


@pytest.fixture(scope="module")
def bare() -> Iterator[World]:
    with folder() as root, bare_world(root) as running:
        yield running


@pytest.fixture
async def owner(bare: World) -> AsyncIterator[BodyClient]:
    """The owner's client; the lease is vacant before and after."""
    async with bare.client() as client:
        yield client
        status = await client.status()
        if status["lease"]["state"] == "recovery_required":
            await client.recover(step=1)
        elif status["lease"]["state"] == "stopped":
            await client.resume()
        elif status["lease"]["state"] != "vacant":
            await client.revoke(reason="the test is over")


@pytest.fixture
async def app(bare: World, owner: BodyClient) -> AsyncIterator[Recorder]:
    async with recording(bare, owner) as recorder:
        yield recorder


@dataclass
class Act:
    """A batch under way, and what the app has seen so far."""

    world: World
    client: BodyClient
    lease: ClientLease
    app: Recorder
    inputs: list[dict[str, object]]
    request_id: str = field(default_factory=new_request_id)
    seen: list[Seen] = field(default_factory=list)
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    stream: trio.SocketStream | None = None

    async def send(self) -> None:
        with self.scope, suppress(BodydError):
            await self.lease.input(self.inputs, request_id=self.request_id)

    async def send_by_hand(self) -> None:
        """Over a connection that the test can break."""
        body = {"request_id": self.request_id, "epoch": self.lease.epoch, "inputs": self.inputs}
        text = json.dumps({"binding": "window", **body}).encode()
        self.stream = await trio.open_unix_socket(self.world.config.api_socket)
        await self.stream.send_all(
            b"POST /v1/input HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            + f"authorization: {self.client._headers['authorization']}\r\n".encode()
            + f"bodyd-lease: {self.lease.token}\r\ncontent-length: {len(text)}\r\n\r\n".encode()
            + text
        )

    def look(self) -> list[Seen]:
        """What the app has seen since the last look."""
        new = self.app.seen()
        self.seen += new
        return new

    async def until_under_way(self) -> None:
        """Until something is held down, and the app has seen a few of its inputs."""
        await until(lambda: self.look() and len(self.seen) >= 3)

    async def receipt(self) -> Receipt:
        """Its one receipt; it is durable soon after the batch was cut."""

        async def there() -> Receipt | None:
            with suppress(NotFound):
                return await self.client.receipt(self.request_id)
            return None

        return await until(there)


async def _release(act: Act) -> None:
    await act.lease.release()


async def _revoke(act: Act) -> None:
    await act.client.revoke()


async def _stop(act: Act) -> None:
    assert (await act.client.stop()).state == "stopped"


async def _take_over(act: Act) -> None:
    act.lease = await act.client.takeover()


async def _lapse(act: Act) -> None:
    """The driver is gone in the middle, so nothing renews its lease; then someone else gets the body."""
    act.scope.cancel()
    await until(lambda: _has_lapsed(act.client))
    act.lease = await act.client.acquire("the-next", wait_ms=10_000)


async def _disconnect(act: Act) -> None:
    assert act.stream is not None
    await act.stream.aclose()
    await act.receipt()


async def _cancel(act: Act) -> None:
    act.scope.cancel()
    await act.receipt()


WAYS: dict[str, Callable[[Act], Awaitable[None]]] = {
    way.__name__.removeprefix("_"): way
    for way in (_release, _revoke, _stop, _take_over, _lapse, _disconnect, _cancel)
}
BATCHES: dict[str, list[dict[str, object]]] = {
    "drag": [{"type": "drag", "path": [{"x": 100 + n, "y": 300 + n % 7} for n in range(1000)]}],
    "chord": [{"type": "hold", "keys": ["CTRL", "SHIFT", "F7"], "duration_ms": 10_000}],
    "text": [{"type": "type", "text": "The quick brown fox. " * 1000}],
}
CLICK = {"type": "click", "x": 5, "y": 5}


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("way", WAYS)
async def test_a_hand_over_in_the_middle_leaves_nothing_down_and_nothing_late(bare, owner, app, way, batch):
    """The app sees each press end before the next grant, and of the old batch nothing after it."""
    lease = await owner.acquire("the-first", ttl_ms=1_000 if way == "lapse" else 60_000)
    await lease.screenshot()
    act = Act(bare, owner, lease, app, [*BATCHES[batch], CLICK])
    other = (await x_server(bare, owner)).connect()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(act.send_by_hand if way == "disconnect" else act.send)
        await act.until_under_way()
        await WAYS[way](act)
        assert input_state(other).clear
        act.look()
        assert still_down(act.seen) == Counter()
        assert len([e for e in act.seen if e.kind == "press"]) == (batch == "drag")
        receipt = await act.receipt()
        await goes_on_cleanly(act, way, other)
    other.close()
    cut, never = receipt.inputs
    assert (cut.delivery.outcome, cut.delivery.reason) == (Outcome.FAILED, "interrupted")
    assert cut.delivery.sent.units < cut.delivery.sent.of
    assert (never.delivery.reason, never.delivery.sent.units) == ("not_attempted", 0)
    if batch == "text":
        assert len([e for e in act.seen if e.kind == "key down" and e.detail not in SHIFTS]) == (
            cut.delivery.sent.units
        )


@pytest.mark.parametrize("batch", BATCHES)
async def test_an_error_in_the_middle_leaves_nothing_down(bare, owner, app, batch):
    """Another app's hand in it: uncertain, all is up by the time that this is said, and recovery goes on."""
    lease = await owner.acquire("the-first")
    await lease.screenshot()
    inputs = BATCHES[batch]
    if batch == "chord":  # it is seen at the next atom
        inputs = [{**inputs[0], "duration_ms": 700}]
    if batch == "text":  # it is typed to its end
        inputs = [{**inputs[0], "text": "The quick brown fox. " * 200}]
    act = Act(bare, owner, lease, app, [*inputs, CLICK])
    other = (await x_server(bare, owner)).connect()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(act.send)
        await act.until_under_way()
        other.root.warp_pointer(900, 700)
        for kind in (X.KeyPress, X.KeyRelease):
            xtest.fake_input(other.display, kind, 38)
        other.display.sync()
        receipt = await act.receipt()
        assert input_state(other).clear
    act.look()
    assert still_down(act.seen) == Counter()
    hurt, never = receipt.inputs
    assert (hurt.delivery.outcome, hurt.delivery.reason) == (Outcome.UNCERTAIN, "interference")
    assert (never.delivery.reason, never.delivery.sent.units) == ("not_attempted", 0)
    with pytest.raises(RecoveryRequired):
        await owner.acquire("too-early")
    assert (await owner.recover(step=1)).state == "vacant"
    await goes_on_cleanly(act, "error", other)
    other.close()


async def test_a_stop_in_a_batch_of_64_sends_nothing_more(bare, owner, app):
    """The input under way ends or is cut; of those behind it the app sees none, and the receipt says so."""
    lease = await owner.acquire("the-first")
    await lease.screenshot()
    inputs = [{"type": "click", "x": 100 + n, "y": 300} for n in range(64)]
    for n in range(1, 64, 2):
        inputs[n] = {"type": "hold", "keys": ["CTRL"], "duration_ms": 100}
    act = Act(bare, owner, lease, app, inputs)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(act.send)
        await act.until_under_way()
        await _stop(act)
        act.look()
        assert still_down(act.seen) == Counter()
        receipt = await act.receipt()
        await owner.resume()
    assert act.look() == []
    done = [item.delivery.outcome is Outcome.CONFIRMED for item in receipt.inputs]
    assert 0 < sum(done) < 64
    assert done == sorted(done, reverse=True)
    behind = receipt.inputs[sum(done) + 1 :]
    assert {item.delivery.reason for item in behind} <= {"not_attempted", "interrupted"}
    assert all(item.delivery.sent.units == 0 for item in behind)
    clicks = len([event for event in act.seen if event.kind == "press"])
    assert sum(done[::2]) <= clicks <= sum(done[::2]) + 1


SHIFTS = (50, 62)  # keycodes of X.Org's usual map


async def goes_on_cleanly(act: Act, way: str, other: XConnection) -> None:
    """The next driver's own input is all that the app sees from the next grant on."""
    if way == "stop":
        await act.client.resume()
    if way in ("disconnect", "cancel"):  # the claim is still its holder's
        await act.lease.screenshot()
        assert (await act.lease.input([{"type": "move", "x": 7, "y": 7}])).outcome == "confirmed"
        assert [e.kind for e in act.look()] == ["motion"]
        await act.lease.release()
    if way not in ("take_over", "lapse"):
        act.lease = await act.client.acquire("the-next")
    assert act.look() == []
    await act.lease.screenshot()
    assert input_state(other).clear
    receipt = await act.lease.input([CLICK])
    assert receipt.inputs[0].delivery.outcome == "confirmed"
    assert [e.kind for e in act.look()] == ["motion", "press", "release"]
    if way == "take_over":
        await act.lease.hand_back()


def still_down(seen: list[Seen]) -> Counter[tuple[str, int]]:
    """Keys and buttons whose last edge was a press."""
    down: dict[tuple[str, int], int] = {}
    for event in seen:
        what = {"key down": "key", "key up": "key", "press": "button", "release": "button"}.get(event.kind)
        if what is not None:
            down[what, event.detail] = event.kind in ("key down", "press")
    return Counter({key: 1 for key, is_down in down.items() if is_down})


@pytest.mark.soak  # the page's log begins too late on a busy machine, one time in three: cause not found
async def test_a_browser_sees_every_press_end(world, client):
    """By the page's own log: whatever went down came up, before the next driver's click."""
    assert await world.page.until(lambda page: page.origin is not None, within=20)
    (fx, fy), (bx, by), (dx, dy) = (world.page.at(*at) for at in ((60, 60), (100, 180), (350, 180)))
    path = [{"x": bx + n % 90, "y": by + n // 90} for n in range(900)]
    click = {"type": "click", "x": fx, "y": fy}
    batches = [
        [{"type": "drag", "path": path}],
        [click, {"type": "hold", "keys": ["CTRL", "SHIFT"], "duration_ms": 10_000}],
        [click, {"type": "type", "text": "Penguins " * 1000}],
    ]
    for inputs in batches:
        lease = await client.acquire("the-first")
        await lease.screenshot()
        world.page.clear()
        errors: list[BodydError] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_keeping_errors, errors, lease, inputs)
            if not await world.page.until(lambda p: p.entries("drag", "keydown")):
                raise AssertionError((inputs[0], errors, world.page.entries()[:3], await client.status()))
            await client.revoke()
        after = await client.acquire("the-next")
        await after.screenshot()
        await after.input([{"type": "click", "x": dx, "y": dy}])
        await after.release()
        assert await world.page.until(lambda p: any(e["target"] == "dead" for e in p.entries("mouseup")))
        check_page_log(world.page.entries("mousedown", "mouseup", "keydown", "keyup", "drag"))
        world.page.clear()


async def _keeping_errors(
    errors: list[BodydError], lease: ClientLease, inputs: list[dict[str, object]]
) -> None:
    try:
        await lease.input(inputs)
    except BodydError as exc:
        errors.append(exc)


def check_page_log(entries: list[dict[str, object]]) -> None:
    """Balanced, and the last two are the next driver's click."""
    entries = sorted(entries, key=lambda e: e["n"])
    down: set[object] = set()
    for entry in entries:
        what = str(entry.get("key", entry.get("button"))).lower()
        if entry["name"] in ("mousedown", "keydown"):
            if entry.get("target") == "dead":
                assert not down, entries
            down.add(what)
        elif entry["name"] in ("mouseup", "keyup"):
            down.remove(what)
    assert not down, entries
    assert [(e["name"], e.get("target")) for e in entries[-2:]] == [
        ("mousedown", "dead"),
        ("mouseup", "dead"),
    ]


async def test_a_frozen_x_server_needs_recovery_and_gets_it(bare, owner, app):
    """No proof, no grant: said in /readyz; once it goes on, step 1 (or 2) proves the body quiet."""
    server = await x_server(bare, owner)
    for step in (1, 2):
        app.seen()
        lease = await owner.acquire(f"before-{step}")
        await lease.screenshot()
        act = Act(bare, owner, lease, app, BATCHES["chord"])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(act.send)
            await act.until_under_way()
            with server.frozen():
                with trio.fail_after(20):
                    assert (await owner.revoke()).state == "recovery_required"
                ready = await owner.ready()
                assert ready["ready"] is False
                assert ready["components"]["display"] != "ready"
                with pytest.raises(RecoveryRequired):
                    await owner.acquire("too-early")
                assert (await owner.recover(step=step)).state == "recovery_required"
        receipt = await act.receipt()
        assert receipt.outcome == "uncertain" or receipt.inputs[0].delivery.reason == "interrupted"
        view = await owner.recover(step=step)
        assert view.state == "vacant", view
        assert input_state(app.x).clear
        await until(lambda: _is_ready(owner))


async def test_a_display_that_stays_frozen_is_restarted_by_step_three(bare, owner):
    """The apps are lost, the body is had again: a new server, vacant, and it takes input."""
    before = await x_server(bare, owner)
    lease = await owner.acquire("before")
    old = await lease.screenshot()
    with before.frozen():
        assert (await owner.revoke()).state == "recovery_required"
        assert (await owner.recover(step=3)).state == "vacant"
    after = await x_server(bare, owner)
    assert after.pid != before.pid
    async with recording(bare, owner) as recorder:
        lease = await owner.acquire("after")
        with pytest.raises(BodydError, match="screenshot"):
            await lease.input([CLICK], screenshot_id=old.screenshot_id)
        await lease.screenshot()
        assert (await lease.input([CLICK])).inputs[0].delivery.outcome == "confirmed"
        assert recorder.kinds() == ["motion", "press", "release"]


async def _is_ready(client: BodyClient) -> bool:
    return bool((await client.ready())["ready"])


async def _has_lapsed(client: BodyClient) -> bool:
    return (await client.status())["lease"]["state"] == "lapsed"


async def test_caps_lock_and_a_swapped_pointer_are_mended_before_a_batch(bare, owner, app):
    """Set by another app between two batches: noticed, undone, said in the receipt."""
    other = (await x_server(bare, owner)).connect()
    straight = list(other.display.get_pointer_mapping())
    lease = await owner.acquire("driver")
    for kind in (X.KeyPress, X.KeyRelease):
        xtest.fake_input(other.display, kind, CAPS_LOCK_CODE)
    other.display.set_pointer_mapping([3, 2, 1, *straight[3:]])
    other.display.sync()
    app.seen()
    await lease.screenshot()
    receipt = await lease.input([CLICK, {"type": "type", "text": "abc"}])
    assert [i.delivery.outcome for i in receipt.inputs] == ["confirmed", "confirmed"]
    assert "caps_lock" in receipt.reason
    assert "pointer_mapping" in receipt.reason
    seen = app.seen()
    assert [e.detail for e in seen if e.kind == "press"] == [1]
    assert not any(e.state & X.LockMask for e in seen)
    assert list(other.display.get_pointer_mapping()) == straight
    other.close()


async def test_a_key_that_another_app_holds_is_reported_and_lifted(bare, owner, app):
    """Nobody can say what the batch meant with it: uncertain, recovery; which lifts it."""
    other = (await x_server(bare, owner)).connect()
    lease = await owner.acquire("driver")
    await lease.screenshot()
    xtest.fake_input(other.display, X.KeyPress, 50)
    other.display.sync()
    receipt = await lease.input([CLICK])
    assert receipt.inputs[0].delivery.reason == "interference"
    assert (await owner.status())["lease"]["state"] == "recovery_required"
    assert (await owner.recover(step=1)).state == "vacant"
    assert input_state(other).clear
    other.close()


async def test_revoke_is_quiescent_within_the_bound_under_load(times):
    """Two busy programs and an animated page: every revoke ends in proof; the figure is bench's."""
    with folder() as root, running_world(root, desktop={"start_url": revoke.ANIMATED}) as world:
        taken = await revoke.measure(world, times(200))
    p50, p99 = statistics.median(taken), statistics.quantiles(taken, n=100)[98]
    print(f"revoke to quiescent, {len(taken)} runs: p50 {p50:.0f} ms, p99 {p99:.0f} ms, max {max(taken):.0f}")
    assert max(taken) < 2_000
