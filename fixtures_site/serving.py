"""An ASGI app on a unix socket, served so that no connection can take the others down.

Hypercorn's own loop lets one malformed upgrade end every connection (pgjones/hypercorn#225), and
quart-trio loses idle keep-alive when it is told of a disconnect after its answer; both matter here,
because what dials this socket is the body.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import (
    ASGIReceiveCallable,
    ASGIReceiveEvent,
    ASGISendCallable,
    ASGISendEvent,
    ConnectionState,
    LifespanState,
    Scope,
)
from quart_trio import QuartTrio

_LOG = logging.getLogger(__name__)
MAX_CONNECTIONS = 64


@asynccontextmanager
async def listening(path: Path) -> AsyncIterator[trio.SocketListener]:
    """A unix listener at *path*, mode 0600, removed at exit; a dead one that is in the way is replaced.

    Raises:
        OSError: the path is taken by something alive, or by something that isn't a socket.
    """
    await _clear(path)
    sock = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with sock:
        await sock.bind(str(path))
        try:
            os.chmod(path, 0o600)
            sock.listen(64)
            yield trio.SocketListener(sock)
        finally:
            _remove(path)


async def _clear(path: Path) -> None:
    try:
        async with await trio.open_unix_socket(str(path)):
            pass
    except ConnectionRefusedError:
        _remove(path)
    except FileNotFoundError:
        pass


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


async def serve_app(app: QuartTrio, listener: trio.SocketListener) -> None:
    """Answer on *listener* until cancelled.

    Cancellation:
        Every connection is closed at once: Hypercorn shields its sends, so a reader that has stalled
        would hold the exit open otherwise.
    """
    live: set[trio.SocketStream] = set()
    slots = trio.CapacityLimiter(MAX_CONNECTIONS)
    config = Config()
    config.errorlog = None
    config.keep_alive_timeout = 30
    context = WorkerContext(None)
    wrapped = ASGIWrapper(_Quiet(app))

    async def handle(stream: trio.SocketStream) -> None:
        async with slots:
            live.add(stream)
            try:
                state = ConnectionState(LifespanState({}))
                await TCPServer(wrapped, config, context, state, stream)  # type: ignore[arg-type]
            except Exception:
                _LOG.warning("a connection to the site failed", exc_info=True)
            finally:
                live.discard(stream)
                stream.socket.close()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(_close_when_cancelled, live)
        await trio.serve_listeners(handle, [listener], handler_nursery=nursery)


async def _close_when_cancelled(live: set[trio.SocketStream]) -> None:
    try:
        await trio.sleep_forever()
    finally:
        for stream in live:
            stream.socket.close()


class _Quiet:
    """Hides the disconnect that Hypercorn announces after a complete answer."""

    def __init__(self, app: QuartTrio) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] != "http":
            return
        answered = trio.Event()

        async def receive_until_answered() -> ASGIReceiveEvent:
            message = await receive()
            if message["type"] == "http.disconnect" and answered.is_set():
                await trio.sleep_forever()
            return message

        async def send_noting_the_end(message: ASGISendEvent) -> None:
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                answered.set()
            await send(message)

        await self._app(scope, receive_until_answered, send_noting_the_end)
