"""The verdicts, one by one, where the table of attempts only says that there is one."""

from __future__ import annotations

import pytest

from bodyd.contract import actions as a
from bodyd.contract.elements import Target
from bodyd.contract.ports import Verdict
from bodyd.policy.detect import detect
from bodyd.policy.packs import Kind, bind, load
from bodyd.policy.scene import CLEAR, Code, Command, Scene, Upload
from bodyd.policy.scripts import judge_code
from bodyd.policy.shipped import LANGUAGES, shipped

from .test_adversary import BOOK, CASH, CLICK, DRAG, ENTER, LOGIN, PAY, button, element, field, target

SHOP_ALLOWED = bind(
    [
        *map(shipped, LANGUAGES),
        load('language = "mine"\n[[domains]]\nmatch = "shop.example"\nallow = ["payment"]', "mine.toml"),
    ]
)


@pytest.mark.parametrize(
    ("action", "scene", "verdict", "rule"),
    [
        (CLICK, button("Pay now"), Verdict.PERSON, "payment.controls:en"),
        (CLICK, button("Pay 20 EUR"), Verdict.PERSON, "payment.exact:en"),
        (CLICK, button("Continue", at=CASH), Verdict.APPROVE, "payment.on_page:en"),
        (CLICK, button("Next", at=LOGIN), Verdict.PERSON, "sign_in.on_page:en"),
        (CLICK, button("", at=CASH), Verdict.APPROVE, "payment.unnamed:any"),
        (CLICK, button("OK", around=[("dialog", "Delete it?")]), Verdict.PERSON, "destruction.dialogs:en"),
        (CLICK, button("", around=[("dialog", "Delete it?")]), Verdict.APPROVE, "destruction.dialogs:en"),
        (a.Type(text="x"), field(role="password text"), Verdict.PERSON, "password.roles:any"),
        (a.Type(text="x"), field("Kennwort"), Verdict.PERSON, "password.fields:de"),
        (a.Type(text="x"), field("", id="otp"), Verdict.PERSON, "code.marks:any"),
        (ENTER, field("City", at=CASH), Verdict.APPROVE, "payment.enter:any"),
        (Command("rm -r x"), Scene(), Verdict.PERSON, "destruction.programs:rm -r"),
        (Command("eval x"), Scene(), Verdict.APPROVE, "destruction.opaque:eval"),
        (Code("os.remove(x)"), Scene(), Verdict.PERSON, "destruction.calls:os.remove"),
        (Upload((".env",)), Scene(), Verdict.PERSON, "data.files"),
        (a.Paste(text="4111111111111111"), field("Note"), Verdict.PERSON, "data.text"),
    ],
)
def test_a_verdict_names_its_rule(action, scene, verdict, rule):
    """What is sure is for a person; what can't be known is asked about."""
    found = detect(BOOK, action, scene)
    assert (found.verdict, found.rule) == (verdict, rule)


@pytest.mark.parametrize(
    "action",
    [a.Move(x=1, y=1), a.Scroll(x=1, y=1), a.Wait(), a.TakeScreenshot(), a.Click(x=1, y=1, button="right"),
     a.Click(x=1, y=1, button="back"), a.Keypress(keys=("ESC",)), a.Keypress(keys=("CTRL", "c"))],
)  # fmt: skip
def test_what_presses_nothing_is_allowed(action):
    """Moving, scrolling, looking, a context menu, escape: also on a Pay button."""
    assert detect(BOOK, action, button("Pay now")) == CLEAR


def test_words_quote_what_was_found():
    """People are told what it is called, and what it would come to."""
    assert detect(BOOK, CLICK, button("Pay\nnow")).words == "money would be spent (“Pay now”)"
    assert detect(BOOK, CLICK, button("", at=CASH)).words == (
        "what would be pressed can't be known: money would be spent"
    )


def test_an_owners_domain_lifts_its_kind_alone():
    """Payments are allowed at the shop; deleting there is not, nor paying elsewhere."""
    assert detect(SHOP_ALLOWED, CLICK, button("Pay now")) == CLEAR
    assert detect(SHOP_ALLOWED, CLICK, button("Delete")).kind is Kind.DESTRUCTION
    elsewhere = button("Pay now", at=("https://evil.example/", ""))
    assert detect(SHOP_ALLOWED, CLICK, elsewhere).kind is Kind.PAYMENT


def test_a_drag_is_judged_at_both_ends():
    """Leave at one end is none at the other."""
    there = target("push button", "x", at=("https://evil.example/", ""))
    assert detect(SHOP_ALLOWED, DRAG, Scene(target("slider", "Slide to pay"))) == CLEAR
    both = Scene(target("slider", "Slide to pay"), drop=there)
    assert detect(SHOP_ALLOWED, DRAG, both).verdict is Verdict.PERSON


def test_a_new_line_in_a_text_of_lines_sends_nothing():
    """Enter in a field of several lines is one more line."""
    assert detect(BOOK, ENTER, field("Message", states=("multi_line",), at=CASH)) == CLEAR


def test_a_known_default_is_what_enter_presses():
    """Where it is known to be harmless, the page doesn't matter."""
    scene = Scene(target("entry", "City", states=("editable",)), default=element("push button", "Search"))
    assert detect(BOOK, ENTER, scene) == CLEAR


def test_a_search_field_may_stand_beside_a_pay_button():
    """Enter in it is not asked about for what else is in view; in another field it is."""
    search = target("entry", "Find", states=("editable",), text_input_type="search")
    assert detect(BOOK, ENTER, Scene(search, others=(PAY,))) == CLEAR
    city = target("entry", "City", states=("editable",))
    assert detect(BOOK, ENTER, Scene(city, others=(PAY,))).rule == "payment.enter:en"


def test_long_texts_in_view_are_no_controls():
    """A sentence that speaks of paying makes no page of payment of it."""
    sentence = element("paragraph", "You can pay now, or later, or whenever you like, says he.")
    assert detect(BOOK, CLICK, Scene(target("canvas"), others=(sentence, element("panel")))) == CLEAR


def test_editors_take_text():
    """Keys write in what a page lets one edit, whatever its role; a press there may do anything."""
    editor = Scene(target("section", "Letter", states=("editable",), tag="div"))
    assert detect(BOOK, a.Type(text="dear all"), editor) == CLEAR


def test_an_element_that_nobody_knows_is_asked_about_only_where_it_matters():
    """No element on an ordinary page: typing and pressing go on."""
    nothing = Scene(Target(None))
    assert detect(BOOK, CLICK, nothing) == CLEAR
    assert detect(BOOK, a.Type(text="x"), nothing) == CLEAR
    assert detect(BOOK, a.Keypress(keys=("LEFT",)), nothing) == CLEAR


def test_code_that_can_not_be_read_is_no_fault():
    """Nothing gets out: what will not run is allowed, what is too deep to read is asked about."""
    for text in ("def", "\0", "'\\d'", "(" * 3_000):
        assert [f for f in judge_code(BOOK, text) if f.rule != "destruction.depth"] == []
    for deep in ("-" * 20_000 + "1", "+".join(["'a'"] * 3_000)):
        assert all(found.verdict is Verdict.APPROVE for found in judge_code(BOOK, deep))


def test_code_is_read_where_things_are_put_together():
    """A call inside a list, a method of what a call returns: each is seen."""
    assert list(judge_code(BOOK, "x = ['a', run('rm -r /x')]"))
    assert list(judge_code(BOOK, "Path('x').unlink()"))
    assert not list(judge_code(BOOK, "x = ['rmdir', 1 + 2, f'{x}']; from . import y"))
