"""An X client that records what reaches it, as the receiving app sees it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

from Xlib import X

from bodyd.display.connection import LOST, XConnection

_KINDS = {
    X.KeyPress: "key down",
    X.KeyRelease: "key up",
    X.ButtonPress: "press",
    X.ButtonRelease: "release",
    X.MotionNotify: "motion",
}


class Seen(NamedTuple):
    """One event: what, keycode or button, where, when by the server's clock, and the modifier state."""

    kind: str
    detail: int
    x: int
    y: int
    time: int
    state: int


class Recorder:
    """A window over the whole screen, above everything, focused; the window manager's, if it is *managed*."""

    def __init__(self, x: XConnection, *, managed: bool = False) -> None:
        self.x = x
        size = x.root.get_geometry()
        mask = (
            X.KeyPressMask
            | X.KeyReleaseMask
            | X.ButtonPressMask
            | X.ButtonReleaseMask
            | X.PointerMotionMask
            | X.ButtonMotionMask
        )
        self.window: Any = x.root.create_window(
            0,
            0,
            size.width,
            size.height,
            0,
            X.CopyFromParent,
            override_redirect=not managed,
            background_pixel=0x406080,
            event_mask=mask,
        )
        self.window.map()
        if managed:
            self.window.set_wm_name("recorder")
        else:
            self.window.set_input_focus(X.RevertToParent, X.CurrentTime)
        x.display.sync()
        self.seen()

    def seen(self) -> list[Seen]:
        """Everything since the last call. The server has delivered it before it answered the sender."""
        self.x.display.sync()
        events = []
        while self.x.display.pending_events():
            events.append(self.x.display.next_event())
        return _seen(events)

    def rest(self) -> list[Seen]:
        """Everything that still came before a server that is being killed hung up."""
        events = self.x.core.event_queue  # python-xlib drops it as it hangs up
        with suppress(*LOST):
            while True:
                self.x.display.sync()
        return _seen(events)

    def kinds(self) -> list[str]:
        return [event.kind for event in self.seen()]

    def keysyms(self) -> list[tuple[str, int]]:
        """Key events with the plain keysym of their key, as the map is now."""
        return [
            (event.kind, self.x.display.keycode_to_keysym(event.detail, 0))
            for event in self.seen()
            if event.kind.startswith("key")
        ]

    def fill(self, x: int, y: int, width: int, height: int, colour: int) -> None:
        """Paint a rectangle of the window, and wait until the server has."""
        self.paint(x, y, width, height, colour)
        self.x.display.sync()

    def paint(self, x: int, y: int, width: int, height: int, colour: int) -> None:
        if not hasattr(self, "_gc"):
            self._gc = self.window.create_gc()
        self._gc.change(foreground=colour)
        self.window.fill_rectangle(self._gc, x, y, width, height)
        self.x.display.flush()

    def close(self) -> None:
        self.x.close()


def _seen(events: list[Any]) -> list[Seen]:
    return [
        Seen(
            _KINDS[event.type],
            event.detail if event.type != X.MotionNotify else 0,
            event.root_x,
            event.root_y,
            event.time,
            event.state,
        )
        for event in events
        if event.type in _KINDS
    ]
