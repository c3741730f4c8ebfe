"""A screenshot's facts; its pixels travel on their own plane, by id."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from .elements import AccessibilityState, Element
from .geometry import Bounds, Length, Point, Size
from .inventory import Window

MAX_IMAGE_BYTES = 16 * 1024 * 1024


class ScreenTarget(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    type: Literal["screen"] = "screen"


class WindowTarget(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    type: Literal["window"]
    id: Annotated[int, Field(strict=True, ge=1)]


class RegionTarget(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    type: Literal["region"]
    bounds: Bounds


Target = Annotated[ScreenTarget | WindowTarget | RegionTarget, Field(discriminator="type")]


class ScreenshotRequest(BaseModel):
    """What to capture. `cursor` draws the pointer in; off by default, as models expect.

    `elements` asks for the elements in view, too: the picture comes all the same if they can't be had.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    target: Target = ScreenTarget()
    max_width: Length | None = None
    max_height: Length | None = None
    cursor: Annotated[bool, Field(strict=True)] = False
    elements: Annotated[bool, Field(strict=True)] = False


class Cursor(BaseModel):
    """The pointer: where it is on the body's screen."""

    model_config = ConfigDict(frozen=True)
    x: int
    y: int


class Screenshot(BaseModel):
    """The facts of one capture (design: screenshots and coordinates).

    Attributes:
        sequence: Grows by one a capture within a daemon's life.
        captured_at: Unix milliseconds.
        epoch: The lease epoch it was taken in; input under another epoch is refused.
        width, height: Of the image, after downscaling.
        bounds: What part of the body's screen the image shows.
        sha256: Of the PNG bytes.
        input_ready: Given to the driver that holds the lease: input may name it.
        accessibility: How it was when elements were asked for; None, and left out of JSON with the two
            that follow, where they were not.
        elements: Those in view, by the apps' own word; None if they could not be had.
        elements_truncated: There were more, or an app did not answer in time.
    """

    model_config = ConfigDict(frozen=True)
    screenshot_id: str
    sequence: int
    captured_at: int
    epoch: int
    width: int
    height: int
    bounds: Bounds
    target: Target
    cursor: Cursor
    windows: tuple[Window, ...]
    sha256: str
    input_ready: bool
    accessibility: AccessibilityState | None = None
    elements: tuple[Element, ...] | None = None
    elements_truncated: bool = False

    @model_serializer(mode="wrap")
    def _as_asked(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        shown: dict[str, Any] = handler(self)
        if self.accessibility is None:
            for name in ("accessibility", "elements", "elements_truncated"):
                shown.pop(name, None)
        return shown

    @property
    def size(self) -> Size:
        return Size(width=self.width, height=self.height)

    def window_at(self, point: Point) -> Window | None:
        """The top-most window of this screenshot at *point*, in screen pixels."""
        hits = [w for w in self.windows if not w.minimised and w.bounds.contains(point)]
        return max(hits, key=lambda w: w.stacking, default=None)

    @property
    def active_window(self) -> Window | None:
        return next((w for w in self.windows if w.active), None)
