"""The accessibility client against a hostile app on a real bus, and against a bus that is none."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import trio

from bodyd.contract.elements import MAX_ELEMENTS, MAX_NAME, AccessibilityState
from bodyd.contract.geometry import Bounds, Point
from bodyd.display import elements as module
from bodyd.display.atspi import BIT, ROLES
from bodyd.display.dbus import BUS, CallFailed, connect
from bodyd.display.elements import Elements
from bodyd.errors import AccessibilityUnavailable

from .fake import ROOT, SHOWING, WINDOW, FakeApp, fake_app, path_of, reached, reading, running_bus

SCREEN = Bounds(x=0, y=0, width=1280, height=800)
CACHE = "/org/a11y/atspi/cache"


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with running_bus(tmp_path_factory.mktemp("bus")) as path:
        yield path


@pytest.fixture
async def app(bus: Path) -> AsyncIterator[FakeApp]:
    async with fake_app(bus) as app:
        yield app


@pytest.fixture
async def client(bus: Path, app: FakeApp) -> AsyncIterator[Elements]:
    async with reading(bus) as client:
        yield client


async def test_a_form_is_told_of_with_roles_names_values_and_places(app: FakeApp, client: Elements) -> None:
    """A view has what can be acted on, cut to its window; a password's text is never asked for."""
    app.more_states[2] = BIT["editable"] | BIT["focused"]
    view = await client.elements(SCREEN)
    assert [(e.role, e.name, e.value, e.actionable) for e in view.elements] == [
        ("frame", "Fake", None, False),
        ("entry", "Town", "text of Town", True),
        ("password text", "PIN", None, True),
        ("push button", "Pay", None, True),
    ]
    assert not view.truncated
    assert view.elements[1].states == ("editable", "enabled", "focused", "showing", "visible")
    assert view.elements[3].bounds == Bounds(x=110, y=170, width=100, height=20)


async def test_what_is_at_a_point_comes_with_its_surroundings(app: FakeApp, client: Elements) -> None:
    """A target has its element, the ancestors outwards, its attributes; it can be asked for by its id."""
    target = await client.at(Point(x=120, y=175))
    assert target is not None
    assert target.element is not None
    assert (target.element.role, target.element.name) == ("push button", "Pay")
    assert [a.role for a in target.ancestors] == ["frame", "application"]
    assert (target.complete, target.attributes) == (True, (("tag", "input"),))
    assert await client.element(target.element.id) == target
    assert await client.element("nonsense") is None
    assert await client.at(Point(x=5, y=5)) is None  # no window


async def test_changes_are_heard_not_asked_for(app: FakeApp, client: Elements) -> None:
    """States, names and children are seen at the next look; of what is as it was, only windows are asked."""
    await client.elements(SCREEN)
    app.nodes[5] = ("check box", "Agree", (110, 200, 100, 20), [])
    app.nodes[1][3].append(5)
    event = "org.a11y.atspi.Event.Object"
    rest = (0, 0)
    await app.emit(path_of(4), event, "StateChanged", "siiv", ("focused", 1, 0, ("i", 0)))
    await app.emit(path_of(4), event, "PropertyChange", "siiv", ("accessible-name", *rest, ("s", "Pay now")))
    await app.emit(path_of(1), event, "ChildrenChanged", "siiv", ("add", *rest, ("i", 0)))
    for _ in range(500):
        view = (await client.elements(SCREEN)).elements
        if len(view) == 5:
            break
    pay = next(e for e in view if e.role == "push button")
    assert pay.name == "Pay now"
    assert "focused" in pay.states
    app.asked.clear()
    await client.elements(SCREEN)
    assert app.asked.count("GetRole") == 1  # the window's
    app.more_states[4] = BIT["focused"]
    focused = await client.focused()
    assert focused is not None
    assert focused.element is not None
    assert focused.element.id == pay.id


async def test_a_tree_in_a_circle_is_read_once(app: FakeApp, client: Elements) -> None:
    """Nodes that contain each other are told of once each, and the way outwards is cut off, and said so."""
    app.nodes[2] = ("panel", "Round", (110, 110, 200, 20), [4, 2, 1])
    app.nodes[4] = ("push button", "Pay", (110, 110, 100, 20), [2, 1])
    app.answers[(path_of(2), "Get")] = lambda: ("v", (("(so)", app.ref(4)),))
    app.answers[(path_of(4), "Get")] = lambda: ("v", (("(so)", app.ref(2)),))
    view = await client.elements(SCREEN)
    assert len({e.id for e in view.elements}) == len(view.elements)
    tree = await client.tree(WINDOW.id)
    assert tree is not None
    assert len(tree.children) == 3
    client._trees.__init__()  # type: ignore[misc]  # nothing is remembered


