"""A body on a real X server, with the live view on the real listener; only the sandbox is left out."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio

from bodyd.client import BodyClient
from bodyd.clock import Clock
from bodyd.config import Config
from bodyd.contract.lease import Scope
from bodyd.driver.body import Body, open_body
from bodyd.http.app import create_app
from bodyd.http.listener import listen
from bodyd.http.services import Services
from bodyd.http.tokens import Tokens
from bodyd.http.upgrades import Upgrades
from bodyd.journal.journal import Journal, open_journal
from bodyd.stream.stream import Stream, open_stream
from tests.display.world import XServer, start_window_manager

from .painter import Paint

KEY = os.urandom(32)


class Desk:
    """The desktop's port over a server that just runs."""

    generation = 1
    x_runs = True

    def __init__(self, server: XServer) -> None:
        self.x = server.endpoint
        self.isolation: dict[str, Any] = {"enforced": False}

    def components(self) -> dict[str, dict[str, Any]]:
        return {}

    def apps_running(self, name: str) -> bool:
        return False

    async def wait_generation(self, after: int) -> int:
        await trio.sleep_forever()
        raise AssertionError

    async def launch(self, name: str) -> None: ...

    async def restart_window_manager(self) -> None: ...

    async def restart_apps(self) -> None: ...

    async def restart_display(self, screen: tuple[int, int] | None = None) -> None: ...


@dataclass
class World:
    """A body that serves its live view."""

    server: XServer
    body: Body
    journal: Journal
    stream: Stream
    services: Services
    place: Path
    port: int

    def client(self, scope: Scope = Scope.OWNER) -> BodyClient:
        return BodyClient(socket_path=self.place / "api.sock", token=self.services.tokens.token(scope))

    async def pixels(self) -> Any:
        """The body's screen as it is, RGB, by the display's own way."""
        import numpy as np

        from bodyd.contract.geometry import Bounds

        display = self.body.live.current
        size = display.size
        raw = await display.pixels(Bounds(x=0, y=0, width=size.width, height=size.height))
        return np.frombuffer(raw, np.uint8).reshape(size.height, size.width, 3)


@asynccontextmanager
async def open_world(server: XServer, place: Path, *, port: int = 0) -> AsyncIterator[World]:
    """Opened again at the same *place*, it is the same daemon after a restart."""
    config, clock = Config(), Clock()
    private = place / "private"
    private.mkdir(mode=0o700, exist_ok=True)
    async with (
        open_journal(private, clock=clock, settings=config.journal, key=KEY) as journal,
        open_body(config, body_id="body_test", desktop=Desk(server), journal=journal, clock=clock) as body,
        open_stream(body) as stream,
    ):
        tokens = Tokens.load_or_create(private)
        services = Services(body=body, tokens=tokens, config=config, clock=clock, events=body.events)
        async with listen(
            create_app(services),
            upgrade=Upgrades(services, [stream.route]),
            port=port,
            unix_path=place / "api.sock",
        ) as bound:
            yield World(server, body, journal, stream, services, place, bound.port or 0)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[XServer]:
    place = tmp_path / "x"
    place.mkdir()
    server = XServer(place)
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def managed(server: XServer) -> XServer:
    """The same server, with openbox."""
    start_window_manager(server)
    return server


@pytest.fixture
async def world(server: XServer, tmp_path: Path) -> AsyncIterator[World]:
    async with open_world(server, tmp_path) as world:
        yield world


@pytest.fixture
def paint(server: XServer) -> Iterator[Paint]:
    """A client that draws."""
    paint = Paint(server.connect())
    try:
        yield paint
    finally:
        paint.close()
