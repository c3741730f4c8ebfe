"""What an app receives of what was sent, and what the report says of it."""

from __future__ import annotations

import threading

import pytest
from Xlib import X
from Xlib.ext import xtest
from Xlib.protocol import event

from bodyd.contract import actions as a
from bodyd.contract.atoms import ButtonDown, ButtonUp, Char, KeyDown, KeyUp, MoveTo, Pause, plan
from bodyd.contract.geometry import Point
from bodyd.display.display import Display
from bodyd.display.quiescence import Quiescence

from .conftest import AnyTime
from .recorder import Recorder
from .world import XServer

CONTROL, SHIFT = 0xFFE3, 0xFFE1
QUIET = Quiescence(keys=(), buttons=(), reasons=())


def atoms(action: a.Action) -> tuple:
    return plan(action, lambda x, y: Point(x=x, y=y))


async def test_a_key_press_lasts_ten_milliseconds(
    display: Display, recorder: Recorder, permit: AnyTime
) -> None:
    """By the server's clock, twenty times: toolkits miss shorter ones."""
    for _ in range(20):
        await display.send(atoms(a.Keypress(keys=("a",))), permit)
        down, up = recorder.seen()
        assert (down.kind, up.kind) == ("key down", "key up")
        assert up.time - down.time >= 10


async def test_a_triple_click_is_three_presses_of_different_times(
    display: Display, recorder: Recorder, permit: AnyTime
) -> None:
    """By the server's clock, ten times: Chromium takes two presses of one millisecond for one."""
    for _ in range(10):
        report = await display.send(atoms(a.TripleClick(x=9, y=9)), permit)
        assert (report.sent, report.failure, report.interference) == (7, None, False)
        times = [event.time for event in recorder.seen() if event.kind == "press"]
        assert len(times) == 3
        assert times[0] + 10 <= times[1] <= times[2] - 10


async def test_a_drag_is_one_press_and_one_release(
    display: Display, recorder: Recorder, permit: AnyTime
) -> None:
    """Five points: a press at the first, a motion to each, the release at the last."""
    path = [(100, 100), (150, 120), (200, 90), (260, 140), (300, 300)]
    report = await display.send(atoms(a.Drag(path=tuple(a.PathPoint(x=x, y=y) for x, y in path))), permit)
    seen = recorder.seen()
    assert [s.kind for s in seen] == ["motion", "press", *["motion"] * 4, "release"]
    assert [(s.x, s.y) for s in seen if s.kind == "motion"] == path
    assert (seen[-1].x, seen[-1].y) == (300, 300)
    assert (report.sent, report.of, report.failure) == (7, 7, None)
    assert report.readback_ok
    assert not report.interference


@pytest.mark.parametrize(("pixels", "button", "notches"), [(300, 5, 3), (-20, 4, 1), (1000, 5, 10)])
async def test_a_scroll_is_notches(
    display: Display, recorder: Recorder, permit: AnyTime, pixels: int, button: int, notches: int
) -> None:
    """Presses of the wheel's buttons at the point."""
    await display.send(atoms(a.Scroll(x=50, y=60, scroll_y=pixels)), permit)
    seen = [s for s in recorder.seen() if s.kind in ("press", "release")]
    assert [(s.kind, s.detail) for s in seen] == [("press", button), ("release", button)] * notches


@pytest.mark.parametrize(
    ("name", "button"), [("left", 1), ("middle", 2), ("wheel", 2), ("right", 3), ("back", 8), ("forward", 9)]
)
async def test_every_button(
    display: Display, recorder: Recorder, permit: AnyTime, name: a.Button, button: int
) -> None:
    """At the very corner too: 0 is a coordinate."""
    report = await display.send(atoms(a.Click(x=0, y=0, button=name)), permit)
    seen = [s for s in recorder.seen() if s.kind != "motion"]
    assert [(s.kind, s.detail, s.x, s.y) for s in seen] == [
        ("press", button, 0, 0),
        ("release", button, 0, 0),
    ]
    assert report.readback_ok


async def test_a_chord_is_pressed_together(display: Display, recorder: Recorder, permit: AnyTime) -> None:
    """Control+minus: Control down, minus down, both up in reverse."""
    await display.send(atoms(a.Keypress(keys=("CTRL", "-"))), permit)
    assert recorder.keysyms() == [
        ("key down", CONTROL),
        ("key down", 0x2D),
        ("key up", 0x2D),
        ("key up", CONTROL),
    ]


