"""Hostile bytes at the accept loop: each is refused cleanly, and the server answers afterwards."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.lowlevel

from bodyd.contract.lease import AcquireRequest, Scope
from bodyd.contract.ports import Caller
from bodyd.http.app import create_app
from bodyd.http.listener import Bound, Limits, listen, serve
from bodyd.http.services import Services
from tests.http.fake_body import FakeBody
from tests.http.wire import HEALTH, SOON, Reply, head, post, still_answers, tcp, unix

UPGRADE = head(
    "GET",
    "/",
    connection="Upgrade",
    upgrade="websocket",
    sec_websocket_version="13",
    sec_websocket_key="dGhlIHNhbXBsZSBub25jZQ==",
)
DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.fixture(autouse=True)
async def answers_afterwards(bound: Bound) -> AsyncIterator[None]:
    """Whatever a test did, the server is alive at its end."""
    yield
    await still_answers(bound)


def refused(reply: Reply, status: int, code: str) -> None:
    """The answer is an error in the one shape."""
    assert reply.status == status
    error = reply.json["error"]
    assert error["code"] == code
    assert error.keys() >= {"message", "type", "param", "code", "retryable"}
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["x-request-id"].startswith("req_")
    assert (reply.headers.get("x-should-retry") == "false") is (not error["retryable"])


# -- upgrades ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("behind", [b"", b"x", b"\x81\x05hello", b"GET / HTTP/1.1\r\n\r\n", b"\0" * 70_000])
async def test_an_upgrade_is_a_clean_404_whatever_is_behind_it(bound: Bound, behind: bytes):
    """A WebSocket upgrade with data in the same segment would end Hypercorn (hypercorn#225)."""
    async with tcp(bound) as wire:
        await wire.send(UPGRADE + behind)
        reply = await wire.reply()
        refused(reply, 404, "not_found")
        assert reply.headers["connection"] == "close"
        assert await wire.closed() == b""


async def test_an_upgrade_in_dribbles(bound: Bound):
    """The same, a few bytes at a time, with the data before the answer."""
    async with tcp(bound) as wire:
        for start in range(0, len(UPGRADE), 7):
            await wire.send(UPGRADE[start : start + 7])
            await trio.lowlevel.checkpoint()
        await wire.send(b"\x81\x05hello")
        refused(await wire.reply(), 404, "not_found")


@pytest.mark.parametrize("gap", [True, False], ids=["after the answer", "pipelined"])
async def test_an_upgrade_on_a_used_connection(bound: Bound, gap: bool):
    """A second request that upgrades gets its own 404, and the first its answer."""
    async with tcp(bound) as wire:
        await wire.send(HEALTH if gap else HEALTH + UPGRADE + b"\x81\x05hello")
        assert (await wire.reply()).status == 200
        if gap:
            await wire.send(UPGRADE + b"\x81\x05hello")
        refused(await wire.reply(), 404, "not_found")
        assert await wire.closed() == b""


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize(
    "request_",
    [
        head("GET", "/", connection="Upgrade, HTTP2-Settings", upgrade="h2c", http2_settings="AAMAAABkAAQ"),
        head("HEAD", "/", connection="Upgrade", upgrade="websocket"),
        head("POST", "/", connection="Upgrade", upgrade="websocket", content_length="5") + b"hello",
        head("GET", "/", upgrade="websocket"),
        head("GET", "/", connection="Upgrade", upgrade=""),
    ],
    ids=["h2c", "head", "post", "no connection header", "empty"],
)
async def test_no_other_upgrade_either(bound: Bound, request_: bytes, second: bool):
    """h2c, odd methods and half-made upgrades are refused alike, first or second on a connection."""
    async with tcp(bound) as wire:
        if second:
            await wire.send(HEALTH)
            assert (await wire.reply()).status == 200
        await wire.send(request_)
        refused(await wire.reply(), 404, "not_found")


async def test_http2_by_prior_knowledge(bound: Bound):
    """The HTTP/2 preface is no HTTP/1.1 request."""
    async with tcp(bound) as wire:
        await wire.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
        reply = await wire.reply()
        assert reply.status in (400, 505)
        assert reply.json["error"]["code"] == "invalid_request"


# -- heads -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "garbage",
    [
        b"\r\n\r\n",
        b"\n\n",
        b"hello\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) * 2,
        b"GET / HTTP/9.9\r\nhost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\n folded: y\r\nbad header\0: z\r\n\r\n",
        b"G\0T / HTTP/1.1\r\nhost: x\r\n\r\n",
    ],
)
@pytest.mark.parametrize("second", [False, True])
async def test_garbage_is_answered_and_closed(bound: Bound, garbage: bytes, second: bool):
    """What is no request gets a 400 in the one shape, first or second on a connection."""
    async with tcp(bound) as wire:
        if second:
            await wire.send(HEALTH)
            assert (await wire.reply()).status == 200
        await wire.send(garbage)
        refused(await wire.reply(), 400, "invalid_request")
        await wire.closed()


