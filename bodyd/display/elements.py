"""Elements: accessibility as the rest of bodyd asks for it (AccessibilityPort), every answer in bounded time.

A window's app is found by process id; what an app says lies outside its own windows is dropped, so that
none can speak for another's. Its counterparts are apptree.py, which remembers, and the X server, which
alone says where windows are.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import structlog
import trio

from bodyd.contract.elements import (
    MAX_DEPTH,
    MAX_ELEMENTS,
    MAX_NAME,
    MAX_VALUE,
    AccessibilityState,
    Ancestor,
    Element,
    Node,
    Page,
    Target,
    View,
)
from bodyd.contract.geometry import Bounds, Point
from bodyd.contract.inventory import Window
from bodyd.errors import AccessibilityUnavailable

from .apptree import ACCESSIBLE, AT_ONCE, App, AppTrees
from .atspi import DOCUMENT_WEB, NOWHERE, PASSWORD, Item, Ref, bounded, element_id, ref_in, ref_of, states_of
from .dbus import Bus, CallFailed, connect

QUESTION_SECONDS = 1.0
"""For one target; measured at 1 to 4 ms of an app that is well."""

LOOK_SECONDS = 3.0
"""For all elements of a view."""

APP_SECONDS = 2.0
"""For one app of them."""

BEGIN_SECONDS = 10.0
RETRY_SECONDS = 1.0
MAX_STEPS = 32
"""From a frame inwards to what is at a point."""

MAX_FRAMES = 16
MAX_LOOKED_AT = 1_500
"""Nodes whose places are asked, for one view."""

MAX_ATTRIBUTES = 32
MAX_URL = 2_000
_COMPONENT, _TEXT, _VALUE = "org.a11y.atspi.Component", "org.a11y.atspi.Text", "org.a11y.atspi.Value"
_DOCUMENT = "org.a11y.atspi.Document"
_URLS = ("URI", "DocURL")  # Chromium's word, and everyone else's

Look = Callable[[], Awaitable[Sequence[Window]]]

log = structlog.get_logger("bodyd.display")


class Elements:
    """Implements AccessibilityPort; `run` keeps its connection.

    Args:
        path: The bus's socket, as the daemon reaches it; None while there is none.
        look: The windows now, popups among them.
    """

    def __init__(self, path: Callable[[], str | None], look: Look) -> None:
        self._path = path
        self._look = look
        self._trees = AppTrees()
        self._state = AccessibilityState.STARTING
        self._views = trio.Lock()

    @property
    def state(self) -> AccessibilityState:
        return self._state

    async def run(self) -> None:
        """Connect, and again whenever the bus is lost, until cancelled."""
        while True:
            path = self._path()
            if path is not None:
                try:
                    await self._serve(path)
                except (AccessibilityUnavailable, CallFailed) as exc:
                    log.debug("accessibility.unavailable", error=str(exc))
                if self._state is not AccessibilityState.STARTING:
                    self._state = AccessibilityState.DOWN
            await trio.sleep(RETRY_SECONDS)

    async def elements(self, view: Bounds) -> View:
        """What shows in *view*, top to bottom, window by window from the front.

        An app that does not answer in time is left out, and the view is `truncated`.
        """
        async with self._answering(LOOK_SECONDS), self._views:
            windows = _showing(await self._look())
            apps = await self._trees.apps()
            found: list[Element] = []
            whole = True

            async def ask(app: App) -> None:
                nonlocal whole
                complete = False
                with trio.move_on_after(APP_SECONDS):
                    items = await self._trees.items(app)
                    listed = [item for item in items.values() if item.listed and not _said(item, items)]
                    listed.sort(key=lambda item: not item.actionable)
                    found.extend(await self._places(app, listed[:MAX_LOOKED_AT], windows, view))
                    complete = len(listed) <= MAX_LOOKED_AT
                whole = whole and complete

            shown = {w.pid for w in windows if w.pid and w.bounds.intersection(view)}
            async with trio.open_nursery() as nursery:
                for app in apps:
                    if app.pid in shown:
                        nursery.start_soon(ask, app)
            return _ordered(found, whole)

    async def at(self, point: Point) -> Target | None:
        """The innermost element at *point*; None where the app there has no accessibility."""
        async with self._answering(QUESTION_SECONDS):
            window = _top(_showing(await self._look()), point)
            found = await self._frame(window) if window is not None else None
            if window is None or found is None:
                return None
            app, ref = found
            seen = {ref}
            while len(seen) < MAX_STEPS:
                raw = await self._trees.ask(
                    ref, _COMPONENT, "GetAccessibleAtPoint", "iiu", point.x, point.y, 0
                )
                inner = ref_in(raw)
                if inner is None or inner in seen or inner[0] != app.name:
                    break
                seen.add(inner)
                ref = inner
            return await self._target(app, ref, window.bounds, complete=len(seen) < MAX_STEPS)

    async def focused(self) -> Target | None:
        """What has the keyboard in the active window; None where the app there does not say."""
        async with self._answering(QUESTION_SECONDS):
            window = next((w for w in _showing(await self._look()) if w.active), None)
            found = await self._frame(window) if window is not None else None
            if window is None or found is None:
                return None
            app, _ = found
            if app.focus is not None and (now := await self._trees.item(app.focus)) and now.has("focused"):
                return await self._target(app, app.focus, window.bounds)
            focused = [i for i in (await self._trees.items(app)).values() if i.has("focused")]
            around = {item.parent for item in focused}
            for item in [i for i in focused if i.ref not in around] or focused:
                now = await self._trees.item(item.ref)
                if now is not None and now.has("focused"):
                    return await self._target(app, item.ref, window.bounds)
            return None

    async def element(self, element_id: str) -> Target | None:
        """That element as it is now; None once its app has dropped it, or none of its windows shows it."""
        ref = ref_of(element_id)
        if ref is None:
            return None
        async with self._answering(QUESTION_SECONDS):
            app = next((a for a in await self._trees.apps() if a.name == ref[0]), None)
            windows = _showing(await self._look())
            if app is None:
                return None
            for window in reversed([w for w in windows if w.pid == app.pid]):
                target = await self._target(app, ref, window.bounds)
                if target.element is not None:
                    return target
            return None

    async def tree(self, window_id: int) -> Node | None:
        """All of a window, cut off at MAX_ELEMENTS and MAX_DEPTH; None if its app has no accessibility."""
        async with self._answering(LOOK_SECONDS):
            window = next((w for w in _showing(await self._look()) if w.id == window_id), None)
            found = await self._frame(window) if window is not None else None
            if window is None or found is None:
                return None
            app, frame = found
            items = await self._trees.items(app)
            below: dict[Ref, list[Item]] = {}
            for item in items.values():
                below.setdefault(item.parent, []).append(item)
            top = items.get(frame[1]) or await self._trees.item(frame)
            if top is None:
                return None
            kept = _breadth_first(top, below)
            places = {e.id: e for e in await self._elements(kept, lambda place: _cut(place, window.bounds))}
            return _node(top, below, places, MAX_DEPTH, set())

    async def find(self, *, role: str | None = None, name: str | None = None) -> View:
        """Showing elements of that role, with *name* in their name (case folded), in any window."""
        async with self._answering(LOOK_SECONDS), self._views:
            windows = _showing(await self._look())
            wanted = name.casefold() if name is not None else None
            found: list[Element] = []
            whole = True
            for app in await self._trees.apps():
                if not any(w.pid == app.pid for w in windows):
                    continue
                complete = False
                with trio.move_on_after(APP_SECONDS):
                    items = [
                        item
                        for item in (await self._trees.items(app)).values()
                        if item.has("showing")
                        and (role is None or item.role_name == role)
                        and (wanted is None or wanted in item.name.casefold())
                    ]
                    found += await self._places(app, items[:MAX_LOOKED_AT], windows, None)
                    complete = len(items) <= MAX_LOOKED_AT
                whole = whole and complete
            return _ordered(found, whole)

    # -- the connection ----------------------------------------------------------------------------

    async def _serve(self, path: str) -> None:
        trees = AppTrees()
        bus = await connect(path, trees.hear)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(bus.serve)
                if await _begin(bus, trees):
                    self._trees, self._state = trees, AccessibilityState.READY
                    await bus.lost.wait()
                nursery.cancel_scope.cancel(reason="the bus is lost")
        finally:
            bus.close()

    @asynccontextmanager
    async def _answering(self, seconds: float) -> AsyncIterator[None]:
        """Bound a question in time, and say how the last one went.

        Raises:
            AccessibilityUnavailable: there is no bus, or no answer in time.
        """
        if self._state in (AccessibilityState.STARTING, AccessibilityState.DOWN):
            raise AccessibilityUnavailable(f"the accessibility bus is {self._state.value}")
        scope = trio.CancelScope(deadline=trio.current_time() + seconds)
        try:
            with scope:
                yield
        except BaseExceptionGroup as group:
            if group.split(AccessibilityUnavailable)[1] is not None:
                raise
            raise AccessibilityUnavailable("the accessibility bus is lost") from None
        self._answered(in_time=not scope.cancelled_caught)
        if scope.cancelled_caught:
            raise AccessibilityUnavailable("the app does not answer questions about its structure")

    def _answered(self, *, in_time: bool) -> None:
        if self._state is not AccessibilityState.DOWN:
            self._state = AccessibilityState.READY if in_time else AccessibilityState.SLOW

    # -- one app -----------------------------------------------------------------------------------

    async def _frame(self, window: Window) -> tuple[App, Ref] | None:
        """The app of *window*, and the top-level of its tree that is this window."""
        apps = [app for app in await self._trees.apps() if window.pid and app.pid == window.pid]
        best: tuple[tuple[bool, int], App, Ref] | None = None
        for app in apps:
            for ref in (await self._trees.children(app.root))[:MAX_FRAMES]:
                place = _cut(await self._trees.ask(ref, _COMPONENT, "GetExtents", "u", 0), window.bounds)
                if place is None or ref[0] != app.name:
                    continue
                item = app.items.get(ref[1])
                titled = item is not None and bool(item.name) and item.name == window.title[:MAX_NAME]
                rank = (titled, place.width * place.height)
                if best is None or rank > best[0]:
                    best = (rank, app, ref)
        return best[1:] if best is not None else None

    async def _target(self, app: App, ref: Ref, within: Bounds, *, complete: bool = True) -> Target:
        item = await self._trees.item(ref)
        if item is None:
            return Target(None, complete=complete)
        elements = await self._elements([item], lambda place: _cut(place, within))
        raw = await self._trees.ask(ref, ACCESSIBLE, "GetAttributes")
        steps, whole = await self._outwards(app.items.get(ref[1], item), app.items, app)
        pages = [p for p in [await self._page(i) for i in (item, *steps) if i.role == DOCUMENT_WEB] if p]
        return Target(
            elements[0] if elements else None,
            ancestors=tuple(Ancestor(element_id(i.ref) or "", i.role_name, i.name) for i in steps),
            page=pages[0] if pages else None,
            frames=tuple(page.url for page in pages),
            complete=complete and whole,
            attributes=_attributes(raw),
        )

    async def _outwards(self, item: Item, items: dict[str, Item], app: App) -> tuple[list[Item], bool]:
        """The ancestors of *item* up to its app, and whether they are all."""
        steps: list[Item] = []
        seen, here = {item.ref}, item
        while len(steps) < MAX_DEPTH:
            parent: Ref | None = here.parent
            if parent == NOWHERE:
                parent = ref_in(await self._trees.value(here.ref, ACCESSIBLE, "Parent"))
            if parent is None or parent[0] != app.name:
                return steps, True
            if parent in seen:
                return steps, False
            above = items.get(parent[1]) or await self._trees.item(parent)
            if above is None:
                return steps, True
            seen.add(parent)
            steps.append(above)
            here = above
        return steps, False

    async def _page(self, document: Item) -> Page | None:
        for name in _URLS:
            url = await self._trees.ask(document.ref, _DOCUMENT, "GetAttributeValue", "s", name)
            if isinstance(url, str) and url:
                return Page(bounded(url, MAX_URL), document.name)
        return Page("", document.name)

    async def _places(
        self, app: App, items: Sequence[Item], windows: Sequence[Window], view: Bounds | None
    ) -> list[Element]:
        """Those of *items* that can be seen: in *view*, in a window of their own app, and not covered."""

        def seen(raw: object) -> Bounds | None:
            for window in reversed(windows):
                place = _cut(raw, window.bounds) if window.pid == app.pid else None
                place = place.intersection(view) if place is not None and view is not None else place
                if place is None:
                    continue
                middle = Point(x=place.x + place.width // 2, y=place.y + place.height // 2)
                on_top = _top(windows, middle)
                return place if on_top is not None and on_top.pid == app.pid else None
            return None

        return await self._elements(items, seen)

    async def _elements(
        self, items: Sequence[Item], seen: Callable[[object], Bounds | None]
    ) -> list[Element]:
        """What *items* are as elements, those that `seen` finds a place for, in the order of the items."""
        made: list[Element | None] = [None] * len(items)
        todo = iter(enumerate(items))

        async def make() -> None:
            for index, item in todo:
                ident = element_id(item.ref)
                if ident is None:
                    continue
                place = seen(await self._trees.ask(item.ref, _COMPONENT, "GetExtents", "u", 0))
                if place is not None:
                    made[index] = Element(
                        id=ident,
                        role=item.role_name,
                        name=item.name,
                        value=await self._value(item),
                        states=states_of(item.states),
                        bounds=place,
                        actionable=item.actionable,
                    )

        async with trio.open_nursery() as nursery:
            for _ in range(min(AT_ONCE, len(items))):
                nursery.start_soon(make)
        return [element for element in made if element is not None]

    async def _value(self, item: Item) -> str | None:
        if item.role == PASSWORD:
            return None
        if item.textual and (item.has("editable") or item.has("focusable")):
            text = await self._trees.ask(item.ref, _TEXT, "GetText", "ii", 0, MAX_VALUE)
            return bounded(text, MAX_VALUE) if isinstance(text, str) else None
        if item.valued:
            number = await self._trees.value(item.ref, _VALUE, "CurrentValue")
            return f"{number:.10g}" if isinstance(number, int | float) else None
        return None


async def _begin(bus: Bus, trees: AppTrees) -> bool:
    """Whether the bus greets and has a registry, in time."""
    with trio.move_on_after(BEGIN_SECONDS):
        try:
            await bus.hello()
            await trees.begin(bus)
            return True
        except (AccessibilityUnavailable, CallFailed) as exc:
            log.debug("accessibility.unavailable", error=str(exc))
    return False


def _said(item: Item, items: dict[str, Item]) -> bool:
    """Whether it is only the words of what is told of itself."""
    around = items.get(item.parent[1])
    return item.words and around is not None and around.actionable


def _showing(windows: Sequence[Window]) -> list[Window]:
    return [window for window in windows if not window.minimised]


def _top(windows: Sequence[Window], point: Point) -> Window | None:
    return next((w for w in reversed(windows) if w.bounds.contains(point)), None)


def _cut(raw: object, within: Bounds) -> Bounds | None:
    """An app's word of a place, cut to where it can be; None for none, or for what is no place."""
    match raw:
        case (int(x), int(y), int(width), int(height)) if width > 0 and height > 0:
            left, top = max(x, within.x), max(y, within.y)
            right, bottom = min(x + width, within.right), min(y + height, within.bottom)
            if right > left and bottom > top:
                return Bounds(x=left, y=top, width=right - left, height=bottom - top)
    return None


