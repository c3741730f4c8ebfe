"""WebSockets: an Upgrade from the accept loop, judged like a request, then spoken by websockets.

Hypercorn never sees one (hypercorn#225). The head was parsed by h11 already; websockets is given the fields
that its handshake needs, so that there are no two opinions on it. Counterpart: the handlers, which
see a `Socket` (contract/adapters.py) and neither stream nor frames.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast
from urllib.parse import parse_qs, unquote, urlsplit

import trio
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.http11 import Request
from websockets.server import ServerProtocol
from websockets.trio.server import Server, ServerConnection
from websockets.typing import Subprotocol

from bodyd.contract.adapters import HttpRequest, Socket, SocketClosed, SocketRoute
from bodyd.contract.ports import Caller
from bodyd.errors import BodydError, InvalidRequest, NotFound, Unauthorized
from bodyd.stream.protocol import PATH, SUBPROTOCOL, TICKET_PREFIX, Said, say

from .auth import require
from .connection import STALLED_SECONDS
from .errors import log, new_request_id, unexpected
from .head import Head
from .listener import CLOSERS, UNIX, refuse
from .services import Services

CLOSE_SECONDS = 2.0
"""For the other end to answer a close."""
PING_SECONDS = 20.0
"""An end that answers no ping for this long is gone."""

Conversation = Callable[[Socket], Awaitable[None]]

_HANDSHAKE = ("upgrade", "connection", "sec-websocket-key", "sec-websocket-version", "sec-websocket-protocol")

# what it logs of strangers' frames is nothing that an operator can act on
_quiet = logging.getLogger("bodyd.http.websockets")
_quiet.setLevel(logging.CRITICAL)


class Upgrades:
    """An UpgradeHandler over *routes*: Host, Origin, then token and scope, then the handler.

    A connection is closed with 1001 when the server shuts down, 1011 when its handler fails, and without
    a word when its client stops reading.
    """

    def __init__(self, provided: Services, routes: Sequence[SocketRoute] = ()) -> None:
        self._services = provided
        self._routes = {route.path: route for route in routes}
        for adapter in provided.adapters:
            self._routes |= {route.path: route for route in adapter.sockets}

    async def __call__(self, stream: trio.SocketStream, head: Head, state: Mapping[str, Any]) -> None:
        try:
            converse = self._conversation(head, unix=state.get(UNIX) is True)
            protocol, accepted = self._handshake(head)
        except BodydError as exc:
            await refuse(stream, exc)
            return
        closers: set[Callable[[], None]] = state.get(CLOSERS, set())
        async with trio.open_nursery() as nursery:
            connection = ServerConnection(
                nursery,
                _Behind(stream, head.rest),
                protocol,
                cast(Server, None),  # it is asked in websockets' own handshake alone
                ping_interval=PING_SECONDS,
                ping_timeout=PING_SECONDS,
                close_timeout=CLOSE_SECONDS,
            )
            connection.request = accepted
            await connection.send_data()
            connection.start_keepalive()
            code = await _converse(connection, converse, closers)
            with trio.move_on_after(CLOSE_SECONDS, shield=True):
                await connection.aclose(code)
            nursery.cancel_scope.cancel(reason="the connection is over")

    def _conversation(self, head: Head, *, unix: bool) -> Conversation:
        """What is to be said: the route's own, or why a page's ticket is not taken.

        A browser tells a page nothing of a handshake that failed, so a page of an origin that is let in
        is told over the socket. Programs read the 401.

        Raises:
            BodydError: it is not let in.
        """
        try:
            request, route = self._admit(head, unix=unix)
        except Unauthorized as exc:
            if head.header("origin") is None or SUBPROTOCOL not in _offered(head):
                raise
            return partial(_turn_away, exc)
        return partial(route.handler, request)

    def _admit(self, head: Head, *, unix: bool) -> tuple[HttpRequest, SocketRoute]:
        """As the app admits requests; a path without a socket is a 404.

        Raises:
            BodydError: it is not let in.
        """
        if head.method != "GET" or "websocket" not in (head.header("upgrade") or "").lower():
            raise NotFound(f"nothing here takes an upgrade to {head.header('upgrade')!r:.40}")
        target = urlsplit(head.target)
        headers = dict(reversed(head.headers))
        self._services.origins.check(
            headers.get("host"), headers.get("origin"), headers.get("sec-fetch-site"), unix=unix
        )
        path = unquote(target.path)
        caller = self._caller(head, path)
        route = self._routes.get(path)
        if route is None:
            raise NotFound("no WebSocket is served at this path; docs/reference/http-api.md lists them")
        require(caller, route.scope)
        query = {name: tuple(values) for name, values in parse_qs(target.query).items()}
        return HttpRequest("GET", route.path, {}, query, headers, b"", caller), route

    def _caller(self, head: Head, path: str) -> Caller:
        """By a bearer token; or by a one-use ticket among the subprotocols, which is all that a page can say.

        A ticket is for the live view alone: a page that was given one to watch can't start anything else.

        Raises:
            Unauthorized.
        """
        given = [value for name, value in head.headers if name == "authorization"]
        if not given and path == PATH:
            for offered in _offered(head):
                if offered.startswith(TICKET_PREFIX):
                    return self._services.tickets.board(offered.removeprefix(TICKET_PREFIX))
        return self._services.gate.caller(given)

    def _handshake(self, head: Head) -> tuple[ServerProtocol, Request]:
        """The protocol with its 101 ready to be sent, and the request that it accepted.

        Raises:
            InvalidRequest: it is no WebSocket handshake (RFC 6455, 4.2.1).
        """
        if any(name in ("content-length", "transfer-encoding") for name, _ in head.headers):
            raise InvalidRequest("an upgrade has no body")
        fields = Headers([(name, value) for name, value in head.headers if name in _HANDSHAKE])
        fields["Host"] = head.header("host") or "localhost"
        protocol = ServerProtocol(
            max_size=self._services.config.http.max_body_bytes,
            logger=_quiet,
            select_subprotocol=_select_subprotocol,
        )
        protocol.receive_data(Request("/", fields).serialize())
        found = protocol.events_received()
        response = protocol.accept(cast(Request, found[0])) if found else None
        if response is None or response.status_code != 101:
            why = protocol.handshake_exc or "its head can't be read"
            raise InvalidRequest(f"this is no WebSocket handshake: {why}")
        protocol.send_response(response)
        return protocol, cast(Request, found[0])


def _offered(head: Head) -> list[str]:
    """The subprotocols that the client offers."""
    values = [value for name, value in head.headers if name == "sec-websocket-protocol"]
    return [part.strip() for value in values for part in value.split(",")]


def _select_subprotocol(protocol: ServerProtocol, offered: Sequence[Subprotocol]) -> Subprotocol | None:
    """The stream's own, where it is offered; others are nobody's business here."""
    return Subprotocol(SUBPROTOCOL) if SUBPROTOCOL in offered else None


class _Socket:
    """A `Socket` over a connection."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    async def receive(self) -> str | bytes:
        try:
            return await self._connection.recv()
        except ConnectionClosed:
            raise SocketClosed from None

    async def send(self, message: str | bytes) -> None:
        with trio.move_on_after(STALLED_SECONDS) as patience:
            try:
                await self._connection.send(message)
            except ConnectionClosed:
                raise SocketClosed from None
        if patience.cancelled_caught:
            log.info("dropped a WebSocket client that stopped reading")
            await trio.aclose_forcefully(self._connection.stream)
            raise SocketClosed


