"""The keymap as data."""

from __future__ import annotations

import pytest

from bodyd.display.keymap import (
    SPARE,
    Keymap,
    Plan,
    Scratch,
    Stroke,
    block,
    note_of_rows,
    rows_from_note,
)

A, CAPITAL_A, LESS, GREATER, PAREN = 0x61, 0x41, 0x3C, 0x3E, 0x28
PLAY = 0x1008FF14


def keymap(**rows: tuple[int, ...]) -> Keymap:
    """A map of width 4 with the given rows, named like k38."""
    table = [(0, 0, 0, 0)] * 248
    for name, row in rows.items():
        table[int(name[1:]) - 8] = (*row, *(0,) * (4 - len(row)))
    return Keymap(table, modifier_codes=[50])


def test_shift_is_pressed_for_the_second_level() -> None:
    """The first two columns are plain and shifted; deeper ones are not used."""
    found = keymap(k38=(A, CAPITAL_A, PAREN))
    assert found.find(A) == Stroke(38, shift=False)
    assert found.find(CAPITAL_A) == Stroke(38, shift=True)
    assert found.find(PAREN) is None


def test_the_main_block_wins() -> None:
    """A character that the keypad or an extra key also makes is typed on the main block, even shifted."""
    found = keymap(k18=(0x39, PAREN), k187=(PAREN, PAREN), k94=(LESS, GREATER), k59=(0x2C, LESS))
    assert found.find(PAREN) == Stroke(18, shift=True)
    assert found.find(LESS) == Stroke(59, shift=True)
    assert found.find(GREATER) == Stroke(94, shift=True)


def test_missing_keysyms_are_told_once_in_order() -> None:
    """What has to be bound, without doubles."""
    assert keymap(k38=(A, CAPITAL_A)).missing([7, A, 5, 7]) == (7, 5)


def test_only_unused_keycodes_are_spare() -> None:
    """Multimedia keys may be bound anew; characters and modifiers may not."""
    found = keymap(k208=(PLAY, PLAY), k210=(A,))
    assert 208 in found.spare()
    assert 210 not in found.spare()
    assert set(found.spare()) == set(SPARE) - {210}
    assert not {166, 181, 136, 167, 180, 225} & set(SPARE)


def test_bindings_are_appended() -> None:
    """A second text never touches the keycodes of the first."""
    scratch = Scratch([208, 210, 211])
    first = scratch.plan([1, 2])
    assert first == Plan({208: (1, 2)}, wipe=False)
    scratch.apply(first)
    assert scratch.plan([3]) == Plan({210: (3, 3)}, wipe=False)


def test_a_lone_symbol_fills_both_levels() -> None:
    """Otherwise the server would put its capital on Shift, by the rules of the core protocol."""
    plan = Scratch([208]).plan([0x6C4])
    assert plan is not None
    assert plan.rows == {208: (0x6C4, 0x6C4)}


def test_a_full_block_is_wiped_as_a_whole() -> None:
    """When the rest does not fit, everything before is given up, at once."""
    scratch = Scratch([208, 210])
    first = scratch.plan([1, 2, 3])
    assert first is not None
    scratch.apply(first)
    second = scratch.plan([4])
    assert second == Plan({208: (4, 4)}, wipe=True)
    scratch.apply(second)
    assert scratch.rows == {208: (4, 4)}


@pytest.mark.parametrize("count", [5, 6, 90])
def test_more_than_all_places_is_refused(count: int) -> None:
    """Four symbols fit on two keycodes."""
    scratch = Scratch([208, 210])
    assert scratch.capacity == 4
    assert scratch.plan(list(range(1, count + 1))) is None


def test_one_write_covers_the_block() -> None:
    """Rows in between are written back as they are, at the map's full width."""
    first, rows = block({208: (1, 2), 210: (3, 3)}, keymap(k209=(PLAY, PLAY)))
    assert first == 208
    assert rows == [(1, 2, 0, 0), (PLAY, PLAY, 0, 0), (3, 3, 0, 0)]


def test_adopted_bindings_are_wiped_before_more_is_added() -> None:
    """What an earlier typist left counts as bound, and its places are not appended to."""
    scratch = Scratch([208, 210])
    scratch.adopt({208: (1, 2)})
    assert scratch.rows == {208: (1, 2)}
    assert scratch.plan([3]) == Plan({208: (3, 3)}, wipe=True)


def test_the_note_of_rows_reads_back() -> None:
    """Through one list of numbers; of nothing, nothing."""
    rows = {208: (PLAY, PLAY, 0, 0), 210: (0, 0, 0, 0)}
    assert rows_from_note(note_of_rows(rows)) == rows
    assert rows_from_note(note_of_rows({})) is None


@pytest.mark.parametrize("note", [[], [1, 208, 0], [99, 1], [2, 208, 0], [2, 38, 1, 2]])
def test_a_strange_note_is_no_note(note: list[int]) -> None:
    """Empty, too narrow, too wide, cut off, or about a key that is never spare."""
    assert rows_from_note(note) is None


def test_the_map_knows_its_rows() -> None:
    """By keycode, and all of one width."""
    found = keymap(k38=(A, CAPITAL_A))
    assert found.row(38) == (A, CAPITAL_A, 0, 0)
    assert found.width == 4
