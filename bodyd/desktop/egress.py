"""The way out: a CONNECT and plain HTTP proxy on a socket that the sandbox handed over.

It accepts inside the sandbox's network namespace and dials outside it, so nothing else leads out. Every
byte that comes in is hostile. The rules are egress_rules.py, the parser egress_http.py; here are the
sockets: bounded heads, bounded connections, deadlines, one name resolution, one address that passed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import structlog
import trio

from .egress_http import MAX_HEAD, BadRequest, ProxyRequest, parse
from .egress_rules import Denied, EgressRules, Local, Remote, address_allowed

HEAD_S = 30.0
DIAL_S = 15.0
ATTEMPT_S = 5.0
IDLE_S = 900.0
MAX_CONNECTIONS = 256
MAX_ADDRESSES = 8
_CHUNK = 64 * 1024

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
Dialler = Callable[[str, int], Awaitable[trio.abc.HalfCloseableStream]]

log = structlog.get_logger("bodyd.egress")


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of *host*, as the host's resolver orders them.

    Raises:
        OSError: there are none.
    """
    found = await trio.socket.getaddrinfo(host, port, type=trio.socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))


async def dial(address: str, port: int) -> trio.SocketStream:
    """A TCP connection to a numeric address."""
    return await trio.open_tcp_stream(address, port)


def announce(verdict: Denied) -> None:
    """One line in the log; called once for each host."""
    log.info("egress_denied", host=verdict.host, reason=verdict.reason)


class Tally:
    """Counts by host, bounded: the least recently counted host falls into "(others)"."""

    def __init__(self, limit: int = 256) -> None:
        self._limit = limit
        self._counts: OrderedDict[str, int] = OrderedDict()
        self._others = 0
        self.total = 0

    def add(self, host: str) -> int:
        """Count one; returns how many of *host* are remembered."""
        self.total += 1
        count = self._counts.pop(host, 0) + 1
        self._counts[host] = count
        if len(self._counts) > self._limit:
            self._others += self._counts.popitem(last=False)[1]
        return count

    def snapshot(self) -> dict[str, int]:
        return {**self._counts, **({"(others)": self._others} if self._others else {})}


