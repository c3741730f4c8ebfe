"""One HTTP connection: Hypercorn's Trio server, narrowed to what this daemon wants of it.

Hypercorn 0.18's `TCPServer` and `H11Protocol` are not public API: the pin in pyproject.toml and
tests/hostile hold them. Narrowed, because a WebSocket upgrade with data behind it breaks Hypercorn
(hypercorn#225) and HTTP/2 is not offered; and bounded, because its sends are shielded without a
deadline, so that a reader who stops reading would hold up a shutdown for ever (hypercorn#106).
"""

from __future__ import annotations

import contextlib
import math
from typing import cast

import h11
import trio
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.trio.task_group import TaskGroup
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import AppWrapper, ConnectionState, H11SendableEvent, LifespanState

from .errors import answer, log, new_request_id, of_status
from .head import MAX_HEAD

STALLED_SECONDS = 20.0
"""A reader that takes less than a slice in this time is dropped."""
SLICE = 64 * 1024
BIG_SLICE = 1024 * 1024
"""Of input, where more than a slice has come: a body of megabytes is passed on in few pieces."""
LINGER_SECONDS = 2.0
LINGER_BYTES = 64 * 1024 * 1024
KEEP_ALIVE_SECONDS = 75.0

_GONE = (trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError)


def hypercorn_config() -> Config:
    """Hypercorn's settings; it opens no sockets and no logs of its own here."""
    config = Config()
    config.h11_max_incomplete_size = MAX_HEAD
    config.keep_alive_timeout = KEEP_ALIVE_SECONDS
    config.keep_alive_max_requests = 1_000_000
    config.include_server_header = False
    config.errorlog = log
    config.accesslog = None
    config.startup_timeout = 10.0
    config.shutdown_timeout = 5.0
    return config


class _Protocol(H11Protocol):
    """HTTP/1.1 to origin-form targets alone; refusals in the one error shape."""

    _head: bytes = b""

    async def _check_protocol(self, event: h11.Request) -> None:
        """No h2c, no prior-knowledge HTTP/2."""

    async def _create_stream(self, request: h11.Request) -> None:
        if any(name == b"upgrade" for name, _ in request.headers):
            await self._refuse(404)
        elif _ambiguous(request) or not (
            request.target.startswith(b"/") and request.http_version.startswith(b"1.")
        ):
            await self._refuse(400)
        else:
            await super()._create_stream(request)

    async def _send_h11_event(self, event: H11SendableEvent) -> None:
        """As inherited, but a response's head travels with the first bytes of its body."""
        try:
            data = self.connection.send(event)
        except h11.LocalProtocolError:
            if self.connection.their_state != h11.ERROR:
                raise
            return
        if isinstance(event, h11.Response):
            self._head = data
        elif data or isinstance(event, h11.EndOfMessage):
            data, self._head = self._head + data, b""
            await self.send(RawData(data))

    async def _send_error_response(self, status_code: int) -> None:
        await self._refuse(status_code)

    async def _refuse(self, status: int) -> None:
        """Past h11, whose state no longer matters: the connection ends here."""
        await self.send(RawData(answer(of_status(status), new_request_id()).to_bytes()))
        await self.send(Closed())


def _ambiguous(request: h11.Request) -> bool:
    """Both framings at once, which a proxy and h11 may read differently (RFC 9112 6.1): refused."""
    names = {name for name, _ in request.headers}
    return b"content-length" in names and b"transfer-encoding" in names


