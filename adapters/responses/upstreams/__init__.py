"""The model's server behind UpstreamPort: Responses, Chat Completions, or one found by name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bodyd.contract.gateway import UpstreamSettings
from bodyd.contract.ports import UpstreamPort
from bodyd.errors import ConfigError

DEFAULT_MODEL = "body-1"


@dataclass(frozen=True, slots=True)
class Upstream:
    """A port, the tool types that its server has itself, and what its models are called.

    Attributes:
        splices: The port takes pictures as pictures.Spliced; others get data URLs.
    """

    port: UpstreamPort
    native: frozenset[str] = frozenset()
    fixed: str = ""
    names: Sequence[str] = ()
    splices: bool = False

    def model(self, asked: object) -> str:
        """The model that is asked for upstream."""
        return self.fixed or (str(asked) if asked else (self.names[0] if self.names else DEFAULT_MODEL))


@asynccontextmanager
async def open_upstream(
    settings: UpstreamSettings, find: Callable[[str], UpstreamPort] | None
) -> AsyncIterator[Upstream]:
    """The upstream that *settings* describe.

    Raises:
        ConfigError: it can't be made.
    """
    native = frozenset(settings.native_tools)
    names = settings.models or ((settings.model,) if settings.model else ())
    if settings.kind in ("responses", "chat"):
        from .server import open_server  # the HTTP client is only loaded where there is a server

        async with open_server(settings) as port:
            yield Upstream(port, native, settings.model, names, splices=True)
        return
    if find is None:
        raise ConfigError(f"no upstream of kind {settings.kind!r} can be found here")
    yield Upstream(find(settings.kind), native or frozenset({"computer"}), settings.model, names)