async def test_endless_children_and_names_are_cut(
    app: FakeApp, client: Elements, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names are cut to MAX_NAME, and no more than MAX_ELEMENTS are told of, which is said."""
    monkeypatch.setattr(module, "APP_SECONDS", 60.0)
    monkeypatch.setattr(module, "LOOK_SECONDS", 60.0)
    many = list(range(10, 530))
    app.nodes |= {n: ("push button", "x" * 500, (110, 110, 50, 20), []) for n in many}
    app.nodes[1] = ("frame", "Fake", (100, 100, 600, 400), many)
    view = await client.elements(SCREEN)
    assert len(view.elements) == MAX_ELEMENTS
    assert view.truncated
    assert {len(e.name) for e in view.elements if e.role == "push button"} == {MAX_NAME}


async def test_an_app_speaks_for_its_own_windows_alone(bus: Path, app: FakeApp) -> None:
    """What it claims outside of its window, or where another window covers it, is dropped."""
    other = WINDOW.model_copy(
        update={"id": 8, "pid": 1, "stacking": 1, "bounds": Bounds(x=100, y=160, width=300, height=60)}
    )
    app.nodes[2] = ("entry", "Town", (900, 600, 100, 20), [])
    async with reading(bus, WINDOW, other) as client:
        view = await client.elements(SCREEN)
        assert [e.name for e in view.elements] == ["Fake", "PIN"]
        assert await client.at(Point(x=120, y=175)) is None  # the other's window, which has no accessibility
        assert await client.tree(8) is None


@pytest.mark.parametrize(
    ("member", "answer"),
    [
        ("GetRole", ("s", ("button",))),
        ("GetRole", ("u", (2**32 - 1,))),
        ("GetState", ("as", (["showing"],))),
        ("GetExtents", ("(iiii)", ((-(2**31), -(2**31), 2**31 - 1, 2**31 - 1),))),
        ("GetExtents", ("s", ("here",))),
        ("GetExtents", ("(iiii)", ((0, 0, -5, -5),))),
        ("GetAccessibleAtPoint", ("(so)", ((":1.99999", path_of(4)),))),
        ("GetAttributes", ("a{si}", ({"tag": 1},))),
        ("GetAttributes", ("au", ([1, 2],))),
        ("Get", ("v", (("av", [("s", "deep"), ("v", ("v", ("s", "er")))]),))),
        ("GetItems", ("as", (["node"],))),
        ("GetChildren", ("s", ("none",))),
    ],
)
async def test_answers_of_the_wrong_kind_are_no_answers(
    app: FakeApp, client: Elements, member: str, answer: tuple[str, tuple[object, ...]]
) -> None:
    """Whatever an app answers to a question, the client goes on, and answers again once the app does."""
    app.answers[member] = lambda: answer
    await client.elements(SCREEN)
    await client.at(Point(x=120, y=175))
    await client.focused()
    await client.tree(WINDOW.id)
    assert client.state is AccessibilityState.READY


async def test_a_cache_that_lies_is_bounded_by_what_shows(app: FakeApp, client: Elements) -> None:
    """Nodes of others in an app's cache are not taken over; holes in it are filled by asking."""

    def node(
        owner: str, n: int, parent: tuple[str, str], index: int, count: int, role: str
    ) -> tuple[object, ...]:
        states = [SHOWING & 0xFFFFFFFF, SHOWING >> 32]
        root = (app.bus.name, ROOT)
        return ((owner, path_of(n)), root, parent, index, count, [], f"n{n}", ROLES.index(role), "", states)

    items = [
        node(app.bus.name, 1, (app.bus.name, ROOT), 0, 3, "frame"),
        node(app.bus.name, 4, app.ref(1), 1, 0, "push button"),
        node(":1.4711", 9, app.ref(1), 0, 0, "push button"),
    ]
    app.answers[(CACHE, "GetItems")] = lambda: ("a((so)(so)(so)iiassusau)", (items,))
    view = await client.elements(SCREEN)
    assert [e.name for e in view.elements] == ["Fake", "Town", "PIN", "n4"]


async def test_a_silent_app_costs_its_bound_and_is_said_to_be_slow(
    app: FakeApp, client: Elements, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an answer a question ends in `accessibility_unavailable`; with the next answer all is well."""
    monkeypatch.setattr(module, "QUESTION_SECONDS", 0.2)
    monkeypatch.setattr(module, "APP_SECONDS", 0.2)
    app.answers["GetAccessibleAtPoint"] = lambda: None
    with pytest.raises(AccessibilityUnavailable):
        await client.at(Point(x=120, y=175))
    assert client.state is AccessibilityState.SLOW
    app.answers["GetExtents"] = lambda: None
    view = await client.elements(SCREEN)
    assert view.truncated
    app.answers.clear()
    monkeypatch.setattr(module, "QUESTION_SECONDS", 20.0)
    assert await client.at(Point(x=120, y=175)) is not None
    assert client.state is AccessibilityState.READY


async def test_a_flood_of_signals_leaves_room_for_answers(app: FakeApp, client: Elements) -> None:
    """While an app sends thousands of events, questions are answered all the same."""
    await client.elements(SCREEN)
    async with trio.open_nursery() as nursery:

        async def flood() -> None:
            for n in range(4000):
                state = ("busy", n % 2, 0, ("i", 0))
                await app.emit(path_of(n % 9), "org.a11y.atspi.Event.Object", "StateChanged", "siiv", state)

        nursery.start_soon(flood)
        with trio.fail_after(60):
            assert (await client.find(name="pay")).elements


async def test_a_dead_bus_is_said_to_be_down_and_found_again(tmp_path: Path) -> None:
    """When the bus dies, every question is refused at once; a new one at the same place is used."""
    with running_bus(tmp_path) as path:
        async with fake_app(path):
            pass
    async with trio.open_nursery() as nursery:

        async def look() -> tuple[()]:
            return ()

        client = Elements(lambda: str(path), look)
        nursery.start_soon(client.run)
        with pytest.raises(AccessibilityUnavailable):
            await client.elements(SCREEN)
        for _ in range(2):
            with running_bus(tmp_path):
                try:
                    async with fake_app(path):
                        await reached(client, AccessibilityState.READY)
                        assert (await client.elements(SCREEN)).elements == ()
                        raise _Enough
                except* _Enough:
                    pass
            await reached(client, AccessibilityState.DOWN)
            with pytest.raises(AccessibilityUnavailable):
                await client.focused()
        nursery.cancel_scope.cancel()


class _Enough(Exception):
    pass


@pytest.mark.parametrize(
    "answer",
    [
        b"garbage that is no message at all",
        b"l\x04\x00\x01\xff\xff\xff\x7f" + bytes(8),  # two gigabytes
        b"l\x04\x00\x01\x08\x00\x00\x00\x01\x00\x00\x00\x08\x00\x00\x00\x08\x01g\x00\x03a()\x00" + bytes(16),
        b"",
    ],
)
async def test_a_bus_that_is_none_is_left(tmp_path: Path, answer: bytes) -> None:
    """Whoever greets as a bus and then sends what no bus does loses the connection, and nothing hangs."""
    listener = trio.socket.socket(trio.socket.AF_UNIX)
    await listener.bind(str(tmp_path / "bus"))
    listener.listen()

    async def pretend() -> None:
        peer, _ = await listener.accept()
        with peer:
            for line in (b"DATA\r\n", b"OK 0\r\n"):
                await peer.recv(100)
                await peer.send(line)
            await peer.recv(4096)
            await peer.send(answer)
            if answer:
                await peer.recv(4096)

    with listener:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pretend)
            bus = await connect(str(tmp_path / "bus"), lambda message: None)
            nursery.start_soon(bus.serve)
            with trio.fail_after(20), pytest.raises(AccessibilityUnavailable):
                await bus.hello()
            bus.close()
            nursery.cancel_scope.cancel()


async def test_errors_of_the_bus_are_no_loss_of_it(bus: Path) -> None:
    """A call to nobody fails, and the connection goes on."""
    connection = await connect(str(bus), lambda message: None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.serve)
        await connection.hello()
        with pytest.raises(CallFailed):
            await connection.call(BUS, "NoSuchMethod")
        assert await connection.call(BUS, "GetId")
        nursery.cancel_scope.cancel()
    connection.close()
