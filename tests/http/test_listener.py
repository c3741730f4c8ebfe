"""The accept loop's own behaviour: http/listener.py, connection.py, asgi.py. Hostile bytes are elsewhere."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from bodyd.contract.lease import AcquireRequest, Scope
from bodyd.contract.ports import Caller
from bodyd.errors import ConfigError
from bodyd.http import asgi, connection
from bodyd.http.app import create_app
from bodyd.http.head import Head
from bodyd.http.listener import Bound, Limits, listen, serve
from bodyd.http.services import Services

from .fake_body import FakeBody
from .wire import HEALTH, SOON, head, post, tcp, unix


class Asgi:
    """A bare ASGI app: a lifespan that counts, and a handler given by the test."""

    def __init__(self, handler: Any = None) -> None:
        self.handler = handler
        self.lifespan: list[str] = []
        self.scopes: list[dict[str, Any]] = []

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            for step in ("startup", "shutdown"):
                await receive()
                self.lifespan.append(step)
                await send({"type": f"lifespan.{step}.complete"})
            return
        self.scopes.append(scope)
        await self.handler(receive, send)


async def empty(receive, send):
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


async def test_started_means_ready_on_both_sockets(bound: Bound):
    """As soon as serve has started, a request on either socket is answered."""
    for opened in (tcp(bound), unix(bound.unix_path)):
        async with opened as wire:
            await wire.send(HEALTH)
            assert (await wire.reply()).json == {"status": "ok"}


async def test_the_app_lives_as_long_as_the_server(tmp_path: Path):
    """Its start-up is over before the first connection, its shutdown after the last."""
    app = Asgi(empty)
    async with listen(app, unix_path=tmp_path / "a.sock"):
        assert app.lifespan == ["startup"]
    assert app.lifespan == ["startup", "shutdown"]


async def test_a_request_knows_how_it_came(tmp_path: Path):
    """Only the unix socket's requests are marked so; TCP ones have a peer."""
    app = Asgi(empty)
    async with listen(app, port=0, unix_path=tmp_path / "a.sock") as bound:
        for opened in (tcp(bound), unix(bound.unix_path)):
            async with opened as wire:
                await wire.send(HEALTH)
                await wire.reply()
    over_tcp, over_unix = app.scopes
    assert over_tcp["client"][0] == "127.0.0.1"
    assert over_tcp["state"]["bodyd.unix"] is False
    assert over_unix["client"] is None
    assert over_unix["state"]["bodyd.unix"] is True


async def test_the_unix_socket_needs_no_host_name(bound: Bound, bearer):
    """The names of HTTP clients over a socket are made up; TCP's are checked."""
    asked = head("GET", "/v1/status", host="bodyd", **bearer(Scope.VIEWER))
    async with unix(bound.unix_path) as wire:
        await wire.send(asked)
        assert (await wire.reply()).status == 200
    async with tcp(bound) as wire:
        await wire.send(asked)
        assert (await wire.reply()).status == 403


async def test_a_taken_socket_stops_the_start(bound: Bound):
    """The error comes out bare, and nothing was started."""
    app = Asgi(empty)
    with pytest.raises(ConfigError):
        async with listen(app, unix_path=bound.unix_path):
            pytest.fail("two servers on one socket")
    assert app.lifespan == []


async def test_a_start_that_is_cancelled_ends(tmp_path: Path):
    """Cancelled before it serves, it leaves nothing and does not hang; as a task or as a context."""
    for run in (serve, _listening):
        with trio.fail_after(SOON):
            async with trio.open_nursery() as nursery:
                nursery.cancel_scope.cancel(reason="too late")
                await nursery.start(partial(run, Asgi(empty), unix_path=tmp_path / "a.sock"))
        assert not (tmp_path / "a.sock").exists()


async def _listening(app, *, unix_path, task_status):
    async with listen(app, unix_path=unix_path):
        task_status.started()
        await trio.sleep_forever()


async def test_a_connection_is_reused(bound: Bound):
    """Many requests, one connection."""
    async with unix(bound.unix_path) as wire:
        for _ in range(20):
            await wire.send(HEALTH)
            assert (await wire.reply()).headers.get("connection") != "close"


async def test_an_answer_waits_for_a_short_body_that_nobody_reads(bound: Bound):
    """A client that sends head and body apart may go on using its connection."""
    async with unix(bound.unix_path) as wire:
        for _ in range(5):
            await wire.send(head("GET", "/healthz", content_length="2"))
            await trio.testing.wait_all_tasks_blocked(0.01)
            await wire.send(b"{}")
            assert (await wire.reply()).status == 200


