"""WebSockets on the real listener: admitted like a request, spoken whole, closed with a reason."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trio
from websockets.exceptions import ConnectionClosed
from websockets.trio.client import connect, unix_connect

from bodyd.client import BodyClient
from bodyd.contract.adapters import HttpRequest, Socket, SocketClosed, SocketRoute
from bodyd.contract.lease import Scope
from bodyd.errors import Forbidden
from bodyd.http.app import create_app
from bodyd.http.listener import Bound, listen
from bodyd.http.services import Services
from bodyd.http.upgrades import Upgrades
from bodyd.stream.protocol import PATH, SUBPROTOCOL, TICKET_PREFIX

from .wire import SOON, head, still_answers, tcp

HANDSHAKE = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec_websocket_version": "13",
    "sec_websocket_key": "dGhlIHNhbXBsZSBub25jZQ==",
}


class Talk:
    """Remembers who asked and echoes; "fail" fails, "leave" ends."""

    def __init__(self) -> None:
        self.asked: list[HttpRequest] = []
        self.left = trio.Event()

    async def __call__(self, request: HttpRequest, socket: Socket) -> None:
        self.asked.append(request)
        try:
            while (message := await socket.receive()) != "leave":
                if message == "fail":
                    raise RuntimeError("a bug in the handler")
                await socket.send(message)
        except SocketClosed:
            self.left.set()
            raise


@pytest.fixture
def talk() -> Talk:
    return Talk()


@pytest.fixture
async def bound(services: Services, talk: Talk, tmp_path: Path) -> AsyncIterator[Bound]:
    routes = [SocketRoute("/v1/talk", Scope.DRIVER, talk), SocketRoute(PATH, Scope.VIEWER, talk)]
    upgrades = Upgrades(services, routes)
    where = tmp_path / "api.sock"
    async with listen(create_app(services), port=0, unix_path=where, upgrade=upgrades) as bound:
        yield bound


@pytest.fixture
def open_socket(services: Services, bound: Bound) -> Callable[..., Any]:
    """Connect as that scope."""

    @asynccontextmanager
    async def opened(path: str = "/v1/talk", scope: Scope = Scope.DRIVER, **more: Any) -> AsyncIterator[Any]:
        headers = {"authorization": f"Bearer {services.tokens.token(scope)}"}
        url = f"ws://127.0.0.1:{bound.port}{path}"
        with trio.fail_after(SOON):
            async with connect(url, additional_headers=headers, **more) as connection:
                yield connection

    return opened


async def test_messages_go_both_ways(talk: Talk, open_socket: Callable[..., Any]):
    """Text and bytes, in order, with the caller and the query that the handler is told of."""
    async with open_socket("/v1/talk?a=1&a=2") as connection:
        for message in ("hello", b"\x00\x01", "x" * 300_000):
            await connection.send(message)
            assert await connection.recv() == message
        await connection.send("leave")
        with pytest.raises(ConnectionClosed) as closed:
            await connection.recv()
    assert closed.value.rcvd.code == 1000
    (request,) = talk.asked
    assert (request.path, request.query) == ("/v1/talk", {"a": ("1", "2")})
    assert request.caller.scope is Scope.DRIVER


async def test_over_the_unix_socket(services: Services, bound: Bound):
    """Where any Host is this server's own."""
    headers = {"authorization": f"Bearer {services.tokens.token(Scope.OWNER)}"}
    with trio.fail_after(SOON):
        async with unix_connect(
            path=str(bound.unix_path), uri="ws://anywhere/v1/talk", additional_headers=headers
        ) as connection:
            await connection.send("hi")
            assert await connection.recv() == "hi"


@pytest.mark.parametrize(
    ("changes", "path", "status"),
    [
        ({"authorization": "Bearer nope"}, "/v1/talk", 401),
        ({"authorization": None}, "/v1/talk", 401),
        ({"authorization": None}, "/v1/nothing", 401),
        ({}, "/v1/nothing", 404),
        ({"upgrade": "h2c"}, "/v1/talk", 404),
        ({"host": "evil.example"}, "/v1/talk", 403),
        ({"origin": "https://evil.example"}, "/v1/talk", 403),
        ({"sec_fetch_site": "cross-site"}, "/v1/talk", 403),
        ({"sec_websocket_key": None}, "/v1/talk", 400),
        ({"sec_websocket_key": "short"}, "/v1/talk", 400),
        ({"sec_websocket_version": "8"}, "/v1/talk", 400),
        ({"connection": "close"}, "/v1/talk", 400),
        ({"content_length": "5"}, "/v1/talk", 400),
        ({"sec_websocket_protocol": "x" * 9000}, "/v1/talk", 400),
    ],
    ids=str,
)
async def test_what_is_not_let_in(
    talk: Talk, services: Services, bound: Bound, changes: dict[str, Any], path: str, status: int
):
    """Each is refused in the one error shape, before any handler, and the server goes on."""
    fields = {"authorization": f"Bearer {services.tokens.token(Scope.DRIVER)}", **HANDSHAKE, **changes}
    async with tcp(bound) as wire:
        await wire.send(
            head("GET", path, **{name: value for name, value in fields.items() if value is not None})
        )
        reply = await wire.reply()
        assert reply.status == status
        assert reply.json["error"].keys() >= {"message", "type", "param", "code", "retryable"}
        assert await wire.closed() == b""
    assert talk.asked == []
    await still_answers(bound)


