"""Carrying an allowed connection's bytes, and holding a tunnel to the name it was opened for.

What a tunnel's client says first is looked at before any of it is sent: a TLS hello has to ask for the host
that was judged, or an allowed host could be the front for another on the same servers. What the server says
goes through meanwhile, for in some protocols it speaks first.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from .egress_http import ProxyRequest
from .egress_rules import Local, Remote
from .egress_tls import UNRECOGNIZED_NAME, BadHello, is_tls, server_name

IDLE_S = 900.0
HELLO_S = 30.0
TLS_ONLY_PORT = 443
_CHUNK = 64 * 1024

Stream = trio.abc.HalfCloseableStream


class TunnelRefused(Exception):
    """What the client said first is not for the host that the tunnel was opened for."""


async def carry_request(
    client: Stream, upstream: Stream, request: ProxyRequest, verdict: Remote | Local, rest: bytes
) -> None:
    """Send one plain request and carry its answer, until it ends or nothing moved for IDLE_S.

    A client that closes wants no more of it: a server that keeps the connection open all the same would
    hold a place among the bounded connections.
    """
    first = request.upstream_head(verdict.host, verdict.port) + rest[: request.body_length]
    limit = max(0, request.body_length - len(rest))
    with trio.move_on_after(IDLE_S) as idle:
        async with trio.open_nursery() as nursery:

            async def up() -> None:
                await _carry(client, upstream, first, limit, idle)
                await _closed(client)
                nursery.cancel_scope.cancel(reason="the client has closed")

            nursery.start_soon(up)
            await _carry(upstream, client, b"", None, idle)
            nursery.cancel_scope.cancel(reason="the server has answered: a rest of the request is moot")


async def carry_tunnel(
    client: Stream,
    upstream: Stream,
    verdict: Remote | Local,
    rest: bytes,
    *,
    vouched: Callable[[str], object],
) -> None:
    """Carry bytes both ways until both ends are done, or nothing moved for IDLE_S.

    Args:
        vouched: Called with the host once the client may send.
    Raises:
        TunnelRefused: nothing of the client's was sent; it has been told by an alert.
    """
    await client.send_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
    refused: list[TunnelRefused] = []

    async def up() -> None:
        try:
            first = await _vouched(client, verdict, rest)
        except TunnelRefused as exc:
            refused.append(exc)
            idle.cancel(reason="the tunnel is refused")
            return
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            idle.cancel(reason="one end of the connection broke")
            return
        vouched(verdict.host)
        await _carry(client, upstream, first, None, idle)

    with trio.move_on_after(IDLE_S) as idle:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(up)
            await _carry(upstream, client, b"", None, idle)
    if refused:
        with trio.move_on_after(HELLO_S):
            await client.send_all(UNRECOGNIZED_NAME)
        raise refused[0]


async def _vouched(client: Stream, verdict: Remote | Local, data: bytes) -> bytes:
    """What the client says first, once it is known to be for *verdict*; b"" if it says nothing at all.

    Raises:
        TunnelRefused: another name, none, no TLS where there has to be, or no end within bounds.
    """
    if not data:
        data = bytes(await client.receive_some(_CHUNK))
    if not data:
        return b""
    if not is_tls(data):
        if verdict.port == TLS_ONLY_PORT and isinstance(verdict, Remote):
            raise TunnelRefused("not TLS, on the port of TLS")
        return data
    with trio.move_on_after(HELLO_S):
        while isinstance(name := _asked_for(data), int):
            data += await _at_least(client, name - len(data))
        if not name:
            raise TunnelRefused("a TLS hello without a server name")
        if name.lower() != verdict.host.encode("ascii"):
            raise TunnelRefused("a TLS hello for another server")
        return data
    raise TunnelRefused("a TLS hello that did not come in time")


async def _at_least(client: Stream, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        piece = await client.receive_some(_CHUNK)
        if not piece:
            raise TunnelRefused("the end before the end of a TLS hello")
        data += piece
    return bytes(data)


def _asked_for(data: bytes) -> bytes | int:
    try:
        return server_name(data)
    except BadHello as exc:
        raise TunnelRefused(str(exc)) from None


async def _closed(client: Stream) -> None:
    """Wait until *client* closes; a second request on its connection is not for us to pass on."""
    try:
        while await client.receive_some(_CHUNK):
            pass
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        return


async def _carry(
    source: trio.abc.ReceiveStream, sink: Stream, first: bytes, limit: int | None, idle: trio.CancelScope
) -> None:
    """Send *first*, then at most *limit* bytes (None: all) of *source*, then end that direction.

    After a limited body the direction stays open: some servers drop an answer to a closed request.
    """
    try:
        if first:
            await sink.send_all(first)
        while limit is None or limit > 0:
            piece = await source.receive_some(_CHUNK if limit is None else min(_CHUNK, limit))
            if not piece:
                break
            idle.deadline = trio.current_time() + IDLE_S
            limit = None if limit is None else limit - len(piece)
            await sink.send_all(piece)
        if limit is None:
            await sink.send_eof()
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        idle.cancel(reason="one end of the connection broke")
