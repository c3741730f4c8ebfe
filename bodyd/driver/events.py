"""Events to whoever watches: bounded, and a slow watcher loses its oldest, never slows the body."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import trio

from bodyd.contract.events import Event

BUFFER = 256
_ALWAYS = ("lease.", "body.")


class Events:
    """Fan-out of events; publishing never waits.

    Args:
        private: Whether a person drives: those who may not see that learn only of the lease.
    """

    def __init__(self, private: Callable[[], bool] = lambda: False) -> None:
        self._private = private
        self._listeners: list[Callable[[Event], None]] = []
        self._owners: set[trio.MemorySendChannel[Event]] = set()
        self._watchers: dict[trio.MemorySendChannel[Event], trio.MemoryReceiveChannel[Event]] = {}

    def publish(self, event: Event) -> None:
        """Hand *event* to every watcher; one that is BUFFER events behind loses its oldest."""
        for tell in self._listeners:
            tell(event)
        hidden = self._private() and not event.type.startswith(_ALWAYS)
        for send, receive in list(self._watchers.items()):
            if hidden and send not in self._owners:
                continue
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
    async def subscribe(self, *, owner: bool = False) -> AsyncIterator[trio.MemoryReceiveChannel[Event]]:
        """Events from now on, until the context is left; *owner*: also those of a person's turn."""
        send, receive = trio.open_memory_channel[Event](BUFFER)
        self._watchers[send] = receive
        if owner:
            self._owners.add(send)
        try:
            yield receive
        finally:
            self._watchers.pop(send, None)
            self._owners.discard(send)
            send.close()
            receive.close()