@pytest.mark.parametrize(
    "target", ["?x", "*", "http://localhost/healthz", "localhost:80", "//", "/%00", "/%ff/.."]
)
async def test_odd_targets(bound: Bound, target: str):
    """A target that is no path of ours is refused (`//` is the page), never a crash."""
    async with tcp(bound) as wire:
        await wire.send(head("GET", target))
        assert (await wire.reply()).status in (200, 400, 401, 404)


@pytest.mark.parametrize("second", [False, True])
async def test_a_head_over_the_limit(bound: Bound, second: bool):
    """100 KiB of headers are refused at the bound, without being read to their end."""
    async with tcp(bound) as wire:
        if second:
            await wire.send(HEALTH)
            assert (await wire.reply()).status == 200
        await wire.send(b"GET / HTTP/1.1\r\nhost: localhost\r\nx: " + b"a" * 100_000)
        refused(await wire.reply(), 431, "head_too_large")


async def test_a_head_that_never_ends(services: Services, tmp_path: Path):
    """A slow head is cut off at its deadline, and says so; a silent connection is just closed."""
    limits = Limits(head=0.2)
    async with (
        listen(create_app(services), port=0, unix_path=tmp_path / "a.sock", limits=limits) as bound,
        tcp(bound) as slow,
        tcp(bound) as silent,
    ):
        await slow.send(b"GET / HTTP/1.1\r\nhost: loc")
        refused(await slow.reply(), 408, "request_timeout")
        assert b"408" in await silent.closed()
        await still_answers(bound)


# -- bodies ------------------------------------------------------------------------------------------


@pytest.fixture
def small(services: Services) -> Services:
    """The same services with a limit of 64 KiB on bodies."""
    config = services.config.model_copy(
        update={"http": services.config.http.model_copy(update={"max_body_bytes": 65536})}
    )
    return Services(body=services.body, tokens=services.tokens, config=config)


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_over_the_limit(small: Services, chunked: bool, tmp_path: Path):
    """4 MiB where 64 KiB are allowed: 413 that the client gets to read, though it sends it all first."""
    token = {"authorization": f"Bearer {small.tokens.token(Scope.OWNER)}"}
    data = b"x" * (4 * 1024 * 1024)
    async with listen(create_app(small), port=0, unix_path=tmp_path / "b.sock") as bound, tcp(bound) as wire:
        if chunked:
            await wire.send(head("POST", "/v1/input", transfer_encoding="chunked", **token))
            for start in range(0, len(data), 65536):
                await wire.send(b"10000\r\n" + data[start : start + 65536] + b"\r\n")
        else:
            await wire.send(head("POST", "/v1/input", content_length=str(len(data)), **token) + data)
        refused(await wire.reply(), 413, "too_large")
        await still_answers(bound)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"nope",
        b"\xff\xfe{}",
        b"\xef\xbb\xbf{}",
        b'{"request_id": "\xc3("}',
        b'{"epoch": NaN}',
        b'{"epoch": Infinity}',
        b'{"epoch": 1e999}',
        b'{"epoch": ' + b"9" * 5000 + b"}",
        b'{"a": 1, "a": 2}',
        b'{"a": {"b": 1, "b": 2}}',
        b'{"a": "\\ud800"}',
        b'{"a": "\\u0000\\udfff"}',
        DEEP,
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
        b"[]",
        b"null",
        b'"text"',
        b"{}{}",
    ],
)
@pytest.mark.parametrize("path", ["/v1/input", "/v1/computer_call", "/v1/lease/acquire"])
async def test_malformed_json(bound: Bound, raw: bytes, path: str, bearer):
    """Each is a 400 that names no exception; the connection stays usable."""
    async with tcp(bound) as wire:
        await wire.send(post(path, raw, bodyd_lease="x", **bearer(Scope.OWNER)))
        reply = await wire.reply()
        refused(reply, 400, "invalid_request")
        assert "Error" not in reply.json["error"]["message"]
        await wire.send(HEALTH)
        assert (await wire.reply()).status == 200


