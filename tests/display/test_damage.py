"""What counts as caused by an input, and what was restless before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bodyd.contract.geometry import Bounds
from bodyd.display.damage import LONGEST_PATIENCE, MARK_LIFE, Activity, join


def box(x: int, y: int, width: int = 10, height: int = 10) -> Bounds:
    return Bounds(x=x, y=y, width=width, height=height)


CARET = box(100, 100, 2, 18)


def blinking(activity: Activity, until: float, *, start: float = 0.0) -> None:
    at = start
    while at < until:
        activity.note(at, [CARET])
        at += 0.5


def test_a_change_after_the_mark_is_its_own() -> None:
    """What came before is not."""
    activity = Activity()
    activity.note(0.9, [box(0, 0)])
    mark = activity.mark(1.0)
    assert mark.last is None
    activity.note(1.1, [box(50, 50)])
    assert mark.changed == (box(50, 50),)
    assert mark.last == 1.1


def test_a_blinking_caret_is_busy() -> None:
    """Its further blinking is ignored, a typed letter beside it is not."""
    activity = Activity()
    blinking(activity, 3.0)
    mark = activity.mark(3.0)
    assert mark.busy == (CARET,)
    activity.note(3.1, [CARET])
    assert mark.last is None
    activity.note(3.2, [box(100, 100, 9, 18)])
    assert mark.last == 3.2


def test_two_changes_are_not_busy() -> None:
    """A window painted in two steps is not an animation."""
    activity = Activity()
    activity.note(0.5, [CARET])
    activity.note(1.2, [CARET])
    assert activity.mark(1.3).busy == ()


def test_many_changes_in_a_moment_are_not_busy() -> None:
    """A page painted in ten steps within a third of a second is no animation either."""
    activity = Activity()
    for step in range(10):
        activity.note(1 + step / 30, [box(0, 0, 800, 600)])
    assert activity.mark(1.4).busy == ()


def test_busy_wears_off() -> None:
    """What has long been still is watched again."""
    activity = Activity()
    blinking(activity, 3.0)
    assert activity.mark(9.0).busy == ()


def test_repeated_input_does_not_make_its_target_busy() -> None:
    """Three clicks on one button in two seconds: the button's changes stay evidence."""
    activity = Activity()
    for second in (1.0, 1.5, 2.0, 2.5):
        mark = activity.mark(second)
        assert mark.busy == ()
        activity.note(second + 0.02, [box(0, 0)])
        activity.settle(mark, quiet=True)


def test_a_busy_region_stays_busy_through_inputs() -> None:
    """Changes that a mark ignores are still proof that something blinks."""
    activity = Activity()
    blinking(activity, 2.0)
    for second in (2.0, 3.0, 4.0, 5.0):
        mark = activity.mark(second)
        assert mark.busy == (CARET,)
        blinking(activity, second + 1.0, start=second)
        activity.settle(mark, quiet=True)


def test_what_outlasts_a_settle_is_busy_afterwards() -> None:
    """A video started by a click delays that click's settle, not the next one's."""
    activity = Activity()
    video = box(200, 200, 320, 240)
    mark = activity.mark(1.0)
    for frame in range(30):
        activity.note(1.0 + frame / 30, [video])
    assert not activity.settle(mark, quiet=False).quiet
    assert activity.mark(2.1).busy == (video,)


def test_a_forgotten_mark_stops_counting() -> None:
    """A mark that nobody settles does not hide a caret for ever."""
    activity = Activity()
    forgotten = activity.mark(0.0)
    blinking(activity, MARK_LIFE + 4.0)
    assert activity.mark(MARK_LIFE + 4.0).busy == (CARET,)
    assert forgotten.last is not None


def test_separate_things_stay_separate() -> None:
    """Two carets far apart do not make everything between them busy."""
    activity = Activity()
    for step in range(6):
        activity.note(step * 0.5, [CARET, box(700, 500, 2, 18)])
    mark = activity.mark(3.0)
    activity.note(3.1, [box(400, 300)])
    assert mark.changed == (box(400, 300),)


