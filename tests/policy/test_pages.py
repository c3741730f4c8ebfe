"""Pages: their kind by title and address, and the owner's word on domains."""

from __future__ import annotations

import pytest

from bodyd.contract.elements import Page, Target
from bodyd.contract.ports import Verdict
from bodyd.policy import pages
from bodyd.policy.packs import Kind, bind, load
from bodyd.policy.scene import Finding, Scene, shown
from bodyd.policy.shipped import shipped

BOOK = bind([shipped("any"), shipped("en"), shipped("de")])


def at(url, title="", *, frames=(), complete=True):
    return Target(None, page=Page(url, title), frames=frames, complete=complete)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://Shop.Example./x", "shop.example"),
        ("https://shop.example:8443", "shop.example"),
        ("https://shop.example@evil.example/", ""),
        ("https://evil.example\\@shop.example/", ""),
        ("http://[broken", ""),
        ("about:blank", ""),
        ("", ""),
    ],
)
def test_a_host_is_what_every_reader_takes_for_it(url, host):
    """Where two readers of an address may see two hosts, there is none."""
    assert pages.host_of(url) == host


def test_places_are_hosts_and_what_is_below():
    """A path covers whole segments; a star covers what is below and not the domain itself."""
    assert pages.is_at("a.example/pay", "https://a.example/pay/now")
    assert pages.is_at("a.example", "https://a.example/")
    assert pages.is_at("*.a.example", "https://b.a.example/")
    assert not pages.is_at("a.example/pay", "https://a.example/payroll")
    assert not pages.is_at("*.a.example", "https://a.example/")
    assert not pages.is_at("*.a.example", "https://bad-a.example/")


@pytest.mark.parametrize(
    ("scene", "kinds"),
    [
        (Scene(at("https://a.example/", "Checkout - Shop")), {Kind.PAYMENT}),
        (Scene(at("https://a.example/#/check%6Fut")), {Kind.PAYMENT}),
        (Scene(at("https://a.example/x", "Konto schließen")), {Kind.DESTRUCTION}),
        (Scene(at("https://login.a.example/x")), {Kind.SIGN_IN}),
        (Scene(window_title="Sign in – Chromium"), {Kind.SIGN_IN}),
        (
            Scene(at("https://a.example/", frames=("https://js.stripe.com/v3", "https://a.example/"))),
            {Kind.CARD},
        ),
        (Scene(at("https://a.example/", "Just a moment...")), {Kind.CAPTCHA}),
        (Scene(at("https://a.example/", "Just a moment of joy")), set()),
        (Scene(at("https://a.example/filters", "Coffee filters")), set()),
        (Scene(at("http://[broken")), set()),
        (Scene(), set()),
    ],
)
def test_a_page_is_of_a_kind(scene, kinds):
    """By a phrase in its title, a part of its title, the words of its address, or whose document it is."""
    assert {chapter.kind for chapter in pages.kinds(BOOK, scene)} == kinds


DOMAINS = bind(
    [
        load(
            'language = "mine"\n'
            '[[domains]]\nmatch = "shop.example"\nallow = ["payment"]\napprove = ["destruction"]\n'
            '[[domains]]\nmatch = "*.bank.example"\nperson = ["payment"]',
            "mine.toml",
        )
    ]
)
ASKED = Finding(Verdict.APPROVE, "r", Kind.PAYMENT)
REFUSED = Finding(Verdict.PERSON, "r", Kind.PAYMENT)
SHOP, BANK, OTHER = "https://shop.example/", "https://my.bank.example/", "https://evil.example/"


@pytest.mark.parametrize(
    ("finding", "target", "verdict"),
    [
        (REFUSED, at(SHOP), Verdict.ALLOW),
        (Finding(Verdict.PERSON, "r", Kind.DESTRUCTION), at(SHOP), Verdict.APPROVE),
        (Finding(Verdict.PERSON, "r", Kind.CODE), at(SHOP), Verdict.PERSON),
        (REFUSED, at(SHOP, complete=False), Verdict.PERSON),
        (REFUSED, at(SHOP, frames=(SHOP, OTHER)), Verdict.PERSON),
        (REFUSED, at(SHOP, frames=(OTHER, SHOP)), Verdict.PERSON),
        (REFUSED, at(SHOP, frames=("about:blank", SHOP)), Verdict.PERSON),
        (REFUSED, at(OTHER), Verdict.PERSON),
        (REFUSED, None, Verdict.PERSON),
        (REFUSED, Target(None), Verdict.PERSON),
        (ASKED, at(BANK), Verdict.PERSON),
        (ASKED, at(BANK, frames=(OTHER, BANK)), Verdict.PERSON),
        (ASKED, at(OTHER), Verdict.APPROVE),
    ],
)
def test_domains_loosen_in_whole_and_tighten_in_part(finding, target, verdict):
    """A looser word needs every document around the target to be of the domain; a stricter one needs any."""
    assert pages.settle(DOMAINS, finding, target) is verdict


def test_what_is_shown_to_people_is_one_short_line():
    """Nothing invisible, no second line, no end without a mark."""
    assert shown("Pay\n\u202enow\u200b  ok") == "Pay now ok"
    assert len(shown("x" * 500)) == 80
