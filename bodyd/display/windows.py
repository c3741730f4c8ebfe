"""Windows: what the window manager says (EWMH), and what is really under a point.

Requests are sent together and answered together: three round trips for any number of windows.
Windows come and go in between, and their titles and properties are whatever an app wrote: a window
that vanished is left out, text is decoded with replacement and cut. Blocks in a lane's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from Xlib import X, Xatom
from Xlib import error as xlib_error
from Xlib.ext import shape as xshape
from Xlib.protocol import event, request

from bodyd.contract.geometry import Bounds, Point
from bodyd.contract.inventory import Window
from bodyd.errors import NotFound

from .connection import XConnection, XObject

MOST_WINDOWS = 256
MOST_TITLE = 1000  # characters
_TITLE_WORDS = MOST_TITLE  # 4-byte units asked of the server
_FRAME_DEPTH = 4  # how far below the root a managed window may be
_PAGER = 2  # EWMH source indication: acts for the user
PROPERTIES = ("WM_CLASS", "_NET_WM_NAME", "WM_NAME", "_NET_WM_STATE", "_NET_WM_PID")
"""What is read of each managed window."""


@dataclass(frozen=True, slots=True)
class Popup:
    """A top-level window that no window manager manages: a menu, a tooltip, a drag icon.

    `client` is the base of its X client's ids, to be compared with that of another window.
    """

    id: int
    bounds: Bounds
    client: int


@dataclass(frozen=True, slots=True)
class Under:
    """What receives a pointer event at some point.

    Attributes:
        window: The managed window there, or None.
        popup: The unmanaged one there, or None. Both None: the bare root.
        client: The X client of whichever it is; 0 for the root.
    """

    window: Window | None
    popup: Popup | None
    client: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The managed windows, bottom to top, and the top-level window (frame) of each, by id."""

    windows: tuple[Window, ...]
    frames: dict[int, Window]


def read(x: XConnection, about_to: Callable[[int], None] = lambda window: None) -> Snapshot:
    """The managed windows now; `about_to` is told of each before it is read."""
    stacking, active, top_levels = root_facts(x)
    for window in stacking:
        about_to(window)
    asked = [(window, _Asked(x, window)) for window in stacking]
    answered = [(window, facts) for window, a in asked if (facts := a.answer()) is not None]
    frames = _frames(x, {window: facts.parent for window, facts in answered}, top_levels)
    shapes = {frame: _ask(request.GetGeometry, x, drawable=frame) for frame in set(frames.values())}
    windows: list[Window] = []
    by_frame: dict[int, Window] = {}
    hidden = x.atom("_NET_WM_STATE_HIDDEN")
    for window, facts in answered:
        frame = frames.get(window)
        shape = reply_to(shapes[frame]) if frame is not None else None
        if frame is None or shape is None:
            continue
        found = Window(
            id=window,
            app=facts.app,
            title=facts.title,
            bounds=_bounds(shape),
            active=window == active,
            minimised=hidden in facts.state,
            stacking=len(windows),
            pid=facts.pid,
        )
        windows.append(found)
        by_frame[frame] = found
    return Snapshot(tuple(windows), by_frame)


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that could get a pointer event, as of one moment.

    Attributes:
        windows: The managed ones, bottom to top.
        popups: Windows that nobody manages (menus, tooltips) and that take pointer events, seen or not;
            bottom to top, above all others.
        clients: The X client that made each of them, by id: the server's word, no app can feign it.
        top_levels: The managed window in each frame, by the frame's id.
        focus: The X client that key presses go to, by the server's word; 0 for none in particular.
        grabbed: A client has grabbed the pointer or the keyboard: whatever is sent goes to it.
    """

    windows: tuple[Window, ...] = ()
    popups: tuple[Window, ...] = ()
    clients: Mapping[int, int] = field(default_factory=dict)
    top_levels: Mapping[int, int] = field(default_factory=dict)
    focus: int = 0
    grabbed: bool = False

    def top_at(self, point: Point) -> Window | None:
        """The uppermost at *point*, by places alone: the server knows of shapes, too (`child_at`)."""
        for layer in (self.popups, self.windows):
            hits = [w for w in layer if not w.minimised and w.bounds.contains(point)]
            if hits:
                return max(hits, key=lambda w: w.stacking)
        return None

    def same_places(self, other: Scene) -> bool:
        """Whether the same windows are at the same places, in the same order; titles don't matter."""
        return self._places() == other._places()

    def _places(self) -> list[tuple[int, Bounds, bool, bool]]:
        return [(w.id, w.bounds, w.minimised, w.active) for w in (*self.windows, *self.popups)]


