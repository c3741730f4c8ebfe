"""The display that is there now: opened anew when the X server is restarted.

Everything else asks `LiveDisplay.current` at the moment of use, so nobody keeps a dead connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog
import trio

from bodyd.contract.ports import XEndpoint
from bodyd.display.display import Display, open_display
from bodyd.errors import DisplayUnavailable

log = structlog.get_logger("bodyd.display")

RETRY_SECONDS = 0.2
RECONNECT_SECONDS = 2.0


class LiveDisplay:
    """Holds the open display of the running X server.

    Args:
        endpoint: The X server that is running now, and its generation (grows at each restart).
        moved: Waits until the generation is another than the given one.
    """

    def __init__(
        self,
        endpoint: Callable[[], tuple[XEndpoint, int]],
        moved: Callable[[int], Awaitable[None]],
        opened: Callable[[Display], None] = lambda display: None,
    ) -> None:
        self._endpoint = endpoint
        self._moved = moved
        self._opened = opened
        self._display: Display | None = None
        self._generation = 0
        self._serial = 0  # of the displays opened: nobody has seen what happened between two
        self._reopen = trio.Event()
        self._next = trio.Event()  # set, and replaced, each time that a display opens

    @property
    def current(self) -> Display:
        """The open display.

        Raises:
            DisplayUnavailable: the X server is down or being restarted.
        """
        if self._display is None:
            raise DisplayUnavailable("the display server is down or restarting; try again in a moment")
        return self._display

    @property
    def screen(self) -> tuple[int, int]:
        """Changes whenever pixels of before may mean nothing any more: a restart, a resize, a reconnect."""
        return (self._serial, self._display.geometry if self._display else -1)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep a display open; started once the first one answers."""
        started = False
        while True:
            endpoint, self._generation = self._endpoint()
            try:
                async with open_display(endpoint) as display:
                    self._display = display
                    self._serial += 1
                    self._reopen = trio.Event()  # whoever asked meanwhile is served by this one
                    self._next.set()
                    self._next = trio.Event()
                    self._opened(display)
                    if not started:
                        started = True
                        task_status.started()
                    await self._until_stale(self._generation)
            except DisplayUnavailable as exc:
                log.warning("display.unavailable", generation=self._generation, error=exc.message)
                await trio.sleep(RETRY_SECONDS)  # the supervisor restarts the server; look again
            finally:
                self._display = None

    async def reconnect(self) -> None:
        """Recovery, step 2: new connections to the same server.

        Raises:
            DisplayUnavailable: the server does not answer on a new connection either.
        """
        opened = self._next
        self._display = None
        self._reopen.set()
        with trio.move_on_after(RECONNECT_SECONDS):
            await opened.wait()
        _ = self.current

    async def opened_after(self, generation: int) -> None:
        """Wait until a display of a later generation than *generation* is open."""
        while self._display is None or self._generation <= generation:
            await self._next.wait()

    async def _until_stale(self, generation: int) -> None:
        async with trio.open_nursery() as nursery:

            async def moved() -> None:
                await self._moved(generation)
                nursery.cancel_scope.cancel(reason="the display server was restarted")

            async def asked() -> None:
                await self._reopen.wait()
                nursery.cancel_scope.cancel(reason="a reconnect was asked for")

            nursery.start_soon(moved)
            nursery.start_soon(asked)