@pytest.mark.parametrize(
    "chunks",
    [b"zz\r\nhello\r\n", b"-5\r\nhello\r\n0\r\n\r\n", b"5\r\nhelloXX0\r\n\r\n", b"ffffffffffffffffff\r\n"],
)
async def test_chunked_garbage(bound: Bound, chunks: bytes, bearer, body: FakeBody):
    """A chunked body that breaks its framing never reaches a route."""
    async with tcp(bound) as wire:
        await wire.send(
            head("POST", "/v1/lease/stop", transfer_encoding="chunked", **bearer(Scope.OWNER)) + chunks
        )
        await wire.stream.send_eof()
        await wire.closed()
    assert "stop" not in [name for name, _ in body.calls]


async def test_a_body_cut_short(bound: Bound, bearer, body: FakeBody):
    """A client that leaves before the end of its body has asked for nothing."""
    async with tcp(bound) as wire:
        await wire.send(head("POST", "/v1/lease/stop", content_length="100", **bearer(Scope.OWNER)) + b"{}")
    await still_answers(bound)
    assert "stop" not in [name for name, _ in body.calls]


async def test_both_framings_at_once(bound: Bound, bearer, body: FakeBody):
    """Content-Length beside Transfer-Encoding smuggles no second request past the gate."""
    smuggled = post("/v1/lease/stop", b"{}", **bearer(Scope.OWNER))
    async with tcp(bound) as wire:
        await wire.send(
            head(
                "POST",
                "/v1/tickets/redeem",
                content_length=str(5 + len(smuggled)),
                transfer_encoding="chunked",
            )
            + b"0\r\n\r\n"
        )
        await wire.reply()
    assert "stop" not in [name for name, _ in body.calls]


# -- who asks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/healthz", "/v1/status", "/v1/tickets/redeem", "/nope"])
@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:7310", "localhost.evil.example", "127.0.0.1.nip.io", "[", "", "0.0.0.0"],
)
async def test_a_foreign_host_gets_nothing(bound: Bound, path: str, host: str, bearer):
    """A name that was rebound to loopback is refused everywhere, even with the right token."""
    async with tcp(bound) as wire:
        await wire.send(head("GET", path, host=host, **bearer(Scope.OWNER)))
        refused(await wire.reply(), 403, "forbidden")


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost:1", "http://127.0.0.1", "file://", ""]
)
async def test_a_foreign_origin_gets_nothing(bound: Bound, origin: str, bearer, body: FakeBody):
    """Pages of other sites, ports and schemes are refused, with the right token and all."""
    async with tcp(bound) as wire:
        await wire.send(post("/v1/lease/stop", b"{}", origin=origin, **bearer(Scope.OWNER)))
        refused(await wire.reply(), 403, "forbidden")
    assert body.calls == []


# -- load --------------------------------------------------------------------------------------------


async def test_pipelined_requests_are_answered_in_order(bound: Bound):
    """Fifty requests in one segment have fifty answers."""
    async with tcp(bound) as wire:
        await wire.send(b"".join(head("GET", path) for path in ["/healthz", "/readyz"] * 25))
        bodies = [(await wire.reply()).json for _ in range(50)]
    assert [("ready" in body) for body in bodies] == [False, True] * 25


