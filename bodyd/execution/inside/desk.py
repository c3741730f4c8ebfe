"""`ui`, as code sees it. Counterpart: code_ui.py, which does what is asked for, or refuses."""

from __future__ import annotations

import io
from collections.abc import Sequence

from .line import Line, Value


class UI:
    """The desktop, through bodyd's door: each call is one input under the conversation's lease.

    Coordinates are those of the latest screenshot that this conversation was given.
    """

    def __init__(self, line: Line) -> None:
        self._line = line

    def inputs(self, *actions: dict[str, Value]) -> Value:
        """Up to 64 actions, as in `POST /v1/input`, in one batch; its receipt."""
        return self._line.ask("inputs", inputs=list(actions))[0]

    def screenshot(self, *, cursor: bool = False, max_width: int | None = None) -> Value:
        """The screen as a PIL image, once it has settled. Later coordinates are of this picture."""
        from PIL import Image

        facts, png = self._line.ask("screenshot", cursor=cursor, max_width=max_width)
        image = Image.open(io.BytesIO(png))
        image.load()
        image.info["screenshot_id"] = facts["screenshot_id"]
        return image

    def click(self, x: float, y: float, button: str = "left", keys: Sequence[str] = ()) -> Value:
        return self.inputs(_pointer("click", x, y, keys, button=button))

    def double_click(self, x: float, y: float, button: str = "left", keys: Sequence[str] = ()) -> Value:
        return self.inputs(_pointer("double_click", x, y, keys, button=button))

    def triple_click(self, x: float, y: float, button: str = "left", keys: Sequence[str] = ()) -> Value:
        return self.inputs(_pointer("triple_click", x, y, keys, button=button))

    def move(self, x: float, y: float) -> Value:
        return self.inputs(_pointer("move", x, y))

    def drag(self, path: Sequence[tuple[float, float]], keys: Sequence[str] = ()) -> Value:
        """Press the left button at the first point, pass every point, release at the last."""
        points = [{"x": round(x), "y": round(y)} for x, y in path]
        return self.inputs({"type": "drag", "path": points, **_keys(keys)})

    def scroll(self, x: float, y: float, scroll_x: float = 0, scroll_y: float = 0) -> Value:
        """By pixels: +y down, +x right."""
        return self.inputs(_pointer("scroll", x, y, scroll_x=round(scroll_x), scroll_y=round(scroll_y)))

    def type(self, text: str) -> Value:
        return self.inputs({"type": "type", "text": text})

    def paste(self, text: str) -> Value:
        return self.inputs({"type": "paste", "text": text})

    def key(self, *keys: str) -> Value:
        """One chord, pressed together: key("CTRL", "s")."""
        return self.inputs({"type": "keypress", "keys": list(keys)})

    def hold(self, keys: Sequence[str], seconds: float) -> Value:
        return self.inputs({"type": "hold", "keys": list(keys), "duration_ms": round(seconds * 1000)})

    def wait(self, seconds: float = 2.0) -> Value:
        return self.inputs({"type": "wait", "ms": round(seconds * 1000)})

    def settle(self) -> None:
        """Wait until the screen has come to rest, at most a second."""
        self._line.ask("settle")

    def windows(self) -> Value:
        """The windows, bottom to top: id, app, title, bounds, active, minimised, stacking."""
        return self._line.ask("windows")[0]

    def activate(self, window_id: int) -> Value:
        return self._line.ask("activate", window_id=window_id)[0]

    def close(self, window_id: int) -> Value:
        return self._line.ask("close", window_id=window_id)[0]

    def launch(self, name: str) -> Value:
        """Start one of the configured apps."""
        return self._line.ask("launch", name=name)[0]

    def clipboard(self) -> Value:
        return self._line.ask("clipboard")[0]

    def set_clipboard(self, text: str) -> Value:
        return self._line.ask("set_clipboard", text=text)[0]

    def size(self) -> tuple[int, int]:
        """Of the screen, in pixels."""
        facts = self._line.ask("pointer")[0]
        return facts["width"], facts["height"]

    def position(self) -> tuple[int, int]:
        """Of the pointer, on the screen."""
        facts = self._line.ask("pointer")[0]
        return facts["x"], facts["y"]


def _pointer(kind: str, x: float, y: float, keys: Sequence[str] = (), **more: object) -> Value:
    return {"type": kind, "x": round(x), "y": round(y), **_keys(keys), **more}


def _keys(keys: Sequence[str]) -> Value:
    return {"keys": list(keys)} if keys else {}
