"""The pyautogui shim over a `ui` that writes down what it is asked."""

from __future__ import annotations

from typing import Any

import pytest

from bodyd.contract.actions import parse_action
from bodyd.execution.inside.desk import UI
from bodyd.execution.inside.gestures import Gestures
from bodyd.execution.inside.line import UIError


class Line:
    """Answers as the body does; keeps the actions."""

    def __init__(self) -> None:
        self.actions: list[dict[str, Any]] = []
        self.calls = 0

    def ask(self, op: str, **args: Any) -> tuple[Any, bytes]:
        if op == "inputs":
            self.calls += 1
            for action in args["inputs"]:
                parse_action(action, param="inputs[0]")  # what the body would refuse is refused here
                self.actions.append(action)
            return {}, b""
        assert op == "pointer", op
        return {"x": 10, "y": 20, "width": 1280, "height": 800}, b""


@pytest.fixture
def line() -> Line:
    return Line()


@pytest.fixture
def gui(line: Line) -> Gestures:
    return Gestures(UI(line), UIError)


def kinds(line: Line) -> list[str]:
    return [action["type"] for action in line.actions]


def test_clicks_of_every_kind(gui: Gestures, line: Line) -> None:
    """By two numbers, by a pair, where the pointer is; several at once are one double or triple click."""
    gui.click(100, 200)
    gui.click((5, 6), button="right")
    gui.click()
    gui.doubleClick(1, 2)
    gui.click(1, 2, clicks=3)
    gui.click(1, 2, clicks=2, interval=0.001)
    assert kinds(line) == ["click"] * 3 + ["double_click", "triple_click", "click", "wait", "click"]
    assert line.calls == 6
    assert [(a["x"], a["y"], a["button"]) for a in line.actions[:3]] == [
        (100, 200, "left"),
        (5, 6, "right"),
        (5, 6, "left"),
    ]


def test_scrolling_up_is_positive(gui: Gestures, line: Line) -> None:
    """PyAutoGUI's notches are bodyd's hundreds of pixels, the other way round."""
    gui.scroll(3)
    gui.hscroll(2, 7, 8)
    up, right = line.actions
    assert (up["x"], up["y"], up["scroll_y"]) == (10, 20, -300)
    assert (right["x"], right["scroll_x"], right["scroll_y"]) == (7, 200, 0)


def test_drags(gui: Gestures, line: Line) -> None:
    """dragTo, drag, and down-move-up are one drag; another button's is three inputs."""
    gui.moveTo(10, 10)
    gui.dragTo(20, 30, duration=0.001)
    gui.drag(5, 5)
    gui.mouseDown(1, 1)
    gui.moveTo(2, 2)
    gui.mouseUp(3, 3)
    gui.mouseDown(1, 1, button="right")
    gui.mouseUp(9, 9)
    gui.mouseDown(4, 4)
    gui.mouseUp()
    assert kinds(line) == ["move", "drag", "drag", "drag", "button_down", "button_up", "click"]
    assert line.actions[1]["path"][-1] == {"x": 20, "y": 30}
    assert line.actions[2]["path"][-1] == {"x": 25, "y": 35}
    assert line.actions[3]["path"] == [{"x": n, "y": n} for n in (1, 2, 3)]


def test_keys(gui: Gestures, line: Line) -> None:
    """Names, chords, presses; a held modifier goes with what is done meanwhile, or counts for itself."""
    gui.press("enter", presses=2)
    gui.press(["a", "b"])
    gui.hotkey("ctrl", "shift", "esc")
    gui.keyDown("shift")
    gui.click(1, 1)
    gui.press("f5")
    gui.keyUp("shift")
    with gui.hold("alt"):
        gui.press("tab")
    gui.keyDown("w")
    gui.keyUp("w")
    gui.keyUp("w")
    got = [action.get("keys") for action in line.actions]
    assert got[:5] == [["enter"], ["enter"], ["a"], ["b"], ["CTRL", "SHIFT", "esc"]]
    assert got[5:] == [["SHIFT"], ["SHIFT", "f5"], ["ALT", "tab"], ["w"]]
    assert kinds(line)[-1] == "hold"


def test_writing(gui: Gestures, line: Line) -> None:
    """A text is typed at once, whatever the interval; a list is keys."""
    gui.write("héllo")
    gui.typewrite("ab", interval=0.001)
    gui.write(["a", "left"])
    assert [a.get("text", a.get("keys")) for a in line.actions] == ["héllo", "ab", ["a"], ["left"]]


def test_what_is_not_there(gui: Gestures) -> None:
    """Looking for pictures is refused with what to do instead; anything else is an AttributeError."""
    with pytest.raises(UIError, match="look at a screenshot instead"):
        gui.locateOnScreen("x.png")
    with pytest.raises(AttributeError, match=r"it has: .*click"):
        gui.alert("hello")


def test_a_new_call_holds_nothing(gui: Gestures, line: Line) -> None:
    """What code left pressed is not pressed any more."""
    gui.keyDown("ctrl")
    gui.begin()
    gui.click(1, 1)
    assert "keys" not in line.actions[0]
    assert gui.position() == (1, 1)
    assert gui.size() == (1280, 800)
    assert gui.onScreen(5, 5)
    assert not gui.onScreen((5, 900))


def test_many_presses_are_few_calls(gui: Gestures, line: Line) -> None:
    """A body's call takes 64 inputs, and code has 150 calls."""
    gui.press("down", presses=100)
    gui.press("up", presses=3, interval=0.05)
    assert line.calls == 3
    assert kinds(line)[100:] == ["keypress", "wait", "keypress", "wait", "keypress"]
    assert line.actions[101]["ms"] == 50


def test_the_module_has_what_is_written_in_passing(gui: Gestures, line: Line) -> None:
    """Fields of sizes and points, names of buttons, tweens, settings."""
    gui.PAUSE = 0.5
    gui.moveTo(3, 4, duration=0.001, tween=gui.easeInOutQuad)
    gui.click(button=gui.RIGHT)
    assert gui.position().x + gui.size().width == 1283
    assert (gui.position(x=9), gui.Point(1, 2).y, gui.linear(0.5)) == ((9, 4), 2, 0.5)
    assert line.actions[1]["button"] == "right"


def test_the_place_of_a_picture_is_refused(gui: Gestures, line: Line) -> None:
    """Wherever PyAutoGUI takes one."""
    attempts = (
        lambda: gui.click("ok.png"),
        lambda: gui.moveTo("ok.png"),
        lambda: gui.locateCenterOnScreen("ok.png"),
    )
    for attempt in attempts:
        with pytest.raises(UIError, match="look at a screenshot instead"):
            attempt()
    assert line.actions == []
