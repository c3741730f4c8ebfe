"""The gateway alone: adapters over the body of another daemon, on an address and a store of their own."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import trio

from bodyd.client import BodyClient
from bodyd.clock import Clock
from bodyd.config import Config
from bodyd.contract.adapters import AdapterContext
from bodyd.errors import ConfigError
from bodyd.journal.directory import claimed
from bodyd.journal.documents import open_documents

from .adapters import find_upstream, open_adapters
from .app import create_app
from .asgi import App
from .listener import Bound, listen
from .remote import RemoteBody, RemoteShell
from .services import Services
from .tokens import Tokens
from .upgrades import Upgrades


def run(config: Config, *, body: str, token_file: Path, report: Callable[[str], None]) -> int:
    """`bodyd gateway`: serve until SIGINT or SIGTERM.

    Args:
        body: The URL of the body's daemon, or the path of its unix socket.
        token_file: Has a driver's token of that daemon.
    """
    try:
        token = token_file.read_text().strip()
    except OSError as exc:
        raise ConfigError(f"{token_file}: {exc.strerror}") from exc
    url = body if body.startswith(("http://", "https://")) else None

    async def main() -> None:
        async with (
            BodyClient(token=token, url=url, socket_path=None if url else Path(body)) as client,
            serve_gateway(config, client) as (bound, _),
        ):
            report(f"serving on http://{config.http.host}:{bound.port}/v1 and {bound.unix_path}")
            report(f"its tokens are in {config.state / 'gateway'}; Ctrl-C ends it")
            with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                async for _number in signals:
                    break

    try:
        trio.run(main)
    except BaseExceptionGroup as group:
        raise _only(group) from None
    return 0


def _only(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one error of a group, bare; a group of several stays as it is."""
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup) and len(found.exceptions) == 1:
        found = found.exceptions[0]
    return found


@asynccontextmanager
async def serve_gateway(config: Config, client: BodyClient) -> AsyncIterator[tuple[Bound, Tokens]]:
    """Serve the gateway over the body that *client* reaches.

    Raises:
        ConfigError: no upstream is configured, or a socket can't be had.
        JournalUnavailable: the store can't be used, or another gateway has it.
    """
    if config.gateway.upstream.kind == "none":
        raise ConfigError("a gateway needs a model's server: set gateway.upstream.kind and url")
    clock, body = Clock(), RemoteBody(client)
    private = config.state / "gateway"
    config.run.mkdir(mode=0o711, parents=True, exist_ok=True)
    with claimed(private):
        async with open_documents(private, now_ms=clock.wall_ms) as store:
            context = AdapterContext(
                body=body,
                store=store,
                settings=config.gateway,
                now_ms=clock.wall_ms,
                process=RemoteShell(client),
                upstreams=find_upstream,
            )
            async with open_adapters({"gateway": context}) as adapters:
                tokens = Tokens.load_or_create(private)
                services = Services(body=body, tokens=tokens, config=config, clock=clock, adapters=adapters)
                async with listen(
                    cast(App, create_app(services)),
                    upgrade=Upgrades(services),
                    host=config.http.host,
                    port=config.http.port,
                    unix_path=config.run / "gateway.sock",
                ) as bound:
                    yield bound, tokens
