"""Phrases, and where they stand in a text."""

from __future__ import annotations

from bodyd.policy.lexicon import Lexicon, phrase, spellings
from bodyd.policy.normal import readings, words

GERMAN = {"ö": "oe", "ß": "ss"}


def test_phrases_are_found_where_they_stand():
    """Words in a row, a number where the phrase has any, and the whole phrase as one word."""
    lexicon = Lexicon.of(["pay now", "digit # of #", "# digit code", "2 step"], {})
    assert list(lexicon.spans(words("please pay now"))) == [(1, 3)]
    assert list(lexicon.spans(words("Digit 3 of 6"))) == [(0, 4)]
    assert list(lexicon.spans(words("6 digit code, 2-step"))) == [(0, 3), (3, 5)]
    assert list(lexicon.spans(words("digit three of 6, pay later, pay"))) == []
    assert list(lexicon.spans(words("paynow"))) == [(0, 1)]


def test_a_letter_may_be_written_out():
    """Letters that a keyboard lacks are taken both without their marks and written out."""
    assert set(spellings("Löschen", GERMAN)) == {phrase("loschen"), phrase("loeschen")}
    lexicon = Lexicon.of(["löschen"], GERMAN)
    for written in ("LÖSCHEN", "loschen", "Loeschen", "lo\u0308schen"):
        assert any(lexicon.among(reading, Lexicon()) for reading in readings(written))


def test_an_exception_lifts_the_place_that_it_covers_and_no_other():
    """ "Undo delete" is fine; another "delete" beside it is not."""
    lexicon, unless = Lexicon.of(["delete"], {}), Lexicon.of(["undo delete"], {})
    assert not lexicon.among(words("Undo delete"), unless)
    assert lexicon.among(words("Undo delete? Delete"), unless)


def test_all_of_a_name_is_compared_without_amounts():
    """Numbers and fillers don't count; other words do, and nothing is no phrase."""
    lexicon = Lexicon.of(["pay"], {})
    assert lexicon.is_all(words("Pay 20.00 EUR"), {"eur"})
    assert not lexicon.is_all(words("Payroll"), {"eur"})
    assert not lexicon.is_all(words("pay slip"), set())
    assert not lexicon.is_all(words("20.00"), set())


def test_lexicons_are_put_together():
    """Phrases that begin alike stay beside each other."""
    both = Lexicon.merged([Lexicon.of(["go on"], {}), Lexicon.of(["go back"], {})])
    assert list(both.spans(words("go on, go back"))) == [(0, 2), (2, 4)]