class Connection(TCPServer):
    """Serves one accepted stream until it ends.

    Cancellation:
        The request's task is cancelled; what is being sent stops within STALLED_SECONDS, or at once
        when someone closes the socket.
    """

    def __init__(
        self,
        app: AppWrapper,
        config: Config,
        context: WorkerContext,
        state: LifespanState,
        stream: trio.SocketStream,
        *,
        received: bytes,
        peer: tuple[str, int] | None,
    ) -> None:
        super().__init__(app, config, context, state, stream)  # type: ignore[arg-type]
        self._socket_stream = stream
        self._received = received
        self._peer = peer
        self._reading = trio.CancelScope()
        self._idle = True
        self._closing = False

    async def run(self) -> None:
        """As TCPServer.run, without TLS, and with what was received already put first."""
        try:
            async with TaskGroup() as task_group:
                self._task_group = task_group
                self.protocol = _Protocol(  # type: ignore[assignment]
                    self.app,
                    self.config,
                    self.context,
                    task_group,
                    ConnectionState(self.state),
                    False,
                    self._peer,
                    None,
                    self.protocol_send,
                )
                await self._read_data()
        except OSError:
            pass  # the peer is gone
        finally:
            await trio.aclose_forcefully(self._socket_stream)

    def close_when_idle(self) -> None:
        """End the connection now, or after the answer that is being made (the context says so)."""
        if self._idle:
            self._reading.cancel(reason="the server is shutting down")

    async def protocol_send(self, event: Event) -> None:
        match event:
            case Updated():
                self._note_idle(event.idle)
            case Closed():
                await self._begin_close()
                await self.protocol.handle(event)
            case RawData(data=data) if data and not self._closing:
                async with self.send_lock:
                    try:
                        await self._send_in_slices(data)
                    except (trio.BrokenResourceError, trio.ClosedResourceError):
                        await self.protocol.handle(Closed())

    def _note_idle(self, idle: bool) -> None:
        """Between requests, reading has a deadline (Hypercorn starts and ends a task for that)."""
        self._idle = idle
        self._reading.deadline = trio.current_time() + self.config.keep_alive_timeout if idle else math.inf

    async def _read_data(self) -> None:
        """Feed the protocol until the peer or we end it; then let unread input drain.

        Closing over unread input would reset the connection, and with it an answer (a 413, say)
        that the peer has not read yet. The scope also frees a reader that waits for an app which is
        done and takes no more of the body.
        """
        with self._reading:
            self._note_idle(True)
            data = self._received
            while data:
                await self.protocol.handle(RawData(data))
                data = await self._receive(BIG_SLICE if len(data) >= SLICE else SLICE)
        if self._closing and self._more_may_come():
            await linger(self._socket_stream)
        await self.protocol.handle(Closed())

    def _more_may_come(self) -> bool:
        request = cast(_Protocol, self.protocol).connection.their_state
        return request not in (h11.DONE, h11.MUST_CLOSE, h11.CLOSED)

    async def _receive(self, most: int) -> bytes:
        try:
            return bytes(await self._socket_stream.receive_some(most))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return b""

    async def _begin_close(self) -> None:
        if not self._closing:
            self._closing = True
            self._reading.cancel(reason="the server ends this connection")
            with contextlib.suppress(*_GONE):
                await self._socket_stream.send_eof()

    async def _send_in_slices(self, data: bytes) -> None:
        """Send, or give the connection up: half a response is of no use to anyone.

        Shielded, since a send that was cancelled midway leaves the stream in an unknown place.
        """
        view = memoryview(data)
        for start in range(0, len(view), SLICE):
            with trio.move_on_after(STALLED_SECONDS, shield=True) as patience:
                await self._socket_stream.send_all(view[start : start + SLICE])
            if patience.cancelled_caught:
                log.info("dropped a client that stopped reading")
                self._socket_stream.socket.close()
                raise trio.BrokenResourceError("the client stopped reading")


async def linger(stream: trio.SocketStream) -> None:
    """Half-close, read on for a while, close. Bounded by LINGER_SECONDS and LINGER_BYTES.

    Cancellation:
        Closes at once.
    """
    try:
        with trio.move_on_after(LINGER_SECONDS), contextlib.suppress(*_GONE):
            await stream.send_eof()
            left = LINGER_BYTES
            while left > 0 and (data := await stream.receive_some(SLICE)):
                left -= len(data)
    finally:
        await trio.aclose_forcefully(stream)
