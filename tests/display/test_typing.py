"""Exact text in real apps: any script, any layout, and the keymap as it was found."""

from __future__ import annotations

import random
import string
import threading
import time
from functools import partial

import pytest
import trio
from Xlib import X, Xatom
from Xlib.ext import xtest

from bodyd.contract.atoms import Char
from bodyd.display.clipboard import ANSWER_SECONDS
from bodyd.display.display import Display, open_display
from bodyd.display.hand import TAKEN_SECONDS

from .conftest import AnyTime
from .fields import ALL, OpenField
from .test_clipboard import KEPT, Owner
from .world import XServer, until

GREETING = "Привет 美国降息 🍑🍆𝕥𝕖𝕤𝕥💦 ÀàÆØÅ€"
ASCII = "".join(c for c in string.printable if c.isprintable())

each_app = pytest.mark.parametrize("open_field", ALL.values(), ids=ALL)


def mixed(count: int, seed: int = 5) -> str:
    """Text with 81 symbols that no keyboard of the west has, every fourth character."""
    choose = random.Random(seed)
    strange = [
        *map(chr, range(0x430, 0x44A)),
        *map(chr, range(0x3B1, 0x3C6)),
        *map(chr, range(0x4E00, 0x4E12)),
        *map(chr, range(0x1F600, 0x1F610)),
    ]
    return "".join(
        choose.choice(strange) if choose.random() < 0.25 else choose.choice(ASCII) for _ in range(count)
    )


def core_map(server: XServer) -> list[list[int]]:
    """The map as any client reads it."""
    x = server.connect()
    rows = [list(row) for row in x.display.get_keyboard_mapping(8, 248)]
    x.close()
    return rows


@each_app
async def test_a_thousand_mixed_characters(managed: XServer, display: Display, open_field: OpenField) -> None:
    """1000 of 1000, with one keymap change, and again with none unless it was put back meanwhile."""
    text = mixed(1000)
    async with open_field(managed, display) as field:
        got, report = await field.type(text)
        assert got == text
        assert (report.sent, report.failure, report.interference, report.readback_ok) == (
            1000,
            None,
            False,
            True,
        )
        assert display.keymap_changes == 1
        got, _ = await field.type(text)
        assert got == text
        assert display.keymap_changes <= 1 + display.keymap_restores


@each_app
async def test_scripts_and_emoji(managed: XServer, display: Display, open_field: OpenField) -> None:
    """Cyrillic, CJK, astral letters and emoji."""
    async with open_field(managed, display) as field:
        assert (await field.type(GREETING))[0] == GREETING


@each_app
@pytest.mark.parametrize("layout", ["de", "fr", "us,gr"])
async def test_every_layout(managed: XServer, display: Display, open_field: OpenField, layout: str) -> None:
    """All printable ASCII and some more, dead keys and third levels notwithstanding."""
    managed.call("setxkbmap", "-layout", layout)
    async with open_field(managed, display) as field:
        assert (await field.type(ASCII + "ÆØÅ"))[0] == ASCII + "ÆØÅ"


@each_app
async def test_a_bare_locale_loses_nothing(managed: XServer, display: Display, open_field: OpenField) -> None:
    """LANG=C, whose encoding has ASCII alone."""
    managed.env |= {"LANG": "C", "LC_ALL": "C"}
    async with open_field(managed, display) as field:
        assert (await field.type(ASCII + "ÆØÅ" + GREETING))[0] == ASCII + "ÆØÅ" + GREETING


async def test_the_keymap_is_put_back(managed: XServer, display: Display, permit: AnyTime) -> None:
    """After two idle seconds it is as it was found, by one more change."""
    before = core_map(managed)
    await display.send([Char(c) for c in GREETING], permit)
    assert core_map(managed) != before
    await until(lambda: display.keymap_restores == 1)
    assert core_map(managed) == before
    assert display.keymap_changes == 1


