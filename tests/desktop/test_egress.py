"""The proxy over memory streams and over real sockets: what it passes, refuses, counts and bounds."""

from __future__ import annotations

import socket

import pytest
import trio
import trio.testing

from bodyd.desktop import egress, egress_pages, egress_relay
from bodyd.desktop.egress import EgressProxy, Tally
from bodyd.desktop.egress_rules import EgressRules
from bodyd.desktop.egress_tls import UNRECOGNIZED_NAME

from . import hello

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
    await client.send_all(b"CONNECT example.org:80 HTTP/1.1\r\nHost: x\r\n\r\nearly")
    server = await until_dialled(world)
    assert (await client.receive_some(100)).startswith(b"HTTP/1.1 200")
    await client.send_all(b" late")
    await client.send_eof()
    assert await read_all(server) == b"early late"
    await server.send_all(b"answer")
    await server.send_eof()
    assert await read_all(client) == b"answer"
    assert world.dialled == [("93.184.215.14", 80)]
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
    world.proxy.replace(EgressRules())
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
        await trio.sleep(egress_relay.IDLE_S * 0.9)
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


async def tunnel(nursery, world, port=443):
    client = await world.open(nursery)
    await client.send_all(b"CONNECT example.org:%d HTTP/1.1\r\n\r\n" % port)
    server = await until_dialled(world)
    assert (await client.receive_some(100)).startswith(b"HTTP/1.1 200")
    return client, server


@pytest.mark.parametrize("size", [1, 7, 5000])
async def test_a_hello_for_the_host_passes_whole(nursery, size):
    """In segments of any size, and only once all of it is there; then the tunnel carries on."""
    world = World()
    client, server = await tunnel(nursery, world)
    sent = hello.real("Example.org")
    for at in range(0, len(sent) - 1, size):
        await client.send_all(sent[at : at + size][: len(sent) - 1 - at])
    await trio.testing.wait_all_tasks_blocked()
    assert world.proxy.snapshot()["allowed_total"] == 0
    await client.send_all(sent[-1:] + b"more")
    received = b""
    while len(received) < len(sent) + 4:
        received += await server.receive_some(65536)
    assert received == sent + b"more"
    assert world.proxy.snapshot()["allowed"] == {"example.org": 1}
    await client.aclose()


@pytest.mark.parametrize(
    "first",
    [
        hello.real("other.test"),
        hello.real("example.org.evil.test"),
        hello.in_records(hello.real("other.test"), 30),
        hello.real(None),
        hello.made(hello.names(b"example.org", b"other.test")),
        hello.made(hello.names(b"example.org.")),
        b"GET / HTTP/1.1\r\nHost: other.test\r\n\r\n",
    ],
)
async def test_a_hello_for_another_server_ends_the_tunnel(nursery, first):
    """Another name, none, two, or no TLS at all on port 443: nothing of it is sent, and it is counted."""
    world = World()
    client, server = await tunnel(nursery, world)
    await client.send_all(first)
    assert await read_all(client) == UNRECOGNIZED_NAME
    assert await read_all(server) == b""
    assert world.proxy.snapshot()["denied"] == {"example.org": 1}
    assert world.proxy.snapshot()["allowed_total"] == 0
    assert world.announced == ["example.org"]


async def test_a_hello_that_stalls_ends_the_tunnel(nursery, autojump_clock):
    """Half a hello is waited for, but not for ever."""
    world = World()
    client, _ = await tunnel(nursery, world)
    await client.send_all(hello.real("example.org")[:50])
    assert await read_all(client) == UNRECOGNIZED_NAME
    assert trio.current_time() == pytest.approx(egress_relay.HELLO_S, abs=1)


async def test_other_ports_carry_other_protocols(nursery):
    """Beside 443 a server may speak first and the client not TLS; a hello there is held to the host, too."""
    world = World()
    client, server = await tunnel(nursery, world, port=80)
    await server.send_all(b"220 ready")
    assert await client.receive_some(100) == b"220 ready"
    await client.send_all(b"HELO")
    assert await server.receive_some(100) == b"HELO"
    await client.aclose()
    client = await world.open(nursery)
    await client.send_all(b"CONNECT example.org:80 HTTP/1.1\r\n\r\n" + hello.real("other.test"))
    answered = await read_all(client)
    assert answered.endswith(UNRECOGNIZED_NAME)


