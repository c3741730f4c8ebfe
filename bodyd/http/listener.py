"""The accept loop: every connection starts here, and none can end the server.

The first request head is read with a bound on time and size. An Upgrade goes to the handler given;
everything else, with the bytes already received, to connection.py. Shutdown has stages: stop
accepting, let requests end, cancel them, close their sockets; each is bounded.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.trio.lifespan import Lifespan
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import LifespanState

from bodyd.errors import BodydError, NotFound, RequestTimeout, TooManyConnections

from .asgi import App, hide_late_disconnect
from .connection import Connection, hypercorn_config, linger
from .errors import answer, log, new_request_id, of_status
from .head import BadHead, Head, read_head
from .sockets import open_tcp, unix_socket

UNIX = "bodyd.unix"
"""Key of an ASGI scope's `state`: True for requests that came over the unix socket."""
CLOSERS = "bodyd.closers"
"""Key of an ASGI scope's `state`: a set of functions, called when the server starts to shut down."""

PORT = "bodyd.port"
"""Key of an ASGI scope's `state`: the TCP port that the server listens on, or None."""

UpgradeHandler = Callable[[trio.SocketStream, Head, LifespanState], Awaitable[None]]
"""Given the stream, the request and the `state` that an ASGI scope would have."""


REFUSE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of the accept loop; times in seconds. `connections` is for each listener by itself, so
    that a flood on TCP leaves the unix socket usable."""

    connections: int = 256
    head: float = 10.0
    drain: float = 3.0
    unwind: float = 2.0


@dataclass(frozen=True, slots=True)
class Bound:
    """Where the server listens: started means that connections are accepted there."""

    port: int | None
    unix_path: Path | None


async def refuse_upgrade(stream: trio.SocketStream, head: Head, state: LifespanState) -> None:
    """Where there is nothing to upgrade to: a plain 404."""
    await refuse(stream, NotFound(f"nothing here takes an upgrade to {head.header('upgrade')!r:.40}"))


@contextlib.asynccontextmanager
async def listen(
    app: App,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    unix_path: Path | None = None,
    upgrade: UpgradeHandler = refuse_upgrade,
    limits: Limits | None = None,
) -> AsyncIterator[Bound]:
    """Serve *app* for the length of the context. `port` None means no TCP, 0 a free port.

    Raises:
        ConfigError: a socket can't be had; nothing was started.
    Cancellation:
        Leaving takes at most `drain + unwind` seconds and the app's own shutdown (5 s).
    """
    with _opened(host, port, unix_path) as (bound, listeners):
        server = _Server(app, upgrade, limits or Limits())
        server.state[PORT] = bound.port
        async with trio.open_nursery() as nursery:
            try:
                await nursery.start(server.run, listeners)
                yield bound
            finally:
                server.stopping.set()  # once started, the server shields itself and ends by this alone


async def serve(
    app: App,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    unix_path: Path | None = None,
    upgrade: UpgradeHandler = refuse_upgrade,
    limits: Limits | None = None,
    task_status: trio.TaskStatus[Bound] = trio.TASK_STATUS_IGNORED,
) -> None:
    """As `listen`, until cancelled; for `nursery.start`."""
    async with listen(
        app, host=host, port=port, unix_path=unix_path, upgrade=upgrade, limits=limits
    ) as bound:
        task_status.started(bound)
        await trio.sleep_forever()


@contextlib.contextmanager
def _opened(
    host: str, port: int | None, unix_path: Path | None
) -> Iterator[tuple[Bound, list[trio.SocketListener]]]:
    with contextlib.ExitStack() as stack:
        sockets = []
        if port is not None:
            sockets.append(stack.enter_context(contextlib.closing(open_tcp(host, port))))
        bound = Bound(sockets[0].getsockname()[1] if sockets else None, unix_path)
        if unix_path is not None:
            sockets.append(stack.enter_context(unix_socket(unix_path)))
        yield bound, [trio.SocketListener(trio.socket.from_stdlib_socket(sock)) for sock in sockets]


@dataclass(eq=False)
class _Server:
    app: App
    upgrade: UpgradeHandler
    limits: Limits
    live: dict[trio.SocketStream, trio.SocketListener] = field(default_factory=dict)
    gone: trio.Event = field(default_factory=trio.Event)
    stopping: trio.Event = field(default_factory=trio.Event)

    def __post_init__(self) -> None:
        self.config = hypercorn_config()
        self.context = WorkerContext(None)
        self.connections: set[Connection] = set()
        self.closers: set[Callable[[], None]] = set()
        self.state: LifespanState = {CLOSERS: self.closers}
        self.asgi = ASGIWrapper(hide_late_disconnect(self.app))  # type: ignore[arg-type]

    async def run(
        self,
        listeners: list[trio.SocketListener],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Accept until `stopping`, then end in stages. Cancellable only until started."""
        with trio.CancelScope() as shield:
            lifespan = Lifespan(self.asgi, self.config, self.state)
            async with trio.open_nursery() as lifespan_nursery:
                await lifespan_nursery.start(lifespan.handle_lifespan)
                await lifespan.wait_for_startup()
                async with trio.open_nursery() as handlers:
                    async with trio.open_nursery() as acceptors:
                        for listener in listeners:
                            acceptors.start_soon(self._accept, listener, handlers)
                        await trio.lowlevel.checkpoint_if_cancelled()  # a shield must not hide it
                        task_status.started()
                        shield.shield = True
                        await self.stopping.wait()
                        acceptors.cancel_scope.cancel(reason="the server is shutting down")
                    await self._drain(handlers)
                await lifespan.wait_for_shutdown()
                lifespan_nursery.cancel_scope.cancel(reason="the app has shut down")

    async def _accept(self, listener: trio.SocketListener, handlers: trio.Nursery) -> None:
        async def handle(stream: trio.SocketStream) -> None:
            await self._handle(stream, listener)

        await trio.serve_listeners(handle, [listener], handler_nursery=handlers)

    async def _drain(self, handlers: trio.Nursery) -> None:
        await self.context.terminated.set()  # connections that are busy close after their answer
        for connection in self.connections:
            connection.close_when_idle()
        for close in tuple(self.closers):
            close()
        with trio.move_on_after(self.limits.drain):
            await self._all_gone()
        handlers.cancel_scope.cancel(reason="the server is shutting down")
        with trio.move_on_after(self.limits.unwind, shield=True):  # this task is among the cancelled
            await self._all_gone()
        for stream in tuple(self.live):  # wakes sends to readers that stopped reading
            stream.socket.close()

    async def _all_gone(self) -> None:
        while self.live:
            self.gone = trio.Event()
            await self.gone.wait()

    async def _handle(self, stream: trio.SocketStream, listener: trio.SocketListener) -> None:
        crowded = sum(other is listener for other in self.live.values()) >= self.limits.connections
        self.live[stream] = listener
        try:
            if crowded:
                await refuse(stream, TooManyConnections("every connection is in use; try again shortly"))
            else:
                await self._converse(stream)
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the peer is gone
        except* Exception:  # whatever a client did, the others must not notice
            log.exception("a connection failed")
        finally:
            self.live.pop(stream)
            if not self.live:
                self.gone.set()
            await trio.aclose_forcefully(stream)

    async def _converse(self, stream: trio.SocketStream) -> None:
        try:
            with trio.fail_after(self.limits.head):
                head = await read_head(stream)
        except trio.TooSlowError:
            await refuse(stream, RequestTimeout("the request head did not arrive in time"))
            return
        except BadHead as exc:
            await refuse(stream, of_status(exc.status))
            return
        if head is None:
            return
        peer = _peer(stream)
        state: dict[str, Any] = {**self.state, UNIX: peer is None}
        if head.is_upgrade:
            await self.upgrade(stream, head, state)
            return
        connection = Connection(
            self.asgi, self.config, self.context, state, stream, received=head.received, peer=peer
        )
        self.connections.add(connection)
        try:
            await connection.run()
        finally:
            self.connections.discard(connection)


def _peer(stream: trio.SocketStream) -> tuple[str, int] | None:
    """Who connected; None over a unix socket."""
    if stream.socket.family == trio.socket.AF_UNIX:
        return None
    host, port = stream.socket.getpeername()[:2]
    return host, port


async def refuse(stream: trio.SocketStream, error: BodydError) -> None:
    """Answer without any app, and close."""
    with trio.move_on_after(REFUSE_SECONDS), contextlib.suppress(trio.BrokenResourceError):
        await stream.send_all(answer(error, new_request_id()).to_bytes())
    await linger(stream)
