"""What counts as evidence (pure)."""

from __future__ import annotations

import pytest

from bodyd.contract import actions as a
from bodyd.contract.geometry import Bounds
from bodyd.contract.inventory import Window
from bodyd.contract.receipts import Outcome
from bodyd.driver.verifier import Restless, activated, attributable, changes, effect, stated, text_matches


def window(id: int, title: str = "t", *, active: bool = False, minimised: bool = False) -> Window:
    return Window(
        id=id, app="app", title=title, bounds=Bounds(x=0, y=0, width=9, height=9),
        active=active, minimised=minimised, stacking=id,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ([], [window(1)], "window_opened"),
        ([window(1)], [], "window_closed"),
        ([window(1)], [window(1, active=True)], "window_activated"),
        ([window(1)], [window(1, "other")], "window_retitled"),
        ([window(1)], [window(1, minimised=True)], "window_minimised"),
        ([window(1, minimised=True)], [window(1)], "window_restored"),
    ],
)
def test_windows_are_evidence(before, after, kind):
    """Each change is named."""
    (change,) = changes(before, after)
    assert (change.kind, change.window) == (kind, 1)


def test_a_title_that_changes_by_itself_proves_nothing():
    """A ticking title seen between batches is left out until it has been still for a while."""
    restless = Restless(memory=3.0)
    restless.note([window(1, "0:01")], [window(1, "0:02")], now=10.0)
    assert changes([window(1, "0:02")], [window(1, "0:03")], restless=restless.at(11.0)) == ()
    assert changes([window(1, "0:02")], [window(1, "0:03")], restless=restless.at(14.0)) != ()


def test_a_title_that_keeps_changing_is_remembered_longer():
    """A clock that ticks once a minute: its second tick makes it a habit."""
    restless = Restless()
    for minute in (0, 60):
        restless.note([window(1, "12:00")], [window(1, "12:01")], now=minute)
    assert restless.at(110) == {1}
    assert restless.at(150) == frozenset()
    restless.note([window(1, "a")], [window(1, "b")], now=200)
    assert restless.at(205) == {1}
    assert restless.at(215) == frozenset()


def test_activated_windows_are_told_from_opened_and_retitled_ones():
    """Those alone may have been switched to."""
    found = changes(
        [window(1), window(3)], [window(1, "new"), window(2, active=True), window(3, active=True)]
    )
    assert activated(found) == {3}


@pytest.mark.parametrize(
    ("before", "after", "of_the_target", "of_a_stranger"),
    [
        ([], [window(1)], True, False),
        ([window(1)], [], True, False),
        ([window(1)], [window(1, "other")], True, False),
        ([window(1)], [window(1, active=True)], True, True),
        ([window(1)], [window(1, minimised=True)], True, True),
        ([window(1, minimised=True)], [window(1)], True, True),
    ],
)
def test_what_an_app_does_that_got_no_input_is_no_evidence(before, after, of_the_target, of_a_stranger):
    """But for keys to the window manager, which may activate and hide the windows of any."""
    found = changes(before, after)
    assert (attributable(found, {1: 7}, frozenset({7}), managed=False) == found) is of_the_target
    assert attributable(found, {1: 7}, frozenset({8}), managed=False) == ()
    assert attributable(found, {}, frozenset(), managed=False) == ()
    assert (attributable(found, {1: 7}, frozenset({8}), managed=True) == found) is of_a_stranger


def test_changed_pixels_alone_confirm_nothing():
    """A click on a dead area is uncertain, whatever moved on the screen."""
    for changed in (True, False, None):
        assert effect(a.Click(x=1, y=1), changed=changed).outcome is Outcome.UNCERTAIN


def test_expectations_are_met_unmet_or_not_to_be_read():
    """Three answers, and no fourth."""
    assert [(stated(met).outcome, stated(met).evidence) for met in (True, False, None)] == [
        (Outcome.CONFIRMED, "expect_met"),
        (Outcome.FAILED, "expect_unmet"),
        (Outcome.UNCERTAIN, "expect_unread"),
    ]


def test_readbacks_confirm():
    """Pointer position and windows."""
    click, found = a.Click(x=1, y=1), changes([], [window(1)])
    assert effect(a.Move(x=1, y=1), pointer_read_back=True).outcome is Outcome.CONFIRMED
    assert effect(click, pointer_read_back=True).outcome is Outcome.UNCERTAIN
    assert effect(click, found=found).evidence == "window_opened"
    assert effect(a.Wait()).outcome is None


@pytest.mark.parametrize(
    ("stated", "actual", "met"),
    [
        ({"equals": "a"}, "a", True),
        ({"equals": "a"}, "ab", False),
        ({"contains": "a"}, "cab", True),
        ({"equals": "ab", "contains": "a"}, "ab", True),
        ({"contains": "x"}, "ab", False),
        ({"contains": ""}, None, False),
    ],
)
def test_texts_are_compared_exactly(stated, actual, met):
    """`equals` and `contains`, both where both are stated; nothing read is not a match."""
    assert text_matches(a.Expect(field="window_title", **stated), actual) is met
