"""Input that other X clients of the body forge: it makes no receipt, and changes none."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
import trio
from Xlib import X
from Xlib.ext import xtest
from Xlib.protocol import event

from bodyd.journal.audit import read_audit
from tests.body.outsider import recording, x_server
from tests.body.world import bare_world, folder


@asynccontextmanager
async def outsider_of(world, client):
    """Another X client of the body."""
    outsider = (await x_server(world, client)).connect()
    try:
        yield outsider
    finally:
        outsider.close()


@pytest.fixture(scope="module")
def bare():
    with folder() as root, bare_world(root) as world:
        yield world


def forged(kind, window, code):
    """A key event as SendEvent lets any client write it."""
    return kind(
        time=X.CurrentTime, root=window, window=window, child=X.NONE, same_screen=1, state=0, detail=code,
        root_x=1, root_y=1, event_x=1, event_y=1,
    )  # fmt: skip


async def test_events_that_are_sent_never_go_unnoticed(bare):
    """Forged keys that reach the app amid ours: the receipt says so, is the only one, and needs recovery."""
    async with (
        bare.client() as client,
        recording(bare, client) as app,
        outsider_of(bare, client) as outsider,
    ):
        lease = await client.acquire("foreign")
        window = outsider.display.create_resource_object("window", app.window.id)
        code = outsider.display.keysym_to_keycode(0x7A)  # z
        stop = trio.Event()

        async def forge() -> None:
            while not stop.is_set():
                for kind in (event.KeyPress, event.KeyRelease):
                    window.send_event(forged(kind, window, code), event_mask=X.KeyPressMask)
                outsider.display.sync()
                await trio.sleep(0.001)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(forge)
            await lease.screenshot()
            receipt = await lease.input([{"type": "type", "text": "abab" * 500}], binding="none")
            stop.set()
        (typed,) = receipt.inputs
        assert (typed.delivery.outcome, typed.delivery.reason) == ("uncertain", "interference")
        assert requests(bare) == {receipt.request_id}
        assert (await client.status())["lease"]["state"] == "recovery_required"
        await client.recover(step=1)


async def test_keys_between_two_batches_are_no_drivers(bare):
    """XTEST by another client while nobody sends: no receipt of it, and the next batch is as it should be."""
    async with (
        bare.client() as client,
        recording(bare, client) as app,
        outsider_of(bare, client) as outsider,
    ):
        lease = await client.acquire("foreign")
        code = outsider.display.keysym_to_keycode(0x7A)
        for kind in (X.KeyPress, X.KeyRelease):
            xtest.fake_input(outsider.display, kind, code)
        outsider.display.sync()
        await lease.screenshot()
        receipt = await lease.input([{"type": "type", "text": "ab"}], binding="none")
        assert receipt.inputs[0].delivery.outcome == "confirmed"
        assert [name for name in app.keysyms() if name[0] == "key down"][-2:] == [
            ("key down", 0x61),
            ("key down", 0x62),
        ]
        await lease.release()


def requests(world):
    """The request ids that the audit has rows of."""
    with read_audit(world.config.state / "private") as audit:
        rows = [entry.data for entry in audit.tail(500)]
    return {row["request_id"] for row in rows if "request_id" in row}
