"""Acts beside the keyboard and pointer: screen size, clipboard, apps and windows, as on the wire."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from .receipts import Effect

MAX_CLIPBOARD_BYTES = 1_048_576
"""Of UTF-8, each way."""

ActType = Literal["resize", "clipboard_write", "launch", "activate", "close"]


class ActRequest(BaseModel):
    """Body of activating and closing a window. With `epoch`, a claim that has moved on is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    epoch: Annotated[int, Field(strict=True, ge=0)] | None = None


class ResizeRequest(ActRequest):
    """Body of `POST /v1/display`. `restart`: begin anew where the display can't grow; apps are lost."""

    width: Annotated[int, Field(strict=True, ge=320, le=7680)]
    height: Annotated[int, Field(strict=True, ge=240, le=4320)]
    restart: Annotated[bool, Field(strict=True)] = False


class ClipboardRequest(ActRequest):
    """Body of `POST /v1/clipboard`."""

    text: str = Field(repr=False)


class ClipboardText(BaseModel):
    """The clipboard's text; "" if it has none. Untrusted: an app chose it."""

    model_config = ConfigDict(frozen=True)
    text: str = Field(repr=False)


class LaunchRequest(ActRequest):
    """Body of `POST /v1/apps/launch`: one of the configured apps."""

    name: Annotated[str, Field(min_length=1, max_length=100)]


class Act(BaseModel):
    """What became of an act: it was asked for, and `effect` says what was read back.

    Attributes:
        epoch: The lease epoch that it was done in.
        at: Unix milliseconds.
        restarted: The display began anew: every app and its unsaved work is gone.
    """

    model_config = ConfigDict(frozen=True)
    type: ActType
    epoch: int
    at: int
    effect: Effect
    restarted: bool = False
