"""What a batch must satisfy before anything is sent (pure)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bodyd.contract import actions as a
from bodyd.contract.atoms import MoveTo
from bodyd.contract.elements import Ancestor, Element, Target
from bodyd.contract.geometry import Bounds, Point, Size
from bodyd.contract.inventory import Window
from bodyd.contract.screenshots import Cursor, Screenshot, ScreenTarget
from bodyd.driver.admission import (
    Reach,
    Sight,
    check_element,
    check_focus,
    check_free,
    check_keyboard,
    check_pointer,
    check_sight,
    check_uncovered,
    plan_batch,
    pointer_target,
)
from bodyd.errors import OutOfBounds, StaleScreenshot

SCREEN = Size(width=1280, height=800)


def window(id: int, x: int = 0, y: int = 0, width: int = 100, height: int = 100, **more: object) -> Window:
    facts = {"app": "xterm", "title": "t", "active": False, "minimised": False, "stacking": id} | more
    return Window(id=id, bounds=Bounds(x=x, y=y, width=width, height=height), **facts)


def sight(
    *windows: Window,
    epoch: int = 1,
    screen: tuple[int, int] = (1, 1),
    scale: int = 1,
    bounds: Bounds | None = None,
) -> Sight:
    bounds = bounds or Bounds(x=0, y=0, width=1280, height=800)
    shot = Screenshot(
        screenshot_id="shot_1", sequence=1, captured_at=0, epoch=epoch, width=bounds.width // scale,
        height=bounds.height // scale, bounds=bounds, target=ScreenTarget(), cursor=Cursor(x=0, y=0),
        windows=windows, sha256="", input_ready=True,
    )  # fmt: skip
    return Sight(shot, screen)


def request(*inputs: a.Action, **more: object) -> a.InputRequest:
    return a.InputRequest(
        **{"request_id": "r", "epoch": 1, "screenshot_id": "shot_1", "inputs": inputs} | more
    )


CLICK = a.Click(x=10, y=10)


def test_the_latest_screenshot_of_this_epoch_and_screen_admits():
    """Named or implied, it is the one that the driver saw last."""
    seen = sight()
    assert check_sight(request(CLICK), seen, epoch=1, screen=(1, 1)) is seen
    assert check_sight(request(CLICK, screenshot_id=None), seen, epoch=1, screen=(1, 1)) is seen


@pytest.mark.parametrize(
    ("latest", "epoch", "screen", "named"),
    [
        (None, 1, (1, 1), "shot_1"),
        (sight(), 1, (1, 1), "shot_0"),
        (sight(epoch=1), 2, (1, 1), "shot_1"),
        (sight(), 1, (1, 2), "shot_1"),
        (sight(), 1, (2, 1), "shot_1"),
    ],
)
def test_any_other_screenshot_is_stale(latest, epoch, screen, named):
    """None given, not the latest, another epoch, a resize, a restart of the server."""
    with pytest.raises(StaleScreenshot):
        check_sight(request(CLICK, screenshot_id=named), latest, epoch=epoch, screen=screen)


def test_a_batch_that_is_meant_for_nothing_seen_needs_no_screenshot():
    """Waiting, looking, and binding "none"."""
    assert check_sight(request(a.Wait(), screenshot_id=None), None, epoch=1, screen=(1, 1)) is None
    loose = request(CLICK, screenshot_id=None, binding="none")
    assert check_sight(loose, None, epoch=1, screen=(1, 1)) is None


def test_a_downscaled_click_lands_on_what_it_showed():
    """A half-size image's pixel (10, 10) is the body's (21, 21); corners stay inside."""
    half = sight(scale=2)
    planned = plan_batch([CLICK, a.Move(x=0, y=0), a.Move(x=639, y=399)], half, SCREEN)
    stops = [x for atoms in planned for x in atoms if isinstance(x, MoveTo)]
    assert stops == [MoveTo(21, 21), MoveTo(1, 1), MoveTo(1279, 799)]


def test_a_region_offsets_its_clicks():
    """Image pixels of a region count from its corner."""
    region = sight(bounds=Bounds(x=100, y=200, width=300, height=200))
    ((move,),) = plan_batch([a.Move(x=5, y=6)], region, SCREEN)
    assert move == MoveTo(105, 206)


def test_one_coordinate_outside_refuses_the_batch_before_anything_is_sent():
    """The error names the input."""
    with pytest.raises(OutOfBounds) as caught:
        plan_batch([CLICK, a.Move(x=1280, y=0)], sight(), SCREEN)
    assert caught.value.param == "inputs[1]"
    with pytest.raises(OutOfBounds):
        plan_batch([a.Move(x=5, y=5)], sight(bounds=Bounds(x=1279, y=0, width=300, height=200)), SCREEN)
    with pytest.raises(OutOfBounds):
        plan_batch([a.Move(x=1280, y=5)], None, SCREEN)


def test_the_topmost_window_at_a_point_is_the_target():
    """Minimised windows and the desktop behind are none."""
    low, high = window(1), window(2, x=50)
    assert pointer_target([low, high], Point(x=60, y=5)) is high
    assert pointer_target([low, high], Point(x=5, y=5)) is low
    assert pointer_target([window(3, minimised=True)], Point(x=5, y=5)) is None
    popup = sight(low)
    popup = Sight(popup.shot, popup.screen, popups=(high,))
    assert popup.top_at(Point(x=60, y=5)) is high


AT = Point(x=5, y=5)


def test_a_covered_moved_or_closed_target_is_stale():
    """The covering window gets no click."""
    seen = window(1)
    check_pointer(sight(seen), seen, AT, index=0)
    check_pointer(sight(), None, AT, index=0)
    check_pointer(sight(seen), window(7), AT, index=0, opened=frozenset({7}))
    check_pointer(sight(), window(7), AT, index=0, opened=frozenset({7}))
    for now in (window(2), window(1, x=1), window(1, width=99), None):
        with pytest.raises(StaleScreenshot):
            check_pointer(sight(seen), now, AT, index=0)
    with pytest.raises(StaleScreenshot):
        check_pointer(sight(), seen, AT, index=0)


def test_a_window_that_the_batch_raised_must_still_be_where_it_was():
    """What was seen at another place is another target, whoever raised it."""
    low, high = window(1, width=300), window(2)
    check_pointer(sight(low, high), low, AT, index=1, opened=frozenset({1}))
    with pytest.raises(StaleScreenshot, match="moved"):
        check_pointer(sight(low, high), window(1, width=301), AT, index=1, opened=frozenset({1}))


def test_what_an_earlier_target_opens_counts_as_seen():
    """By the X client that made it: popups and new windows, and never a stranger's."""
    seen = sight(window(1), window(2))
    reach = Reach().aimed(CLICK, window(1), 100)
    clients = {1: 100, 2: 200, 11: 100, 12: 200}
    assert reach.opened(seen, clients) == {1, 11}
    hovering = Reach().aimed(a.Move(x=1, y=1), window(1), 100)
    assert hovering.opened(seen, clients) == {11}
    keys = Reach().aimed(a.Type(text="x"), window(1), 100)
    assert keys.opened(seen, clients) == {11}
    assert Reach().aimed(CLICK, None, None) == Reach().aimed(CLICK, window(1), None) == Reach()


