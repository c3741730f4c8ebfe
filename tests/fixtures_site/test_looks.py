"""Looks: the same seed is the same page; every page is readable."""

from __future__ import annotations

import pytest
from bodyd_fixtures_site import looks, pages
from bodyd_fixtures_site.catalogue import products

SEEDS = range(400)


def page(seed: int, *, panel_open: bool = False, search: str = "") -> str:
    return pages.shop(seed=seed, run="r", page="p", panel_open=panel_open, search=search)


def test_a_seed_is_one_page() -> None:
    """The same seed gives the same look, goods and document; another seed another."""
    assert looks.look(5) == looks.look(5)
    assert products(5) == products(5)
    assert page(5) == page(5)
    assert len({looks.stylesheet(looks.look(seed)) for seed in SEEDS}) > 390


def test_every_choice_is_made_by_some_seed() -> None:
    """Layout, order, theme, label and panel side all vary."""
    seen = [looks.look(seed) for seed in SEEDS]
    for name, count in {"scheme": 2, "toolbar": 2, "align": 4, "order": 2, "panel": 3, "label": 3}.items():
        assert len({getattr(look, name) for look in seen}) == count, name


@pytest.mark.parametrize("ink", ["text", "faint", "placeholder", "on_accent", "accent_text"])
def test_text_is_readable_on_every_seed(ink: str) -> None:
    """Contrast is at least 3 for a placeholder and 4.5 for the rest (WCAG 2.1, 1.4.3)."""
    for seed in SEEDS:
        look = looks.look(seed)
        colour, ground, least = {
            "text": (look.text, look.page, 4.5),
            "faint": (look.faint, look.surface, 4.5),
            "placeholder": (look.placeholder_colour, look.field, 3.0),
            "on_accent": (look.on_accent, look.accent, 4.5),
            "accent_text": (look.accent_text, look.page, 4.5),
        }[ink]
        assert looks.contrast(colour, ground) >= least, (seed, ink)


def test_the_document_shows_the_record() -> None:
    """A reload shows the state that the server holds, escaped."""
    closed, opened = page(3), page(3, panel_open=True, search='"><script>')
    assert "Show filters" in closed
    assert 'id="filters" class="panel" hidden' in closed
    assert "Hide filters" in opened
    assert 'id="filters" class="panel">' in opened
    assert "<script>" not in opened.replace('<script src="/page.js" defer>', "")


def test_nothing_is_inline_and_nothing_comes_from_elsewhere() -> None:
    """No style or script attribute, no address with a host: the policy would refuse them."""
    for seed in range(40):
        document = page(seed)
        assert "style=" not in document
        assert "//" not in document.replace('xmlns="http://www.w3.org/2000/svg"', "")
