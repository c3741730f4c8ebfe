"""What any X client can do to the connections of another: made-up events, destroyed resources, KillClient."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import trio
from Xlib import X
from Xlib.protocol import event, request, rq

from bodyd.contract.atoms import ButtonDown, ButtonUp, Char, MoveTo
from bodyd.contract.geometry import Size
from bodyd.display.connection import XConnection
from bodyd.display.display import Display
from bodyd.errors import DisplayUnavailable

from .conftest import AnyTime
from .recorder import Recorder
from .world import XServer


class _SendEvent(rq.Request):
    _request = rq.Struct(
        rq.Opcode(25),
        rq.Bool("propagate"),
        rq.RequestLength(),
        rq.Card32("window"),
        rq.Card32("mask"),
        rq.Binary("event"),
    )


class _Destroy(rq.Request):
    """Any request that takes one id: DestroyWindow, DamageDestroy, …"""

    _request = rq.Struct(rq.Card8("opcode"), rq.Card8("minor"), rq.RequestLength(), rq.Card32("resource"))


@pytest.fixture
def app(server: XServer) -> Iterator[XConnection]:
    x = server.connect()
    yield x
    x.close()


def others(x: XConnection) -> list[int]:
    """Bases of the ids of every other client."""
    mine = int(x.core.info.resource_id_base)
    bases = [client.resource_base for client in x.display.res_query_clients().clients]
    return [base for base in bases if base not in (0, mine)]


async def use(display: Display, permit: AnyTime) -> None:
    """Everything once; fails where it does."""
    await display.scene()
    await display.pointer()
    await display.capture()
    report = await display.send([MoveTo(5, 5), Char("a"), ButtonDown(1), ButtonUp(1)], permit)
    assert report.failure is None
    await display.write_clipboard("kept")
    assert await display.read_clipboard() == "kept"
    await display.settle(display.activity())


async def test_made_up_events_of_every_type_do_no_harm(app: XConnection, display: Display, permit: AnyTime):
    """Of extensions, of none, with subtypes that there are not: to whoever listens, and to our windows."""
    await use(display, permit)
    lens = display.lens()
    await lens.run(lambda x: x.collect())
    for detail in (0, 1, 57, 255):
        for kind in range(2, 128):
            made_up = bytes([kind, detail]) + bytes((kind * 7 + detail * n) % 256 for n in range(30))
            for mask in (X.SubstructureNotifyMask, X.StructureNotifyMask, X.PropertyChangeMask):
                _SendEvent(display=app.core, propagate=False, window=app.root.id, mask=mask, event=made_up)
            for base in others(app):
                for number in range(4):
                    window = base | number
                    _SendEvent(display=app.core, propagate=False, window=window, mask=0, event=made_up)
        app.display.sync()
        await use(display, permit)
        await lens.run(lambda x: x.collect())
    await lens.aclose()


async def test_a_made_up_resize_is_none(app: XConnection, display: Display) -> None:
    """The screen's size is the server's word, whoever says that it has changed."""
    before = display.geometry
    lens = display.lens()
    await lens.run(lambda x: x.collect())
    made_up = event.ConfigureNotify(
        event=app.root, window=app.root, x=0, y=0, width=320, height=240,
        border_width=0, above_sibling=0, override=False,
    )  # fmt: skip
    app.root.send_event(made_up, event_mask=X.StructureNotifyMask)
    app.display.sync()
    await display.settle(display.activity())
    assert display.size == Size(width=1280, height=800)
    assert display.geometry == before
    assert await lens.run(lambda x: (x.collect(), x.size)[1]) == display.size
    await lens.aclose()


def destroyed(x: XConnection, resource: int) -> None:
    """Whatever has this id: asked for as each kind in turn."""
    _Destroy(display=x.core, opcode=4, minor=0, resource=resource)  # DestroyWindow
    _Destroy(display=x.core, opcode=54, minor=0, resource=resource)  # FreePixmap
    for extension, minor in (("DAMAGE", 2), ("XFIXES", 10), ("MIT-SHM", 2), ("RECORD", 7)):
        _Destroy(display=x.core, opcode=x.opcode(extension), minor=minor, resource=resource)


def killed(x: XConnection, resource: int) -> None:
    request.KillClient(display=x.core, resource=resource)


@pytest.mark.parametrize("how", [destroyed, killed])
async def test_what_is_destroyed_is_made_anew(
    app: XConnection, display: Display, permit: AnyTime, how: Callable[[XConnection, int], None]
) -> None:
    """The display says that it is unavailable, if anything, and then it works again."""
    await use(display, permit)
    for base in others(app):
        for number in range(16):
            how(app, base | number)
    app.display.sync()
    with trio.fail_after(60):
        while True:
            try:
                await use(display, permit)
            except (DisplayUnavailable, AssertionError):
                await trio.sleep(0.05)
                continue
            break


@pytest.mark.parametrize("minor", [6, 7], ids=["disabled", "freed"])
@pytest.mark.parametrize("when", ["before", "meanwhile"])
async def test_nobody_makes_us_deaf_to_made_up_input(
    app: XConnection, display: Display, recorder: Recorder, permit: AnyTime, minor: int, when: str
) -> None:
    """An app stops the recording and forges a key: that is interference, and so is the next one forged."""
    made_up = event.KeyPress(
        detail=38, time=0, root=app.root, window=recorder.window, child=0, same_screen=1,
        root_x=0, root_y=0, event_x=0, event_y=0, state=0,
    )  # fmt: skip

    def stop_recording() -> None:
        for base in others(app):
            for number in range(8):
                _Destroy(display=app.core, opcode=app.opcode("RECORD"), minor=minor, resource=base | number)
        app.display.sync()

    def forge(sent: int) -> None:
        if sent == 2:
            if when == "meanwhile":
                stop_recording()
            recorder.window.send_event(made_up)
            recorder.x.display.sync()

    await use(display, permit)
    if when == "before":
        stop_recording()
    for _ in range(2):
        assert (await display.send([Char(c) for c in "abcd"], permit, forge)).interference
    assert not (await display.send([Char(c) for c in "abcd"], permit)).interference