def under(x: XConnection, point: Point) -> Under:
    """What is on top at *point*, input shapes respected."""
    snapshot = read(x)
    child = child_at(x, point)
    window = snapshot.frames.get(child)
    if window is not None:
        return Under(window, None, x.client_of(window.id))
    shape = reply_to(_ask(request.GetGeometry, x, drawable=child)) if child else None
    if shape is None:
        return Under(None, None, 0)
    return Under(None, Popup(child, _bounds(shape), x.client_of(child)), x.client_of(child))


def child_at(x: XConnection, point: Point) -> int:
    """The top-level window that would get a pointer event at *point*, by the server's word; 0: the root."""
    return _id(
        request.TranslateCoords(
            display=x.core, src_wid=x.root, dst_wid=x.root, src_x=point.x, src_y=point.y
        ).child
    )


def client_of_focus(x: XConnection, answer: XObject) -> int:
    """The X client in the answer of GetInputFocus; 0: the root, or whatever is pointed at."""
    return x.client_of(_id(answer.focus))


def scene(x: XConnection, about_to: Callable[[int], None] = lambda window: None) -> Scene:
    """All windows and popups now. Popups tell nothing of themselves: `pid` is their client's."""
    snapshot = read(x, about_to)
    popups = _popups(x, snapshot)
    everything = (*snapshot.windows, *popups)
    return Scene(
        snapshot.windows,
        popups,
        {w.id: x.client_of(w.id) for w in everything},
        {frame: window.id for frame, window in snapshot.frames.items()},
    )


def _popups(x: XConnection, snapshot: Snapshot) -> tuple[Window, ...]:
    pids = {x.client_of(window.id): window.pid for window in snapshot.windows}
    candidates = [w for w in _children(x, x.root)[-MOST_WINDOWS:] if w not in snapshot.frames]
    asked = [
        (
            w,
            _ask(request.GetWindowAttributes, x, window=w),
            _ask(request.GetGeometry, x, drawable=w),
            _ask(xshape.GetRectangles, x, opcode=x.opcode("SHAPE"), window=w, source_kind=xshape.SK.Input),
        )
        for w in candidates
    ]
    screen = _bounds(reply_to(_ask(request.GetGeometry, x, drawable=x.root)))
    found: list[Window] = []
    for window, attributes, geometry, form in asked:
        state, place, pieces = reply_to(attributes), reply_to(geometry), reply_to(form)
        if state is None or place is None or pieces is None:
            continue
        if state.map_state != X.IsViewable or not pieces.rectangles:
            continue  # whether it asks to be left alone (override-redirect) can be changed unnoticed
        bounds = _bounds(place)
        if bounds.intersection(screen) is None:  # parked: window managers keep such windows
            continue
        found.append(
            Window(
                id=window,
                app="",
                title="",
                bounds=bounds,
                active=False,
                minimised=False,
                stacking=len(found),
                pid=pids.get(x.client_of(window)),
            )
        )
    return tuple(found)


def activate(x: XConnection, window: int) -> None:
    """Ask the window manager to raise and focus *window*; what came of it is to be read back.

    Raises:
        NotFound: it is not a managed window.
    """
    _ask_manager(x, window, "_NET_ACTIVE_WINDOW", (_PAGER, X.CurrentTime, 0, 0, 0))


def close(x: XConnection, window: int) -> None:
    """Ask the window manager to close *window*, as by its close button.

    Raises:
        NotFound: it is not a managed window.
    """
    _ask_manager(x, window, "_NET_CLOSE_WINDOW", (X.CurrentTime, _PAGER, 0, 0, 0))


def focused_app(x: XConnection) -> str:
    """The WM_CLASS of the active window, lower-cased; "" if none has the focus."""
    _, active, _ = root_facts(x)
    if not active:
        return ""
    return _app(reply_to(property_of(x, active, Xatom.WM_CLASS, 64)))


def _ask_manager(x: XConnection, window: int, message: str, data: Sequence[int]) -> None:
    stacking, _, _ = root_facts(x)
    if window not in stacking:
        raise NotFound(f"there is no window {window}")
    x.root.send_event(
        event.ClientMessage(window=window, client_type=x.atom(message), data=(32, list(data))),
        event_mask=X.SubstructureRedirectMask | X.SubstructureNotifyMask,
    )
    x.display.sync()


# -- reading -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Facts:
    app: str
    title: str
    state: tuple[int, ...]
    pid: int | None
    parent: int


