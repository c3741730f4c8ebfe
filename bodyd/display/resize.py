"""Resizing by RANDR, for servers that can: Xvfb up to the size it was started with.

Blocks in a lane's thread. A mode of the wanted size is made where the server lists none.
"""

from __future__ import annotations

from Xlib.error import XError
from Xlib.ext import randr

from bodyd.contract.geometry import Size
from bodyd.errors import InvalidRequest

from .connection import XConnection, XObject

_MILLIMETRES_PER_INCH = 25.4
_DPI = 96


def resize(x: XConnection, size: Size) -> None:
    """Make the screen *size*.

    Raises:
        InvalidRequest: the server has no RANDR, or can't become that large.
    """
    if not x.display.has_extension("RANDR"):
        raise InvalidRequest("this X server can't be resized: it has no RANDR")
    limits: XObject = x.root.xrandr_get_screen_size_range()
    fits = (
        limits.min_width <= size.width <= limits.max_width
        and limits.min_height <= size.height <= limits.max_height
    )
    if not fits:
        raise InvalidRequest(
            f"{size.width}x{size.height} is beyond this X server's {limits.max_width}x{limits.max_height}; "
            "restart the display with a larger one"
        )
    try:
        _set(x, size)
    except XError as exc:
        raise InvalidRequest(f"the X server refused {size.width}x{size.height}: {exc}") from exc


def _set(x: XConnection, size: Size) -> None:
    """Off, resized, on again: no moment in which the picture is larger than the screen."""
    resources: XObject = x.root.xrandr_get_screen_resources()
    crtc, output = resources.crtcs[0], resources.outputs[0]
    mode = next(
        (m["id"] for m in resources.modes if (m["width"], m["height"]) == (size.width, size.height)), None
    )
    if mode is None:
        mode = _make_mode(x, size)
        x.display.xrandr_add_output_mode(output, mode)
    stamp = resources.config_timestamp
    x.display.xrandr_set_crtc_config(crtc, stamp, 0, 0, 0, randr.Rotate_0, [])
    width_mm, height_mm = (
        round(pixels * _MILLIMETRES_PER_INCH / _DPI) for pixels in (size.width, size.height)
    )
    x.root.xrandr_set_screen_size(size.width, size.height, width_mm, height_mm)
    x.display.xrandr_set_crtc_config(crtc, stamp, 0, 0, mode, randr.Rotate_0, [output])
    x.display.sync()


def _make_mode(x: XConnection, size: Size) -> int:
    name = f"{size.width}x{size.height}"
    mode = (0, size.width, size.height, 0, 0, 0, 0, 0, 0, 0, 0, len(name), 0)
    return int(x.root.xrandr_create_mode(mode, name).mode)
