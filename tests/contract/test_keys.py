"""Key names."""

from __future__ import annotations

import pytest

from bodyd.contract.keys import MODIFIERS, character_keysym, chord, key, modifiers
from bodyd.errors import UnknownKey


@pytest.mark.parametrize(
    ("name", "keysym"),
    [
        ("ENTER", 0xFF0D),
        ("Return", 0xFF0D),
        ("\n", 0xFF0D),
        ("\t", 0xFF09),
        ("⏎", 0xFF0D),
        ("Page_Down", 0xFF56),
        ("page-down", 0xFF56),
        ("PGDN", 0xFF56),
        ("Esc", 0xFF1B),
        ("CMD", 0xFFEB),
        ("altgr", 0xFE03),
        ("F12", 0xFFC9),
        ("KeyQ", ord("q")),
        ("Digit4", ord("4")),
        ("a", ord("a")),
        ("A", ord("A")),
        ("é", 0xE9),
        ("漢", 0x01006F22),
        (" ", 0x20),
        ("+", 0x2B),
        ("XF86Back", 0x1008FF26),
    ],
)
def test_the_names_that_models_send_are_known(name, keysym):
    """One table serves every spelling."""
    assert key(name).keysym == keysym


@pytest.mark.parametrize("name", ["", "nosuchkey", "\x00", "keyé", "digitx1", "ctrl c"])
def test_an_unknown_name_is_refused(name):
    """No key is guessed."""
    with pytest.raises(UnknownKey):
        key(name)


def names(*keys: str) -> list[str]:
    return [k.name for k in chord(keys)]


def test_letters_beside_a_modifier_are_lower_case_unless_shift_is_there():
    """CTRL+C means Control and the key c."""
    assert names("CTRL", "C") == ["Control_L", "c"]
    assert names("C", "CTRL") == ["Control_L", "c"]
    assert names("CTRL", "SHIFT", "T") == ["Control_L", "Shift_L", "T"]
    assert names("C") == ["C"]


def test_a_joined_name_is_a_chord():
    """ "ctrl+-" and "ctrl++" are two keys each."""
    assert names("ctrl+-") == ["Control_L", "minus"]
    assert names("ctrl++") == ["Control_L", "plus"]
    assert names("ctrl+shift+t") == ["Control_L", "Shift_L", "t"]


def test_one_unknown_key_refuses_the_whole_chord():
    """Nothing of Ctrl+nosuchkey is pressed."""
    with pytest.raises(UnknownKey):
        chord(["CTRL", "nosuchkey"])
    with pytest.raises(UnknownKey):
        chord([])
    with pytest.raises(UnknownKey):
        chord(["a+b+c+d+e+f+g+h+i"])


def test_only_modifiers_are_held_during_a_pointer_action():
    """`keys` of a click names modifiers."""
    assert modifiers(None) == ()
    assert modifiers([]) == ()
    assert [k.name for k in modifiers(["ctrl"])] == ["Control_L"]
    with pytest.raises(UnknownKey, match="can't be held"):
        modifiers(["ctrl", "x"])
    assert all(key(name).is_modifier for name in MODIFIERS)


def test_characters_follow_the_rules_of_x():
    """Latin-1 as it is, all else 0x01000000 plus the code point; line ends are Return."""
    assert character_keysym("~") == 0x7E
    assert character_keysym("ÿ") == 0xFF
    assert character_keysym("\r") == 0xFF0D
    assert character_keysym("😀") == 0x0101F600
