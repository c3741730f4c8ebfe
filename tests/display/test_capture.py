"""Pictures: exact, whole, of the right place, and never of the past."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image
from Xlib import X

from bodyd.contract.atoms import MoveTo
from bodyd.contract.geometry import Bounds, Size
from bodyd.display.capture import Camera, Capture
from bodyd.display.connection import connect
from bodyd.display.display import Display
from bodyd.errors import OutOfBounds

from .conftest import AnyTime
from .recorder import Recorder
from .world import XServer


def image(capture: Capture) -> Image.Image:
    return Image.open(io.BytesIO(capture.png)).convert("RGB")


def by_the_core_protocol(server: XServer, bounds: Bounds) -> bytes:
    """The same pixels as RGB, by GetImage: another way to the same place."""
    x = server.connect()
    answer = x.root.get_image(bounds.x, bounds.y, bounds.width, bounds.height, X.ZPixmap, 0xFFFFFFFF)
    x.close()
    data = answer.data if isinstance(answer.data, bytes) else answer.data.encode("latin-1")
    return Image.frombuffer("RGB", (bounds.width, bounds.height), data, "raw", "BGRX", 0, 1).tobytes()


def mosaic(recorder: Recorder) -> None:
    """A picture without two equal neighbours."""
    for column in range(32):
        for row in range(20):
            recorder.paint(column * 40, row * 40, 40, 40, (column * 7919 + row * 104729) & 0xFFFFFF)
    recorder.x.display.sync()


async def test_pixels_are_those_of_the_server(server: XServer, display: Display, recorder: Recorder) -> None:
    """The whole screen, and odd regions of it, against the core protocol."""
    mosaic(recorder)
    for bounds in (
        Bounds(x=0, y=0, width=1280, height=800),
        Bounds(x=0, y=0, width=1, height=1),
        Bounds(x=1279, y=799, width=1, height=1),
        Bounds(x=33, y=71, width=517, height=129),
    ):
        expected = by_the_core_protocol(server, bounds)
        capture = await display.capture(bounds)
        assert image(capture).tobytes() == expected
        assert (capture.bounds, capture.size) == (bounds, Size(width=bounds.width, height=bounds.height))
        assert await display.pixels(bounds) == expected


async def test_what_is_partly_off_screen_is_clipped(display: Display, recorder: Recorder) -> None:
    """The capture says what it shows; wholly outside is refused."""
    capture = await display.capture(Bounds(x=-50, y=700, width=100, height=200))
    assert capture.bounds == Bounds(x=0, y=700, width=50, height=100)
    assert image(capture).size == (50, 100)
    with pytest.raises(OutOfBounds):
        await display.capture(Bounds(x=1280, y=0, width=10, height=10))


async def test_a_later_picture_shows_the_change(display: Display, recorder: Recorder) -> None:
    """The band cache never gives an old picture, in whatever order regions are asked for."""
    region = Bounds(x=100, y=100, width=200, height=200)
    for step in range(1, 20):
        recorder.fill(150 + step, 150, 9, 9, step * 0x0A0B0C)
        whole, part = await display.capture(), await display.capture(region)
        colour = image(whole).getpixel((154 + step, 154))
        assert colour == tuple((step * 0x0A0B0C).to_bytes(3, "big"))
        assert image(part).getpixel((54 + step, 54)) == colour


async def test_an_unchanged_screen_is_the_same_picture(display: Display, recorder: Recorder) -> None:
    """The same bytes and digest; no work."""
    first = await display.capture()
    assert (await display.capture()).png is first.png


async def test_scaled_captures_show_the_same_place(
    display: Display, recorder: Recorder, permit: AnyTime
) -> None:
    """Half size: a block of 2x2 equal pixels is one exact pixel, corners included."""
    for x, y in ((0, 0), (1278, 0), (0, 798), (1278, 798), (640, 400)):
        recorder.fill(x - 2, y - 2, 6, 6, 0xC01234)
    capture = await display.capture(None, Size(width=640, height=400))
    assert capture.size == Size(width=640, height=400)
    assert capture.bounds == Bounds(x=0, y=0, width=1280, height=800)
    for x, y in ((0, 0), (639, 0), (0, 399), (639, 399), (320, 200)):
        assert image(capture).getpixel((x, y)) == (0xC0, 0x12, 0x34)


async def test_the_cursor_is_drawn_on_request(display: Display, recorder: Recorder, permit: AnyTime) -> None:
    """At its hot spot, and only there; the next plain capture is without it."""
    await display.send([MoveTo(300, 300)], permit)
    plain = image(await display.capture())
    shown = image(await display.capture(cursor=True))
    again = image(await display.capture())
    assert plain.tobytes() == again.tobytes()
    rows, columns = np.nonzero((np.array(plain) != np.array(shown)).any(axis=2))
    assert rows.size > 0
    assert columns.min() - 32 <= 300 <= columns.max() + 32
    assert rows.min() - 32 <= 300 <= rows.max() + 32


async def test_an_open_menu_is_in_the_picture(server: XServer, display: Display, recorder: Recorder) -> None:
    """Override-redirect windows are part of the screen."""
    x = server.connect()
    menu = x.root.create_window(
        700, 300, 120, 90, 1, X.CopyFromParent, override_redirect=1, background_pixel=0x123456
    )
    menu.map()
    x.display.sync()
    assert image(await display.capture()).getpixel((750, 350)) == (0x12, 0x34, 0x56)
    (popup,) = [p for p in await display.popups() if p.id == menu.id]
    assert popup.bounds == Bounds(x=700, y=300, width=122, height=92)
    x.close()


async def test_a_blank_screen_is_said_to_be_blank(display: Display, recorder: Recorder) -> None:
    """One colour everywhere; a single other pixel makes the difference."""
    recorder.fill(0, 0, 1280, 800, 0x010203)
    assert (await display.capture()).blank
    recorder.fill(700, 500, 1, 1, 0x010204)
    assert not (await display.capture()).blank


async def test_a_resize_is_followed(display: Display) -> None:
    """`size` and `geometry` move on, and captures are of the new screen."""
    geometry = display.geometry
    await display.resize(Size(width=1000, height=700))
    assert display.size == Size(width=1000, height=700)
    assert display.geometry == geometry + 1
    assert image(await display.capture()).size == (1000, 700)
    await display.resize(Size(width=1280, height=800))
    assert image(await display.capture()).size == (1280, 800)
    assert display.geometry == geometry + 2


async def test_a_resize_by_an_app_is_noticed(server: XServer, display: Display) -> None:
    """Any X client can do it: the geometry grows without being asked."""
    from bodyd.display.resize import resize

    geometry = display.geometry
    x = server.connect()
    resize(x, Size(width=800, height=600))
    x.close()
    await display.settle(display.activity())
    assert display.size == Size(width=800, height=600)
    assert display.geometry == geometry + 1


def test_no_picture_is_torn(server: XServer, times: Callable[[int], int]) -> None:
    """A client fills the screen with one colour after another; every grab has a single one."""
    painter = Recorder(server.connect())
    stop = threading.Event()

    def paint() -> None:
        colour = 0
        while not stop.is_set():
            colour = (colour + 0x010203) & 0xFFFFFF
            painter.fill(0, 0, 1280, 800, colour)

    thread = threading.Thread(target=paint)
    camera = Camera(connect(server.endpoint))
    thread.start()
    try:
        colours = set()
        for _ in range(times(5000)):
            pixels, _ = camera.grab(None)
            seen = pixels.view("<u4") & 0xFFFFFF
            assert (seen == seen[0]).all()
            colours.add(int(seen[0]))
    finally:
        stop.set()
        thread.join()
        camera.close()
        painter.close()
    assert len(colours) > 3


async def test_captures_do_not_grow(
    display: Display, recorder: Recorder, times: Callable[[int], int]
) -> None:
    """Ten thousand captures of a changing screen: under 20 MB of growth."""

    async def some(count: int) -> None:
        for step in range(count):
            recorder.fill(step % 1200, 300, 20, 20, step)
            await display.capture()

    await some(50)
    before = _resident()
    await some(times(10_000))
    assert _resident() - before < 20 * 1024 * 1024


def _resident() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")
