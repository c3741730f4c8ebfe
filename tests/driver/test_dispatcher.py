"""What a batch comes to when the ground moves under it: each input has its receipt, and no more is said
than is known."""

from __future__ import annotations

from typing import Any, cast

import pytest
import trio

from bodyd.contract.actions import parse_input_request
from bodyd.contract.atoms import plan
from bodyd.contract.geometry import Point
from bodyd.contract.receipts import InputReceipt
from bodyd.display.display import Scene
from bodyd.display.input import SendReport
from bodyd.driver.admission import Sight
from bodyd.driver.dispatcher import Batch, dispatch, place_bound
from bodyd.errors import BodydError, DisplayUnavailable, OutOfBounds, TooLarge, Unavailable

WAIT = {"type": "wait", "ms": 0}
BOUNDS = {"x": 0, "y": 0, "width": 9, "height": 9}


class Failing:
    """A display of which one thing fails."""

    def __init__(self, error: BodydError | None = None) -> None:
        self._error = error or DisplayUnavailable("gone")
        self.sent = 0

    async def send(
        self, atoms: tuple[object, ...], permit: object, note: object, focus: object
    ) -> SendReport:
        self.sent += 1
        return SendReport(sent=len(atoms), of=len(atoms))

    async def pixels(self, bounds: object) -> bytes:
        raise self._error

    async def read_clipboard(self) -> str:
        raise self._error

    async def scene(self) -> Scene:
        return Scene()

    async def release_all(self) -> None:
        pass


class Permit:
    valid = True


async def run(display: Failing, *inputs: dict[str, Any]) -> tuple[InputReceipt, ...]:
    raw = {"request_id": "r", "epoch": 1, "inputs": list(inputs), "binding": "none"}
    request = parse_input_request(raw)
    batch = Batch(
        request=request,
        atoms=tuple(plan(action, lambda x, y: Point(x=x, y=y)) for action in request.inputs),
        sight=None,
        permit=Permit(),
        interrupted=trio.Event(),
        scene=Scene(),
        same_pixels=lambda *_: pytest.fail("nothing is bound"),
    )
    return (await dispatch(batch, display)).inputs


@pytest.mark.parametrize(
    ("error", "reason"),
    [(DisplayUnavailable("gone"), "display_lost"), (OutOfBounds("resized"), "out_of_bounds")],
)
async def test_what_fails_before_the_first_atom_is_known_not_to_be_sent(error, reason):
    """A failure, not a doubt, whatever it was; and the batch has its receipt."""
    display = Failing(error)
    click = {"type": "click", "x": 1, "y": 1, "expect": {"field": "pixels", "bounds": BOUNDS}}
    receipts = await run(display, WAIT, click, WAIT)
    assert [(r.delivery.outcome, r.delivery.reason) for r in receipts] == [
        ("confirmed", None),
        ("failed", reason),
        ("failed", "not_attempted"),
    ]
    assert receipts[1].delivery.sent.units == display.sent == 0


@pytest.mark.parametrize(
    "error", [DisplayUnavailable("gone"), Unavailable("the owner is silent"), TooLarge("a film")]
)
async def test_what_can_not_be_read_is_uncertain_and_ends_the_batch(error):
    """The input was delivered; whether what was stated came true, nobody can say."""
    expect = {"field": "clipboard", "equals": "x", "within_ms": 10}
    receipts = await run(Failing(error), {"type": "keypress", "keys": ["a"], "expect": expect}, WAIT)
    assert (receipts[0].delivery.outcome, receipts[0].effect.outcome) == ("confirmed", "uncertain")
    assert receipts[0].effect.evidence == "expect_unread"
    assert receipts[1].delivery.reason == "not_attempted"


@pytest.mark.parametrize(
    ("kind", "binding", "place"),
    [("click", "window", Point(x=3, y=4)), ("click", "none", None), ("keypress", "window", None)],
)
def test_only_a_bound_pointer_input_brings_its_own_look(kind: str, binding: str, place: Point | None):
    """The rest go by the windows as they were last seen, so that they are looked at anew."""
    action = {"type": kind, "x": 3, "y": 4} if kind == "click" else {"type": kind, "keys": ["a"]}
    request = parse_input_request({"request_id": "r", "epoch": 1, "inputs": [action], "binding": binding})
    atoms = plan(request.inputs[0], lambda x, y: Point(x=x, y=y))
    assert place_bound(request, cast(Sight, object()), atoms) == place
    assert place_bound(request, None, atoms) is None
