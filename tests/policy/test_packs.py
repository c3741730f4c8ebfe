"""Packs: rules as data, read strictly."""

from __future__ import annotations

import pytest

from bodyd.contract.ports import Verdict
from bodyd.errors import ConfigError
from bodyd.policy.normal import words
from bodyd.policy.packs import MAX_PACK, Domain, Kind, bind, load
from bodyd.policy.shipped import LANGUAGES, shipped

PACK = """
language = "xx"
spelling = { "å" = "aa" }
fillers = ["kr"]
[payment]
controls = ["pay now"]
verdict = "approve"
[[domains]]
match = "*.shop.example"
allow = ["payment"]
person = ["code"]
"""


@pytest.mark.parametrize("name", LANGUAGES)
def test_shipped_packs_are_read(name):
    """Every pack that comes along is well-formed, and is called what its file is."""
    assert shipped(name).language == name


@pytest.mark.parametrize("name", [name for name in LANGUAGES if name != "any"])
def test_every_language_has_every_kind(name):
    """No shipped language lacks what another has."""
    pack = shipped(name)
    filled = [
        pack.password.fields, pack.code.fields, pack.code.titles, pack.captcha.controls,
        pack.captcha.fields, pack.captcha.exact_titles, pack.sign_in.controls, pack.sign_in.on_page,
        pack.sign_in.titles, pack.card.fields, pack.payment.controls, pack.payment.exact,
        pack.payment.on_page, pack.payment.titles, pack.payment.dialogs, pack.destruction.controls,
        pack.destruction.on_page, pack.destruction.titles, pack.destruction.dialogs,
        pack.destruction.drops, pack.destruction.unless, pack.answers.no,
    ]  # fmt: skip
    assert all(filled)


def test_a_pack_is_bound():
    """A book has a chapter for each kind of each pack, with its verdict, and what packs share together."""
    book = bind([load(PACK, "xx.toml"), shipped("en")])
    chapter = next(c for c in book.chapters if c.kind is Kind.PAYMENT)
    assert (chapter.language, chapter.verdict) == ("xx", Verdict.APPROVE)
    assert list(chapter.lists["controls"].spans(words("Pay now"))) == [(0, 2)]
    assert len(book.chapters) == 14
    assert {"kr", "please"} <= {*book.fillers, "please"}
    assert list(book.no.spans(words("Cancel"))) == [(0, 1)]


def test_a_domain_says_what_holds_there():
    """The list that names a kind is its verdict; one that is not named is left as it is."""
    domain = Domain(match="a.example", allow=(Kind.PAYMENT,), approve=(Kind.CODE,), person=(Kind.DATA,))
    kinds = [Kind.PAYMENT, Kind.CODE, Kind.DATA, Kind.CARD]
    assert [domain.verdict(kind) for kind in kinds] == [Verdict.ALLOW, Verdict.APPROVE, Verdict.PERSON, None]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("language = ", "x.toml: Invalid value (at end of document)"),
        ("", "x.toml: language: it is required"),
        ('language = "EN"', "x.toml: language: it must be of the form ^[a-z]"),
        ('language = "en"\n[payments]', "x.toml: payments: there is no such field"),
        ('language = "en"\n[payment]\nbuttons = ["pay"]', "x.toml: payment.buttons: there is no such field"),
        ('language = "en"\n[payment]\nexact = "pay"', "x.toml: payment.exact: it must be a list"),
        ('language = "en"\n[payment]\nexact = ["ok", 3]', "x.toml: payment.exact.1: it must be text"),
        ('language = "en"\n[payment]\nexact = ["\u200b"]', "x.toml: payment.exact.0: a phrase has a word"),
        ('language = "en"\n[payment]\nexact = ["a"]', "x.toml: payment.exact.0: a phrase has a word"),
        (
            'language = "en"\n[payment]\nexact = ["Pay", "pay!"]',
            "x.toml: payment.exact: 'pay!' is 'Pay' again",
        ),
        ('language = "en"\n[payment]\nverdict = "allow"', "x.toml: payment.verdict: "),
        ('language = "en"\n[captcha]\nframes = ["https://a"]', "x.toml: captcha.frames.0: "),
        ('language = "en"\n[code]\nattributes = ["otp"]', "x.toml: code.attributes.0: "),
        ('language = "en"\nspelling = { "ab" = "c" }', "x.toml: spelling.ab"),
        ('language = "en"\n[data]\npatterns = ["dna"]', "x.toml: data.patterns.0: "),
        (
            'language = "en"\n[[data.values]]\nname = "x"\ntext = "- - - -"',
            "x.toml: data.values.0: a value has",
        ),
        ('language = "en"\n[[domains]]\nmatch = "a.example"', "x.toml: domains.0: name each kind once"),
        (
            'language = "en"\n[[domains]]\nmatch = "a.example"\nallow = ["code"]\nperson = ["code"]',
            "x.toml: domains.0: name each kind once",
        ),
        ('language = "en"\n[[domains]]\nmatch = "a"\nallow = ["all"]', "x.toml: domains.0.allow.0: "),
        ("#" * (MAX_PACK + 1), "x.toml: 262145 characters; a pack has 262144 at most"),
    ],
)
def test_a_fault_is_named_with_its_place(text, message):
    """Nothing is skipped or guessed: the first fault ends the reading, and says where and what."""
    with pytest.raises(ConfigError) as caught:
        load(text, "x.toml")
    assert caught.value.message.startswith(message)


def test_a_value_is_not_in_a_message():
    """What an owner keeps secret is in no error."""
    with pytest.raises(ConfigError) as caught:
        load('language = "en"\n[[data.values]]\nname = "x"\ntext = "hush-hush"\nwhere = 1', "x.toml")
    assert "hush" not in caught.value.message


def test_a_value_may_be_anything_with_four_letters():
    """Spaces and punctuation don't count."""
    pack = load(
        'language = "en"\n[[data.values]]\nname = "x"\ntext = "1 Some St."\norigins = ["a.example"]', "x"
    )
    assert pack.data.values[0].origins == ("a.example",)
    assert "Some" not in repr(pack)


def test_two_packs_of_one_name_are_refused():
    """Which one a finding is of would not be known."""
    with pytest.raises(ConfigError, match="two packs have the language 'en'"):
        bind([shipped("en"), shipped("en")])
