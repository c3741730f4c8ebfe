"""The input vocabulary: what is taken, and how what isn't is refused."""

from __future__ import annotations

import pytest

from bodyd.contract import actions as a
from bodyd.contract.atoms import ButtonDown, ButtonUp, Char, KeyDown, KeyUp, MoveTo, Pause, count, plan, units
from bodyd.contract.geometry import Point
from bodyd.errors import InvalidRequest, UnknownAction, UnknownKey

OPENAI = [
    {"type": "click", "button": "left", "x": 0, "y": 0, "keys": None},
    {"type": "click", "button": "back", "x": 1, "y": 2, "keys": ["CTRL"]},
    {"type": "double_click", "x": 1, "y": 2, "keys": None},
    {"type": "drag", "path": [{"x": 1, "y": 2}, {"x": 3, "y": 4}]},
    {"type": "keypress", "keys": ["CTRL", "L"]},
    {"type": "move", "x": 1, "y": 2},
    {"type": "screenshot"},
    {"type": "scroll", "x": 1, "y": 2, "scroll_x": 0, "scroll_y": -250},
    {"type": "type", "text": "penguin"},
    {"type": "wait"},
]


def identity(x: int, y: int) -> Point:
    return Point(x=x, y=y)


def request(*inputs: object, **more: object) -> dict[str, object]:
    return {"request_id": "r1", "epoch": 1, "inputs": list(inputs), **more}


@pytest.mark.parametrize("raw", OPENAI, ids=lambda raw: raw["type"])
def test_every_documented_action_is_taken_and_survives_a_round_trip(raw):
    """Each action of OpenAI's tool parses, and nothing of it is lost."""
    action = a.parse_action(raw, param="actions[0]")
    dumped = action.model_dump(mode="json")
    assert {k: dumped[k] for k in raw} == raw
    assert units(action) >= 1


@pytest.mark.parametrize(
    ("raw", "error", "param"),
    [
        ({"type": "click", "x": 1.5, "y": 0}, InvalidRequest, "inputs[0].x"),
        ({"type": "click", "x": 1.0, "y": 0}, InvalidRequest, "inputs[0].x"),
        ({"type": "click", "x": True, "y": 0}, InvalidRequest, "inputs[0].x"),
        ({"type": "click", "x": "1", "y": 0}, InvalidRequest, "inputs[0].x"),
        ({"type": "click", "y": 0}, InvalidRequest, "inputs[0].x"),
        ({"type": "click", "x": 1, "y": 0, "button": "third"}, InvalidRequest, "inputs[0].button"),
        ({"type": "click", "x": 1, "y": 0, "zap": 1}, InvalidRequest, "inputs[0].zap"),
        ({"type": "drag", "path": [{"x": 1, "y": 1}]}, InvalidRequest, "inputs[0].path"),
        ({"type": "teleport", "x": 1}, UnknownAction, "inputs[0].type"),
        ({"x": 1}, UnknownAction, "inputs[0].type"),
        ("click", InvalidRequest, "inputs[0]"),
        ({"type": "keypress", "keys": ["CTRL", "nosuchkey"]}, UnknownKey, "inputs[0].keys"),
        ({"type": "keypress", "keys": []}, InvalidRequest, "inputs[0].keys"),
        ({"type": "click", "x": 1, "y": 1, "keys": ["A"]}, UnknownKey, "inputs[0].keys"),
        ({"type": "type", "text": "x" * 65_537}, InvalidRequest, "inputs[0].text"),
        ({"type": "type", "text": "a", "expect": {"field": "pixels"}}, InvalidRequest, "inputs[0].expect"),
        ({"type": "type", "text": "a", "expect": {"field": "clipboard"}}, InvalidRequest, "inputs[0].expect"),
    ],
)
def test_a_misfit_is_one_typed_error_that_names_the_field(raw, error, param):
    """Nothing is coerced, clamped or guessed."""
    with pytest.raises(error) as caught:
        a.parse_input_request(request(raw))
    assert caught.value.param == param


@pytest.mark.parametrize("count", [0, 65, 1000])
def test_a_batch_has_one_to_sixty_four_inputs(count):
    """65 inputs are refused whole."""
    with pytest.raises(InvalidRequest, match="1 to 64"):
        a.parse_input_request(request(*[{"type": "wait"}] * count))


@pytest.mark.parametrize(
    "body",
    [
        [],
        {"inputs": "click"},
        {"request_id": "", "epoch": 1, "inputs": [{"type": "wait"}]},
        {"request_id": "a b", "epoch": 1, "inputs": [{"type": "wait"}]},
        {"request_id": "a", "epoch": "1", "inputs": [{"type": "wait"}]},
        {"request_id": "a", "epoch": 1, "inputs": [{"type": "wait"}], "binding": "loose"},
        {"request_id": "a", "epoch": 1, "inputs": [{"type": "wait"}], "dry_run": True},
    ],
)
def test_a_malformed_request_is_refused(body):
    """The envelope is as strict as the inputs."""
    with pytest.raises(InvalidRequest):
        a.parse_input_request(body)