async def test_a_new_connection_puts_the_keymap_back(managed: XServer, permit: AnyTime) -> None:
    """The first display is gone before it has tidied up: the next one knows what was there, and types."""
    before = core_map(managed)
    async with open_display(managed.endpoint) as first:
        await first.send([Char(c) for c in GREETING], permit)
    assert core_map(managed) != before
    async with open_display(managed.endpoint) as second:
        await second.send([Char(c) for c in GREETING], permit)
        assert second.keymap_changes == 0
        report = await second.send([Char(c) for c in "ßđŋħł"], permit)
        assert (report.sent, report.interference) == (5, False)
        await until(lambda: second.keymap_restores == 1)
        assert core_map(managed) == before


@pytest.mark.parametrize("note", [[], [7], [7, 1, 2], [2, 38, 1, 2], [0] * 9, [2**32 - 1] * 8])
async def test_a_forged_note_is_ignored(server: XServer, note: list[int], permit: AnyTime) -> None:
    """An app's own idea of the original keymap does not reach any key but the spare ones."""
    x = server.connect()
    x.root.change_property(x.atom("BODYD_KEYMAP"), Xatom.CARDINAL, 32, note)
    x.display.sync()
    before = core_map(server)
    async with open_display(server.endpoint) as display:
        await display.send([Char("漢")], permit)
        await until(lambda: display.keymap_restores == 1)
    assert core_map(server) == before
    x.close()


async def test_a_foreign_keymap_is_noticed(managed: XServer, display: Display) -> None:
    """setxkbmap between two texts wipes the bindings: they are made again."""
    async with ALL["xterm"](managed, display) as field:
        assert (await field.type(GREETING))[0] == GREETING
        managed.call("setxkbmap", "-layout", "de")
        assert (await field.type(GREETING + ASCII))[0] == GREETING + ASCII


async def test_a_keymap_change_in_mid_text_is_interference(
    managed: XServer, display: Display, permit: AnyTime
) -> None:
    """What was typed a moment before may be read with the new map: the report does not hide it."""

    def meddle(sent: int) -> None:
        if sent == 5:
            managed.call("setxkbmap", "-layout", "fr")

    report = await display.send([Char(c) for c in GREETING], permit, meddle)
    assert report.interference
    assert report.sent == len(GREETING)


@each_app
async def test_more_symbols_than_keys_are_pasted(
    managed: XServer, display: Display, open_field: OpenField
) -> None:
    """Three hundred different ideographs; the clipboard holds what it held before."""
    text = "".join(map(chr, range(0x4E00, 0x4E00 + 300)))
    async with open_field(managed, display) as field:
        await display.write_clipboard("kept")
        got, report = await field.type(text)
        assert got == text
        assert (report.sent, report.failure, report.certain) == (300, None, True)
        assert await display.read_clipboard() == "kept"


async def test_what_nobody_takes_was_not_typed(managed: XServer, display: Display, permit: AnyTime) -> None:
    """A paste into nothing is no success."""
    text = "".join(map(chr, range(0x4E00, 0x4E00 + 300)))
    report = await display.send([Char(c) for c in text], permit)
    assert (report.failure, report.sent) == ("untypable", 0)


async def test_a_paste_ends_with_its_permit(managed: XServer, display: Display) -> None:
    """Nobody takes the text, and the lease drains meanwhile: the wait ends, the clipboard is restored."""
    await display.write_clipboard("kept")
    sent = 0

    class Lease:
        @property
        def valid(self) -> bool:
            nonlocal sent
            sent += 1
            return sent < 12

    start = trio.current_time()
    report = await display.paste("漢", Lease())
    assert (report.sent, report.failure) == (1, None)  # the keys were pressed; what came of it is unknown
    assert trio.current_time() - start < TAKEN_SECONDS
    assert (await display.paste("字", Lease())).failure == "interrupted"
    assert await display.read_clipboard() == "kept"