def test_the_keyboard_may_follow_a_press_and_the_same_client():
    """Not a window that was merely hovered over, and not a stranger that took the focus."""
    clients = {1: 100, 2: 200, 11: 100, 12: 200}
    assert Reach().aimed(CLICK, window(1), 100).focusable(clients) == {1, 11}
    assert Reach().aimed(a.Move(x=1, y=1), window(1), 100).focusable(clients) == set()
    assert Reach().aimed(a.Type(text="x"), window(1), 100).focusable(clients) == {1, 11}


@pytest.mark.parametrize(
    ("action", "switched"),
    [
        (a.Keypress(keys=("ALT", "TAB")), {2}),
        (a.Hold(keys=("SUPER", "TAB"), duration_ms=20), {2}),
        (a.Keypress(keys=("CTRL", "TAB")), set()),
        (a.Type(text="x"), set()),
    ],
)
def test_keys_for_the_window_manager_switch_between_windows_that_were_seen(action, switched):
    """A window that opened meanwhile is none of them."""
    reach = Reach().switching(action, frozenset({2, 9}), sight(window(1), window(2)))
    assert reach.focusable({}) == switched


def test_keys_go_to_the_window_that_was_active_or_that_the_batch_activated():
    """A window that stole the focus gets nothing."""
    seen = window(1, active=True)
    check_keyboard(seen, window(1), index=0)
    check_keyboard(None, None, index=0)
    check_keyboard(seen, window(5), index=1, moved_to=frozenset({5}))
    for now in (window(2), None):
        with pytest.raises(StaleScreenshot):
            check_keyboard(seen, now, index=0)