rects = st.builds(box, st.integers(0, 500), st.integers(0, 500), st.integers(1, 300), st.integers(1, 300))


@given(st.lists(rects, max_size=200))
def test_joining_loses_nothing_and_stays_short(added: list[Bounds]) -> None:
    """Every rectangle is covered, and the list is bounded."""
    joined: list[Bounds] = []
    for rect in added:
        join(joined, rect)
    assert len(joined) <= 48
    for rect in added:
        assert any(outer.intersection(rect) == rect for outer in joined)


def test_a_grown_animation_is_one_region() -> None:
    """Changes that touch each other over time are joined, whatever their order; those that don't, aren't."""
    activity = Activity()
    for step in range(8):
        activity.note(step * 0.3, [box(10 * (step % 2), 0), box(300, 300)])
    busy = activity.mark(2.3).busy
    assert sorted((b.x, b.width) for b in busy) == [(0, 20), (300, 10)]


def test_a_quiet_settle_leaves_earlier_evidence_alone() -> None:
    """Only what changed after the mark is turned into evidence by a settle that met its cap."""
    activity = Activity()
    early = activity.mark(0.0)
    activity.note(0.1, [box(0, 0)])
    activity.settle(early, quiet=True)
    late = activity.mark(1.0)
    for step in range(10):
        activity.note(1.0 + step / 10, [box(500, 500)])
    activity.settle(late, quiet=False)
    assert activity.mark(2.0).busy == (box(500, 500),)


def test_carets_are_no_work() -> None:
    """What is narrower than a letter does not show an app at work."""
    activity = Activity()
    activity.note(1.0, [CARET])
    assert activity.at_work == float("-inf")
    activity.note(2.0, [CARET, box(0, 0)])
    assert activity.at_work == 2.0


def test_a_long_list_is_kept_short() -> None:
    """Beyond the limit, the last ones are taken together; nothing is lost."""
    joined: list[Bounds] = []
    rects = [box(30 * (index % 10), 30 * (index // 10), 5, 5) for index in range(60)]
    for rect in rects:
        join(joined, rect)
    assert len(joined) == 48
    assert all(any(outer.intersection(rect) == rect for outer in joined) for rect in rects)


def reactions(*taken: float | None) -> float:
    """The patience after inputs that were reacted to after so many seconds; None: not at all."""
    activity = Activity()
    for turn, seconds in enumerate(taken):
        mark = activity.mark(turn * 10.0)
        activity.await_reaction(mark, turn * 10.0)
        activity.settle(mark, quiet=True)  # a reaction may come later, and is learnt from all the same
        if seconds is not None:
            activity.note(turn * 10.0 + seconds, [box(50, 50)])
            activity.note(turn * 10.0 + seconds + 0.1, [box(90, 50)])
    at = len(taken) * 10.0
    return activity.await_reaction(activity.mark(at), at)


def test_slow_apps_are_given_time_to_react() -> None:
    """As much as they have lately taken and half as much again, within reason."""
    assert reactions() == 0
    assert reactions(0.1) < reactions(0.1, 0.1) < 0.15
    assert reactions(0.4, 0.4, 0.4) == LONGEST_PATIENCE


def test_quick_apps_and_dead_areas_take_the_patience_away() -> None:
    """A few inputs later nothing is waited for any more."""
    assert reactions(0.2, *[0.01] * 12) < 0.05
    assert reactions(0.2, *[None] * 12) < 0.05


def test_what_changes_much_later_is_no_reaction() -> None:
    """Nor is a caret that was blinking before."""
    assert reactions(0.7) == 0
    activity = Activity()
    blinking(activity, 3.0)
    activity.await_reaction(activity.mark(3.0), 3.0)
    activity.note(3.1, [CARET])
    activity.note(3.2, [box(50, 50)])
    mark = activity.mark(4.0)
    assert activity.await_reaction(mark, 4.0) > 0.1
