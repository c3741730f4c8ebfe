"""The live view of one body: its hub, its sessions, and the path where they are reached."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from bodyd.contract.adapters import HttpRequest, Socket, SocketRoute
from bodyd.contract.events import Event
from bodyd.contract.lease import Scope
from bodyd.driver.body import Body

from .hub import Hub
from .protocol import PATH
from .session import Session


class Stream:
    """Whoever watches, and whoever of them drives."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self.sessions: set[Session] = set()
        self.hub = Hub(body.live, epoch=lambda: body.lease().epoch)
        body.events.listen(self._hear)
        body.forget_at_hand_over(self.hub.veil)

    @property
    def route(self) -> SocketRoute:
        """For the listener's upgrades."""
        return SocketRoute(PATH, Scope.VIEWER, self.serve)

    async def serve(self, request: HttpRequest, socket: Socket) -> None:
        """One client, until it leaves."""
        session = Session(self._body, self.hub, request, socket)
        self.sessions.add(session)
        try:
            await session.run()
        finally:
            self.sessions.discard(session)

    def _hear(self, event: Event) -> None:
        if event.type.startswith("lease."):
            self.hub.veil()
            for session in self.sessions:
                session.tell_state()


@asynccontextmanager
async def open_stream(body: Body) -> AsyncIterator[Stream]:
    """The live view, until the context is left; nothing runs while nobody watches."""
    stream = Stream(body)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stream.hub.run)
        try:
            yield stream
        finally:
            nursery.cancel_scope.cancel(reason="the live view closes")
