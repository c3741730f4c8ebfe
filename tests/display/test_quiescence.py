"""Nothing held, latched, locked or swapped: brought about, and proved from elsewhere."""

from __future__ import annotations

import struct

import pytest
from Xlib import X
from Xlib.ext import xtest
from Xlib.protocol import rq

from bodyd.contract.atoms import ButtonDown, ButtonUp, Char, KeyDown, MoveTo
from bodyd.display import xinput, xkb
from bodyd.display.connection import XConnection
from bodyd.display.display import Display
from bodyd.errors import DisplayUnavailable

from .conftest import AnyTime
from .recorder import Recorder
from .world import XServer

CAPS_LOCK_CODE = 66


def tap(server: XServer, code: int) -> None:
    """Another client presses a key."""
    x = server.connect()
    xtest.fake_input(x.display, X.KeyPress, code)
    xtest.fake_input(x.display, X.KeyRelease, code)
    x.display.sync()
    x.close()


async def test_a_fresh_server_is_quiet(display: Display) -> None:
    """Nothing to find."""
    assert (await display.prove_quiescent()).quiet
    assert await display.normalise() == []


async def test_everything_held_is_found_and_lifted(display: Display, permit: AnyTime) -> None:
    """Control, Shift, a letter, and the buttons that the core protocol's mask leaves out."""
    await display.send(
        [
            MoveTo(9, 9),
            KeyDown(0xFFE3),
            KeyDown(0xFFE1),
            KeyDown(0x61),
            ButtonDown(1),
            ButtonDown(8),
            ButtonDown(9),
        ],
        permit,
    )
    found = await display.prove_quiescent()
    assert found.reasons == ("held_keys", "held_buttons")
    assert len(found.keys) == 3
    assert found.buttons == (1, 8, 9)
    await display.release_all()
    assert (await display.prove_quiescent()).quiet


async def test_what_others_hold_is_lifted_too(server: XServer, display: Display) -> None:
    """Whoever pressed it, also a client that has died since."""
    other = server.connect()
    xtest.fake_input(other.display, X.KeyPress, 50)
    xtest.fake_input(other.display, X.ButtonPress, 3)
    other.display.sync()
    other.close()
    assert not (await display.prove_quiescent()).quiet
    await display.release_all()
    assert (await display.prove_quiescent()).quiet


async def test_what_a_failed_release_left_is_lifted_before_the_next_batch(
    server: XServer, display: Display, permit: AnyTime
) -> None:
    """It is named; what others hold stays, and is theirs to answer for."""
    await display.send([MoveTo(9, 9), ButtonDown(1), KeyDown(0xFFE1)], permit)
    with server.frozen(), pytest.raises(DisplayUnavailable):
        await display.release_all()
    assert await display.normalise() == ["held_keys", "held_buttons"]
    assert (await display.prove_quiescent()).quiet
    assert await display.normalise() == []
    other = server.connect()
    xtest.fake_input(other.display, X.KeyPress, 50)
    other.display.sync()
    assert await display.normalise() == []
    assert (await display.prove_quiescent()).reasons == ("held_keys",)
    other.close()


async def test_caps_lock_is_noticed(server: XServer, display: Display) -> None:
    """Any app can set it: named, and undone before a batch."""
    tap(server, CAPS_LOCK_CODE)
    assert (await display.prove_quiescent()).reasons == ("caps_lock",)
    assert await display.normalise() == ["caps_lock"]
    assert (await display.prove_quiescent()).quiet


async def test_a_swapped_pointer_mapping_is_noticed(server: XServer, display: Display) -> None:
    """Left and right exchanged: a left click would open the context menu."""
    other = server.connect()
    mapping = list(other.display.get_pointer_mapping())
    other.display.set_pointer_mapping([3, 2, 1, *mapping[3:]])
    assert (await display.prove_quiescent()).reasons == ("pointer_mapping",)
    assert await display.normalise() == ["pointer_mapping"]
    assert list(other.display.get_pointer_mapping()) == mapping
    other.close()


async def test_a_swapped_mapping_with_a_held_button(server: XServer, display: Display) -> None:
    """The server refuses a new mapping while buttons are down: they go up first."""
    other = server.connect()
    mapping = list(other.display.get_pointer_mapping())
    other.display.set_pointer_mapping([3, 2, 1, *mapping[3:]])
    xtest.fake_input(other.display, X.ButtonPress, 1)
    other.display.sync()
    await display.release_all()
    assert (await display.prove_quiescent()).quiet
    other.close()


def turn_on(server: XServer, bit: int) -> XConnection:
    """Another client turns a control of the keyboard on."""
    x = server.connect()
    xkb.announce(x)
    xkb._SetControls(
        display=x.core,
        opcode=x.opcode("XKEYBOARD"),
        device=0x100,
        affect=bit,
        enabled=bit,
        change=xkb._ENABLED,
    )
    x.display.sync()
    return x