def test_no_typed_text_is_echoed_in_an_error():
    """A message never repeats what was to be typed."""
    with pytest.raises(InvalidRequest) as caught:
        a.parse_input_request(request({"type": "type", "text": "hunter2", "texts": "hunter2"}))
    assert "hunter2" not in str(caught.value)


def test_a_click_with_keys_holds_them_around_the_press():
    """Modifiers go down first and come up last, in reverse."""
    action = a.parse_action({"type": "click", "x": 5, "y": 6, "keys": ["CTRL", "SHIFT"]}, param="a")
    atoms = [x for x in plan(action, identity) if not isinstance(x, Pause)]
    assert atoms == [
        KeyDown(0xFFE3),
        KeyDown(0xFFE1),
        MoveTo(5, 6),
        ButtonDown(1),
        ButtonUp(1),
        KeyUp(0xFFE1),
        KeyUp(0xFFE3),
    ]


def test_presses_of_a_triple_click_are_apart():
    """A pause before every press but the first."""
    kinds = [
        type(x) for x in plan(a.parse_action({"type": "triple_click", "x": 0, "y": 0}, param="a"), identity)
    ]
    press = [ButtonDown, ButtonUp]
    assert kinds == [MoveTo, *press, Pause, *press, Pause, *press]


@pytest.mark.parametrize(
    ("button", "number"),
    [("left", 1), ("wheel", 2), ("middle", 2), ("right", 3), ("back", 8), ("forward", 9)],
)
def test_the_buttons_are_those_of_x(button, number):
    """Wheel is the middle button; back and forward are 8 and 9."""
    action = a.parse_action({"type": "click", "x": 0, "y": 0, "button": button}, param="a")
    assert ButtonDown(number) in plan(action, identity)


def test_a_drag_presses_once_passes_every_point_and_releases_once():
    """Five points: one press, five motions, one release."""
    path = [{"x": n, "y": n} for n in range(5)]
    atoms = plan(a.parse_action({"type": "drag", "path": path}, param="a"), identity)
    assert [x for x in atoms if isinstance(x, MoveTo)] == [MoveTo(n, n) for n in range(5)]
    assert [x for x in atoms if isinstance(x, ButtonDown | ButtonUp)] == [ButtonDown(1), ButtonUp(1)]
    assert atoms.index(MoveTo(0, 0)) < atoms.index(ButtonDown(1)) < atoms.index(MoveTo(1, 1))


@pytest.mark.parametrize(("pixels", "notches"), [(0, 0), (1, 1), (99, 1), (-100, 1), (250, 2), (-1000, 10)])
def test_a_hundred_pixels_are_a_wheel_notch_and_at_least_one(pixels, notches):
    """Small scrolls still turn the wheel once."""
    action = a.parse_action({"type": "scroll", "x": 0, "y": 0, "scroll_y": pixels}, param="a")
    turns = [x for x in plan(action, identity) if isinstance(x, ButtonDown)]
    assert len(turns) == notches
    assert {x.button for x in turns} <= ({5} if pixels > 0 else {4})


def test_text_is_one_atom_a_character():
    """Sent units of a text are its characters."""
    action = a.parse_action({"type": "type", "text": "aé漢🍑"}, param="a")
    assert plan(action, identity) == (Char("a"), Char("é"), Char("漢"), Char("🍑"))
    assert units(action) == 4


@pytest.mark.parametrize(
    ("action", "n"),
    [
        (a.Wait(ms=2000), 40),
        (a.Wait(ms=1), 1),
        (a.TakeScreenshot(), 1),
        (a.Paste(text="abc"), 1),
        (a.Keypress(keys=("CTRL", "A")), 4),
        (a.Hold(keys=("SHIFT",), duration_ms=50), 2),
        (a.Click(x=1, y=1), 3),
        (a.DoubleClick(x=1, y=1), 5),
        (a.TripleClick(x=1, y=1), 7),
        (a.ButtonDown(x=1, y=1), 2),
        (a.ButtonUp(x=1, y=1), 2),
        (a.Move(x=1, y=1), 1),
    ],
)
def test_units_are_known_before_an_action_runs(action, n):
    """`of` in a receipt does not depend on what happened."""
    assert units(action) == n
    atoms = plan(action, identity)
    assert not atoms or count(atoms) == n


def test_points_names_every_coordinate():
    """Bounds are checked for every point of a path."""
    drag = a.Drag(path=(a.PathPoint(x=1, y=2), a.PathPoint(x=3, y=4)))
    assert list(a.points(drag)) == [(1, 2), (3, 4)]
    assert list(a.points(a.Move(x=0, y=0))) == [(0, 0)]
    assert list(a.points(a.Wait())) == []


def test_an_element_is_a_click_where_it_is():
    """Until its place is known it has the units of a click; its modifiers are checked like any."""
    raw = {"type": "element", "id": "1.2/7", "button": "right", "keys": ["CTRL"]}
    action = a.parse_action(raw, param="a")
    assert isinstance(action, a.ClickElement)
    assert action.at(3, 4) == a.Click(x=3, y=4, button="right", keys=("CTRL",))
    assert units(action) == units(action.at(3, 4))
    with pytest.raises(UnknownKey):
        a.parse_action({**raw, "keys": ["nosuchkey"]}, param="a")
