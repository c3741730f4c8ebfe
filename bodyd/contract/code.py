"""The code tool on the wire and in the configuration: what may be asked for, and its bounds.

The settings are `[code]`, documented in docs/reference/configuration.md. Counterparts: execution/code.py
runs, http/routes_tools.py serves.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

MAX_CODE_BYTES = 64 * 1024
MAX_TEXT_BYTES = 60 * 1024
MAX_IMAGE_BYTES = 8 * 1024 * 1024
"""Of all images of one call together, as PNG."""

MAX_ITEMS = 250
MAX_UI_CALLS = 150
MAX_TIMEOUT_MS = 60_000


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CodeSettings(_Section):
    """The code tool needs nothing but the lease: it has no network, no files of the body and no programs."""

    enabled: bool = True
    timeout_ms: Annotated[int, Field(ge=100, le=MAX_TIMEOUT_MS)] = MAX_TIMEOUT_MS
    memory_bytes: Annotated[int, Field(ge=128 * 1024 * 1024)] = 1024**3
    scratch_bytes: Annotated[int, Field(ge=1024 * 1024)] = 64 * 1024 * 1024
    workers: Annotated[int, Field(ge=1, le=16)] = 4


class CodeRequest(_Section):
    """Body of `POST /v1/tools/exec_py`. `reset` begins with a fresh process; alone, that is all.

    `stream` asks for server-sent events.
    """

    code: str = ""
    reset: Annotated[bool, Field(strict=True)] | None = None
    timeout_ms: Annotated[int, Field(strict=True, ge=1)] | None = None
    epoch: Annotated[int, Field(strict=True, ge=0)] | None = None
    stream: Annotated[bool, Field(strict=True)] | None = None

    @field_validator("code")
    @classmethod
    def _short(cls, value: str) -> str:
        if len(value.encode("utf-8", "surrogatepass")) > MAX_CODE_BYTES:
            raise ValueError(f"the code is over {MAX_CODE_BYTES} bytes; run it in parts, state is kept")
        return value
