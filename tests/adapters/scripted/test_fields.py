"""Text fields: found from their placeholder, their text or their label, and told from what is like them."""

from __future__ import annotations

import pytest
from bodyd_adapters.scripted.fields import enclosing, field_around, field_of
from bodyd_adapters.scripted.ink import Box, fragments
from bodyd_adapters.scripted.words import Word, find

from .sheets import Sheet

FIELD = (100, 60, 380, 96)
INSIDE = Box(101, 61, 380, 96)


def word(sheet: Sheet) -> Word:
    return find(sheet.gray, fragments(sheet.gray), ("Search",))[0]


@pytest.mark.parametrize("radius", [0, 8, 18])
@pytest.mark.parametrize("outline", ["#888", "#dedede"])
def test_a_placeholder_leads_to_its_field(radius: int, outline: str) -> None:
    """Whatever its corners, and however faint its outline."""
    sheet = (
        Sheet().box(FIELD, outline=outline, radius=radius).write("Search the shop", (114, 68), fill="#777")
    )
    found = field_around(sheet.gray, word(sheet))
    assert found is not None
    assert all(abs(a - b) <= 3 for a, b in zip(found, INSIDE, strict=True))  # a pill's ends are curved


def test_a_label_above_leads_to_its_field() -> None:
    """The label stands over the field's left end."""
    sheet = Sheet().box(FIELD, radius=8).write("Search", (100, 34))
    assert field_of(sheet.gray, word(sheet)) == INSIDE


def test_a_label_beside_leads_to_its_field() -> None:
    """The label stands to its left."""
    sheet = Sheet().box(FIELD, radius=8).write("Search", (30, 68))
    assert field_of(sheet.gray, word(sheet)) == INSIDE


def test_a_button_is_no_field() -> None:
    """Its caption fills it."""
    sheet = Sheet().box((100, 60, 180, 96)).write("Search", (112, 68))
    assert field_of(sheet.gray, word(sheet)) is None


def test_a_heading_in_a_panel_is_no_field() -> None:
    """A box much higher than a line of text holds other things."""
    sheet = Sheet().box((20, 10, 500, 200)).write("Search help", (34, 20))
    assert field_of(sheet.gray, word(sheet)) is None


def test_text_on_the_open_page_has_no_outline() -> None:
    """Rays that reach the picture's edge found nothing; so do words at its very edge."""
    sheet = Sheet().write("Search", (100, 60))
    assert field_of(sheet.gray, word(sheet)) is None
    assert enclosing(sheet.gray, Box(0, 0, 10, 10)) is None
    low = Sheet(height=80).write("Search", (560, 58))
    assert field_of(low.gray, word(low)) is None
