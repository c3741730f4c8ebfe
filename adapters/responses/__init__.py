"""The Responses gateway: OpenAI's API with `computer` and `shell`, for this body and any model's server.

Entry point `gateway` of the group `bodyd.adapters`. What it promises is in docs/reference/gateway.md.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import trio

from bodyd.contract.adapters import AdapterContext, Route, SocketRoute

from .gateway import Gateway
from .memory import keep_freed
from .routes import routes
from .upstreams import open_upstream
from .websocket import sockets

__all__ = ["ResponsesAdapter", "open_gateway"]

CLOSE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class ResponsesAdapter:
    """An `Adapter`."""

    gateway: Gateway
    routes: Sequence[Route]
    sockets: Sequence[SocketRoute] = ()


@asynccontextmanager
async def open_gateway(context: AdapterContext) -> AsyncIterator[ResponsesAdapter]:
    """The gateway, ready; left, it cancels what is being made and gives the body back.

    Raises:
        ConfigError: the upstream can't be made.
    """
    keep_freed()
    async with (
        open_upstream(context.settings.upstream, context.upstreams) as upstream,
        trio.open_nursery() as nursery,
    ):
        gateway = Gateway(context, upstream, nursery)
        await gateway.keeper.recover()
        nursery.start_soon(gateway.sweep)
        try:
            yield ResponsesAdapter(gateway, routes(gateway), sockets(gateway))
        finally:
            with trio.move_on_after(CLOSE_SECONDS, shield=True):
                await gateway.runs.close()
                await gateway.claims.close()
            nursery.cancel_scope.cancel(reason="the gateway closes")
