"""The scene, kept: read again only after the server has told of a change in it.

Every look asks the server something first: who gets keys, and whether anybody has grabbed. It answers in
order, so whatever changed before the look has been told of by then: what is kept is as true as what would
be read. Windows are listened to before
they are read, and a change in mid-read makes the next look read again. Counterpart of windows.py, which
reads; on a connection of its own, whose events are all its own. An app that floods it with changes is
not listened to for a while: then every look reads. Blocks in a lane's thread.
"""

from __future__ import annotations

import time
from dataclasses import replace

from Xlib import X
from Xlib.protocol import request

from bodyd.contract.geometry import Point

from . import windows
from .connection import Wire, XConnection, XObject
from .windows import Scene
from .xinput import use_core_devices

FLOOD = 2000
"""So many events between two looks are more than reading costs."""

_DEAF_SECONDS = 5.0
_ROUNDS = 3
_ROOT_TELLS = X.SubstructureNotifyMask | X.PropertyChangeMask
_WINDOW_TELLS = X.StructureNotifyMask | X.PropertyChangeMask
_MOVES = frozenset(
    {X.CirculateNotify, X.ConfigureNotify, X.GravityNotify, X.MapNotify, X.ReparentNotify, X.UnmapNotify}
)
"""Not DestroyNotify: a window that shows is unmapped first."""


class Scenery(XConnection):
    """A connection that knows the scene."""

    def __init__(self, wire: Wire) -> None:
        super().__init__(wire)
        self._root_words = frozenset(map(self.atom, ("_NET_CLIENT_LIST_STACKING", "_NET_ACTIVE_WINDOW")))
        self._window_words = frozenset(map(self.atom, windows.PROPERTIES))
        self._scene = Scene()
        self._heard: set[int] = set()
        self._stale = True
        self._said_again = False  # by the window manager, perhaps the same as before
        self._deaf_until: float | None = None
        self._never_seen = self.root.create_window(-1, -1, 1, 1, 0, X.CopyFromParent, override_redirect=True)
        self._focus, self._grabbed = 0, False
        self._listen_to(self.root.id)

    def look(self) -> Scene:
        """The scene as of a round trip now; the same object while nothing in it has changed.

        Some reads in a row if it changes while it is read; then, as of the last of them.
        """
        self.hear()
        if self._said_again and not self._stale:
            self._stale = windows.manager_facts(self) != _manager_facts(self._scene)
        for _ in range(_ROUNDS):
            if not self._stale:
                break
            self._stale, self._said_again = self._deaf_until is not None, False
            self._scene = windows.scene(self, self._listen_to)
            self._heard &= {self.root.id, *(window.id for window in self._scene.windows)}
            self.hear()
        if (self._scene.focus, self._scene.grabbed) != (self._focus, self._grabbed):
            self._scene = replace(self._scene, focus=self._focus, grabbed=self._grabbed)
        return self._scene

    def look_at(self, point: Point) -> tuple[Scene, int]:
        """The scene, and the id of the managed window or popup that the server would give a click at *point*.

        It knows of shapes and of windows beyond any bound. Where it says another than the scene would, the
        scene is read anew; what they still differ in is the caller's to refuse. 0: the root.
        """
        scene = self.look()
        child = windows.child_at(self, point)
        top = scene.top_at(point)
        if scene.top_levels.get(child, child) != (top.id if top else 0):
            self._stale = True
            scene = self.look()
            child = windows.child_at(self, point)
        return scene, scene.top_levels.get(child, child)

    def hear(self) -> None:
        """Take in what the server has told so far, so that nothing piles up in it."""
        self._ask()
        count = self.display.pending_events()
        if count > FLOOD:
            self._stop_listening()
        elif self._deaf_until is not None and time.monotonic() > self._deaf_until:
            self._deaf_until = None
            self._listen_to(self.root.id)
        for _ in range(count):
            self._take_in(self.display.next_event())

    def _ask(self) -> None:
        """Who has the keyboard, and whether there is a grab; a round trip.

        A grab on a window that is not on the screen is never had: the answer tells of others' (Xlib, 12.1).
        """
        use_core_devices(self)
        core = self.core
        modes = {"pointer_mode": X.GrabModeAsync, "keyboard_mode": X.GrabModeAsync, "time": X.CurrentTime}
        window = self._never_seen
        focus: XObject = request.GetInputFocus(display=core, defer=True)
        pointer: XObject = request.GrabPointer(
            display=core, defer=True, owner_events=False, grab_window=window, event_mask=0, confine_to=X.NONE,
            cursor=X.NONE, **modes,
        )  # fmt: skip
        keys: XObject = request.GrabKeyboard(
            display=core, defer=True, owner_events=False, grab_window=window, **modes
        )
        for question in (focus, pointer, keys):
            question.reply()
        if X.GrabSuccess in (pointer.status, keys.status):
            raise OSError("another client has put our window on the screen")  # hanging up ends the grab
        self._focus = windows.client_of_focus(self, focus)
        self._grabbed = X.AlreadyGrabbed in (pointer.status, keys.status)

    def _take_in(self, event: XObject) -> None:
        if event.type == X.DestroyNotify:
            self._heard.discard(event.window.id)  # another may get its id, and has to be listened to anew
        elif event.type == X.PropertyNotify and event.window == self.root:
            self._said_again |= event.atom in self._root_words  # openbox says them at every click
        elif event.type == X.PropertyNotify:
            self._stale |= event.atom in self._window_words
        elif event.type != X.ConfigureNotify or event.event == self.root:
            self._stale |= event.type in _MOVES  # a window moved within its frame has not moved

    def _listen_to(self, window: int) -> None:
        if window not in self._heard and self._deaf_until is None:
            self._heard.add(window)
            self._ask_of(window, _ROOT_TELLS if window == self.root.id else _WINDOW_TELLS)

    def _stop_listening(self) -> None:
        for window in self._heard:
            self._ask_of(window, X.NoEventMask)
        self._heard.clear()
        self._stale, self._deaf_until = True, time.monotonic() + _DEAF_SECONDS

    def _ask_of(self, window: int, events: int) -> None:
        self.display.create_resource_object("window", window).change_attributes(event_mask=events)


def _manager_facts(scene: Scene) -> tuple[tuple[int, ...], int]:
    """What the window manager must be saying if *scene* still holds."""
    active = next((window.id for window in scene.windows if window.active), 0)
    return tuple(window.id for window in scene.windows), active
