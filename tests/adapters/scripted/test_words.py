"""Reading: the words that are there, at every size and weight, and not their like."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from bodyd_adapters.scripted.ink import fragments
from bodyd_adapters.scripted.words import Word, find, phrase

from .sheets import Sheet

TEXTS = ("Show", "Hide", "filters", "Filters", "Search", "penguin")


def read(sheet: Sheet, texts: Sequence[str] = TEXTS) -> list[Word]:
    return find(sheet.gray, fragments(sheet.gray), texts)


@pytest.mark.parametrize("em", [13, 14, 16, 19, 22, 26])
@pytest.mark.parametrize("bold", [False, True])
@pytest.mark.parametrize("text", TEXTS)
def test_each_word_is_read_at_every_size(text: str, em: int, bold: bool) -> None:
    """It is read as itself, where it stands, and its size is told within a fifth."""
    (word,) = read(Sheet().write(text, (30, 40), em=em, bold=bold))
    assert word.text == text
    assert abs(word.box.left - 30) <= 4
    assert 0.8 * em <= word.em <= 1.25 * em


@pytest.mark.parametrize(
    "text",
    ["Shop", "Side", "Slide", "litters", "Filter", "Research", "Penguin", "PENGUIN", "penguins", "enguin"],
)
def test_words_that_are_like_them_are_not_read(text: str) -> None:
    """A letter more, less or other makes another word (n is nearly an h: `Snow` is beyond these eyes)."""
    for em in (14, 18, 24):
        assert read(Sheet().write(text, (30, 40), em=em)) == [], em


def test_a_phrase_is_two_words_a_space_apart() -> None:
    """Neither a wide gap, nor another line, nor another size makes a phrase."""
    assert len([*phrase(read(Sheet().write("Show filters", (30, 40))), "Show", "filters")]) == 1
    wide = Sheet().write("Show", (30, 40)).write("filters", (120, 40))
    assert [*phrase(read(wide), "Show", "filters")] == []
    lines = Sheet().write("Show", (30, 40)).write("filters", (78, 64))
    assert [*phrase(read(lines), "Show", "filters")] == []
    sizes = Sheet().write("Show", (30, 40)).write("filters", (78, 32), em=24)
    assert [*phrase(read(sizes), "Show", "filters")] == []


def test_faint_ink_is_left_unread() -> None:
    """Type that hardly differs from its ground is not guessed at."""
    assert read(Sheet(ground="#808080").write("Search", (30, 40), fill="#8a8a8a")) == []