async def _turn_away(why: Unauthorized, socket: Socket) -> None:
    told = {"code": why.code, "message": why.message, "retryable": why.retryable}
    await socket.send(say(Said.REFUSED, of=None, error=told))


async def _converse(
    connection: ServerConnection, converse: Conversation, closers: set[Callable[[], None]]
) -> CloseCode:
    """Run *converse* until it ends, its client leaves, or the server shuts down; how to close."""
    code = CloseCode.NORMAL_CLOSURE
    with trio.CancelScope() as scope:

        def close() -> None:
            scope.cancel(reason="the server is shutting down")

        closers.add(close)
        try:
            await converse(_Socket(connection))
        except* SocketClosed:
            pass
        except* Exception as group:
            unexpected(group, new_request_id())
            code = CloseCode.INTERNAL_ERROR
        finally:
            closers.discard(close)
    return CloseCode.GOING_AWAY if scope.cancelled_caught else code


class _Behind(trio.abc.HalfCloseableStream):
    """A stream with what was received behind the request's head put first."""

    def __init__(self, stream: trio.SocketStream, rest: bytes) -> None:
        self._stream = stream
        self._rest = rest

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        if self._rest:
            await trio.lowlevel.checkpoint()
            rest, self._rest = self._rest, b""
            return rest
        return bytes(await self._stream.receive_some(max_bytes))

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def aclose(self) -> None:
        self._rest = b""
        await self._stream.aclose()
