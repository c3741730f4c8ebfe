"""The settings of the Responses gateway, `[gateway]` of the configuration.

Documented in docs/reference/configuration.md; what they mean together is in docs/reference/gateway.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from .lease import MAX_WAIT_MS

Count = Annotated[int, Field(ge=0)]
Ms = Annotated[int, Field(ge=0)]


class UpstreamSettings(BaseModel):
    """The model's server. `kind` "none" leaves the gateway out."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    kind: Literal["none", "responses", "chat", "scripted"] = "none"
    url: str = ""
    key_env: str = ""
    key_file: Path | None = None
    model: str = ""
    models: tuple[str, ...] = ()
    native_tools: tuple[str, ...] = ()
    images: Literal["tool", "user"] = "tool"
    budget_bytes: Annotated[int, Field(ge=0)] = 8 * 1024 * 1024
    retries: Annotated[int, Field(ge=0, le=10)] = 2
    encrypted_reasoning: bool = False

    @model_validator(mode="after")
    def _reachable(self) -> UpstreamSettings:
        if self.kind in ("responses", "chat") and not self.url.startswith(("http://", "https://")):
            raise ValueError(f'kind "{self.kind}" needs a url that begins with http:// or https://')
        return self


class GatewaySettings(BaseModel):
    """What the gateway executes, how long it waits, and what it keeps."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    computer: Literal["client", "body"] = "client"
    shell: Literal["client", "body"] = "client"
    executed_items: Literal["hidden", "pairs"] = "hidden"
    unknown: Literal["refuse", "passthrough"] = "refuse"
    lease: Literal["response", "conversation"] = "response"
    idle_ttl_ms: Ms = 60_000
    lease_wait_ms: Annotated[int, Field(ge=0, le=MAX_WAIT_MS)] = 10_000
    rejoin_ms: Ms = 15_000
    keep_alive_ms: Annotated[int, Field(ge=100)] = 15_000
    max_rounds: Annotated[int, Field(ge=1)] = 100
    max_wall_ms: Annotated[int, Field(ge=1)] = 3_600_000
    max_total_tokens: Count = 0
    approval_wait_ms: Ms = 60_000
    retention_days: Annotated[int, Field(ge=1)] = 30
    upstream: UpstreamSettings = UpstreamSettings()
