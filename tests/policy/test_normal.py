"""Text as it is compared: what looks the same becomes the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bodyd.policy.normal import fold, in_order, number, readings, split_names, words

ANY_TEXT = st.text(st.characters(), max_size=60) | st.text("aIl1 .-_0Пау\u202e\u202c\u200b€", max_size=30)


@pytest.mark.parametrize(
    "written",
    [
        "Delete", "DELETE", "Ｄｅｌｅｔｅ", "De\u200blete", "De\u00adlete",
        "\ufeffDelete\u2060", "𝐃𝐞𝐥𝐞𝐭𝐞", "Ⓓⓔⓛⓔⓣⓔ", "🅳🅴🅻🅴🆃🅴",
        "🇩🇪🇱🇪🇹🇪", "Dеlеtе", "ᎠᎬᏞᎬᎢᎬ", "ᴅᴇʟᴇᴛᴇ", "DeIete", "De1ete",
        "D3l3t3", "D e l e t e", "D.e.l.e.t.e", "D-e-l-e-t-e", "De-lete",
        "D\u0336e\u0336l\u0336e\u0336t\u0336e\u0336", "Délété", "\u202eeteleD",
        "\u200fDelete\u200e", "De\u3164lete",
        "d\u2800e\u2800l\u2800e\u2800t\u2800e", "\x00Delete\x07", "D_e_l_e_t_e",
        "Del ete", "\udc00Delete",
    ],
)  # fmt: skip
def test_however_it_is_written_one_reading_is_the_word(written):
    """Full-width, decorated, foreign, invisible, spaced, turned-around letters: one word."""
    assert ("delete",) in readings(written)


def test_words_are_parted_by_spaces_punctuation_and_numbers():
    """Punctuation parts words, a number is a word, an emoji is one; an icon of a font is a space."""
    assert words("Pay  now, 20€ – go!") == ("pay", "now", "20", "go")
    assert words("Pay20\ue8a1🗑️") == ("pay", "20", "🗑")
    assert [number(word) for word in ("20", "pay")] == [True, False]


def test_what_a_second_look_tells_apart_is_the_same():
    """i and l, rn and m, vv and w are one on both sides of a comparison."""
    assert words("confirrn bill") == words("confirm blll") == ("confirm".replace("i", "l"), "blll")


def test_overrides_of_the_order_end_where_they_are_ended():
    """What follows the end of an override is in order again."""
    assert in_order("\u202eyaP\u202c now") == "Pay\u202c now"


def test_identifiers_are_split():
    """The words of an id, whatever the habit that joined them."""
    assert words(split_names("btnBuyNow")) == words(split_names("btn_buy-now")) == ("btn", "buy", "now")


def test_numbers_keep_their_digits():
    """Digits are letters only beside letters."""
    assert readings("10 45") == (("10", "45"), ("1045",))


def test_nothing_to_read_has_no_reading():
    """A name of invisible characters is no name."""
    assert readings("") == readings("\u200b\u3164 \u2800") == ()


def test_each_character_is_folded_once_for_all():
    """Of the alphabets, symbols and forms that there are, none folds to one that folds on."""
    blocks = (range(0x3100), range(0xA000, 0xAC00), range(0xF900, 0x10000), range(0x1D400, 0x1F800))
    assert [c for block in blocks for c in map(chr, block) if fold(fold(c)) != fold(c)] == []


@settings(max_examples=150, deadline=None)
@given(ANY_TEXT)
def test_folding_is_idempotent_and_total(text):
    """Any string folds, lone surrogates too, and folded it stays as it is; readings are words."""
    assert fold(fold(text)) == fold(text)
    assert all(reading and all(reading) for reading in readings(text))