def test_the_servers_word_stands_against_the_places():
    """A window without a picture, of another shape, or one too many; the bare root is 0."""
    check_uncovered(window(1), 1, index=0)
    check_uncovered(None, 0, index=0)
    for now, top in ((window(1), 2), (window(1), 0), (None, 2)):
        with pytest.raises(StaleScreenshot):
            check_uncovered(now, top, index=0)


def test_a_grab_since_the_screenshot_refuses():
    """One that was there already is an open menu's."""
    check_free(sight(), False, index=0)
    check_free(replace(sight(), grabbed=True), True, index=0)
    with pytest.raises(StaleScreenshot):
        check_free(sight(), True, index=0)


@pytest.mark.parametrize(
    ("active", "focus", "acted", "admitted"),
    [
        (window(1), 10, (), True),
        (window(1), 20, (), False),
        (window(1), 20, (20,), True),
        (window(1), 0, (), False),
        (None, 30, (), True),
        (None, 10, (), False),
    ],
)
def test_keys_go_to_the_app_of_the_active_window(active, focus, acted, admitted):
    """Or to one that the batch acted on; without an active window, to whoever had them in the screenshot."""
    seen = replace(sight(), focus=30)

    def check() -> None:
        check_focus(seen, active, focus, index=0, clients={1: 10}, acted=frozenset(acted))

    if admitted:
        check()
    else:
        with pytest.raises(StaleScreenshot):
            check()


def test_where_windows_changed_during_the_picture_nothing_is_clicked():
    """It may show either; where they did not, it counts as any other."""
    cover, page = window(2, x=50), window(1, width=300)
    now = replace(sight(page), popups=(cover,))
    with pytest.raises(StaleScreenshot):
        check_pointer(replace(now, before=(page,)), cover, Point(x=60, y=10), index=0)
    check_pointer(replace(now, before=(page,)), page, Point(x=10, y=10), index=0)
    check_pointer(replace(now, before=(page, cover)), cover, Point(x=60, y=10), index=0)
    check_pointer(replace(now, before=(page,)), None, Point(x=10, y=500), index=0)


def test_a_focus_that_moved_during_the_picture_is_known():
    """Keys would go by a picture that may show either."""
    assert not sight(window(1)).focus_changed
    assert not replace(sight(window(1, active=True)), before=(window(1, active=True),)).focus_changed
    assert replace(sight(window(1, active=True)), before=(window(1),)).focus_changed
    assert replace(sight(window(1)), before=(window(1, active=True),)).focus_changed


PAY = Element(id="1.2/7", role="push button", name="Pay", bounds=Bounds(x=100, y=50, width=40, height=20))


def telling(*elements: Element) -> Sight:
    seen = sight(window(1))
    return replace(seen, shot=seen.shot.model_copy(update={"elements": elements}))


def test_an_element_is_clicked_in_its_middle():
    """Its place is the screen's, whatever the image's scale; one that it does not tell of is refused."""
    action = a.ClickElement(id=PAY.id)
    ((move, *_),) = plan_batch([action], telling(PAY), SCREEN)
    assert move == MoveTo(120, 60)
    for seen in (telling(), sight(), None):
        with pytest.raises(StaleScreenshot):
            plan_batch([action], seen, SCREEN)


@pytest.mark.parametrize(
    ("now", "same"),
    [
        (Target(PAY), True),
        (
            Target(
                PAY.model_copy(update={"role": "static", "id": "1.2/8"}),
                (Ancestor("1.2/7", "push button", "Pay"),),
            ),
            True,
        ),
        (Target(PAY.model_copy(update={"id": "1.2/8"})), False),
        (Target(PAY.model_copy(update={"name": "Delete"})), False),
        (Target(PAY.model_copy(update={"bounds": Bounds(x=0, y=50, width=140, height=20)})), False),
        (
            Target(PAY.model_copy(update={"id": "1.2/8"}), (Ancestor("1.2/7", "push button", "Delete"),)),
            False,
        ),
        (Target(None), False),
        (None, False),
    ],
)
def test_an_element_must_be_there_as_it_was(now: Target | None, same: bool):
    """The one that was seen gets the click, or something within it; same role, same name, same place."""
    if same:
        check_element(PAY, now, index=0)
    else:
        with pytest.raises(StaleScreenshot):
            check_element(PAY, now, index=0)
