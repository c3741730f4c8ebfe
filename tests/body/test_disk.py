"""The disk fails under a whole daemon: said at once, no input without a record, and well again after."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
import trio

from bodyd.client import BodyClient, ClientLease, new_request_id
from bodyd.errors import JournalUnavailable
from bodyd.journal.directory import IMAGES_FILE, JOURNAL_FILE
from tests.display.recorder import Recorder
from tests.display.world import until

from .outsider import recording
from .world import World, bare_world, folder

DISK_BYTES = 24 * 1024 * 1024
CLICK = {"type": "click", "x": 40, "y": 40}

needs_mounts = pytest.mark.skipif(os.geteuid() != 0, reason="a small disk can be mounted by root alone")


@contextmanager
def small_disk(place: Path) -> Iterator[None]:
    """A file system of DISK_BYTES at *place*."""
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=700", "tmpfs", place], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


@pytest.fixture(scope="module")
def tight() -> Iterator[World]:
    """A body whose state directory is a small disk."""
    with folder() as root, small_disk(root / "state"), bare_world(root) as running:
        yield running


@pytest.fixture(scope="module")
def bare() -> Iterator[World]:
    with folder() as root, bare_world(root) as running:
        yield running


@asynccontextmanager
async def driving(world: World) -> AsyncIterator[tuple[BodyClient, ClientLease, Recorder]]:
    """A client, its lease with a screenshot seen, and an app; whatever happens, the body is vacant after."""
    async with world.client() as client, recording(world, client) as app:
        lease = await client.acquire("driver")
        await lease.screenshot()
        app.seen()
        try:
            yield client, lease, app
        finally:
            with trio.move_on_after(20, shield=True):
                await client.revoke(reason="the test is over")


@contextmanager
def filled(place: Path) -> Iterator[None]:
    """Not a byte is left on the disk of *place*."""
    ballast = place / "ballast"
    descriptor = os.open(ballast, os.O_WRONLY | os.O_CREAT)
    try:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while True:
                    os.write(descriptor, bytes(size))
            except OSError:
                continue
        yield
    finally:
        os.close(descriptor)
        ballast.unlink()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another program writes to the database, and does not end."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


async def refuses_all_input(client: BodyClient, lease: ClientLease, app: Recorder) -> None:
    """Health says it, every attempt fails with the reason, and the app sees nothing of them."""
    ready = await client.ready()
    assert ready["ready"] is False
    assert ready["components"]["journal"] == "down"
    request_id = new_request_id()
    for _ in range(2):
        with pytest.raises(JournalUnavailable, match=r"journal\.db"):
            await lease.input([CLICK], request_id=request_id)
    assert app.seen() == []


async def works_again(client: BodyClient, lease: ClientLease, app: Recorder) -> None:
    """The same claim acts, and its receipt is to be had."""
    await until(lambda: _is_ready(client))
    await lease.screenshot()
    receipt = await lease.input([CLICK])
    assert receipt.inputs[0].delivery.outcome == "confirmed"
    assert app.kinds()[-2:] == ["press", "release"]
    assert (await client.receipt(receipt.request_id)).inputs == receipt.inputs
    await lease.release()


async def _is_ready(client: BodyClient) -> bool:
    return bool((await client.ready())["ready"])


async def _is_vacant(client: BodyClient) -> bool:
    return bool((await client.status())["lease"]["state"] == "vacant")


@needs_mounts
async def test_a_full_disk_refuses_input_until_there_is_space(tight):
    """No byte is left: nothing is sent, nothing is granted; freed, the same claim goes on."""
    async with driving(tight) as (client, lease, app):
        with filled(tight.config.state):
            await refuses_all_input(client, lease, app)
        await works_again(client, lease, app)
        lease = await client.acquire("next")
        with filled(tight.config.state):
            await lease.release()  # it is fenced and let go all the same
            with pytest.raises(JournalUnavailable):
                await client.acquire("unrecorded")
        await until(lambda: _is_ready(client))
        await until(lambda: _is_vacant(client))
        await works_again(client, await client.acquire("recorded"), app)


@needs_mounts
async def test_a_disk_that_fills_during_a_batch_costs_no_receipt(tight):
    """What was sent is told once there is space again, as it was; and nothing new begins before."""
    async with driving(tight) as (client, lease, app):
        batch, request_id = [CLICK, {"type": "wait", "ms": 1500}], new_request_id()
        failed = []

        async def send() -> None:
            with pytest.raises(JournalUnavailable) as caught:
                await lease.input(batch, request_id=request_id)
            failed.append(caught.value)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await until(lambda: "release" in app.kinds())
            with filled(tight.config.state):
                await until(lambda: failed)
                with pytest.raises(JournalUnavailable):
                    await lease.input([CLICK])
                assert app.seen() == []
        await until(lambda: _is_ready(client))
        stored = await client.receipt(request_id)
        assert [i.delivery.outcome for i in stored.inputs] == ["confirmed", "confirmed"]
        assert (await lease.input(batch, request_id=request_id)).replayed
        assert app.seen() == []
        await lease.release()


async def test_a_locked_journal_refuses_input_until_it_is_let_go(bare):
    """Another program holds the lock: the same, with that reason."""
    async with driving(bare) as (client, lease, app):
        with locked(bare.config.state / "private" / JOURNAL_FILE):
            await refuses_all_input(client, lease, app)
        await works_again(client, lease, app)


async def test_a_locked_image_database_is_a_journal_that_is_down(bare):
    """No screenshot can be kept, so none is given; what was given is still bound."""
    async with driving(bare) as (client, lease, app):
        with locked(bare.config.state / "private" / IMAGES_FILE):
            assert (await client.ready())["components"]["journal"] == "down"
            with pytest.raises(JournalUnavailable):
                await lease.screenshot()
        await works_again(client, lease, app)


async def test_a_corrupt_journal_refuses_the_start_and_is_not_replaced(bare):
    """A daemon that can't know what was done does not begin anew in silence."""
    bare.stop()
    path = bare.config.state / "private" / JOURNAL_FILE
    whole = path.read_bytes()
    broken = whole[:100] + bytes(4096) + whole[4196:]
    path.write_bytes(broken)
    with pytest.raises(RuntimeError, match=r"journal\.db"):
        bare.start()
    assert path.read_bytes() == broken
    path.write_bytes(whole)
    bare.start()
    async with bare.client() as client:
        assert (await client.ready())["components"]["journal"] == "ready"
