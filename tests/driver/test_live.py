"""The display that is there now: asked to reconnect, it is a new one, and it stays."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from bodyd.contract.ports import XEndpoint
from bodyd.driver import live
from bodyd.driver.live import LiveDisplay
from bodyd.errors import DisplayUnavailable

ENDPOINT = XEndpoint("/nowhere/X0", b"cookie", 0)


class Opened:
    geometry = 1


class Displays:
    """Stands in for open_display: each opening waits until it is let through, then the next goes on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened: list[object] = []
        self.closed: list[object] = []
        self.answers = trio.Event()
        self.answers.set()
        monkeypatch.setattr(live, "open_display", self._open)

    @asynccontextmanager
    async def _open(self, endpoint: XEndpoint) -> AsyncIterator[object]:
        await self.answers.wait()
        display = Opened()
        self.opened.append(display)
        try:
            yield display
        finally:
            self.closed.append(display)


async def _never_moved(generation: int) -> None:
    await trio.sleep_forever()


async def test_a_reconnect_gives_another_display(monkeypatch, nursery):
    """The old one is closed, and what was seen by it is void: the screen may have been resized in between."""
    displays = Displays(monkeypatch)
    body = LiveDisplay(lambda: (ENDPOINT, 1), _never_moved)
    await nursery.start(body.run)
    first, screen = body.current, body.screen
    await body.reconnect()
    assert body.current is not first
    assert body.screen != screen
    assert displays.closed == [first]


async def test_a_reconnect_during_an_opening_keeps_what_is_being_opened(monkeypatch, nursery, autojump_clock):
    """A server that froze answers again while step 2 is asked for: its new display is not closed at once."""
    displays = Displays(monkeypatch)
    body = LiveDisplay(lambda: (ENDPOINT, 1), _never_moved)
    await nursery.start(body.run)
    displays.answers = trio.Event()
    with pytest.raises(DisplayUnavailable):
        await body.reconnect()
    nursery.start_soon(body.reconnect)
    await trio.testing.wait_all_tasks_blocked()
    displays.answers.set()
    await trio.testing.wait_all_tasks_blocked()
    assert body.current is displays.opened[-1]
    assert displays.closed == displays.opened[:-1]
    assert len(displays.opened) == 2
