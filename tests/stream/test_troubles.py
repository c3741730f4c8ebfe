"""What a client that has stalled, a link that is thin and far, and a restart do to a view."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from functools import partial

import pytest
import trio

from bench.link import Link
from bodyd.client import BodyClient
from bodyd.contract.lease import Scope
from bodyd.stream import protocol as p
from bodyd.stream import session as sessions
from tests.display.world import until

from .conftest import World
from .painter import Paint
from .test_person import pointer_is_at
from .test_stream import GENEROUS, same

THIN, FAR = 100_000, 0.02
"""Bytes a second, and seconds each way."""

UNASKED_SECONDS = 1.5


@asynccontextmanager
async def dear_motion(paint: Paint) -> AsyncIterator[None]:
    """About 1 MB a second as tiles, until the context is left."""
    async with trio.open_nursery() as nursery:

        async def go() -> None:
            while True:
                paint.noise(128, 128, 240, 180)
                await trio.sleep(0.03)

        nursery.start_soon(go)
        yield
        nursery.cancel_scope.cancel()


async def test_one_who_acknowledges_nothing_for_too_long_is_dropped(
    world: World, paint: Paint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frame that went out longer ago than STALLED_SECONDS ends that client's connection, and no other's."""
    monkeypatch.setattr(sessions, "LOOK_SECONDS", 0.02)
    async with world.client() as client, client.stream(video=False) as stalled:
        (session,) = world.stream.sessions
        watcher = session._watcher
        async with client.stream(video=False) as quick:
            with trio.fail_after(GENEROUS):
                await same(world, stalled)
                await until(lambda: watcher.oldest is None)
                stalled.paused = True
                paint.rectangle(0, 0, 50, 50, 0x336699)
                await until(lambda: watcher.oldest is not None)
                await trio.sleep(5 * sessions.LOOK_SECONDS)
                assert not stalled.closed
                long_ago = trio.current_time() - sessions.STALLED_SECONDS - 1
                watcher._under_way[0] = replace(watcher._under_way[0], sent_at=long_ago)
                await until(lambda: stalled.closed)
                assert session not in world.stream.sessions
                assert len(world.stream.sessions) == 1
                paint.rectangle(0, 0, 50, 50, 0x996633)
                await same(world, quick)


@pytest.mark.parametrize("video", [True, pytest.param(False, marks=pytest.mark.soak)])
async def test_a_thin_and_far_link_shows_the_present(world: World, paint: Paint, video: bool) -> None:
    """At 100 KB/s and 40 ms, whatever moves: no backlog grows, input gets through, and it ends exact.

    What went out unasked in UNASKED_SECONDS would take far longer to come through than is allowed here.
    """
    display = world.body.live.current
    with closing(Link(world.port, rate=THIN, delay=FAR)) as link:
        client = BodyClient(
            url=f"http://127.0.0.1:{link.port}", token=world.services.tokens.token(Scope.OWNER)
        )
        async with client, client.stream(video=video) as view:
            with trio.fail_after(GENEROUS):
                await same(world, view)
                await view.take_over()
                async with dear_motion(paint):
                    await trio.sleep(UNASKED_SECONDS)
                    frames = view.frames
                    paint.rectangle(0, 0, 40, 40, 0xC0FFEE)
                    with trio.fail_after(10):
                        await view.until(lambda v: tuple(v.screen[5, 5]) == (0xC0, 0xFF, 0xEE))
                        await view.move(700, 500)
                        await until(partial(pointer_is_at, display, 700))
                        await view.until(lambda v: v.pointer == (700, 500))
                    await view.until(lambda v: v.frames >= frames + p.WINDOW)
                await view.hand_back()
                await same(world, view)
