"""What an adapter offers the server, and what it is given: routes as data, and ports.

An adapter is an entry point of the group `bodyd.adapters`: `open(context)` is an async context manager
whose value is an `Adapter`; what it runs in the background lives as long as that context. The server
checks token, scope, Host and Origin, and turns errors of bodyd.errors into answers; an adapter sees
neither sockets nor frameworks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from .lease import Scope
from .ports import ApprovalPort, BodyPort, Caller, ProcessPort, StorePort, UpstreamPort


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request, admitted. `headers` have lower-case names; `body` is whole."""

    method: str
    path: str
    params: Mapping[str, str]
    query: Mapping[str, tuple[str, ...]]
    headers: Mapping[str, str]
    body: bytes
    caller: Caller

    def one(self, name: str) -> str | None:
        """The last value of a query parameter."""
        values = self.query.get(name)
        return values[-1] if values else None


class Chunks(Protocol):
    """A streamed body: an iterator and not a generator, so that whoever drops it still closes it."""

    def __aiter__(self) -> Chunks: ...

    async def __anext__(self) -> bytes:
        """The next chunk.

        Cancellation:
            What it would have returned may be lost; only `aclose` is called afterwards.
        """
        ...

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True)
class HttpReply:
    """What is answered: `body`, or the chunks of `stream`, which is closed when the client leaves."""

    body: bytes = b""
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    stream: Chunks | None = None


class SocketClosed(Exception):
    """The client of a WebSocket left."""


class Socket(Protocol):
    """One WebSocket connection, open."""

    async def receive(self) -> str | bytes:
        """The next message.

        Raises:
            SocketClosed: the client left.
        """
        ...

    async def send(self, message: str | bytes) -> None:
        """Send one message, text or binary.

        Raises:
            SocketClosed: the client left.
        """
        ...


Handler = Callable[[HttpRequest], Awaitable[HttpReply]]
"""Cancellation: it is cancelled when the client leaves."""

SocketHandler = Callable[[HttpRequest, Socket], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Route:
    """`path` has its parameters in braces: /v1/responses/{response_id}."""

    method: str
    path: str
    scope: Scope
    handler: Handler


@dataclass(frozen=True, slots=True)
class SocketRoute:
    """A path that may be upgraded to a WebSocket."""

    path: str
    scope: Scope
    handler: SocketHandler


class Adapter(Protocol):
    """What an opened adapter serves."""

    @property
    def routes(self) -> Sequence[Route]: ...

    @property
    def sockets(self) -> Sequence[SocketRoute]: ...


@dataclass(frozen=True, slots=True)
class AdapterContext:
    """What an adapter is given.

    Attributes:
        settings: Its section of the configuration, a model of bodyd.contract.
        process: None where no shell is configured.
        approvals: None where nobody answers approvals: they count as refused.
        upstreams: Finds a model by its name among the entry points `bodyd.upstreams`.
        now_ms: The time of day, in Unix milliseconds.
    """

    body: BodyPort
    store: StorePort
    settings: Any
    now_ms: Callable[[], int]
    process: ProcessPort | None = None
    approvals: ApprovalPort | None = None
    upstreams: Callable[[str], UpstreamPort] | None = None


OpenAdapter = Callable[[AdapterContext], AbstractAsyncContextManager[Adapter]]