class EgressProxy:
    """One body's way out.

    Attributes:
        rules: Replaceable at run time; a connection is judged once, by the rules of that moment.
        allowed, denied: Counts by host.
    """

    def __init__(
        self,
        rules: EgressRules,
        *,
        resolve: Resolver = resolve,
        dial: Dialler = dial,
        announce: Callable[[Denied], None] = announce,
        limit: int = MAX_CONNECTIONS,
    ) -> None:
        self.rules = rules
        self.allowed = Tally()
        self.denied = Tally()
        self._resolve = resolve
        self._dial = dial
        self._announce = announce
        self._limit = limit
        self._open = 0

    async def serve(self, listener: trio.abc.Listener[trio.SocketStream]) -> None:
        """Serve until cancelled; connections end with it."""
        async with trio.open_nursery() as connections:
            await trio.serve_listeners(self.handle, [listener], handler_nursery=connections)

    async def handle(self, stream: trio.abc.HalfCloseableStream) -> None:
        """Serve one connection and close it. No client can make it raise."""
        self._open += 1
        try:
            if self._open > self._limit:
                await _answer(stream, 503, "too many connections")
            else:
                await self._serve_one(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            pass
        except Exception:
            log.exception("egress_connection_failed")
        finally:
            self._open -= 1
            await trio.aclose_forcefully(stream)

    def snapshot(self) -> dict[str, object]:
        """Counts for status and metrics."""
        return {
            "open": self._open,
            "allowed": self.allowed.snapshot(),
            "denied": self.denied.snapshot(),
            "denied_total": self.denied.total,
        }

    async def _serve_one(self, stream: trio.abc.HalfCloseableStream) -> None:
        with trio.move_on_after(HEAD_S) as scope:
            try:
                head, rest = await _read_head(stream)
                request = parse(head)
            except BadRequest as exc:
                await _answer(stream, 400, str(exc))
                return
        if scope.cancelled_caught:
            return
        verdict = self.rules.judge(request.host, request.port or (b"" if request.tunnel else b"80"))
        if isinstance(verdict, Denied):
            await self._deny(stream, verdict)
            return
        try:
            with trio.fail_after(DIAL_S):
                upstream = await self._connect(verdict)
        except (OSError, trio.TooSlowError):
            await _answer(stream, 502, f"{verdict.host} can't be reached")
            return
        if upstream is None:
            await self._deny(stream, Denied("no public address", verdict.host))
            return
        self.allowed.add(verdict.host)
        try:
            await _relay(stream, upstream, request, verdict, rest)
        finally:
            await trio.aclose_forcefully(upstream)

    async def _deny(self, stream: trio.abc.SendStream, verdict: Denied) -> None:
        count = self.denied.add(verdict.host or "(malformed)")
        if count == 1 and not verdict.quiet:  # an app that tries for ever gets one line
            self._announce(verdict)
        await _answer(stream, 403, f"{verdict.host or 'this address'}: {verdict.reason}")

    async def _connect(self, verdict: Remote | Local) -> trio.abc.HalfCloseableStream | None:
        """A connection to where *verdict* leads; None if no address of the name may be dialled.

        Raises:
            OSError: none answered.
        """
        if isinstance(verdict, Local):
            return await trio.open_unix_socket(verdict.path)
        addresses = await self._resolve(verdict.host, verdict.port)
        passed = [a for a in addresses[:MAX_ADDRESSES] if address_allowed(a)]
        if not passed:
            return None
        for address in passed:
            with suppress(OSError, trio.TooSlowError), trio.fail_after(ATTEMPT_S):
                return await self._dial(address, verdict.port)
        raise OSError(f"no address of {verdict.host} answered")


async def _read_head(stream: trio.abc.ReceiveStream) -> tuple[bytes, bytes]:
    """The head without its closing empty line, and what came behind it."""
    data = bytearray()
    while (end := data.find(b"\r\n\r\n")) < 0:
        if len(data) > MAX_HEAD:
            raise BadRequest("a head over 16 KiB")
        piece = await stream.receive_some(4096)
        if not piece:
            raise BadRequest("no request")
        data += piece
    return bytes(data[:end]), bytes(data[end + 4 :])


async def _relay(
    client: trio.abc.HalfCloseableStream,
    upstream: trio.abc.HalfCloseableStream,
    request: ProxyRequest,
    verdict: Remote | Local,
    rest: bytes,
) -> None:
    """Carry bytes both ways until both ends are done, or nothing moved for IDLE_S."""
    if request.tunnel:
        await client.send_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
        first, limit = rest, None
    else:
        first = request.upstream_head(verdict.host, verdict.port) + rest[: request.body_length]
        limit = max(0, request.body_length - len(rest))
    with trio.move_on_after(IDLE_S) as idle:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_carry, client, upstream, first, limit, idle)
            await _carry(upstream, client, b"", None, idle)
            if not request.tunnel:  # the answer is complete: a request still being sent is moot
                nursery.cancel_scope.cancel(reason="the server has answered")


async def _carry(
    source: trio.abc.ReceiveStream,
    sink: trio.abc.HalfCloseableStream,
    first: bytes,
    limit: int | None,
    idle: trio.CancelScope,
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


async def _answer(stream: trio.abc.SendStream, status: int, text: str) -> None:
    """A refusal that no page can use: plain text, uncached, without cookies, and the connection ends."""
    names = {400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway", 503: "Service Unavailable"}
    body = f"bodyd: {text}\n".encode()
    head = (
        f"HTTP/1.1 {status} {names[status]}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\nCache-Control: no-store\r\n"
        "X-Content-Type-Options: nosniff\r\nContent-Security-Policy: sandbox; default-src 'none'\r\n\r\n"
    )
    with trio.move_on_after(HEAD_S):
        await stream.send_all(head.encode() + body)
