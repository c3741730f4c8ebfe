"""The kept scene is what a fresh read would say, whatever changed, and costs no read while nothing does."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from Xlib import X

from bodyd.display import scenery, windows
from bodyd.display.connection import XConnection, connect
from bodyd.display.probes import ManagerProbe
from bodyd.display.scenery import FLOOD, Scenery

from .test_windows import open_window
from .world import XServer


@pytest.fixture
def app(managed: XServer) -> Iterator[XConnection]:
    x = managed.connect()
    yield x
    x.close()


@pytest.fixture
def kept(managed: XServer) -> Iterator[Scenery]:
    x = Scenery(connect(managed.endpoint))
    yield x
    x.close()


def settled(kept: Scenery) -> windows.Scene:
    """The scene once the window manager has done what it was asked."""
    now = kept.look()
    for _ in range(20):
        manager_has_read(kept)
        before, now = now, kept.look()
        if now is before:
            return now
    raise AssertionError("it never settles")


def manager_has_read(x: XConnection) -> None:
    """Wait until the window manager has worked through all that came before."""
    probe = ManagerProbe(x)
    probe.ask()
    while not probe.answered():
        pass
    probe.close()


def test_a_still_scene_is_not_read_again(app: XConnection, kept: Scenery) -> None:
    """The very same object: nothing was asked but whether anything was told."""
    open_window(app, b"first")
    found = settled(kept)
    assert [w.title for w in found.windows] == ["first"]
    assert kept.look() is found


CHANGES: dict[str, Callable[[XConnection, int], None]] = {
    "opened": lambda x, window: open_window(x, b"another", at=(200, 200)) and None,
    "closed": lambda x, window: resource(x, window).destroy(),
    "retitled": lambda x, window: resource(x, window).change_property(
        x.atom("_NET_WM_NAME"), x.atom("UTF8_STRING"), 8, b"renamed"
    ),
    "moved": lambda x, window: resource(x, window).configure(x=400, y=300),
    "resized": lambda x, window: resource(x, window).configure(width=333),
    "unmapped": lambda x, window: resource(x, window).unmap(),
    "activated": lambda x, window: windows.activate(x, window),
    "popped up": lambda x, window: popup(x).map(),
    "popped up, then disguised": lambda x, window: disguised(popup(x)),
    "renamed class": lambda x, window: resource(x, window).set_wm_class("other", "Other"),
}


def resource(x: XConnection, window: int):
    return x.display.create_resource_object("window", window)


def popup(x: XConnection):
    return x.root.create_window(60, 100, 80, 80, 0, X.CopyFromParent, override_redirect=1)


def disguised(window) -> None:
    """A window that nobody manages, and that says so no more."""
    window.map()
    window.change_attributes(override_redirect=0)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_seen_at_the_next_look(
    app: XConnection, kept: Scenery, change: Callable[[XConnection, int], None]
) -> None:
    """What is kept equals what another connection reads afresh."""
    window = open_window(app, b"first")
    open_window(app, b"second", at=(90, 100))
    before = settled(kept)
    change(app, window)
    app.display.sync()
    manager_has_read(app)
    after = settled(kept)
    assert after != before
    assert after == windows.scene(app)


def test_what_does_not_show_costs_no_read(app: XConnection, kept: Scenery) -> None:
    """A browser notes the time of each click in a property of its window."""
    window = open_window(app, b"first")
    found = settled(kept)
    resource(app, window).change_property(app.atom("_NET_WM_USER_TIME"), app.atom("CARDINAL"), 32, [7])
    app.display.sync()
    assert kept.look() is found


def test_the_same_said_again_costs_no_read(app: XConnection, kept: Scenery) -> None:
    """A window manager states the order of windows at every click."""
    open_window(app, b"first")
    open_window(app, b"second", at=(90, 100))
    found = settled(kept)
    order, cardinals = app.atom("_NET_CLIENT_LIST_STACKING"), app.atom("WINDOW")
    app.root.change_property(order, cardinals, 32, [w.id for w in found.windows])
    app.display.sync()
    assert kept.look() is found
    app.root.change_property(order, cardinals, 32, [w.id for w in reversed(found.windows)])
    app.display.sync()
    assert [w.title for w in kept.look().windows] == ["second", "first"]


def test_a_flood_of_changes_is_not_listened_to(
    app: XConnection, kept: Scenery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every look reads then, and is right; after a while the ear is lent again."""
    window = open_window(app, b"first")
    settled(kept)
    for turn in range(FLOOD + 1):
        resource(app, window).change_property(app.atom("WM_NAME"), app.atom("STRING"), 8, b"%d" % turn)
    app.display.sync()
    found = kept.look()
    assert found == windows.scene(app)
    assert kept.look() is not found
    resource(app, window).change_property(app.atom("_NET_WM_NAME"), app.atom("UTF8_STRING"), 8, b"after")
    app.display.sync()
    assert [w.title for w in kept.look().windows] == ["after"]
    now = scenery.time.monotonic()
    monkeypatch.setattr(scenery.time, "monotonic", lambda: now + 60)
    found = settled(kept)
    assert kept.look() is found
