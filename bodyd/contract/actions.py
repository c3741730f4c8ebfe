"""The one vocabulary of input, as it is on the wire: what `POST /v1/input` takes.

The first nine types are OpenAI's current computer actions, field for field; the rest are bodyd's
own. Coordinates are integer pixels of the image that the request's screenshot id names; `keys` are
modifiers held during a pointer action. Source: OpenAI Responses API, `computer_call.actions[]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic_core import ErrorDetails

from bodyd.errors import InvalidRequest, UnknownAction, UnknownKey

from . import keys as key_names
from .geometry import Bounds

MAX_INPUTS = 64
MAX_TEXT = 65_536  # characters
MAX_PATH = 1_024  # points

Coordinate = Annotated[int, Field(strict=True, ge=-(2**31), lt=2**31)]
MAX_SCROLL = 100_000  # pixels
ScrollPixels = Annotated[int, Field(strict=True, ge=-MAX_SCROLL, le=MAX_SCROLL)]
KeyNames = Annotated[tuple[str, ...], Field(max_length=key_names.MAX_CHORD)]
Button = Literal["left", "right", "wheel", "middle", "back", "forward"]


class _Action(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Expect(_Action):
    """A statement about the screen after the input; unmet at its deadline, the effect has failed.

    `equals` or `contains` for text fields; for `pixels`, `bounds` (screen pixels) must have changed. The
    last five are of a pointer input's target, or else of what has the keyboard; the last three of them are
    "true" or "false".
    """

    field: Literal[
        "window_title",
        "active_window",
        "clipboard",
        "pixels",
        "value",
        "text",
        "focused",
        "checked",
        "selected",
    ]
    equals: str | None = None
    contains: str | None = None
    bounds: Bounds | None = None
    within_ms: Annotated[int, Field(strict=True, ge=0, le=10_000)] = 2_000

    @model_validator(mode="after")
    def _stated(self) -> Expect:
        if self.field == "pixels":
            if self.bounds is None:
                raise ValueError("`pixels` needs `bounds`")
        elif self.equals is None and self.contains is None:
            raise ValueError("state `equals` or `contains`")
        return self


class _Input(_Action):
    expect: Expect | None = None


class _Pointer(_Input):
    x: Coordinate
    y: Coordinate
    keys: KeyNames | None = None


class Click(_Pointer):
    type: Literal["click"] = "click"
    button: Button = "left"


class DoubleClick(_Pointer):
    type: Literal["double_click"] = "double_click"
    button: Button = "left"


class TripleClick(_Pointer):
    type: Literal["triple_click"] = "triple_click"
    button: Button = "left"


class ClickElement(_Input):
    """Click in the middle of an element of the screenshot that the request names, if it is still there."""

    type: Literal["element"] = "element"
    id: Annotated[str, Field(min_length=1, max_length=200)]
    button: Button = "left"
    keys: KeyNames | None = None

    def at(self, x: int, y: int) -> Click:
        """The same click, there."""
        return Click(x=x, y=y, button=self.button, keys=self.keys)


class Move(_Pointer):
    type: Literal["move"] = "move"


class Scroll(_Pointer):
    """Scroll by pixels at a point: +y down, +x right; 100 pixels are a notch, at least one a way.

    A way of 0 pixels turns no wheel; at most MAX_SCROLL each way, refused beyond.
    """

    type: Literal["scroll"] = "scroll"
    scroll_x: ScrollPixels = 0
    scroll_y: ScrollPixels = 0


class PathPoint(_Action):
    x: Coordinate
    y: Coordinate


class Drag(_Input):
    """Press the left button at the first point, pass every point, release at the last."""

    type: Literal["drag"] = "drag"
    path: Annotated[tuple[PathPoint, ...], Field(min_length=2, max_length=MAX_PATH)]
    keys: KeyNames | None = None


class ButtonDown(_Pointer):
    """Press and keep: released at the latest when the lease ends."""

    type: Literal["button_down"] = "button_down"
    button: Button = "left"


class ButtonUp(_Pointer):
    type: Literal["button_up"] = "button_up"
    button: Button = "left"


class Keypress(_Input):
    """One chord, pressed together."""

    type: Literal["keypress"] = "keypress"
    keys: Annotated[tuple[str, ...], Field(min_length=1, max_length=key_names.MAX_CHORD)]


class Hold(_Input):
    """One chord, held for a time."""

    type: Literal["hold"] = "hold"
    keys: Annotated[tuple[str, ...], Field(min_length=1, max_length=key_names.MAX_CHORD)]
    duration_ms: Annotated[int, Field(strict=True, ge=10, le=10_000)]


class Type(_Input):
    """Type text into the focused widget, character by character."""

    type: Literal["type"] = "type"
    text: Annotated[str, Field(max_length=MAX_TEXT)]


class Paste(_Input):
    """Put text on the clipboard, press Control+V, restore the clipboard."""

    type: Literal["paste"] = "paste"
    text: Annotated[str, Field(max_length=1_048_576)]


class Wait(_Action):
    """Wait, ending early when the lease drains."""

    type: Literal["wait"] = "wait"
    ms: Annotated[int, Field(strict=True, ge=0, le=60_000)] = 2_000


class TakeScreenshot(_Action):
    """Inside a batch: a place to look; one full screenshot follows the batch in any case."""

    type: Literal["screenshot"] = "screenshot"


Action = Annotated[
    Click
    | DoubleClick
    | TripleClick
    | ClickElement
    | Move
    | Scroll
    | Drag
    | ButtonDown
    | ButtonUp
    | Keypress
    | Hold
    | Type
    | Paste
    | Wait
    | TakeScreenshot,
    Field(discriminator="type"),
]
POINTER_TYPES = (Click, DoubleClick, TripleClick, ClickElement, Move, Scroll, Drag, ButtonDown, ButtonUp)
KEYBOARD_TYPES = (Keypress, Hold, Type, Paste)
OPENAI_TYPES = frozenset("click double_click drag keypress move screenshot scroll type wait".split())
TYPES = OPENAI_TYPES | {"triple_click", "element", "button_down", "button_up", "hold", "paste"}

BUTTONS: dict[str, int] = {"left": 1, "middle": 2, "wheel": 2, "right": 3, "back": 8, "forward": 9}
"""X button numbers (core protocol; 8 and 9 by the convention of every toolkit)."""

_ADAPTER: TypeAdapter[Action] = TypeAdapter(Action)


RequestId = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$")]


class InputRequest(BaseModel):
    """The body of `POST /v1/input`.

    `continues` names the batch before: what that one has opened counts as opened by this one. With
    `settle` false the receipt comes at once: of the last input's effect it knows only what showed by then.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    request_id: RequestId
    continues: RequestId | None = None
    epoch: Annotated[int, Field(strict=True, ge=0)]
    screenshot_id: Annotated[str, Field(max_length=64)] | None = None
    inputs: tuple[Action, ...]
    binding: Literal["window", "pixels", "none"] = "window"
    screenshot: Annotated[bool, Field(strict=True)] = False
    settle: Annotated[bool, Field(strict=True)] = True


