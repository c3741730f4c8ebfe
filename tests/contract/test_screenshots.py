"""What a screenshot says about the windows that it shows."""

from __future__ import annotations

from bodyd.contract.elements import AccessibilityState
from bodyd.contract.geometry import Bounds, Point
from bodyd.contract.inventory import Window
from bodyd.contract.screenshots import Cursor, Screenshot, ScreenTarget


def window(id: int, *, x: int, stacking: int, active: bool = False, minimised: bool = False) -> Window:
    return Window(
        id=id,
        app="app",
        title=f"window {id}",
        bounds=Bounds(x=x, y=0, width=100, height=100),
        active=active,
        minimised=minimised,
        stacking=stacking,
    )


def screenshot(*windows: Window) -> Screenshot:
    return Screenshot(
        screenshot_id="shot",
        sequence=1,
        captured_at=0,
        epoch=1,
        width=640,
        height=400,
        bounds=Bounds(x=0, y=0, width=1280, height=800),
        target=ScreenTarget(),
        cursor=Cursor(x=0, y=0),
        windows=windows,
        sha256="0" * 64,
        input_ready=True,
    )


def test_the_topmost_window_at_a_point_is_the_target() -> None:
    """Of overlapping windows the highest in stacking order is hit; a minimised one never is."""
    shot = screenshot(
        window(1, x=0, stacking=0), window(2, x=50, stacking=2), window(3, x=0, stacking=3, minimised=True)
    )
    assert [hit and hit.id for hit in (shot.window_at(Point(x=x, y=50)) for x in (0, 50, 149, 150))] == [
        1,
        2,
        2,
        None,
    ]


def test_the_active_window_is_the_one_that_says_so() -> None:
    """No window active is an answer too."""
    assert screenshot(window(1, x=0, stacking=0)).active_window is None
    active = screenshot(window(1, x=0, stacking=0), window(2, x=0, stacking=1, active=True)).active_window
    assert active is not None
    assert active.id == 2


def test_the_size_is_the_images_not_the_screens() -> None:
    """A downscaled screenshot's size is that of its pixels."""
    shot = screenshot()
    assert (shot.size.width, shot.size.height) == (640, 400)


def test_elements_are_in_its_json_only_where_they_were_asked_for() -> None:
    """A screenshot that nobody asked elements of says nothing of accessibility."""
    shot = screenshot()
    names = {"accessibility", "elements", "elements_truncated"}
    assert not names & shot.model_dump(mode="json").keys()
    asked = shot.model_copy(update={"accessibility": AccessibilityState.OFF})
    assert asked.model_dump(mode="json").keys() - shot.model_dump(mode="json").keys() == names