async def test_a_flood_of_connections_is_bounded(services: Services, tmp_path: Path):
    """Over the limit of one listener, newcomers are told so; the other listener doesn't notice."""
    path = tmp_path / "c.sock"
    async with listen(create_app(services), port=0, unix_path=path, limits=Limits(connections=8)) as bound:
        held = [await trio.open_tcp_stream("127.0.0.1", bound.port or 0) for _ in range(8)]
        await trio.testing.wait_all_tasks_blocked(0.05)
        async with tcp(bound) as wire:
            refused(await wire.reply(), 503, "too_many_connections")
        async with unix(path) as wire:
            await wire.send(HEALTH)
            assert (await wire.reply()).status == 200
        for stream in held:
            await stream.aclose()
        await trio.testing.wait_all_tasks_blocked(0.05)
        await still_answers(bound)


async def test_many_hostile_connections_at_once(bound: Bound):
    """Sixty upgrades with data behind, all at once: sixty refusals."""
    statuses = []

    async def one() -> None:
        async with tcp(bound) as wire:
            await wire.send(UPGRADE + b"\x81\x85\0\0\0\0hello")
            statuses.append((await wire.reply()).status)

    async with trio.open_nursery() as nursery:
        for _ in range(60):
            nursery.start_soon(one)
    assert statuses == [404] * 60


# -- shutdown ----------------------------------------------------------------------------------------


class Firehose:
    """An ASGI app that answers with far more than any socket buffer holds."""

    def __init__(self) -> None:
        self.sending = trio.Event()

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            for step in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{step}.complete"})
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        self.sending.set()
        while True:
            await send({"type": "http.response.body", "body": b"x" * 1_000_000, "more_body": True})


@pytest.mark.parametrize("family", ["tcp", "unix"])
async def test_a_stalled_reader_cannot_hold_up_shutdown(family: str, tmp_path: Path):
    """A client that stops reading in mid-answer is cut off once the stages of shutdown are over."""
    app, path = Firehose(), tmp_path / "d.sock"
    with trio.fail_after(SOON):
        async with AsyncExitStack() as clients:  # they outlive the server
            async with listen(app, port=0, unix_path=path, limits=Limits(drain=0.1, unwind=0.1)) as where:
                wire = await clients.enter_async_context(tcp(where) if family == "tcp" else unix(path))
                await wire.send(HEALTH)
                await app.sending.wait()
                await trio.testing.wait_all_tasks_blocked(0.05)
            await wire.closed()


async def test_idle_connections_do_not_slow_a_shutdown(services: Services):
    """Kept-alive connections are closed at once, not waited for."""
    with trio.fail_after(SOON):
        async with AsyncExitStack() as clients:
            async with listen(create_app(services), port=0, limits=Limits(drain=60.0)) as where:
                wire = await clients.enter_async_context(tcp(where))
                await wire.send(HEALTH)
                await wire.reply()
            assert await wire.closed() == b""


async def test_a_request_in_flight_is_answered_before_the_end(services: Services, body: FakeBody, bearer):
    """The first stage of a shutdown lets requests finish; their connections then close."""
    body.slow = trio.Event()
    lease = await body.acquire(AcquireRequest(conversation_id="c"), caller=Caller("x", Scope.DRIVER))
    wanted = {"request_id": "r", "epoch": lease.epoch, "inputs": [{"type": "wait", "ms": 0}]}
    async with trio.open_nursery() as nursery:
        where = await nursery.start(partial(serve, create_app(services), port=0))
        async with tcp(where) as wire:
            await wire.send(
                post(
                    "/v1/input",
                    json.dumps(wanted).encode(),
                    bodyd_lease=lease.lease_token,
                    **bearer(Scope.DRIVER),
                )
            )
            await body.waiting.wait()
            nursery.cancel_scope.cancel(reason="the test shuts down")
            with trio.CancelScope(shield=True):
                await trio.testing.wait_all_tasks_blocked(0.05)
                body.slow.set()
                reply = await wire.reply()
                assert reply.status == 200
                assert await wire.closed() == b""