@pytest.mark.parametrize("scope", [Scope.VIEWER, Scope.OWNER])
async def test_a_ticket_opens_the_live_view_and_nothing_else(
    services: Services, bound: Bound, talk: Talk, scope: Scope
):
    """One that an owner's server had made, with the scope that it chose; elsewhere it is no ticket."""
    token = services.tokens.token(Scope.OWNER)
    async with BodyClient(socket_path=bound.unix_path, token=token) as client:
        issued = await client._json("POST", "/v1/tickets/stream", {"scope": scope.value})
    assert issued["scope"] == scope.value
    offers = f"{SUBPROTOCOL}, {TICKET_PREFIX}{issued['ticket']}"
    async with tcp(bound) as wire:
        await wire.send(head("GET", "/v1/talk", sec_websocket_protocol=offers, **HANDSHAKE))
        assert (await wire.reply()).status == 401
    async with tcp(bound) as wire:
        await wire.send(head("GET", PATH, sec_websocket_protocol=offers, **HANDSHAKE))
        assert (await wire.reply()).status == 101
    (request,) = talk.asked
    assert (request.caller.scope, request.caller.id) == (scope, services.gate.caller([f"Bearer {token}"]).id)


async def test_no_ticket_reaches_further_than_who_asked_for_it(services: Services, bound: Bound):
    """A viewer's is a viewer's."""
    async with BodyClient(socket_path=bound.unix_path, token=services.tokens.token(Scope.VIEWER)) as client:
        with pytest.raises(Forbidden):
            await client._json("POST", "/v1/tickets/stream", {"scope": "owner"})
        assert (await client._json("POST", "/v1/tickets/stream", {}))["scope"] == "viewer"


@pytest.mark.parametrize(
    ("origin", "offers", "status"),
    [
        ("http://localhost:{port}", f"{SUBPROTOCOL}, {TICKET_PREFIX}old", 101),
        (None, f"{SUBPROTOCOL}, {TICKET_PREFIX}old", 401),
        ("http://localhost:{port}", f"{TICKET_PREFIX}old", 401),
        ("https://evil.example", f"{SUBPROTOCOL}, {TICKET_PREFIX}old", 403),
    ],
)
async def test_a_page_is_told_why_its_ticket_is_not_taken(
    bound: Bound, talk: Talk, origin: str | None, offers: str, status: int
):
    """Over the socket: a browser keeps a failed handshake's answer to itself. Programs are answered 401."""
    fields = {} if origin is None else {"origin": origin.format(port=bound.port)}
    async with tcp(bound) as wire:
        host = f"localhost:{bound.port}"
        sent = {**HANDSHAKE, "host": host, "sec_websocket_protocol": offers, **fields}
        await wire.send(head("GET", PATH, **sent))
        assert (await wire.reply()).status == status
        if status == 101:
            told = await wire.closed()
            assert b'"type": "refused", "of": null, "error": {"code": "unauthorized"' in told
            assert b"used already or is too old" in told
    assert talk.asked == []
    await still_answers(bound)


async def test_a_viewer_may_not(services: Services, bound: Bound, talk: Talk):
    """The route's scope is asked for, as everywhere."""
    token = services.tokens.token(Scope.VIEWER)
    async with tcp(bound) as wire:
        await wire.send(head("GET", "/v1/talk", authorization=f"Bearer {token}", **HANDSHAKE))
        assert (await wire.reply()).code == "forbidden"
    assert talk.asked == []


