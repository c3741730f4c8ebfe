"""Adapters, found by name and served: their routes are data, and everything before them is the app's.

Counterpart: contract/adapters.py. An adapter is imported only where it is configured.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import entry_points
from typing import Any, cast

import trio
from quart import Response, request

from bodyd.contract.adapters import (
    Adapter,
    AdapterContext,
    Chunks,
    HttpReply,
    HttpRequest,
    OpenAdapter,
    Route,
)
from bodyd.contract.ports import UpstreamPort
from bodyd.errors import ConfigError

from .listener import CLOSERS
from .routing import Api
from .services import caller

GROUP = "bodyd.adapters"
UPSTREAMS = "bodyd.upstreams"
LEAVE_SECONDS = 1.0

Closers = set[Callable[[], None]]


@asynccontextmanager
async def open_adapters(contexts: Mapping[str, AdapterContext]) -> AsyncIterator[tuple[Adapter, ...]]:
    """The adapters of those names, each open with its context.

    Raises:
        ConfigError: there is none of a name, or one can't be opened.
    """
    async with AsyncExitStack() as stack:
        opened = []
        for name, context in contexts.items():
            open_it: OpenAdapter = _entry(GROUP, name)
            opened.append(await stack.enter_async_context(open_it(context)))
        yield tuple(opened)


def find_upstream(name: str) -> UpstreamPort:
    """The model behind an entry point of `bodyd.upstreams`.

    Raises:
        ConfigError: there is none of that name.
    """
    made: UpstreamPort = _entry(UPSTREAMS, name)()
    return made


def mount(api: Api, adapters: Sequence[Adapter]) -> None:
    """Add every route of *adapters* to the app."""
    for adapter in adapters:
        for route in adapter.routes:
            _add(api, route)


def _add(api: Api, route: Route) -> None:
    path = route.path.replace("{", "<").replace("}", ">")

    async def view(**params: str) -> Response:
        state = cast(dict[str, Any], request.scope.get("state") or {})
        closers: Closers = state.get(CLOSERS, set())
        made = HttpRequest(
            method=route.method,
            path=request.path,
            params=params,
            query={name: tuple(values) for name, values in request.args.to_dict(flat=False).items()},
            headers={name.lower(): value for name, value in request.headers.items()},
            body=cast(bytes, await request.get_data()),
            caller=caller(),
        )
        return _response(await route.handler(made), closers)

    api.add(route.method, path, route.scope)(view)


def _response(reply: HttpReply, closers: Closers) -> Response:
    body = reply.body if reply.stream is None else _Streamed(reply.stream, closers)
    return Response(body, status=reply.status, headers=dict(reply.headers), content_type=reply.content_type)


class _Streamed:
    """*chunks*, ended early when the server shuts down."""

    def __init__(self, chunks: Chunks, closers: Closers) -> None:
        self._chunks = chunks
        self._closers = closers
        self._closing = False
        self._waiting: trio.CancelScope | None = None
        closers.add(self._close)

    def __aiter__(self) -> _Streamed:
        return self

    async def __anext__(self) -> bytes:
        if self._closing:
            raise StopAsyncIteration
        with trio.CancelScope() as self._waiting:
            return await anext(self._chunks)
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self._closers.discard(self._close)
        with trio.move_on_after(LEAVE_SECONDS, shield=True):
            await self._chunks.aclose()

    def _close(self) -> None:
        self._closing = True
        if self._waiting is not None:
            self._waiting.cancel(reason="the server is shutting down")


def _entry(group: str, name: str) -> Any:  # noqa: ANN401 (whatever the entry point names)
    found = entry_points(group=group)
    if name not in found.names:
        known = ", ".join(sorted(found.names)) or "none"
        raise ConfigError(f"no {group} entry point is called {name!r}; installed: {known}")
    return found[name].load()