async def test_a_body_that_does_not_come_is_not_waited_for(bound: Bound, monkeypatch: pytest.MonkeyPatch):
    """Not for long; and not at all if it is a long one. The connection ends, the answer was whole."""
    monkeypatch.setattr(asgi, "BODY_GRACE_SECONDS", 0.1)
    for length in ("2", "70000"):
        async with unix(bound.unix_path) as wire:
            await wire.send(head("GET", "/healthz", content_length=length))
            assert (await wire.reply()).status == 200
            assert await wire.closed() == b""


async def test_an_idle_connection_is_closed(bound: Bound, monkeypatch: pytest.MonkeyPatch):
    """After the keep-alive time, between requests, without a word; never during one."""
    monkeypatch.setattr(connection, "KEEP_ALIVE_SECONDS", 0.2)
    held = trio.Event()

    async def slow(receive, send):
        await trio.sleep(0.5)
        held.set()
        await empty(receive, send)

    async with listen(Asgi(slow), port=0) as other, tcp(other) as wire:
        await wire.send(HEALTH)
        assert (await wire.reply()).status == 204
        assert held.is_set()
        assert await wire.closed() == b""


async def test_expect_continue(bound: Bound, bearer):
    """A client that asks first is told to go on."""
    body = b'{"reason": "x"}'
    async with tcp(bound) as wire:
        await wire.send(
            head(
                "POST",
                "/v1/lease/pause",
                expect="100-continue",
                content_length=str(len(body)),
                **bearer(Scope.DRIVER),
            )
        )
        assert (await wire.reply()).status == 100
        await wire.send(body)
        assert (await wire.reply()).status == 200


async def test_a_client_that_leaves_cancels_its_request(bound: Bound, body: FakeBody, bearer):
    """The body's input is cancelled, so that the batch drains."""
    body.slow = trio.Event()
    grant = await body.acquire(AcquireRequest(conversation_id="c"), caller=Caller("x", Scope.DRIVER))
    sent = b'{"request_id": "r", "epoch": 1, "inputs": [{"type": "wait"}]}'
    async with tcp(bound) as wire:
        await wire.send(post("/v1/input", sent, bodyd_lease=grant.lease_token, **bearer(Scope.DRIVER)))
        await body.waiting.wait()
    with trio.fail_after(SOON):
        await body.cancelled.wait()


async def test_an_app_that_breaks_takes_only_its_connection(tmp_path: Path, caplog):
    """An exception past the app's own handler ends one connection; the next is served."""

    async def broken(receive, send):
        raise RuntimeError("a bug")

    app = Asgi(broken)
    async with listen(app, port=0) as bound:
        async with tcp(bound) as wire:
            await wire.send(HEALTH)
            assert (await wire.reply()).status == 500
        app.handler = empty
        async with tcp(bound) as wire:
            await wire.send(HEALTH)
            assert (await wire.reply()).status == 204
    assert "a bug" in caplog.text


async def test_upgrades_go_to_their_handler(services: Services):
    """With the head parsed, and every byte that came with it; one that breaks ends its connection alone."""
    seen: list[Head] = []

    async def echo(stream: trio.SocketStream, request: Head, state: Any) -> None:
        seen.append(request)
        await stream.send_all(request.received)
        raise RuntimeError("after the echo")

    asked = head("GET", "/v1/live?x=1", connection="Upgrade", upgrade="WebSocket") + b"early"
    async with listen(create_app(services), port=0, upgrade=echo) as bound:
        async with tcp(bound) as wire:
            await wire.send(asked)
            assert await wire.closed() == asked
        async with tcp(bound) as wire:
            await wire.send(HEALTH)
            assert (await wire.reply()).status == 200
    (request,) = seen
    assert (request.method, request.target, request.header("upgrade")) == ("GET", "/v1/live?x=1", "WebSocket")


async def test_a_handler_that_ignores_the_shutdown_is_cut_off():
    """Requests get their time, then are cancelled."""
    entered = trio.Event()

    async def forever(receive, send):
        entered.set()
        await trio.sleep_forever()

    with trio.fail_after(SOON):
        async with listen(Asgi(forever), port=0, limits=Limits(drain=0.1)) as bound, tcp(bound) as wire:
            await wire.send(HEALTH)
            await entered.wait()


async def test_a_reader_that_stops_is_dropped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """While serving on, without a shutdown: the sender gives up after a bound, and its task ends."""
    monkeypatch.setattr(connection, "STALLED_SECONDS", 0.2)
    ended = trio.Event()

    async def firehose(receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        try:
            for _ in range(100):
                await send({"type": "http.response.body", "body": b"x" * 1_000_000, "more_body": True})
        finally:
            ended.set()

    async with listen(Asgi(firehose), unix_path=tmp_path / "a.sock") as bound, unix(bound.unix_path) as wire:
        await wire.send(HEALTH)
        with trio.fail_after(SOON):
            await ended.wait()
