"""Servers and displays for the tests of the display."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from bodyd.display.display import Display, open_display

from .recorder import Recorder
from .world import XServer, start_window_manager


class AnyTime:
    """A permit that never ends."""

    valid = True


@pytest.fixture
def permit() -> AnyTime:
    return AnyTime()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[XServer]:
    """An X server of the test's own, without a window manager."""
    server = XServer(tmp_path)
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def managed(server: XServer) -> XServer:
    """The same, with openbox."""
    start_window_manager(server)
    return server


@pytest.fixture
async def display(server: XServer) -> AsyncIterator[Display]:
    async with open_display(server.endpoint) as display:
        yield display


@pytest.fixture
def recorder(server: XServer) -> Iterator[Recorder]:
    """A full-screen window that has the focus and records every event."""
    recorder = Recorder(server.connect())
    try:
        yield recorder
    finally:
        recorder.close()