@pytest.mark.parametrize(
    "behind",
    [
        b"\x81\x85\0\0\0\0hello",
        b"\x88\x80\0\0\0\0",
        b"\x81\x05naked",
        b"\xff" * 70_000,
        b"GET / HTTP/1.1\r\n\r\n",
    ],
    ids=["a frame", "a close", "unmasked", "noise", "a request"],
)
async def test_data_behind_the_head(services: Services, bound: Bound, behind: bytes):
    """What comes with the head is read as frames; what is none ends that connection alone."""
    token = services.tokens.token(Scope.DRIVER)
    async with tcp(bound) as wire:
        await wire.send(head("GET", "/v1/talk", authorization=f"Bearer {token}", **HANDSHAKE) + behind)
        with trio.fail_after(SOON):
            got = b""
            while b"\r\n\r\n" not in got or len(got.partition(b"\r\n\r\n")[2]) < 2:
                got += await wire.stream.receive_some(4096)
        assert got.startswith(b"HTTP/1.1 101 ")
        answer = got.partition(b"\r\n\r\n")[2]
        assert answer[:1] == (b"\x81" if behind.endswith(b"hello") else b"\x88")
    await still_answers(bound)


async def test_a_message_that_is_too_long(services: Services, open_socket: Callable[..., Any]):
    """Over `http.max_body_bytes` the connection ends with 1009."""
    async with open_socket() as connection:
        with suppress(ConnectionClosed):  # refused while it is still being sent
            await connection.send(b"x" * (services.config.http.max_body_bytes + 1))
        with pytest.raises(ConnectionClosed) as closed:
            await connection.recv()
    assert closed.value.rcvd.code == 1009


async def test_a_bug_ends_its_own_connection(
    bound: Bound, open_socket: Callable[..., Any], caplog: pytest.LogCaptureFixture
):
    """1011 for the client, the traceback for the log, and everybody else goes on."""
    async with open_socket() as other, open_socket() as connection:
        await connection.send("fail")
        with pytest.raises(ConnectionClosed) as closed:
            await connection.recv()
        assert closed.value.rcvd.code == 1011
        await other.send("still")
        assert await other.recv() == "still"
    assert "a bug in the handler" in caplog.text


async def test_a_client_that_leaves_is_told_to_the_handler(
    talk: Talk, services: Services, bound: Bound, open_socket: Callable[..., Any]
):
    """With a close, or without a word."""
    async with open_socket():
        pass
    with trio.fail_after(SOON):
        await talk.left.wait()
    talk.left = trio.Event()
    token = services.tokens.token(Scope.DRIVER)
    async with tcp(bound) as wire:
        await wire.send(head("GET", "/v1/talk", authorization=f"Bearer {token}", **HANDSHAKE))
        await wire.stream.receive_some(4096)
    with trio.fail_after(SOON):
        await talk.left.wait()


async def test_a_shutdown_closes_with_going_away(services: Services, talk: Talk, nursery: trio.Nursery):
    """Open sockets do not hold it up."""
    routes = [SocketRoute("/v1/talk", Scope.DRIVER, talk), SocketRoute(PATH, Scope.VIEWER, talk)]
    upgrades = Upgrades(services, routes)
    headers = {"authorization": f"Bearer {services.tokens.token(Scope.DRIVER)}"}
    stop, ready = trio.Event(), trio.Event()
    where: list[Bound] = []

    async def server() -> None:
        async with listen(create_app(services), port=0, upgrade=upgrades) as bound:
            where.append(bound)
            ready.set()
            await stop.wait()

    nursery.start_soon(server)
    await ready.wait()
    with trio.fail_after(SOON):
        async with connect(
            f"ws://127.0.0.1:{where[0].port}/v1/talk", additional_headers=headers
        ) as connection:
            await connection.send("hi")
            assert await connection.recv() == "hi"
            stop.set()
            with pytest.raises(ConnectionClosed) as closed:
                await connection.recv()
    assert closed.value.rcvd.code == 1001


async def test_a_client_that_stops_reading_is_dropped(
    services: Services, bound: Bound, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
):
    """It holds its handler for a bounded time."""
    monkeypatch.setattr("bodyd.http.upgrades.STALLED_SECONDS", 0.2)
    ended = trio.Event()

    async def flood(request: HttpRequest, socket: Socket) -> None:
        try:
            while True:
                await socket.send(b"x" * 1_000_000)
        except SocketClosed:
            ended.set()
            raise

    upgrades = Upgrades(services, [SocketRoute("/v1/talk", Scope.DRIVER, flood)])
    token = services.tokens.token(Scope.DRIVER)
    async with listen(create_app(services), port=0, upgrade=upgrades) as deaf, tcp(deaf) as wire:
        await wire.send(head("GET", "/v1/talk", authorization=f"Bearer {token}", **HANDSHAKE))
        with trio.fail_after(SOON):
            await ended.wait()
