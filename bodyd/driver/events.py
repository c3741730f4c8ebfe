"""Events to whoever watches: bounded, and a slow watcher loses its oldest, never slows the body."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import trio

from bodyd.contract.events import Event

BUFFER = 256


class Events:
    """Fan-out of events; publishing never waits."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[Event], None]] = []
        self._watchers: dict[trio.MemorySendChannel[Event], trio.MemoryReceiveChannel[Event]] = {}

    def publish(self, event: Event) -> None:
        """Hand *event* to every watcher; one that is BUFFER events behind loses its oldest."""
        for tell in self._listeners:
            tell(event)
        for send, receive in list(self._watchers.items()):
            try:
                send.send_nowait(event)
            except trio.WouldBlock:
                with suppress(trio.WouldBlock):
                    receive.receive_nowait()
                send.send_nowait(event)
            except trio.BrokenResourceError:
                self._watchers.pop(send, None)

    def listen(self, tell: Callable[[Event], None]) -> None:
        """Call *tell* with every event from now on, in its tick: for rooms of the daemon, which miss none."""
        self._listeners.append(tell)

    @asynccontextmanager
    async def subscribe(self) -> AsyncIterator[trio.MemoryReceiveChannel[Event]]:
        """Events from now on, until the context is left."""
        send, receive = trio.open_memory_channel[Event](BUFFER)
        self._watchers[send] = receive
        try:
            yield receive
        finally:
            self._watchers.pop(send, None)
            send.close()
            receive.close()