def _ordered(found: list[Element], whole: bool) -> View:
    """What can be acted on stays when there is too much; told from top to bottom."""
    kept = sorted(found, key=lambda e: not e.actionable)[:MAX_ELEMENTS]
    kept.sort(key=lambda e: (e.bounds.y, e.bounds.x, e.id))
    return View(tuple(kept), truncated=not whole or len(kept) < len(found))


def _attributes(raw: object) -> tuple[tuple[str, str], ...]:
    pairs = raw[:MAX_ATTRIBUTES] if isinstance(raw, list) else []
    return tuple((bounded(p[0]), bounded(p[1])) for p in pairs if isinstance(p, tuple) and len(p) == 2)


def _breadth_first(top: Item, below: dict[Ref, list[Item]]) -> list[Item]:
    """*top* and what is in it, each once, at most MAX_ELEMENTS."""
    kept, seen = [top], {top.ref}
    for item in kept:
        for child in below.get(item.ref, ()):
            if child.ref not in seen and len(kept) < MAX_ELEMENTS:
                seen.add(child.ref)
                kept.append(child)
    return kept


def _node(
    item: Item, below: dict[Ref, list[Item]], places: dict[str, Element], depth: int, seen: set[Ref]
) -> Node | None:
    element = places.get(element_id(item.ref) or "")
    if element is None or depth == 0 or item.ref in seen:
        return None
    seen.add(item.ref)
    inner = (_node(child, below, places, depth - 1, seen) for child in below.get(item.ref, ()))
    return Node(element, tuple(node for node in inner if node is not None))