def parse_action(raw: object, *, param: str) -> Action:
    """Validate one action of the wire.

    Raises:
        UnknownAction: a type that bodyd does not execute.
        UnknownKey: a key name that contract/keys.py does not have.
        InvalidRequest: any other misfit; the message names the field.
    """
    if not isinstance(raw, dict):
        raise InvalidRequest(f"{param} must be an object with a `type`", param=param)
    kind = raw.get("type")
    if not isinstance(kind, str) or kind not in TYPES:
        raise UnknownAction(
            f"{param}.type is {kind!r:.60}, which is not an action bodyd executes; "
            f"known: {', '.join(sorted(TYPES))}",
            param=f"{param}.type",
        )
    try:
        action = _ADAPTER.validate_python(raw)
    except ValidationError as exc:
        raise invalid(exc, prefix=param, skip=kind) from None
    try:
        check_keys(action)
    except UnknownKey as exc:
        raise UnknownKey(exc.message, param=f"{param}.keys") from None
    return action


def check_keys(action: Action) -> None:
    """Refuse a whole action for one unknown key, before anything is pressed."""
    match action:
        case Keypress(keys=names) | Hold(keys=names):
            key_names.chord(names)
        case Click(keys=names) | DoubleClick(keys=names) | TripleClick(keys=names) | Move(keys=names):
            key_names.modifiers(names)
        case Scroll(keys=names) | Drag(keys=names) | ButtonDown(keys=names) | ButtonUp(keys=names):
            key_names.modifiers(names)
        case ClickElement(keys=names):
            key_names.modifiers(names)
        case Type() | Paste() | Wait() | TakeScreenshot():
            pass


