"""A real bus with an app on it that says whatever a test wants: the registry and a hostile app in one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import trio
from jeepney import DBusAddress, HeaderFields, MessageType, new_error, new_method_return, new_signal

from bodyd.contract.elements import AccessibilityState
from bodyd.contract.geometry import Bounds
from bodyd.contract.inventory import Window
from bodyd.display.atspi import BIT, ROLES
from bodyd.display.dbus import BUS, Bus, connect
from bodyd.display.elements import Elements

_CONFIG = """<busconfig><type>session</type><listen>unix:path={path}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow user="*"/><allow own="*"/><allow send_destination="*" eavesdrop="true"/>
<allow eavesdrop="true"/></policy>
<limit name="max_replies_per_connection">8192</limit></busconfig>"""
ROOT = "/org/a11y/atspi/accessible/root"
SHOWING = BIT["showing"] | BIT["enabled"] | BIT["visible"]
WINDOW = Window(
    id=7,
    app="fake",
    title="Fake",
    bounds=Bounds(x=100, y=100, width=600, height=400),
    active=True,
    minimised=False,
    stacking=0,
    pid=os.getpid(),
)


@contextmanager
def running_bus(place: Path) -> Iterator[Path]:
    """A dbus-daemon of the test's own."""
    path = place / "bus"
    path.unlink(missing_ok=True)
    config = place / "bus.conf"
    config.write_text(_CONFIG.format(path=path))
    process = subprocess.Popen(
        ["/usr/bin/dbus-daemon", f"--config-file={config}", "--nofork", "--nopidfile", "--print-address"],
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield path
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def path_of(number: int) -> str:
    return f"/org/a11y/atspi/accessible/{number}"


class FakeApp:
    """Answers as registry and as one app. `answers` overrides, by path and member, or by member alone.

    Nodes are {number: (role, name, (x, y, w, h), [children])}; number 1 is the frame.
    """

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.connection = bus._connection
        self.nodes: dict[int, tuple[str, str, tuple[int, int, int, int], list[int]]] = {}
        self.more_states: dict[int, int] = {}
        self.answers: dict[object, Callable[[], tuple[str, tuple[Any, ...]] | None]] = {}
        self.asked: list[str] = []

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        while True:
            message = await self.connection.receive()
            if message.header.message_type is not MessageType.method_call:
                continue
            path = message.header.fields[HeaderFields.path]
            member = message.header.fields[HeaderFields.member]
            self.asked.append(member)
            special = self.answers.get((path, member)) or self.answers.get(member)
            if special is not None:
                answer = special()
                if answer is None:
                    continue  # silence
            else:
                answer = self._answer(path, member, message.body)
            if answer is None:
                await self.connection.send(new_error(message, "org.freedesktop.DBus.Error.Failed"))
            else:
                await self.connection.send(new_method_return(message, *answer))

    async def emit(
        self, path: str, interface: str, member: str, signature: str, body: tuple[Any, ...]
    ) -> None:
        await self.connection.send(new_signal(DBusAddress(path, None, interface), member, signature, body))

    def ref(self, number: int) -> tuple[str, str]:
        return (self.bus.name, path_of(number))

    def _answer(self, path: str, member: str, body: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]] | None:
        last = path.rsplit("/", 1)[-1]
        if member == "RegisterEvent":
            return ("", ())
        if member == "GetChildren" and last == "root":
            # the registry's root and the app's are one path here: the app is in the first, the frame in both
            return ("a(so)", ([(self.bus.name, ROOT), self.ref(1)],))
        if last == "root":
            return {
                "GetRole": ("u", (ROLES.index("application"),)),
                "GetState": ("au", ([0, 0],)),
                "Get": ("v", (("s", "fake"),)),
            }.get(member)
        node = self.nodes.get(int(last)) if last.isdigit() else None
        if node is None:
            return None
        role, name, place, children = node
        states = SHOWING | self.more_states.get(int(last), 0)
        match member:
            case "GetRole":
                return ("u", (ROLES.index(role),))
            case "GetState":
                return ("au", ([states & 0xFFFFFFFF, states >> 32],))
            case "GetChildren":
                return ("a(so)", ([self.ref(child) for child in children],))
            case "GetExtents":
                return ("(iiii)", (place,))
            case "GetText":
                return ("s", (f"text of {name}",))
            case "Get" if body[1] == "Name":
                return ("v", (("s", name),))
            case "Get" if body[1] == "Parent":
                up = next((n for n, (_, _, _, inner) in self.nodes.items() if int(last) in inner), None)
                return ("v", (("(so)", self.ref(up) if up else (self.bus.name, ROOT)),))
            case "GetAccessibleAtPoint":
                x, y, _ = body
                for child in children:
                    left, top, width, height = self.nodes[child][2]
                    if left <= x < left + width and top <= y < top + height:
                        return ("(so)", (self.ref(child),))
                return ("(so)", (("", "/org/a11y/atspi/null"),))
            case "GetAttributes":
                return ("a{ss}", ({"tag": "input"},))
        return None


@asynccontextmanager
async def fake_app(path: Path) -> AsyncIterator[FakeApp]:
    """The app, registered; a form with a field, a password and a button."""
    bus = await connect(str(path), lambda message: None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bus.serve)
        await bus.hello()
        await bus.call(BUS, "RequestName", "su", ("org.a11y.atspi.Registry", 4))
        nursery.cancel_scope.cancel()
    app = FakeApp(bus)
    app.nodes = {
        1: ("frame", "Fake", (100, 100, 600, 400), [2, 3, 4]),
        2: ("entry", "Town", (110, 110, 200, 20), []),
        3: ("password text", "PIN", (110, 140, 200, 20), []),
        4: ("push button", "Pay", (110, 170, 100, 20), []),
    }
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(app.serve)
            yield app
            nursery.cancel_scope.cancel()
    finally:
        bus.close()


@asynccontextmanager
async def reading(path: Path, *windows: Window) -> AsyncIterator[Elements]:
    """The client under test, connected."""

    async def look() -> tuple[Window, ...]:
        return windows or (WINDOW,)

    elements = Elements(lambda: str(path), look)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(elements.run)
        await reached(elements, AccessibilityState.READY)
        yield elements
        nursery.cancel_scope.cancel()


async def reached(elements: Elements, state: AccessibilityState) -> None:
    """Wait, bounded, until accessibility is in *state*."""
    for _ in range(1500):
        if elements.state is state:
            return
        await trio.sleep(0.02)
    raise AssertionError(f"it is {elements.state}")