async def test_a_shifted_key_brings_its_shift(display: Display, recorder: Recorder, permit: AnyTime) -> None:
    """Control and plus on a keyboard where plus is above equals; with Shift held, it is not doubled."""
    await display.send(atoms(a.Keypress(keys=("CTRL", "+"))), permit)
    assert [sym for kind, sym in recorder.keysyms() if kind == "key down"] == [CONTROL, SHIFT, 0x3D]
    await display.send(atoms(a.Keypress(keys=("SHIFT", "+"))), permit)
    assert [sym for kind, sym in recorder.keysyms() if kind == "key down"] == [SHIFT, 0x3D]


async def test_a_modified_click(display: Display, recorder: Recorder, permit: AnyTime) -> None:
    """The app sees the press with Control in its state."""
    await display.send(atoms(a.Click(x=9, y=9, keys=("CTRL",))), permit)
    (press,) = [s for s in recorder.seen() if s.kind == "press"]
    assert press.state & X.ControlMask


async def test_newline_and_tab_are_keys(display: Display, recorder: Recorder, permit: AnyTime) -> None:
    """Return and Tab."""
    await display.send([Char("\n"), Char("\t")], permit)
    assert [sym for kind, sym in recorder.keysyms() if kind == "key down"] == [0xFF0D, 0xFF09]


@pytest.mark.parametrize("character", ["\x00", "\x07", "\x1b", "\x7f", "\x85", "\ud800", "\ufffe"])
async def test_untypable_characters_are_refused_up_front(
    display: Display, recorder: Recorder, permit: AnyTime, character: str
) -> None:
    """With their index, and nothing typed of what precedes them."""
    report = await display.send([Char("a"), Char(character)], permit)
    assert (report.failure, report.untypable_at, report.sent, report.of) == ("untypable", 1, 0, 2)
    assert recorder.seen() == []


async def test_the_permit_is_asked_before_each_atom(display: Display, recorder: Recorder) -> None:
    """Nothing is sent once it has ended, and the report says exactly how much was."""

    class Three:
        left = 3

        @property
        def valid(self) -> bool:
            self.left -= 1
            return self.left >= 0

    report = await display.send([Char(c) for c in "abcdef"], Three())
    assert (report.failure, report.sent, report.of, report.certain) == ("interrupted", 3, 6, True)
    assert recorder.kinds() == ["key down", "key up"] * 3


async def test_a_hold_ends_with_its_permit(display: Display, recorder: Recorder) -> None:
    """A long hold is cut at once when the lease drains; the key stays down for release_all."""
    drained = threading.Event()

    class Lease:
        @property
        def valid(self) -> bool:
            return not drained.is_set()

    def drain(sent: int) -> None:
        drained.set()

    report = await display.send(atoms(a.Hold(keys=("CTRL", "x"), duration_ms=10_000)), Lease(), drain)
    assert (report.failure, report.sent) == ("interrupted", 1)
    assert (await display.prove_quiescent()).reasons == ("held_keys",)
    await display.release_all()
    assert await display.prove_quiescent() == QUIET
    assert recorder.kinds() == ["key down", "key up"]


async def test_a_cancelled_drag_is_released(display: Display, recorder: Recorder) -> None:
    """The permit ends in mid-drag: release_all sends the one release."""
    calls = iter([True] * 6)

    class Lease:
        @property
        def valid(self) -> bool:
            return next(calls, False)

    path = tuple(a.PathPoint(x=10 * i, y=10) for i in range(1, 9))
    report = await display.send(atoms(a.Drag(path=path)), Lease())
    assert report.failure == "interrupted"
    await display.release_all()
    kinds = recorder.kinds()
    assert kinds.count("press") == kinds.count("release") == 1
    assert kinds[-1] == "release"


async def test_another_hand_on_the_pointer_is_seen(
    server: XServer, display: Display, recorder: Recorder, permit: AnyTime
) -> None:
    """Another client moves the pointer by XTEST between two atoms."""
    other = server.connect()

    def meddle(sent: int) -> None:
        if sent == 1:
            xtest.fake_input(other.display, X.MotionNotify, x=700, y=700)
            other.display.sync()

    report = await display.send([MoveTo(5, 5), ButtonDown(1), ButtonUp(1)], permit, meddle)
    assert report.interference
    assert report.certain
    other.close()


async def test_a_warped_pointer_is_seen(
    server: XServer, display: Display, recorder: Recorder, permit: AnyTime
) -> None:
    """WarpPointer makes no device event; the pointer is not where it was put."""
    other = server.connect()

    def meddle(sent: int) -> None:
        other.root.warp_pointer(400, 400)
        other.display.sync()

    report = await display.send([MoveTo(5, 5)], permit, meddle)
    assert report.interference
    other.close()


