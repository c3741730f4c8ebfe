"""The live view of a real X server over real WebSockets: every pixel, shared, cheap, and never stuck."""

from __future__ import annotations

import numpy as np
import pytest
import trio

from bodyd.contract.lease import Scope
from bodyd.errors import BodydError
from bodyd.stream import protocol as p

from .conftest import World
from .painter import Paint

GENEROUS = 30


async def same(world: World, view) -> None:
    """Wait until the view says that it is exact, and hold it to that."""
    while True:
        await view.until(lambda v: v.exact)
        if np.array_equal(view.screen, await world.pixels()):
            return
        await view.next_frame()


async def test_a_viewer_sees_the_very_pixels_of_the_body(world: World, paint: Paint) -> None:
    """The first frame is the whole screen; a change reaches the view, exactly."""
    async with world.client(Scope.VIEWER) as client, client.stream(video=False) as view:
        with trio.fail_after(GENEROUS):
            await same(world, view)
            paint.rectangle(100, 50, 300, 200, 0xFF8000)
            await view.until(lambda v: tuple(v.screen[60, 110]) == (0xFF, 0x80, 0x00))
            await same(world, view)


async def test_what_is_sent_roughly_is_repainted_exactly_once_it_is_still(world: World, paint: Paint) -> None:
    """Noise all over the screen comes as JPEG first, and as the exact pixels soon after."""
    async with world.client() as client, client.stream(video=False) as view:
        with trio.fail_after(GENEROUS):
            await same(world, view)
            paint.noise(0, 0, 1280, 800)
            await view.until(lambda v: p.Codec.JPEG in v.codecs)
            await same(world, view)


async def test_a_small_change_costs_few_bytes(world: World, paint: Paint) -> None:
    """A glyph's worth of pixels is a frame of less than half a kilobyte."""
    async with world.client() as client, client.stream(video=False) as view:
        with trio.fail_after(GENEROUS):
            await same(world, view)
            before = view.received_bytes
            paint.rectangle(400, 300, 8, 16, 0xFFFFFF)
            await view.next_frame()
            assert view.received_bytes - before < 512


async def test_nothing_is_sent_while_nothing_changes(world: World, paint: Paint) -> None:
    """Once it is exact, no frame comes before the next change."""
    async with world.client() as client, client.stream() as view:
        with trio.fail_after(GENEROUS):
            await same(world, view)
        before = view.frames, view.received_bytes
        with trio.move_on_after(0.5):
            await view.next_frame()
        assert (view.frames, view.received_bytes) == before


async def test_watchers_share_one_encoding(world: World, paint: Paint, monkeypatch) -> None:
    """Of ten who keep up, each is sent the same frame, encoded once."""
    from bodyd.stream import tiles

    encoded = []
    encode = tiles.encode

    def counting(screen, rect, *, exact):
        encoded.append(rect)
        return encode(screen, rect, exact=exact)

    async with trio.open_nursery() as nursery, world.client() as client:
        views = []
        opened = trio.Event()

        async def watch() -> None:
            async with client.stream(video=False) as view:
                views.append(view)
                if len(views) == 10:
                    opened.set()
                await trio.sleep_forever()

        for _ in range(10):
            nursery.start_soon(watch)
        with trio.fail_after(GENEROUS):
            await opened.wait()
            for view in views:
                await same(world, view)
            monkeypatch.setattr(tiles, "encode", counting)
            paint.rectangle(10, 10, 20, 20, 0x00FF00)
            for view in views:
                await view.until(lambda v: tuple(v.screen[15, 15]) == (0, 255, 0))
        assert len(encoded) == 1
        nursery.cancel_scope.cancel()


async def test_one_who_acknowledges_nothing_is_sent_no_more_and_slows_nobody(
    world: World, paint: Paint
) -> None:
    """The window of two is all that a silent client gets; the others go on, and it catches up afterwards."""
    async with (
        world.client() as client,
        client.stream(video=False) as slow,
        client.stream(video=False) as quick,
    ):
        with trio.fail_after(GENEROUS):
            await same(world, slow)
            await same(world, quick)
            slow.paused = True
            before = slow.frames
            for index in range(6):
                colour = 0x101010 * (index + 1)
                paint.rectangle(0, 0, 50, 50, colour)
                await quick.until(
                    lambda v, c=colour: tuple(v.screen[5, 5]) == (c >> 16, c >> 8 & 255, c & 255)
                )
            await slow.until(lambda v: v.frames >= before + p.WINDOW)
            await same(world, quick)
            assert slow.frames == before + p.WINDOW
            slow.paused = False
            await slow._say("ack", sequence=2**31)
            await same(world, slow)


async def test_the_view_follows_a_resize(world: World, paint: Paint) -> None:
    """After the screen is resized, the view has its new size, and its pixels."""
    async with world.client() as client, client.stream() as view:
        with trio.fail_after(GENEROUS):
            await same(world, view)
            await client.resize(1024, 768)
            await view.until(lambda v: v.screen.shape[:2] == (768, 1024))
            await same(world, view)


async def test_the_pointer_and_its_picture_come_apart_from_the_frames(world: World, paint: Paint) -> None:
    """Where the pointer is, and what it looks like, is told without any frame."""
    async with world.client() as client, client.stream() as view:
        with trio.fail_after(GENEROUS):
            await same(world, view)
            await view.until(lambda v: v.cursor is not None)
            frames = view.frames
            lease = await client.acquire("c")
            receipt = await lease.input([{"type": "move", "x": 321, "y": 123}], binding="none")
            assert receipt.outcome == "confirmed"
            await view.until(lambda v: v.pointer == (321, 123))
            assert view.frames == frames


async def test_strangers_are_refused(world: World) -> None:
    """Without a token, nobody watches."""
    async with world.client() as client:
        client._token = "nonsense"
        with pytest.raises(BodydError):
            async with client.stream():
                pass


async def test_nonsense_is_refused_in_words_and_ends_nothing(world: World, paint: Paint) -> None:
    """What is no message of the protocol is answered; the view goes on."""
    async with world.client() as client, client.stream() as view:
        with trio.fail_after(GENEROUS):
            await same(world, view)
            await view._connection.send("{}")
            await view._connection.send(b"\x00")
            await view.until(lambda v: len(v.refused) == 2)
            paint.rectangle(0, 0, 30, 30, 0xABCDEF)
            await same(world, view)
