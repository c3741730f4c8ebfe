"""The apps on the accessibility bus, and what is remembered of their trees: asked once, kept up by events.

All of it is hostile: an app can lie about its own nodes, answer slowly or without end, and refer to itself.
So everything is bounded in number, an app speaks for its own nodes alone, and nothing here follows a
reference without a count. Its counterparts are dbus.py below and elements.py above.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import trio
from jeepney import DBusAddress

from bodyd.contract.elements import MAX_DEPTH

from .atspi import (
    DOCUMENT_WEB,
    NOWHERE,
    PANEL,
    Item,
    Ref,
    bounded,
    item_in,
    items_in,
    ref_in,
    state_bits,
)
from .dbus import BUS, Bus, CallFailed
from .dbus_wire import Incoming

MAX_APPS = 32
MAX_ITEMS = 20_000
"""Nodes of one app; of more, the first are known."""

MAX_CHILDREN = 1_000

AT_ONCE = 64
"""Questions outstanding, for one answer."""

ACCESSIBLE = "org.a11y.atspi.Accessible"
_REGISTRY, _EVENTS = "org.a11y.atspi.Registry", "org.a11y.atspi.Event.Object"
_CACHE, _PROPERTIES = "org.a11y.atspi.Cache", "org.freedesktop.DBus.Properties"
_ROOT = "/org/a11y/atspi/accessible/root"
_HEARD = ("object:state-changed", "object:children-changed", "object:property-change")
_RULES = (
    *(
        f"type='signal',interface='{_EVENTS}',member='{member}'"
        for member in ("StateChanged", "ChildrenChanged", "PropertyChange")
    ),
    f"type='signal',interface='{_CACHE}'",
)


@dataclass(slots=True)
class App:
    """One app: its name on the bus, the process that it says it is, and its nodes by path."""

    name: str
    root: Ref
    pid: int
    items: dict[str, Item] = field(default_factory=dict)
    inner: dict[str, list[Ref]] = field(default_factory=dict)  # children, where they are known
    focus: Ref | None = None  # what last said that it has the keyboard
    read: bool = False
    asking: trio.Lock = field(default_factory=trio.Lock)


class AppTrees:
    """What is known of every app on one bus; `begin` before the first question."""

    def __init__(self) -> None:
        self._bus: Bus | None = None
        self._apps: dict[str, App] = {}

    async def begin(self, bus: Bus) -> None:
        """Ask for the events that keep the caches; apps publish theirs once somebody listens.

        Raises:
            CallFailed: there is no registry on this bus.
        """
        for rule in _RULES:
            await bus.call(BUS, "AddMatch", "s", (rule,))
        registry = DBusAddress("/org/a11y/atspi/registry", _REGISTRY, _REGISTRY)
        for event in _HEARD:
            await bus.call(registry, "RegisterEvent", "sass", (event, [], ""))
        self._apps, self._bus = {}, bus

    async def apps(self) -> list[App]:
        """Those that are registered now, at most MAX_APPS."""
        raw = await self.ask((_REGISTRY, _ROOT), ACCESSIBLE, "GetChildren")
        roots = [ref for ref in map(ref_in, _list(raw, MAX_APPS)) if ref is not None]
        known = {name: app for name, app in self._apps.items() if app.root in roots}
        for root in roots:
            if root[0] not in known:
                known[root[0]] = App(root[0], root, await self._pid(root[0]))
        self._apps = known
        return list(known.values())

    async def items(self, app: App) -> dict[str, Item]:
        """The nodes of *app* by path, down to what does not show: remembered, but for what was told of since.

        Cancellation:
            What was read stays; the next look goes on from there.
        """
        async with app.asking:
            if not app.read:
                await self._read_cache(app)
                app.read = True
            await self._complete(app)
            return app.items

    async def ask(
        self, ref: Ref, interface: str, member: str, signature: str | None = None, *body: object
    ) -> Any:  # noqa: ANN401  # the wire's word
        """The first value of an answer; None for an error, or an empty answer.

        Raises:
            AccessibilityUnavailable: the bus is lost.
        """
        assert self._bus is not None, "begin() comes first"
        try:
            answer = await self._bus.call(DBusAddress(ref[1], ref[0], interface), member, signature, body)
        except CallFailed:
            return None
        return answer[0] if answer else None

    async def value(self, ref: Ref, interface: str, name: str) -> Any:  # noqa: ANN401
        """A property's value; None if there is none."""
        match await self.ask(ref, _PROPERTIES, "Get", "ss", interface, name):
            case (str(), value):
                return value
            case _:
                return None

    async def children(self, ref: Ref) -> list[Ref]:
        raw = await self.ask(ref, ACCESSIBLE, "GetChildren")
        return [child for child in map(ref_in, _list(raw, MAX_CHILDREN)) if child is not None]

    async def item(self, ref: Ref, parent: Ref = NOWHERE) -> Item | None:
        """One node, asked now; None if its app does not have it."""
        answers: dict[str, Any] = {}

        async def ask(key: str, interface: str, member: str, *body: object) -> None:
            answers[key] = await self.ask(ref, interface, member, "s" * len(body) or None, *body)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, "role", ACCESSIBLE, "GetRole")
            nursery.start_soon(ask, "states", ACCESSIBLE, "GetState")
            nursery.start_soon(ask, "name", _PROPERTIES, "Get", ACCESSIBLE, "Name")
        role, name = answers["role"], answers["name"]
        if not isinstance(role, int):
            return None
        text = name[1] if isinstance(name, tuple) else ""
        return Item(ref, parent, role, bounded(text), state_bits(answers["states"]))

    def hear(self, message: Incoming) -> None:
        """Take a signal: what it says of its sender's own nodes, and of nobody else's."""
        app = self._apps.get(message.sender)
        if app is None:
            return
        known = app.items.get(message.path)
        if message.member == "StateChanged" and message.body[:2] == ("focused", 1):
            app.focus = (app.name, message.path)
        match message.interface, message.member, message.body:
            case (_, "AddAccessible", (raw, *_)) if message.interface == _CACHE:
                item = item_in(raw, app.name)
                if item is not None and len(app.items) < MAX_ITEMS:
                    app.items[item.ref[1]] = item
                    app.inner.pop(item.parent[1], None)
            case (_, "RemoveAccessible", (raw, *_)) if message.interface == _CACHE:
                ref = ref_in(raw)
                gone = app.items.pop(ref[1], None) if ref is not None and ref[0] == app.name else None
                if gone is not None:
                    app.inner.pop(gone.parent[1], None)
            case (_, "StateChanged", (str(state), int(on), *_)) if known is not None:
                app.items[message.path] = known.with_state(state.replace("-", "_"), bool(on))
            case (_, "PropertyChange", ("accessible-name", _, _, ("s", str(name)), *_)) if known is not None:
                app.items[message.path] = replace(known, name=bounded(name))
            case (_, "ChildrenChanged", _):
                app.inner.pop(message.path, None)
            case (_, _, _):
                pass

    async def _pid(self, name: str) -> int:
        assert self._bus is not None
        try:
            answer = await self._bus.call(BUS, "GetConnectionUnixProcessID", "s", (name,))
        except CallFailed:
            return 0
        return answer[0] if answer and isinstance(answer[0], int) else 0

    async def _read_cache(self, app: App) -> None:
        """Take over what the app itself remembers: many nodes by one question. Not all that it has."""
        raw = await self.ask((app.name, "/org/a11y/atspi/cache"), _CACHE, "GetItems")
        app.items = items_in(_list(raw, MAX_ITEMS), app.name, MAX_ITEMS)
        app.inner = {}
        for item in sorted(app.items.values(), key=lambda item: item.index):
            app.inner.setdefault(item.parent[1], []).append(item.ref)
        for item in app.items.values():
            if item.count != len(app.inner.get(item.ref[1], ())):
                app.inner.pop(item.ref[1], None)
            elif not item.count:
                app.inner[item.ref[1]] = []

    async def _complete(self, app: App) -> None:
        """Ask for what is not known, level by level; each node once, however the app's references run.

        What was reached stays, the rest is forgotten.
        """
        reached: dict[str, Item] = {}
        level: list[tuple[Ref, Ref]] = [(app.root, NOWHERE)]
        for _ in range(MAX_DEPTH):
            await self._ask_all(app, level)
            below: dict[Ref, Ref] = {}
            for ref, _parent in level:
                item = app.items.get(ref[1])
                if item is None:
                    continue
                reached[ref[1]] = item
                for child in app.inner.get(ref[1], ()) if _shows(app, item) else ():
                    if child[0] == app.name and child[1] not in reached:
                        below.setdefault(child, ref)
            level = list(below.items())[: MAX_ITEMS - len(reached)]
            if not level:
                break
        app.items = reached
        app.inner = {path: refs for path, refs in app.inner.items() if path in reached}

    async def _ask_all(self, app: App, level: Sequence[tuple[Ref, Ref]]) -> None:
        """Make the nodes of *level* known, and their children, as far as they show."""
        todo = iter([pair for pair in level if not _known(app, *pair)])

        async def work() -> None:
            for ref, parent in todo:
                item = app.items.get(ref[1])
                if item is None or parent == app.root:
                    item = await self.item(ref, parent)
                elif not _shows(app, item):
                    item = replace(item, states=state_bits(await self.ask(ref, ACCESSIBLE, "GetState")))
                if item is None:
                    app.items.pop(ref[1], None)
                    continue
                app.items[ref[1]] = item
                if _shows(app, item) and not (parent == app.root and ref[1] in app.inner):
                    app.inner[ref[1]] = await self.children(ref)

        async with trio.open_nursery() as nursery:
            for _ in range(AT_ONCE):
                nursery.start_soon(work)


def _known(app: App, ref: Ref, parent: Ref) -> bool:
    """Whether nothing has to be asked of *ref*.

    Not all is told in events: Chromium tells nobody that a page has come, gone or changed into another,
    and what an app says before it is known is lost. So windows, what does not show, and the panel around
    a page are asked at every look.
    """
    item, inner = app.items.get(ref[1]), app.inner.get(ref[1])
    if item is None or inner is None or parent == app.root or not _shows(app, item):
        return False
    if item.role != PANEL:
        return True
    children = [app.items.get(child[1]) for child in inner]
    return bool(inner) and all(child is not None and child.role != DOCUMENT_WEB for child in children)


def _shows(app: App, item: Item) -> bool:
    return item.ref == app.root or item.has("showing")


def _list(raw: object, limit: int) -> Sequence[Any]:
    return raw[:limit] if isinstance(raw, list) else ()
