"""What is on the desktop: windows and the apps that may be launched."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from .geometry import Bounds


class Window(BaseModel):
    """One managed top-level window.

    Attributes:
        id: X resource id, unique while the window lives.
        app: WM_CLASS class, lower-cased ("chromium"), or "".
        title: UTF-8, untrusted: pages choose it.
        bounds: Of the frame, in screen pixels (may reach off-screen).
        stacking: 0 is the bottom.
    """

    model_config = ConfigDict(frozen=True)
    id: int
    app: str
    title: str
    bounds: Bounds
    active: bool
    minimised: bool
    stacking: int
    pid: int | None = None


class App(BaseModel):
    """An app that the configuration lets drivers launch."""

    model_config = ConfigDict(frozen=True)
    name: str
    running: bool


class Inventory(BaseModel):
    model_config = ConfigDict(frozen=True)
    apps: tuple[App, ...]
    windows: tuple[Window, ...]
