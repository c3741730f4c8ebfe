"""Motion as video: where it is installed and understood, and exact again once it is over."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from bodyd.stream import h264, hub
from bodyd.stream import protocol as p

from .conftest import World
from .painter import Paint
from .test_stream import GENEROUS, same

av = pytest.importorskip("av", reason="the extra `video` is not installed")


@asynccontextmanager
async def moving(paint: Paint) -> AsyncIterator[None]:
    """Something dear moves over 320x240 pixels, until the context is left."""
    async with trio.open_nursery() as nursery:

        async def go() -> None:
            while True:
                paint.noise(128, 128, 320, 240)
                await trio.sleep(0.03)

        nursery.start_soon(go)
        yield
        nursery.cancel_scope.cancel()


async def test_what_keeps_moving_becomes_video_and_then_exact(world: World, paint: Paint) -> None:
    """Noise that keeps changing comes as H.264 of that part; when it stops, the view is exact again."""
    async with world.client() as client, client.stream() as view:
        with trio.fail_after(GENEROUS):
            await same(world, view)
            async with moving(paint):
                await view.until(lambda v: v.codecs.get(p.Codec.H264, 0) >= 5)
                assert not view.exact
            await same(world, view)


async def test_a_client_that_knows_no_video_gets_tiles(world: World, paint: Paint) -> None:
    """Beside one who takes video, another sees the same motion as JPEG."""
    async with world.client() as client, client.stream() as one, client.stream(video=False) as other:
        with trio.fail_after(GENEROUS):
            await same(world, one)
            await same(world, other)
            async with moving(paint):
                await one.until(lambda v: v.codecs.get(p.Codec.H264, 0) >= 3)
                count = other.codecs.get(p.Codec.JPEG, 0)
                await other.until(lambda v: v.codecs.get(p.Codec.JPEG, 0) > count + 3)
            assert p.Codec.H264 not in other.codecs
            await same(world, one)
            await same(world, other)


async def test_one_who_comes_while_video_runs_waits_for_a_start(world: World, paint: Paint) -> None:
    """A late watcher is given a frame that decoders can start at, within about a second."""
    async with world.client() as client, client.stream() as one:
        with trio.fail_after(GENEROUS):
            await same(world, one)
            async with moving(paint):
                await one.until(lambda v: v.codecs.get(p.Codec.H264, 0) >= 3)
                async with client.stream() as late:
                    await late.until(lambda v: v.codecs.get(p.Codec.H264, 0) >= 5)


async def test_without_pyav_all_is_tiles(world: World, paint: Paint, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the extra is not installed, motion is tiles for everyone, and nothing fails."""
    monkeypatch.setattr(hub.h264, "load", lambda: None)
    async with world.client() as client, client.stream() as view:
        with trio.fail_after(GENEROUS):
            await same(world, view)
            async with moving(paint):
                frames = view.frames
                await view.until(lambda v: v.frames > frames + 20)
            assert p.Codec.H264 not in view.codecs
            await same(world, view)


def test_an_encoder_holds_no_frame_back_and_starts_where_it_is_told_to() -> None:
    """Each picture is one access unit at once; a key is one that a new decoder understands."""
    import numpy as np

    open_encoder = h264.load()
    assert open_encoder is not None
    encoder = open_encoder(128, 64, False)
    kinds = []
    for index in range(6):
        picture = np.full((64, 128), 0x102030 * index, np.uint32)
        data, key = encoder.encode(picture, key=index == 4)
        kinds.append(key)
        assert data.startswith(b"\0\0\0\1")
        if index == 4:
            frames = av.CodecContext.create("h264", "r").decode(av.Packet(data))
            assert (frames[0].width, frames[0].height) == (128, 64) if frames else True
    assert kinds == [True, False, False, False, True, False]
    encoder.close()