async def test_a_refusal_is_a_page_that_can_do_nothing(nursery):
    """HTML that says what and why, escaped, for CONNECT and plain HTTP; no script, no cookie, no cache."""
    for head in (b"CONNECT other.test:443 HTTP/1.1", b"GET http://other.test/ HTTP/1.1"):
        client = await World().open(nursery)
        await client.send_all(head + b"\r\n\r\n")
        top, page = (await read_all(client)).split(b"\r\n\r\n", 1)
        assert b"Content-Type: text/html" in top
        assert b"sandbox; default-src 'none'" in top
        assert b"no-store" in top
        assert b"Cross-Origin-Resource-Policy: same-origin" in top
        assert b"Content-Length: %d" % len(page) in top
        assert b"<b>other.test</b>: not on the list" in page
        assert b"egress.allow" in page
    client = await World().open(nursery)
    await client.send_all(b"HEAD http://other.test/ HTTP/1.1\r\n\r\n")
    assert (await read_all(client)).endswith(b"\r\n\r\n")
    assert b"&lt;script&gt;" in egress_pages.answer(403, "<script>", host="<script>", hint="<script>")


@pytest.mark.parametrize("rules", [EgressRules(), EgressRules.parse(allow=("rebound.test",))])
async def test_rules_that_no_longer_allow_it_cut_what_is_open(nursery, rules):
    """A replaced list holds for connections that are open, too; those it still allows go on."""
    world = World()
    client, _ = await tunnel(nursery, world, port=80)
    world.proxy.replace(RULES)
    await client.send_all(b"still")
    assert await world.servers[0].receive_some(10) == b"still"
    world.proxy.replace(rules)
    assert await read_all(client) == b""
    assert world.proxy.snapshot()["open"] == 0


async def test_a_shut_proxy_lets_nothing_pass_until_it_is_opened(nursery):
    """With a reason that the page says; what was open is cut."""
    world = World()
    client, _ = await tunnel(nursery, world, port=80)
    world.proxy.shut("the home folder is full")
    assert await read_all(client) == b""
    client = await world.open(nursery)
    await client.send_all(b"GET http://example.org/ HTTP/1.1\r\n\r\n")
    page = await read_all(client)
    assert page.startswith(b"HTTP/1.1 403")
    assert b"the home folder is full" in page
    assert b"egress.allow" not in page
    assert world.proxy.snapshot()["shut"] == "the home folder is full"
    world.proxy.shut("")
    client = await world.open(nursery)
    await client.send_all(b"GET http://example.org/ HTTP/1.1\r\n\r\n")
    await until_dialled(world, 2)
    await client.aclose()


async def test_addresses_of_version_6_are_judged_like_all(nursery):
    """Literals are refused in every form; of a name's addresses the public ones are dialled."""
    forms = b"[2606:4700::1111]:443 [::1]:443 [::ffff:127.0.0.1]:443 [fe80::1%25eth0]:443 2606:4700::1111:443"
    for form in forms.split():
        world = World()
        client = await world.open(nursery)
        await client.send_all(b"CONNECT " + form + b" HTTP/1.1\r\n\r\n")
        assert (await read_all(client)).startswith(b"HTTP/1.1 403")
        client = await world.open(nursery)
        await client.send_all(b"GET http://" + form + b"/ HTTP/1.1\r\n\r\n")
        assert (await read_all(client)).startswith(b"HTTP/1.1 403")
        assert world.dialled == []
    world = World()
    world.names["example.org"] = ["fd00::1", "::ffff:10.0.0.1", "2606:4700::1111"]
    await tunnel(nursery, world)
    assert world.dialled == [("2606:4700::1111", 443)]
    nursery.cancel_scope.cancel()


async def test_counts_can_be_had_without_names(nursery):
    """What a person visits is the owner's to know; how much is denied, everyone's."""
    world = World()
    client = await world.open(nursery)
    await client.send_all(b"CONNECT quiet.test:443 HTTP/1.1\r\n\r\n")
    await read_all(client)
    seen = world.proxy.snapshot(hosts=False)
    assert (seen["denied_total"], seen["denied_quietly"]) == (1, 1)
    assert "quiet.test" not in str(seen)


async def test_a_client_that_closes_frees_its_place(nursery):
    """Though the server keeps the connection open: browsers close when the answer is whole."""
    world = World()
    client = await world.open(nursery)
    await client.send_all(b"POST http://example.org/ HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi")
    server = await until_dialled(world)
    await server.send_all(b"HTTP/1.1 204 No Content\r\n\r\n")
    assert (await client.receive_some(100)).startswith(b"HTTP/1.1 204")
    assert world.proxy.snapshot()["open"] == 1
    await client.aclose()
    await trio.testing.wait_all_tasks_blocked()
    assert world.proxy.snapshot()["open"] == 0
