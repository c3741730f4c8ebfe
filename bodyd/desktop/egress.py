"""The way out: a CONNECT and plain HTTP proxy on a socket that the sandbox handed over.

It accepts inside the sandbox's network namespace and dials outside it, so nothing else leads out. Every
byte that comes in is hostile. The rules are egress_rules.py, the parser egress_http.py; here are the
sockets: bounded heads, bounded connections, deadlines, one name resolution, one address that passed.
What was allowed is carried by egress_relay.py.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import structlog
import trio

from .egress_http import MAX_HEAD, BadRequest, ProxyRequest, parse
from .egress_pages import answer
from .egress_relay import TunnelRefused, carry_request, carry_tunnel
from .egress_rules import Denied, EgressRules, Local, Remote, address_allowed

HEAD_S = 30.0
DIAL_S = 15.0
ATTEMPT_S = 5.0
MAX_CONNECTIONS = 256
MAX_ADDRESSES = 8
ASK_THE_OWNER = "Whoever runs this desktop decides that: egress.allow in its configuration."

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
    """The way out of one sandbox, or of several with the same rules.

    Attributes:
        allowed, denied: Counts by host; `quiet` is how many of the denied were not worth a line.
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
        self.allowed = Tally()
        self.denied = Tally()
        self.quiet = 0
        self._rules = rules
        self._shut = ""
        self._carried: dict[trio.CancelScope, Remote | Local] = {}
        self._resolve = resolve
        self._dial = dial
        self._announce = announce
        self._limit = limit
        self._open = 0

    @property
    def rules(self) -> EgressRules:
        """What holds now; *replace* is the only way to others."""
        return self._rules

    def replace(self, rules: EgressRules) -> None:
        """Judge by *rules* from now on; what is open and would no longer be opened is cut."""
        self._rules = rules
        self._cut(lambda verdict: rules.again(verdict) != verdict)

    def shut(self, reason: str) -> None:
        """Deny everything with *reason*, and cut what is open; "" lets the rules decide again."""
        self._shut = reason
        self._cut(lambda verdict: bool(reason))

    async def serve(self, listener: trio.abc.Listener[trio.SocketStream]) -> None:
        """Serve until cancelled; connections end with it."""
        async with trio.open_nursery() as connections:
            await trio.serve_listeners(self.handle, [listener], handler_nursery=connections)

    async def handle(self, stream: trio.abc.HalfCloseableStream) -> None:
        """Serve one connection and close it. No client can make it raise."""
        self._open += 1
        try:
            if self._open > self._limit:
                await _say(stream, answer(503, "try again when others have ended"))
            else:
                await self._serve_one(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            pass
        except Exception:
            log.exception("egress_connection_failed")
        finally:
            self._open -= 1
            await trio.aclose_forcefully(stream)

    def snapshot(self, *, hosts: bool = True) -> dict[str, object]:
        """Counts for status and metrics; by host only if *hosts*: the names tell what a person does."""
        by_host = {"allowed": self.allowed.snapshot(), "denied": self.denied.snapshot()} if hosts else {}
        return {
            "rules": len(self._rules),
            "shut": self._shut or None,
            "open": self._open,
            "allowed_total": self.allowed.total,
            "denied_total": self.denied.total,
            "denied_quietly": self.quiet,
            **by_host,
        }

    async def _serve_one(self, stream: trio.abc.HalfCloseableStream) -> None:
        with trio.move_on_after(HEAD_S) as scope:
            try:
                head, rest = await _read_head(stream)
                request = parse(head)
            except BadRequest as exc:
                await _say(stream, answer(400, str(exc)))
                return
        if scope.cancelled_caught:
            return
        verdict = self._judge(request)
        if isinstance(verdict, Denied):
            await self._deny(stream, request, verdict)
            return
        with trio.CancelScope() as carried:
            self._carried[carried] = verdict
            try:
                await self._pass_on(stream, request, verdict, rest)
            finally:
                del self._carried[carried]

    async def _pass_on(
        self,
        stream: trio.abc.HalfCloseableStream,
        request: ProxyRequest,
        verdict: Remote | Local,
        rest: bytes,
    ) -> None:
        try:
            with trio.fail_after(DIAL_S):
                upstream = await self._connect(verdict)
        except (OSError, trio.TooSlowError):
            await _say(stream, answer(502, "it does not answer", host=verdict.host))
            return
        if upstream is None:
            await self._deny(stream, request, Denied("it has no public address", verdict.host))
            return
        try:
            if request.tunnel:
                await carry_tunnel(stream, upstream, verdict, rest, vouched=self.allowed.add)
            else:
                self.allowed.add(verdict.host)
                await carry_request(stream, upstream, request, verdict, rest)
        except TunnelRefused as exc:
            self._count(Denied(str(exc), verdict.host))
        finally:
            await trio.aclose_forcefully(upstream)

    def _judge(self, request: ProxyRequest) -> Remote | Local | Denied:
        verdict = self._rules.judge(request.host, request.port or (b"" if request.tunnel else b"80"))
        if self._shut and not isinstance(verdict, Denied):
            return Denied(self._shut, verdict.host)
        return verdict

    async def _deny(self, stream: trio.abc.SendStream, request: ProxyRequest, verdict: Denied) -> None:
        self._count(verdict)
        body = request.method != b"HEAD"
        hint = "" if self._shut else ASK_THE_OWNER
        page = answer(403, verdict.reason, host=verdict.host, hint=hint, body=body)
        await _say(stream, page)

    def _count(self, verdict: Denied) -> None:
        count = self.denied.add(verdict.host or "(malformed)")
        self.quiet += verdict.quiet
        if count == 1 and not verdict.quiet:  # an app that tries for ever gets one line
            self._announce(verdict)

    def _cut(self, ended: Callable[[Remote | Local], bool]) -> None:
        for scope, verdict in self._carried.items():
            if ended(verdict):
                scope.cancel(reason="the rules no longer allow it")

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


async def _say(stream: trio.abc.SendStream, answer: bytes) -> None:
    with trio.move_on_after(HEAD_S):
        await stream.send_all(answer)
