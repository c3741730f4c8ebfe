"""Windows as the window manager and the server tell of them."""

from __future__ import annotations

import signal

import pytest
import trio
from Xlib import X, Xatom, Xutil

from bodyd.contract.geometry import Point
from bodyd.contract.inventory import Window
from bodyd.display.connection import XConnection
from bodyd.display.display import Display
from bodyd.display.windows import MOST_WINDOWS
from bodyd.errors import NotFound

from .world import XServer, start_window_manager, until, window_titled


def open_window(x: XConnection, title: bytes, *, at: tuple[int, int] = (50, 60), kind: int = 0) -> int:
    """A plain app window, mapped; its id."""
    window = x.root.create_window(*at, 200, 100, 0, X.CopyFromParent, background_pixel=0xDDDDDD)
    window.set_wm_class("tester", "Tester")
    window.set_wm_normal_hints(flags=Xutil.USPosition, x=at[0], y=at[1])
    window.change_property(x.atom("_NET_WM_NAME"), kind or x.atom("UTF8_STRING"), 8, title)
    window.change_property(x.atom("_NET_WM_PID"), Xatom.CARDINAL, 32, [4242])
    window.map()
    x.display.sync()
    return int(window.id)


@pytest.fixture
def app(managed: XServer):
    x = managed.connect()
    yield x
    x.close()


async def test_windows_are_listed_bottom_to_top(app: XConnection, display: Display) -> None:
    """Title, app, pid, frame and stacking of each; the newest is active."""
    first = open_window(app, "größer 漢字".encode(), at=(50, 60))
    await window_titled(display, "größer")
    second = open_window(app, b"second", at=(90, 100))
    await window_titled(display, "second")
    windows = await display.windows()
    assert [w.id for w in windows] == [first, second]
    assert [w.stacking for w in windows] == [0, 1]
    assert [w.active for w in windows] == [False, True]
    assert windows[0].title == "größer 漢字"
    assert (windows[0].app, windows[0].pid, windows[0].minimised) == ("tester", 4242, False)
    assert windows[0].bounds.width >= 200
    assert windows[0].bounds.height > 100  # the frame has a title bar


async def test_the_window_under_a_point(app: XConnection, display: Display) -> None:
    """The frame counts as its window; covered, the upper one has the point; elsewhere nothing."""
    open_window(app, b"lower", at=(100, 100))
    lower = await window_titled(display, "lower")
    inside = Point(x=lower.bounds.x + 5, y=lower.bounds.y + 5)
    found = await display.window_under(inside)
    assert found.window is not None
    assert found.window.id == lower.id
    assert found.popup is None
    open_window(app, b"upper", at=(100, 100))
    await window_titled(display, "upper")
    covered = await display.window_under(inside)
    assert covered.window is not None
    assert covered.window.title == "upper"
    assert covered.client == found.client
    nothing = await display.window_under(Point(x=1200, y=700))
    assert (nothing.window, nothing.popup, nothing.client) == (None, None, 0)


async def test_a_popup_is_told_apart(app: XConnection, display: Display) -> None:
    """An unmanaged window over a managed one, by the same client."""
    open_window(app, b"owner")
    await window_titled(display, "owner")
    menu = app.root.create_window(60, 100, 80, 80, 0, X.CopyFromParent, override_redirect=1)
    menu.map()
    app.display.sync()
    found = await display.window_under(Point(x=70, y=120))
    assert found.window is None
    assert found.popup is not None
    assert found.popup.id == menu.id
    assert found.client == app.client_of(menu.id)
    (popup,) = await display.popups()
    assert (popup.id, popup.pid) == (menu.id, 4242)


async def test_activate_minimise_and_close(app: XConnection, display: Display) -> None:
    """Asked of the window manager, read back from it."""
    first = open_window(app, b"first", at=(10, 10))
    await window_titled(display, "first")
    open_window(app, b"second", at=(400, 300))
    await window_titled(display, "second")
    await display.activate(first)
    assert (await window_titled(display, "first")).stacking == 1
    await display.close(first)

    async def gone() -> bool:
        return all(w.id != first for w in await display.windows())

    await until(gone)


async def test_an_unknown_window_is_refused(app: XConnection, display: Display) -> None:
    """Neither activated nor closed."""
    with pytest.raises(NotFound):
        await display.activate(12345)
    with pytest.raises(NotFound):
        await display.close(12345)


@pytest.mark.parametrize(
    "title", [b"\xff\xfe broken \xc3", b"<script>alert(1)</script>\x00\n", b"a" * 100_000, b""]
)
async def test_hostile_titles(app: XConnection, display: Display, title: bytes) -> None:
    """Invalid, active, endless or empty: text, at most a thousand characters."""
    window = open_window(app, title)

    async def look() -> list[Window]:
        return [w for w in await display.windows() if w.id == window]

    (found,) = await until(look)
    assert len(found.title) <= 1000


async def test_a_title_of_a_strange_type(app: XConnection, display: Display) -> None:
    """Numbers where a text should be are no title."""
    window = open_window(app, b"fine")
    await window_titled(display, "fine")
    resource = app.display.create_resource_object("window", window)
    for name in ("_NET_WM_NAME", "WM_CLASS", "_NET_WM_STATE", "_NET_WM_PID"):
        resource.change_property(app.atom(name), Xatom.CARDINAL, 16, [1, 2, 3])
    app.display.sync()
    (found,) = await display.windows()
    assert found.id == window


async def test_windows_that_vanish_are_left_out(
    managed: XServer, display: Display, nursery: trio.Nursery
) -> None:
    """Windows are made and destroyed while the list is read two hundred times."""

    def churn() -> None:
        for _ in range(60):
            x = managed.connect()
            for index in range(4):
                open_window(x, b"short-lived", at=(index * 50, 10))
            x.close()

    done = trio.Event()

    async def run() -> None:
        await trio.to_thread.run_sync(churn)
        done.set()

    nursery.start_soon(run)
    while not done.is_set():
        await display.windows()
        await display.popups()
        await display.window_under(Point(x=60, y=60))


async def test_the_list_is_bounded(server: XServer, display: Display) -> None:
    """A client list of thousands, without any window manager to contradict it."""
    x = server.connect()
    windows = [x.root.create_window(0, 0, 5, 5, 0, X.CopyFromParent).id for _ in range(MOST_WINDOWS + 50)]
    x.root.change_property(x.atom("_NET_CLIENT_LIST_STACKING"), Xatom.WINDOW, 32, windows * 10)
    x.display.sync()
    assert len(await display.windows()) == MOST_WINDOWS
    x.close()


async def test_a_hung_window_manager_is_told_apart(server: XServer, display: Display) -> None:
    """None at all, a stopped one, and a working one."""
    assert not await display.window_manager_answers()
    openbox = start_window_manager(server)
    assert await display.window_manager_answers()
    openbox.send_signal(signal.SIGSTOP)
    assert not await display.window_manager_answers()
    openbox.send_signal(signal.SIGCONT)
    assert await display.window_manager_answers()