async def test_a_made_up_event_is_heard(
    server: XServer, display: Display, recorder: Recorder, permit: AnyTime
) -> None:
    """Another client sends a key press straight to the window, past every device."""
    other = server.connect()
    made_up = event.KeyPress(
        time=0,
        root=other.root,
        window=recorder.window,
        same_screen=1,
        child=0,
        root_x=1,
        root_y=1,
        event_x=1,
        event_y=1,
        state=0,
        detail=38,
    )

    def meddle(sent: int) -> None:
        recorder.window.send_event(made_up)
        recorder.x.display.sync()

    assert not (await display.send([Char("x")], permit)).interference
    assert (await display.send([Char("x")], permit, meddle)).interference
    assert not (await display.send([Char("x")], permit)).interference
    other.close()


async def test_a_foreign_key_is_seen(
    server: XServer, display: Display, recorder: Recorder, permit: AnyTime
) -> None:
    """A whole key stroke by someone else, down and up between two of our atoms."""
    other = server.connect()

    def meddle(sent: int) -> None:
        if sent == 1:
            xtest.fake_input(other.display, X.KeyPress, 38)
            xtest.fake_input(other.display, X.KeyRelease, 38)
            other.display.sync()

    report = await display.send([Char("x"), Char("y")], permit, meddle)
    assert (report.sent, report.interference) == (2, True)
    other.close()


async def test_a_foreign_held_key_is_seen(
    server: XServer, display: Display, recorder: Recorder, permit: AnyTime
) -> None:
    """A key that someone holds down already would change what ours mean."""
    other = server.connect()
    xtest.fake_input(other.display, X.KeyPress, 37)
    other.display.sync()
    assert (await display.send([Char("x")], permit)).interference
    await display.release_all()
    assert not (await display.send([Char("x")], permit)).interference
    other.close()


async def test_idle_input_by_others_is_not_held_against_a_batch(
    server: XServer, display: Display, recorder: Recorder, permit: AnyTime
) -> None:
    """What happened before the batch is not interference."""
    other = server.connect()
    await display.send([MoveTo(1, 1)], permit)
    for _ in range(50):
        xtest.fake_input(other.display, X.MotionNotify, x=3, y=3)
    other.display.sync()
    report = await display.send([MoveTo(5, 5), Char("a")], permit)
    assert not report.interference
    other.close()


async def test_a_clamped_move_is_read_back(display: Display, recorder: Recorder, permit: AnyTime) -> None:
    """The pointer can't leave the screen: the report says it is elsewhere, and blames nobody."""
    report = await display.send([MoveTo(5000, 5000)], permit)
    assert (report.readback_ok, report.interference) == (False, False)


async def test_held_across_sends(display: Display, recorder: Recorder, permit: AnyTime) -> None:
    """A button held by one send is no interference in the next, and is released by name."""
    await display.send([MoveTo(5, 5), ButtonDown(1), KeyDown(CONTROL)], permit)
    report = await display.send([MoveTo(9, 9), KeyUp(CONTROL), ButtonUp(1)], permit)
    assert (report.interference, report.readback_ok, report.sent) == (False, True, 3)
    assert await display.prove_quiescent() == QUIET


async def test_a_pause_is_no_unit(display: Display, recorder: Recorder, permit: AnyTime) -> None:
    """Time between atoms is not counted."""
    report = await display.send([Pause(0.001), MoveTo(5, 5), Pause(0.001)], permit)
    assert (report.sent, report.of) == (1, 1)


async def test_a_grabbed_server_stops_nothing(server: XServer, display: Display, permit: AnyTime) -> None:
    """An app that grabs the server can hold up neither input nor eyes."""
    other = server.connect()
    await display.send([MoveTo(1, 1)], permit)
    await display.windows()
    await display.capture()
    other.display.grab_server()
    other.display.sync()
    report = await display.send([MoveTo(5, 6)], permit)
    assert (report.sent, report.failure) == (1, None)
    await display.windows()
    await display.capture()
    other.display.ungrab_server()
    other.display.sync()
    other.close()


async def test_a_text_ends_where_another_app_takes_the_keyboard(
    server: XServer, display: Display, recorder: Recorder, permit: AnyTime
) -> None:
    """At the next character: the thief gets one at most. A window of the same app is no thief."""
    mine = recorder.x.client_of(recorder.window.id)
    thieves: list[Recorder] = []

    def steal(sent: int) -> None:
        if sent == 3:
            thieves.append(Recorder(server.connect()))
        elif sent == 2:
            Recorder(recorder.x)

    text = [Char(c) for c in "abcdefgh"]
    report = await display.send(text, permit, steal, focus=mine)
    assert (report.failure, report.certain, report.of) == ("focus_moved", True, 8)
    assert 3 <= report.sent <= 4
    assert thieves[0].kinds().count("key down") <= 1
    report = await display.send(text, permit, focus=None)
    assert (report.failure, report.sent) == (None, 8)
    thieves[0].close()
