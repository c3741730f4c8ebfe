"""Input for a person who watches: what it may not skip."""

from __future__ import annotations

import signal
from functools import partial

import pytest
import trio

from bodyd.contract.atoms import Atom, ButtonDown, ButtonUp, Char, MoveTo
from bodyd.display.display import Display

from .conftest import AnyTime
from .recorder import Recorder
from .world import XServer, start_window_manager, window_titled

CLICK_AND_TYPE: tuple[Atom, ...] = (MoveTo(200, 200), ButtonDown(1), ButtonUp(1), Char("a"), Char("b"))


@pytest.mark.parametrize("way", ["send", "follow"])
async def test_no_key_overtakes_a_press(server: XServer, display: Display, permit: AnyTime, way: str) -> None:
    """The window manager, which takes every press to give the focus, is slow: keys come after the click."""
    openbox = start_window_manager(server)
    recorder = Recorder(server.connect(), managed=True)
    await window_titled(display, "recorder")
    recorder.seen()
    send = partial(getattr(display, way), CLICK_AND_TYPE, permit)
    openbox.send_signal(signal.SIGSTOP)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        for _ in range(20):
            await trio.sleep(0.01)
            assert [event.kind for event in recorder.seen() if event.kind != "motion"] == []
        openbox.send_signal(signal.SIGCONT)
    seen = [event.kind for event in recorder.seen() if event.kind != "motion"]
    assert seen == ["press", "release", "key down", "key up", "key down", "key up"]
    recorder.close()
