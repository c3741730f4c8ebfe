"""The proxy over memory streams and over real sockets: what it passes, refuses, counts and bounds."""

from __future__ import annotations

import socket

import pytest
import trio
import trio.testing

from bodyd.desktop import egress
from bodyd.desktop.egress import EgressProxy, Tally
from bodyd.desktop.egress_rules import EgressRules

RULES = EgressRules.parse(allow=("example.org", "rebound.test"), quiet=("quiet.test",))


class World:
    """A resolver and a dialler that record, in place of the internet."""

    def __init__(self):
        self.names = {"example.org": ["93.184.215.14"], "rebound.test": ["127.0.0.1", "10.0.0.1"]}
        self.dialled = []
        self.servers = []
        self.announced = []
        self.proxy = EgressProxy(
            RULES,
            resolve=self.resolve,
            dial=self.dial,
            announce=lambda v: self.announced.append(v.host),
            limit=4,
        )

    async def resolve(self, host, port):
        await trio.lowlevel.checkpoint()
        return self.names[host]

    async def dial(self, address, port):
        await trio.lowlevel.checkpoint()
        self.dialled.append((address, port))
        ours, theirs = trio.testing.memory_stream_pair()
        self.servers.append(theirs)
        return ours

    async def open(self, nursery):
        client, server = trio.testing.memory_stream_pair()
        nursery.start_soon(self.proxy.handle, server)
        return client


async def read_all(stream):
    data = b""
    while piece := await stream.receive_some(65536):
        data += piece
    return data


async def until_dialled(world, count=1):
    while len(world.servers) < count:
        await trio.testing.wait_all_tasks_blocked()
    return world.servers[count - 1]


async def test_a_tunnel_carries_both_ways_and_half_closes(nursery):
    """Bytes sent before the answer, bytes after it, and each end of file arrive."""
    world = World()
    client = await world.open(nursery)
    await client.send_all(b"CONNECT example.org:443 HTTP/1.1\r\nHost: x\r\n\r\nearly")
    server = await until_dialled(world)
    assert (await client.receive_some(100)).startswith(b"HTTP/1.1 200")
    await client.send_all(b" late")
    await client.send_eof()
    assert await read_all(server) == b"early late"
    await server.send_all(b"answer")
    await server.send_eof()
    assert await read_all(client) == b"answer"
    assert world.dialled == [("93.184.215.14", 443)]
    assert world.proxy.snapshot()["allowed"] == {"example.org": 1}


async def test_plain_http_is_one_request_with_our_host(nursery):
    """The body is passed to its stated length and not a byte more: no second request rides along."""
    world = World()
    client = await world.open(nursery)
    await client.send_all(
        b"POST http://example.org/a HTTP/1.1\r\nHost: other.test\r\nContent-Length: 4\r\n\r\nbo"
        b"dyGET /secret HTTP/1.1\r\nHost: inner\r\n\r\n"
    )
    server = await until_dialled(world)
    await trio.testing.wait_all_tasks_blocked()
    received = await server.receive_some(65536)
    assert received == (
        b"POST /a HTTP/1.1\r\nHost: example.org\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody"
    )
    await server.send_all(b"HTTP/1.1 200 OK\r\n\r\nhello")
    await server.aclose()
    assert await read_all(client) == b"HTTP/1.1 200 OK\r\n\r\nhello"


@pytest.mark.parametrize(
    "head",
    [
        b"CONNECT other.test:443 HTTP/1.1",
        b"CONNECT example.org:22 HTTP/1.1",
        b"CONNECT 93.184.215.14:443 HTTP/1.1",
        b"CONNECT example.org HTTP/1.1",
        b"GET http://other.test/ HTTP/1.1",
        b"GET http://169.254.169.254/latest HTTP/1.1",
        b"GET http://example.org@127.0.0.1/ HTTP/1.1",
        b"CONNECT rebound.test:443 HTTP/1.1",
        b"GET http://rebound.test/ HTTP/1.1",
    ],
)
async def test_denials_are_403_and_dial_nothing(nursery, head):
    """Names off the list, addresses, and names that resolve to private addresses get no connection."""
    world = World()
    client = await world.open(nursery)
    await client.send_all(head + b"\r\n\r\n")
    answer = await read_all(client)
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"Set-Cookie" not in answer
    assert b"Connection: close" in answer
    assert world.dialled == []
    assert world.proxy.denied.total == 1


async def test_only_addresses_that_pass_are_dialled(nursery):
    """Among the addresses of one name the special ones are left out."""
    world = World()
    world.names["example.org"] = ["127.0.0.1", "64:ff9b::7f00:1", "93.184.215.14"]
    client = await world.open(nursery)
    await client.send_all(b"CONNECT example.org:443 HTTP/1.1\r\n\r\n")
    await until_dialled(world)
    assert world.dialled == [("93.184.215.14", 443)]
    await client.aclose()


async def test_the_name_is_resolved_once(nursery):
    """A name that answers differently the second time (rebinding) is asked only once."""
    world = World()
    asked = []

    async def resolve(host, port):
        await trio.lowlevel.checkpoint()
        asked.append(host)
        return ["93.184.215.14"] if len(asked) == 1 else ["127.0.0.1"]

    world.proxy._resolve = resolve
    client = await world.open(nursery)
    await client.send_all(b"CONNECT example.org:443 HTTP/1.1\r\n\r\n")
    await until_dialled(world)
    assert asked == ["example.org"]
    assert world.dialled == [("93.184.215.14", 443)]
    await client.aclose()