def parse_input_request(raw: object) -> InputRequest:
    """Validate the body of `POST /v1/input`: 1 to 64 inputs, every one well-formed.

    Raises:
        InvalidRequest, UnknownAction, UnknownKey: with the field at fault; nothing was done.
    """
    if not isinstance(raw, dict):
        raise InvalidRequest("the body must be a JSON object")
    inputs = raw.get("inputs")
    if not isinstance(inputs, list):
        raise InvalidRequest("`inputs` must be a list of 1 to 64 actions", param="inputs")
    check_count(len(inputs))
    actions = [parse_action(item, param=f"inputs[{index}]") for index, item in enumerate(inputs)]
    try:
        return InputRequest.model_validate({**raw, "inputs": actions})
    except ValidationError as exc:
        raise invalid(exc) from None


def check_count(count: int) -> None:
    if not 1 <= count <= MAX_INPUTS:
        raise InvalidRequest(
            f"a batch has 1 to {MAX_INPUTS} inputs, not {count}; send the rest under another request id",
            param="inputs",
        )


def invalid(exc: ValidationError, *, prefix: str = "", skip: str = "") -> InvalidRequest:
    """The typed error for a pydantic one: the first fault, without echoing its value (it may be text)."""
    fault = exc.errors(include_url=False, include_input=False)[0]
    path = [str(p) if isinstance(p, str) else f"[{p}]" for p in fault["loc"] if p != skip]
    where = ".".join([prefix, *path] if prefix else path).replace(".[", "[")
    return InvalidRequest(f"{where or 'body'}: {plainly(fault)}", param=where or None)


_PLAIN = {
    "extra_forbidden": "there is no such field",
    "missing": "it is required",
    "tuple_type": "it must be a list",
    "dict_type": "it must be an object",
    "model_type": "it must be an object",
    "model_attributes_type": "it must be an object",
    "int_type": "it must be a whole number, without a decimal point or quotes",
    "int_from_float": "it must be a whole number, without a decimal point or quotes",
    "bool_type": "it must be true or false",
    "string_type": "it must be text",
    "string_pattern_mismatch": "only visible ASCII characters, without spaces, are allowed",
    "too_short": "at least {min_length} items are needed",
    "too_long": "at most {max_length} items are taken",
    "string_too_short": "at least {min_length} characters are needed",
    "string_too_long": "at most {max_length} characters are taken",
    "value_error": "{error}",
}


def plainly(fault: ErrorDetails) -> str:
    """pydantic's verdict in the words of the API; its own where there are none better."""
    text = _PLAIN.get(fault["type"])
    return fault["msg"] if text is None else text.format(**fault.get("ctx", {}))


def notches(pixels: int) -> int:
    """Wheel notches for a scroll distance: 100 pixels each, at least one unless it is 0."""
    return 0 if pixels == 0 else max(1, round(abs(pixels) / 100))


def points(action: Action) -> Sequence[tuple[int, int]]:
    """Every image coordinate that *action* names, in order."""
    match action:
        case Drag():
            return [(p.x, p.y) for p in action.path]
        case Click() | DoubleClick() | TripleClick() | Move() | Scroll() | ButtonDown() | ButtonUp():
            return [(action.x, action.y)]
        case _:
            return []
