"""A recording: what was shown, and nothing of what a person saw."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import trio

from bodyd.client_record import record
from tests.display.world import until

from .conftest import World
from .painter import Paint
from .test_stream import GENEROUS, same

av = pytest.importorskip("av", reason="the extra `video` is not installed")


async def test_a_recording_shows_the_body_and_is_black_while_a_person_drives(
    world: World, paint: Paint, tmp_path: Path
) -> None:
    """Red before the take-over is in it; blue during the person's turn is not; green afterwards is."""
    film = tmp_path / "out.mp4"
    said: list[str] = []

    def three_more(than: int) -> bool:
        return len(said) >= than + 3

    async with world.client() as client, client.stream(video=False) as view, trio.open_nursery() as nursery:
        with trio.fail_after(GENEROUS):
            await same(world, view)
            nursery.start_soon(lambda: record(view, film, report=said.append))
            for colour, driven in ((0xFF0000, False), (0x0000FF, True), (0x00FF00, False)):
                if driven:
                    await view.take_over()
                    await view.until(lambda v: v.state["driver"] == "person")
                paint.rectangle(0, 0, 1280, 800, colour)
                shown = (colour >> 16, colour >> 8 & 255, colour & 255)
                await view.until(lambda v, c=shown: tuple(v.screen[400, 600]) == c)
                await until(partial(three_more, len(said)))
                if driven:  # the screen is everybody's again then: nothing of the person's may be on it
                    paint.rectangle(0, 0, 1280, 800, 0x00FF00)
                    await view.until(lambda v: tuple(v.screen[400, 600]) == (0, 255, 0))
                    await view.hand_back()
                    await view.until(lambda v: v.state["driver"] != "person")
        nursery.cancel_scope.cancel()
    with av.open(str(film)) as video:
        middles = [frame.to_ndarray(format="rgb24")[400, 600].astype(int) for frame in video.decode(video=0)]
    assert any(np.abs(m - (255, 0, 0)).max() < 40 for m in middles)
    assert any(np.abs(m - (0, 255, 0)).max() < 40 for m in middles)
    assert any(m.max() < 40 for m in middles)
    assert not any(np.abs(m - (0, 0, 255)).max() < 100 for m in middles)