@pytest.mark.parametrize("bit", xkb.FILTERS)
async def test_what_filters_keys_is_noticed(server: XServer, display: Display, bit: int) -> None:
    """Slow keys swallow every quick press, bounce keys every doubled letter: named, and undone."""
    other = turn_on(server, bit)
    assert (await display.prove_quiescent()).reasons == (xkb.FILTERS[bit],)
    assert await display.normalise() == [xkb.FILTERS[bit]]
    assert (await display.prove_quiescent()).quiet
    other.close()


class _AddMaster(rq.Request):
    _request = rq.Struct(
        rq.Card8("opcode"),
        rq.Opcode(43),
        rq.RequestLength(),
        rq.Card8("changes"),
        rq.Pad(3),
        rq.Binary("made"),
    )


def second_pair(x: XConnection) -> int:
    """Another pointer and keyboard, as any app can make them; the pointer's id."""
    made = struct.pack("=HHHBB", 1, 3, 4, 1, 1) + b"evil"
    _AddMaster(display=x.core, opcode=x.opcode("XInputExtension"), changes=1, made=made)
    (pointer,) = xinput.other_pointers(x)
    return pointer


def give_to_all(x: XConnection, pointer: int) -> None:
    """Make *pointer* that of every client that has any resource."""
    mine = int(x.core.info.resource_id_base)
    for client in x.display.res_query_clients().clients:
        for number in range(8 if client.resource_base not in (0, mine) else 0):
            window = client.resource_base | number
            opcode = x.opcode("XInputExtension")
            xinput._SetClientPointer(display=x.core, opcode=opcode, window=window, device=pointer)
    x.display.sync()


async def test_a_button_held_on_another_pointer_is_no_quiet(
    server: XServer, display: Display, recorder: Recorder, permit: AnyTime
) -> None:
    """An app makes a pointer of its own ours, in a press: the report says so, the proof too, and it goes."""
    evil = server.connect()
    pointer = second_pair(evil)
    await display.send([MoveTo(9, 9)], permit)
    report = await display.send(
        [MoveTo(9, 9), ButtonDown(1)], permit, lambda sent: give_to_all(evil, pointer) if sent == 1 else None
    )
    assert report.interference
    assert recorder.kinds()[-1] == "press"
    assert "other_devices" in (await display.prove_quiescent()).reasons
    await display.release_all()
    assert (await display.prove_quiescent()).quiet
    again = await display.send([MoveTo(20, 20), ButtonDown(1), ButtonUp(1)], permit)
    assert (again.interference, again.readback_ok, again.failure) == (False, True, None)
    evil.close()


@pytest.mark.parametrize("when", ["before a text", "in a text"])
async def test_no_text_is_swallowed_unnoticed(
    server: XServer, display: Display, recorder: Recorder, permit: AnyTime, when: str
) -> None:
    """Bounce keys come on by themselves: doubled letters arrive, or the report has its doubts."""
    others: list[XConnection] = []

    def in_a_text(sent: int) -> None:
        if sent == 3 and when == "in a text":
            others.append(turn_on(server, 1 << 2))

    if when == "before a text":
        others.append(turn_on(server, 1 << 2))
    text = "aabbcc" * 5
    report = await display.send([Char(c) for c in text], permit, in_a_text)
    arrived = recorder.kinds().count("key down")
    assert report.interference is (when == "in a text")
    assert (arrived == len(text)) is (when == "before a text")
    others[0].close()


async def test_a_locked_group_is_noticed(server: XServer, display: Display) -> None:
    """The second layout, switched to by an app, would turn a into alpha."""
    server.call("setxkbmap", "-layout", "us,gr")
    other = server.connect()
    xkb.announce(other)
    xkb._LatchLockState(
        display=other.core,
        opcode=other.opcode("XKEYBOARD"),
        device=0x100,
        affect_locks=0,
        locks=0,
        lock_group=1,
        group=1,
        affect_latches=0,
        latches=0,
        latch_group=0,
        group_latch=0,
    )
    other.display.sync()
    assert (await display.prove_quiescent()).reasons == ("group",)
    assert await display.normalise() == ["group"]
    other.close()


async def test_typing_undoes_caps_lock(
    server: XServer, display: Display, recorder: Recorder, permit: AnyTime
) -> None:
    """A text is typed as written even if the lock was set a moment before."""
    tap(server, CAPS_LOCK_CODE)
    recorder.seen()
    await display.send([Char("a")], permit)
    down, _ = recorder.seen()
    assert not down.state & X.LockMask


async def test_a_key_that_is_pressed_again_and_again_is_not_quiet(
    server: XServer, display: Display, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What can't be lifted raises: quiescence is never claimed."""
    other = server.connect()
    real = xkb.clear

    def meddle(x: XConnection) -> None:
        real(x)
        x.display.sync()
        xtest.fake_input(other.display, X.KeyPress, 38)
        other.display.sync()

    monkeypatch.setattr(xkb, "clear", meddle)
    xtest.fake_input(other.display, X.KeyPress, 38)
    other.display.sync()
    with pytest.raises(DisplayUnavailable, match="held_keys"):
        await display.release_all()
    other.close()