class _Asked:
    """The questions about one window, sent and not yet answered."""

    def __init__(self, x: XConnection, window: int) -> None:
        self._class = property_of(x, window, Xatom.WM_CLASS, 64)
        self._name = property_of(x, window, x.atom("_NET_WM_NAME"), _TITLE_WORDS)
        self._old_name = property_of(x, window, Xatom.WM_NAME, _TITLE_WORDS)
        self._state = property_of(x, window, x.atom("_NET_WM_STATE"), 32)
        self._pid = property_of(x, window, x.atom("_NET_WM_PID"), 1)
        self._tree = _ask(request.QueryTree, x, window=window)

    def answer(self) -> _Facts | None:
        """None: the window is gone."""
        answers = [reply_to(r) for r in (self._class, self._name, self._old_name, self._state, self._pid)]
        tree = reply_to(self._tree)
        if tree is None or not _id(tree.parent):
            return None
        app, name, old_name, state, pid = answers
        pids = numbers(pid)
        return _Facts(
            _app(app), _title(name, old_name), numbers(state), pids[0] if pids else None, _id(tree.parent)
        )


def root_facts(x: XConnection) -> tuple[tuple[int, ...], int, frozenset[int]]:
    """The managed windows bottom to top, the active one (0: none), and the root's children."""
    question = _ask(request.QueryTree, x, window=x.root)
    stacking, active = manager_facts(x)
    tree = reply_to(question)
    children = frozenset(map(_id, tree.children)) if tree is not None else frozenset()
    return stacking, active, children


def manager_facts(x: XConnection) -> tuple[tuple[int, ...], int]:
    """The managed windows bottom to top, and the active one (0: none), as the manager says."""
    stacking = property_of(x, x.root.id, x.atom("_NET_CLIENT_LIST_STACKING"), MOST_WINDOWS)
    active = property_of(x, x.root.id, x.atom("_NET_ACTIVE_WINDOW"), 1)
    focus = numbers(reply_to(active))
    return tuple(dict.fromkeys(numbers(reply_to(stacking)))), focus[0] if focus else 0


def _frames(x: XConnection, parents: dict[int, int], top_levels: frozenset[int]) -> dict[int, int]:
    """The top-level ancestor of each window: itself, or the frame around it."""
    root = x.root.id
    found: dict[int, int] = {}
    below = {}
    for window, parent in parents.items():
        if parent == root:
            found[window] = window
        elif parent in top_levels:
            found[window] = parent
        else:
            below[window] = parent
    for _ in range(_FRAME_DEPTH):
        asked = [(window, at, _ask(request.QueryTree, x, window=at)) for window, at in below.items()]
        below = {}
        for window, at, question in asked:
            tree = reply_to(question)
            if tree is None:
                continue
            if _id(tree.parent) == root:
                found[window] = at
            else:
                below[window] = _id(tree.parent)
        if not below:
            break
    return found


def _children(x: XConnection, window: XObject) -> list[int]:
    tree = reply_to(_ask(request.QueryTree, x, window=window))
    return [] if tree is None else [_id(child) for child in tree.children]


def property_of(x: XConnection, window: int, atom: int, words: int) -> XObject:
    return _ask(
        request.GetProperty,
        x,
        delete=False,
        window=window,
        property=atom,
        type=X.AnyPropertyType,
        long_offset=0,
        long_length=words,
    )


def _ask(kind: XObject, x: XConnection, **fields: XObject) -> XObject:
    """Send a request without waiting for its reply (python-xlib's `defer`)."""
    return kind(display=x.core, defer=True, **fields)


def reply_to(question: XObject) -> XObject:
    """Wait for the reply; None if the window is gone."""
    try:
        question.reply()
    except xlib_error.XError:
        return None
    return question


def _id(window: XObject) -> int:
    return window if isinstance(window, int) else int(window.id)


def numbers(answer: XObject) -> tuple[int, ...]:
    """The value of a 32-bit property; empty if it is absent or of another shape."""
    if answer is None or not answer.property_type or answer.value[0] != 32:
        return ()
    return tuple(int(value) for value in answer.value[1])


def _text(answer: XObject) -> bytes:
    if answer is None or not answer.property_type or answer.value[0] != 8:
        return b""
    return bytes(answer.value[1])


def _app(answer: XObject) -> str:
    parts: Iterable[bytes] = _text(answer).split(b"\0")
    names = [part for part in parts if part]
    return names[-1].decode("utf-8", "replace").lower()[:MOST_TITLE] if names else ""


def _title(name: XObject, old_name: XObject) -> str:
    raw = _text(name)
    text = raw.decode("utf-8", "replace") if raw else _text(old_name).decode("latin-1")
    return text[:MOST_TITLE]


def _bounds(shape: XObject) -> Bounds:
    """Borders included; sizes that the contract can't say are cut."""
    border = 2 * shape.border_width
    return Bounds(
        x=shape.x,
        y=shape.y,
        width=min(max(shape.width + border, 1), 32767),
        height=min(max(shape.height + border, 1), 32767),
    )
