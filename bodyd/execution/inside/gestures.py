"""`pyautogui`, as models write it, over `ui`.

Its names are PyAutoGUI's own. Nothing is held between two calls of the body's: what is pressed with mouseDown
or keyDown is kept here, and sent as one gesture when it is let go.
"""

from __future__ import annotations

import contextlib
import time
import types
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .line import Value

BATCH = 64
"""Inputs that go to the body at once."""

MODIFIERS = {
    **dict.fromkeys(("ctrl", "control", "ctrlleft", "ctrlright"), "CTRL"),
    **dict.fromkeys(("shift", "shiftleft", "shiftright"), "SHIFT"),
    **dict.fromkeys(("alt", "altleft", "altright", "option"), "ALT"),
    **dict.fromkeys(("win", "winleft", "winright", "command", "cmd", "super", "meta"), "META"),
}


class Point(NamedTuple):
    x: int
    y: int


class Size(NamedTuple):
    width: int
    height: int


class Gestures(types.ModuleType):
    """The module. `refusal` makes the error for what is not there on purpose."""

    PAUSE = 0.0
    FAILSAFE = False
    LEFT = PRIMARY = "left"
    MIDDLE = "middle"
    RIGHT = SECONDARY = "right"

    def __init__(self, ui: Value, refusal: type[Exception]) -> None:
        super().__init__("pyautogui", "A subset of PyAutoGUI that acts through bodyd.")
        self._ui = ui
        self._refusal = refusal
        self._since = 0.0
        self._used = False
        self._button = "left"
        self.begin()
        self.FailSafeException = type("FailSafeException", (Exception,), {})
        self.ImageNotFoundException = type("ImageNotFoundException", (Exception,), {})
        self.Point, self.Size = Point, Size
        self.typewrite = self.write
        self.leftClick = self.click
        self.moveRel = self.move
        self.dragRel = self.drag

    def begin(self) -> None:
        """A new call: nothing is held, and the pointer may be anywhere."""
        self._at: Point | None = None
        self._held: list[str] = []
        self._path: list[Point] | None = None

    def __getattr__(self, name: str) -> object:
        if name.startswith("locate") or name in ("pixel", "pixelMatchesColor", "center"):
            raise self._no_pictures(f"pyautogui.{name} is not there")
        if name == "linear" or name.startswith("ease"):
            return lambda share: share  # a tween: the way between two points is never seen
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"this pyautogui has no {name!r}; it has: {', '.join(sorted(_names(self)))}")

    def _no_pictures(self, what: str) -> Exception:
        return self._refusal(
            f"{what}: look at a screenshot instead, pyautogui.screenshot() gives it as a PIL image"
        )

    # -- looking ------------------------------------------------------------------------------------

    def size(self) -> Size:
        return Size(*self._ui.size())

    def position(self, x: Value = None, y: Value = None) -> Point:
        if self._at is None:
            self._at = Point(*self._ui.position())
        return Point(self._at.x if x is None else x, self._at.y if y is None else y)

    def onScreen(self, x: Value, y: Value = None) -> bool:
        x, y = self._point(x, y)
        width, height = self.size()
        return bool(0 <= x < width and 0 <= y < height)

    def screenshot(self, path: str | None = None, region: tuple[int, int, int, int] | None = None) -> Value:
        image = self._ui.screenshot()
        if region is not None:
            left, top, width, height = region
            image = image.crop((left, top, left + width, top + height))
        if path is not None:
            image.save(path)
        return image

    # -- the pointer --------------------------------------------------------------------------------

    def moveTo(self, x: Value = None, y: Value = None, duration: float = 0.0, *_: Value, **__: Value) -> None:
        self._at = self._place(x, y)
        if self._path is not None:
            self._path.append(self._at)
        else:
            self._act({"type": "move", "x": self._at[0], "y": self._at[1]})
        self._pause(duration)

    def move(self, dx: Value = 0, dy: Value = 0, duration: float = 0.0, *_: Value, **__: Value) -> None:
        x, y = self.position()
        self.moveTo(x + (dx or 0), y + (dy or 0), duration)

    def click(
        self,
        x: Value = None,
        y: Value = None,
        clicks: int = 1,
        interval: float = 0.0,
        button: str = "left",
        duration: float = 0.0,
        *_: Value,
        **__: Value,
    ) -> None:
        self._at = self._place(x, y)
        self._pause(duration)
        kinds = {1: "click", 2: "double_click", 3: "triple_click"}
        if interval == 0 and clicks in kinds:
            self._act(_pointer(kinds[clicks], *self._at, button=_button(button)))
        else:
            self._act(*[_pointer("click", *self._at, button=_button(button))] * clicks, interval=interval)

    def doubleClick(
        self, x: Value = None, y: Value = None, *_: Value, button: str = "left", **__: Value
    ) -> None:
        self.click(x, y, clicks=2, button=button)

    def tripleClick(
        self, x: Value = None, y: Value = None, *_: Value, button: str = "left", **__: Value
    ) -> None:
        self.click(x, y, clicks=3, button=button)

    def rightClick(self, x: Value = None, y: Value = None, *_: Value, **__: Value) -> None:
        self.click(x, y, button="right")

    def middleClick(self, x: Value = None, y: Value = None, *_: Value, **__: Value) -> None:
        self.click(x, y, button="middle")

    def mouseDown(
        self, x: Value = None, y: Value = None, button: str = "left", *_: Value, **__: Value
    ) -> None:
        self._at = self._place(x, y)
        self._path, self._button = [self._at], _button(button)

    def mouseUp(self, x: Value = None, y: Value = None, button: str = "left", *_: Value, **__: Value) -> None:
        self._at = self._place(x, y)
        path, self._path = (self._path or [self._at]), None
        if path[-1] != self._at:
            path.append(self._at)
        self._drag(path, self._button)

    def dragTo(
        self,
        x: Value = None,
        y: Value = None,
        duration: float = 0.0,
        *_: Value,
        button: str = "left",
        **__: Value,
    ) -> None:
        start = self.position()
        self._at = self._place(x, y)
        self._drag(_between(start, self._at), _button(button))
        self._pause(duration)

    def drag(
        self,
        dx: Value = 0,
        dy: Value = 0,
        duration: float = 0.0,
        *_: Value,
        button: str = "left",
        **__: Value,
    ) -> None:
        x, y = self.position()
        self.dragTo(x + (dx or 0), y + (dy or 0), duration, button=button)

    def scroll(self, clicks: float, x: Value = None, y: Value = None, *_: Value, **__: Value) -> None:
        """PyAutoGUI's direction: positive is up. One click is one notch."""
        self._at = self._place(x, y)
        self._act(_pointer("scroll", *self._at, scroll_x=0, scroll_y=round(-100 * clicks)))

    vscroll = scroll

    def hscroll(self, clicks: float, x: Value = None, y: Value = None, *_: Value, **__: Value) -> None:
        self._at = self._place(x, y)
        self._act(_pointer("scroll", *self._at, scroll_x=round(100 * clicks), scroll_y=0))

    # -- the keyboard -------------------------------------------------------------------------------

    def write(self, message: str | Sequence[str], interval: float = 0.0, *_: Value, **__: Value) -> None:
        """In one input, whatever the interval: each character is acknowledged before the next."""
        if self._held or not isinstance(message, str):
            self.press(list(message), interval=interval)
        elif message:
            self._ui.type(message)

    def press(
        self,
        keys: str | Sequence[str],
        presses: int = 1,
        interval: float = 0.0,
        *_: Value,
        **__: Value,
    ) -> None:
        chords = [[*self._held, _key(key)] for key in ([keys] if isinstance(keys, str) else keys)]
        self._used = True
        self._send([{"type": "keypress", "keys": chord} for chord in chords] * presses, interval)

    def hotkey(self, *keys: Value, **__: Value) -> None:
        flat = [k for key in keys for k in ([key] if isinstance(key, str) else key)]
        self._used = True
        self._ui.key(*self._held, *[_key(key) for key in flat])

    def keyDown(self, key: str, *_: Value, **__: Value) -> None:
        if _key(key) not in self._held:
            self._held.append(_key(key))
            self._since, self._used = time.monotonic(), False

    def keyUp(self, key: str, *_: Value, **__: Value) -> None:
        name = _key(key)
        if name not in self._held:
            return
        if not self._used:  # nothing was done with it: it was meant for itself
            took = min(10.0, max(0.01, time.monotonic() - self._since))
            self._ui.hold(list(self._held), took)
            self._used = True
        self._held.remove(name)

    @contextlib.contextmanager
    def hold(self, keys: str | Sequence[str]) -> Iterator[None]:
        names = [keys] if isinstance(keys, str) else list(keys)
        for name in names:
            self.keyDown(name)
        try:
            yield
        finally:
            for name in reversed(names):
                self.keyUp(name)

    def sleep(self, seconds: float) -> None:
        self._pause(seconds)

    # -- inside -------------------------------------------------------------------------------------

    def _act(self, *actions: dict[str, Value], interval: float = 0.0) -> None:
        self._used = True
        modifiers = [key for key in self._held if key in MODIFIERS.values()]
        self._send([{**action, **({"keys": modifiers} if modifiers else {})} for action in actions], interval)

    def _send(self, actions: list[dict[str, Value]], interval: float = 0.0) -> None:
        """In as few calls of the body's as can be."""
        if interval > 0:
            wait = {"type": "wait", "ms": round(1000 * min(interval, 60.0))}
            actions = [one for action in actions for one in (action, wait)][:-1]
        for start in range(0, len(actions), BATCH):
            self._ui.inputs(*actions[start : start + BATCH])

    def _drag(self, path: list[Point], button: str) -> None:
        if len(path) == 1:
            self._act(_pointer("click", *path[0], button=button))
        elif button == "left":
            self._used = True
            self._ui.drag(path, [key for key in self._held if key in MODIFIERS.values()])
        else:
            middle = [_pointer("move", *at) for at in path[1:-1]][:60]
            down, up = (_pointer("button_down", *path[0]), _pointer("button_up", *path[-1]))
            self._ui.inputs({**down, "button": button}, *middle, {**up, "button": button})

    def _place(self, x: Value, y: Value) -> Point:
        if isinstance(x, str):
            raise self._no_pictures("clicking on the place of a picture is not there")
        if x is None or (y is None and not isinstance(x, tuple | list)):
            here = self.position()
            return Point(here.x if x is None else round(x), here.y if y is None else round(y))
        return self._point(x, y)

    @staticmethod
    def _point(x: Value, y: Value) -> Point:
        if y is None:
            x, y = x[0], x[1]
        return Point(round(x), round(y))

    @staticmethod
    def _pause(seconds: float) -> None:
        if seconds > 0:
            time.sleep(seconds)


def _names(module: Gestures) -> list[str]:
    return [name for name in dir(type(module)) if not name.startswith("_")]


def _between(start: Point, end: Point, steps: int = 12) -> list[Point]:
    (x, y), (u, v) = start, end
    return [Point(round(x + (u - x) * n / steps), round(y + (v - y) * n / steps)) for n in range(steps + 1)]


def _button(name: str) -> str:
    return {"primary": "left", "secondary": "right"}.get(name, name)


def _key(name: str) -> str:
    return MODIFIERS.get(name.lower(), name)


def _pointer(kind: str, x: float, y: float, **more: object) -> dict[str, Value]:
    return {"type": kind, "x": round(x), "y": round(y), **more}