async def test_a_slow_owner_has_its_clipboard_back(
    managed: XServer, display: Display, nursery: trio.Nursery
) -> None:
    """All its formats, though it takes its time for each; the paste is exact."""
    owner = Owner(managed, KEPT)
    nursery.start_soon(partial(owner.answer, after=0.25))
    async with ALL["gtk"](managed, display) as field:
        assert (await display.paste("漢字 pasted", AnyTime())).failure is None
        assert await display.read_clipboard() == "kept 漢"
        assert await display._clipboard.snapshot("CLIPBOARD") == KEPT
        assert (await field.type("!"))[0] == "漢字 pasted!"
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("answers", [0, 1, 2])
async def test_an_owner_that_dies_costs_no_paste(
    managed: XServer, display: Display, nursery: trio.Nursery, answers: int
) -> None:
    """Before or in the middle of its answers: what it has given is put back, the rest is lost with it."""
    owner = Owner(managed, KEPT)
    nursery.start_soon(partial(owner.answer, after=0.05, answers=answers))
    async with ALL["gtk"](managed, display) as field:
        if answers == 0:
            await until(lambda: owner.x.wire.fileno() == -1)
        assert (await display.paste("pasted", AnyTime())).failure is None
        assert await display.read_clipboard() == ("kept 漢" if answers == 2 else "")
        assert (await field.type("!"))[0] == "pasted!"
    nursery.cancel_scope.cancel()


async def test_a_clipboard_that_was_taken_meanwhile_is_left_alone(
    managed: XServer, display: Display, nursery: trio.Nursery
) -> None:
    """Somebody copies while a text is being pasted: theirs is newer than what would be put back."""
    await display.write_clipboard("old")
    owners: list[Owner] = []

    class Lease:
        """Asked in the sender's thread, right before the first key: the text is on the clipboard by then."""

        @property
        def valid(self) -> bool:
            if threading.current_thread() is not threading.main_thread() and not owners:
                owners.append(Owner(managed, {"UTF8_STRING": b"new"}))
            return True

    await display.paste("pasted", Lease())
    nursery.start_soon(partial(owners[0].answer, after=0))
    assert await display.read_clipboard() == "new"
    nursery.cancel_scope.cancel()


async def test_a_silent_owner_holds_up_no_drain(managed: XServer, display: Display) -> None:
    """The permit ends while it is asked what it holds: nothing is pressed, and the paste ends at once."""
    silent = Owner(managed, KEPT)
    begun = time.monotonic()

    class Lease:
        @property
        def valid(self) -> bool:
            return time.monotonic() < begun + 0.1

    report = await display.paste("pasted", Lease())
    assert (report.sent, report.failure, report.certain) == (0, "interrupted", True)
    assert time.monotonic() - begun < ANSWER_SECONDS
    assert silent.x.display.get_selection_owner(silent.x.atom("CLIPBOARD")) == silent._window
    silent.x.close()


async def test_the_spare_keys_are_used_anew(managed: XServer, display: Display) -> None:
    """Text after text with other symbols: each exact, also when the spare keys are wiped in between."""
    async with ALL["xterm"](managed, display) as field:
        for start in range(0x4E00, 0x4E00 + 5 * 40, 40):
            text = "".join(map(chr, range(start, start + 40)))
            assert (await field.type(text))[0] == text


async def test_a_window_opened_while_typing_gets_the_focus(managed: XServer, display: Display) -> None:
    """One keymap change does not stall the window manager."""
    async with ALL["xterm"](managed, display) as field:
        await field.type(mixed(200))
        start = trio.current_time()
        async with ALL["gtk"](managed, display) as other:
            assert (await other.type("focus"))[0] == "focus"
        assert trio.current_time() - start < 20


async def test_caps_lock_is_undone_first(managed: XServer, display: Display) -> None:
    """Another client locks it just before."""
    async with ALL["xterm"](managed, display) as field:
        x = managed.connect()
        xtest.fake_input(x.display, X.KeyPress, 66)
        xtest.fake_input(x.display, X.KeyRelease, 66)
        x.display.sync()
        x.close()
        assert (await field.type("Straße äöü Привет"))[0] == "Straße äöü Привет"
