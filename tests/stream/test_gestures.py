"""A person's keyboard and pointer as atoms: layouts, chords, lone modifiers, edges."""

from __future__ import annotations

import pytest

from bodyd.contract.atoms import ButtonDown, ButtonUp, Char, KeyDown, KeyUp, MoveTo, Pause
from bodyd.contract.geometry import Size
from bodyd.errors import UnknownKey
from bodyd.stream import protocol as p
from bodyd.stream.gestures import Gestures, latest

SCREEN = Size(width=100, height=80)
CONTROL, SHIFT, ALT = 0xFFE3, 0xFFE1, 0xFFE9


def key(name: str, down: bool = True) -> p.KeyPress:
    return p.KeyPress(type="key", key=name, down=down)


def play(*said: p.Input) -> list[object]:
    gestures = Gestures()
    return [a for s in said for a in gestures.atoms(s, SCREEN) if not isinstance(a, Pause)]


def at(x: int, y: int) -> p.Pointer:
    return p.Pointer(type="pointer", x=x, y=y)


def test_characters_are_typed_as_themselves() -> None:
    """Shift is not pressed for a character, and what a key does when it goes up is nothing."""
    assert play(key("Shift"), key("/"), key("/", False), key("Shift", False)) == [Char("/")]


def test_a_chord_is_lower_case_under_its_modifiers() -> None:
    """Control and Shift are pressed for the tap, and lifted when the person lifts them."""
    atoms = play(key("Control"), key("Shift"), key("T"), key("Shift", False), key("Control", False))
    assert atoms == [
        KeyDown(CONTROL),
        KeyDown(SHIFT),
        KeyDown(ord("t")),
        KeyUp(ord("t")),
        KeyUp(SHIFT),
        KeyUp(CONTROL),
    ]


def test_a_character_whose_small_letter_is_two_stays_itself() -> None:
    """The capital dotted I under Control is pressed as it is."""
    assert KeyDown(0x01000130) in play(key("Control"), key("İ"))


def test_a_pressed_shift_is_lifted_before_a_character() -> None:
    """After a shifted arrow, a character still comes out as itself; the later release means nothing."""
    atoms = play(key("Shift"), key("ArrowLeft"), key("a"), key("Shift", False))
    assert atoms == [KeyDown(SHIFT), KeyDown(0xFF51), KeyUp(0xFF51), KeyUp(SHIFT), Char("a")]


def test_alt_alone_is_tapped_and_control_alone_is_nothing() -> None:
    """A menu opens by Alt; nothing comes of Control, Shift, or a key up that never went down."""
    assert play(key("Alt"), key("Alt", False)) == [KeyDown(ALT), KeyUp(ALT)]
    assert play(key("Control"), key("Control", False), key("Alt", False)) == []


def test_keys_that_only_change_others_are_ignored() -> None:
    """AltGr, locks and dead keys are the page's business; an unknown key is refused."""
    assert play(key("AltGraph"), key("CapsLock"), key("Dead")) == []
    with pytest.raises(UnknownKey):
        play(key("NoSuchKey"))


def test_moves_buttons_and_the_edge() -> None:
    """Beyond the edge is at the edge; a button that is not down does not go up."""
    down = p.Button(type="button", button="left", down=True, x=500, y=5)
    up = p.Button(type="button", button="left", down=False, x=5, y=500)
    assert play(up, at(7, 8), key("Control"), down, up) == [
        MoveTo(7, 8),
        KeyDown(CONTROL),
        MoveTo(99, 5),
        ButtonDown(1),
        MoveTo(5, 79),
        ButtonUp(1),
    ]


def test_the_wheel_turns_both_ways() -> None:
    """Down and left, notch by notch; up and right likewise."""
    wheel = p.Wheel(type="wheel", x=1, y=2, dx=-1, dy=2)
    assert [a.button for a in play(wheel) if isinstance(a, ButtonDown)] == [5, 5, 6]
    wheel = p.Wheel(type="wheel", x=1, y=2, dx=1, dy=-1)
    assert [a.button for a in play(wheel) if isinstance(a, ButtonDown)] == [4, 7]


def test_letting_go_forgets_everything() -> None:
    """After it, nothing counts as held."""
    let_go = p.LetGo(type="let_go")
    assert play(key("Control"), let_go, key("a"), p.Text(type="text", text="é漢")) == [
        Char("a"),
        Char("é"),
        Char("漢"),
    ]


def test_only_the_last_of_several_moves_is_kept() -> None:
    """Moves that another follows at once are void; those around a key are not."""
    assert latest([at(1, 1), at(2, 2), key("a"), at(3, 3)]) == [at(2, 2), key("a"), at(3, 3)]
