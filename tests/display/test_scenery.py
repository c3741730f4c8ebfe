"""The kept scene is what a fresh read would say, whatever changed, and costs no read while nothing does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from Xlib import X
from Xlib.ext import shape

from bodyd.contract.geometry import Point
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
    assert replace(after, focus=0) == windows.scene(app)


def unseen(x: XConnection):
    """An override-redirect window that shows nothing and takes every click."""
    return x.root.create_window(60, 100, 80, 80, 0, 0, X.InputOnly, override_redirect=1)


def passed_through(window) -> None:
    """Let clicks through to what lies below."""
    window.shape_rectangles(shape.SO.Set, shape.SK.Input, 0, 0, 0, [])


HERE = Point(x=70, y=120)


def test_the_server_says_what_is_at_a_point(app: XConnection, kept: Scenery) -> None:
    """Windows that show nothing, that let clicks through and no longer do, and more than are ever read."""
    first = open_window(app, b"first", at=(50, 80))
    settled(kept)
    assert kept.look_at(HERE)[1] == first
    glass = unseen(app)
    glass.map()
    app.display.sync()
    assert kept.look_at(HERE)[1] == glass.id
    assert [w.id for w in kept.look().popups] == [glass.id]
    passed_through(glass)
    app.display.sync()
    scene, top = kept.look_at(HERE)
    assert (scene.top_at(HERE).id, top) == (first, first)
    glass.shape_mask(shape.SO.Set, shape.SK.Input, 0, 0, X.NONE)
    for _ in range(windows.MOST_WINDOWS):
        popup(app)
    app.display.sync()
    scene, top = kept.look_at(HERE)
    assert top == glass.id


def test_who_gets_the_keys_is_the_servers_word(managed: XServer, app: XConnection, kept: Scenery) -> None:
    """Whatever the property says, which any client can write."""
    open_window(app, b"first")
    found = settled(kept)
    assert found.focus == app.client_of(found.windows[0].id)
    thief = managed.connect()
    stolen = popup(thief)
    stolen.map()
    stolen.set_input_focus(X.RevertToParent, X.CurrentTime)
    thief.display.sync()
    manager_has_read(app)
    word = app.atom("_NET_ACTIVE_WINDOW")
    app.root.change_property(word, app.atom("WINDOW"), 32, [found.windows[0].id])
    app.display.sync()
    now = kept.look()
    assert now.windows[0].active
    assert now.focus == thief.client_of(stolen.id)
    thief.close()


@pytest.mark.parametrize("kind", ["pointer", "keyboard"])
def test_a_grab_is_told_and_none_is_made(app: XConnection, kept: Scenery, kind: str) -> None:
    """Asking takes nothing from anybody; and where an app maps our window, we hang up at once."""
    open_window(app, b"first")
    assert not settled(kept).grabbed
    if kind == "pointer":
        app.root.grab_pointer(False, 0, X.GrabModeAsync, X.GrabModeAsync, X.NONE, X.NONE, X.CurrentTime)
    else:
        app.root.grab_keyboard(False, X.GrabModeAsync, X.GrabModeAsync, X.CurrentTime)
    assert kept.look().grabbed
    app.display.ungrab_pointer(X.CurrentTime)
    app.display.ungrab_keyboard(X.CurrentTime)
    app.display.sync()
    assert not kept.look().grabbed
    resource(app, kept._never_seen.id).map()
    app.display.sync()
    with pytest.raises(OSError, match="on the screen"):
        kept.look()


def test_a_window_that_takes_over_an_id_is_listened_to(
    app: XConnection, kept: Scenery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Destroyed and made anew under the same id between two looks."""
    window = open_window(app, b"first")
    settled(kept)
    resource(app, window).destroy()
    monkeypatch.setattr(app.core, "allocate_resource_id", lambda: window)
    assert open_window(app, b"second") == window
    manager_has_read(kept)
    assert [w.title for w in settled(kept).windows] == ["second"]
    resource(app, window).change_property(app.atom("_NET_WM_NAME"), app.atom("UTF8_STRING"), 8, b"third")
    app.display.sync()
    assert [w.title for w in kept.look().windows] == ["third"]


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
    assert replace(found, focus=0) == windows.scene(app)
    assert kept.look() is not found
    resource(app, window).change_property(app.atom("_NET_WM_NAME"), app.atom("UTF8_STRING"), 8, b"after")
    app.display.sync()
    assert [w.title for w in kept.look().windows] == ["after"]
    now = scenery.time.monotonic()
    monkeypatch.setattr(scenery.time, "monotonic", lambda: now + 60)
    found = settled(kept)
    assert kept.look() is found