async def test_new_rules_take_effect_at_once(nursery):
    """Rules are replaceable; an empty list means none."""
    world = World()
    world.proxy.rules = EgressRules()
    client = await world.open(nursery)
    await client.send_all(b"CONNECT example.org:443 HTTP/1.1\r\n\r\n")
    assert (await read_all(client)).startswith(b"HTTP/1.1 403")


async def test_a_host_is_announced_once_and_quiet_ones_never(nursery):
    """An app that keeps trying fills no log; every denial is counted all the same."""
    world = World()
    for host in (b"a.test", b"a.test", b"quiet.test", b"b.test"):
        client = await world.open(nursery)
        await client.send_all(b"CONNECT " + host + b":443 HTTP/1.1\r\n\r\n")
        await read_all(client)
    assert world.announced == ["a.test", "b.test"]
    assert world.proxy.snapshot()["denied"] == {"a.test": 2, "quiet.test": 1, "b.test": 1}


async def test_malformed_and_oversized_heads_are_400(nursery):
    """A head that is no request, or has no end within 16 KiB, is answered and closed."""
    for data in (b"hello\r\n\r\n", b"GET http://example.org/ HTTP/1.1\r\nA: " + b"x" * 40000):
        client = await World().open(nursery)
        await client.send_all(data)
        assert (await read_all(client)).startswith(b"HTTP/1.1 400")


async def test_a_silent_client_is_dropped(nursery, autojump_clock):
    """Thirty seconds without a whole head end the connection."""
    client = await World().open(nursery)
    await client.send_all(b"CONNECT exam")
    assert await read_all(client) == b""
    assert trio.current_time() >= egress.HEAD_S


async def test_a_dead_tunnel_is_dropped(nursery, autojump_clock):
    """A tunnel in which nothing moves ends; one that moves does not."""
    world = World()
    client = await world.open(nursery)
    await client.send_all(b"CONNECT example.org:443 HTTP/1.1\r\n\r\n")
    server = await until_dialled(world)
    await client.receive_some(100)
    for _ in range(3):
        await trio.sleep(egress.IDLE_S * 0.9)
        await server.send_all(b".")
        assert await client.receive_some(10) == b"."
    assert await client.receive_some(10) == b""


async def test_an_unreachable_server_is_502(nursery, autojump_clock):
    """A dial that fails or hangs is answered within the deadline."""
    world = World()

    async def hang(address, port):
        await trio.sleep_forever()

    world.proxy._dial = hang
    client = await world.open(nursery)
    await client.send_all(b"CONNECT example.org:443 HTTP/1.1\r\n\r\n")
    assert (await read_all(client)).startswith(b"HTTP/1.1 502")
    assert trio.current_time() <= egress.DIAL_S + 1


async def test_connections_are_bounded(nursery):
    """Over the limit a client is told so; when one leaves there is room again."""
    world = World()
    held = [await world.open(nursery) for _ in range(4)]
    await trio.testing.wait_all_tasks_blocked()
    assert (await read_all(await world.open(nursery))).startswith(b"HTTP/1.1 503")
    await held[0].aclose()
    await trio.testing.wait_all_tasks_blocked()
    client = await world.open(nursery)
    await client.send_all(b"CONNECT other.test:443 HTTP/1.1\r\n\r\n")
    assert (await read_all(client)).startswith(b"HTTP/1.1 403")
    for client in held[1:]:
        await client.aclose()


async def test_a_local_mapping_reaches_its_socket_over_real_sockets(nursery, place):
    """The mapped name reaches the unix socket of the host, with its own Host header; no other port does."""
    path = str(place / "site.sock")
    site = trio.socket.socket(socket.AF_UNIX)
    await site.bind(path)
    site.listen(1)
    seen = []

    async def serve_site(stream):
        seen.append(await stream.receive_some(4096))
        await stream.send_all(b"HTTP/1.1 200 OK\r\n\r\nlocal")
        await stream.aclose()

    proxy = EgressProxy(EgressRules.parse(local={"site.bodyd.test:80": path}), announce=lambda v: None)
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(trio.serve_listeners, serve_site, [trio.SocketListener(site)])
    nursery.start_soon(proxy.serve, listener)
    port = listener.socket.getsockname()[1]
    client = await trio.open_tcp_stream("127.0.0.1", port)
    await client.send_all(b"GET http://site.bodyd.test/x HTTP/1.1\r\nHost: a\r\n\r\n")
    assert await read_all(client) == b"HTTP/1.1 200 OK\r\n\r\nlocal"
    await client.aclose()
    assert seen == [b"GET /x HTTP/1.1\r\nHost: site.bodyd.test\r\nConnection: close\r\n\r\n"]
    client = await trio.open_tcp_stream("127.0.0.1", port)
    await client.send_all(b"GET http://site.bodyd.test:8080/x HTTP/1.1\r\n\r\n")
    assert (await read_all(client)).startswith(b"HTTP/1.1 403")
    await client.aclose()
    nursery.cancel_scope.cancel()


def test_the_tally_is_bounded():
    """Hosts beyond the limit are counted together: hostile names take no memory."""
    tally = Tally(limit=3)
    for index in range(10):
        tally.add(f"h{index}.test")
    assert tally.total == 10
    assert sum(tally.snapshot().values()) == 10
    assert len(tally.snapshot()) == 4
