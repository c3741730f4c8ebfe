"""Code's hands on the daemon's side, over a desk that only writes down what it is asked."""

from __future__ import annotations

from typing import Any, cast

import pytest
import trio

from bodyd.contract.code import MAX_UI_CALLS
from bodyd.contract.inventory import Inventory
from bodyd.contract.lease import Scope
from bodyd.contract.ports import Caller
from bodyd.errors import BodyStopped
from bodyd.execution.code_ui import Desk, Hands
from bodyd.lease.permit import HeldPermit

ARGS: dict[str, dict[str, Any]] = {
    "inputs": {"inputs": [{"type": "click", "x": 1, "y": 1}]},
    "activate": {"window_id": 1},
    "close": {"window_id": 1},
    "launch": {"name": "editor"},
    "set_clipboard": {"text": "x"},
    **{op: {} for op in ("screenshot", "settle", "pointer", "windows", "clipboard")},
}


class FakeDesk:
    """Kills the permit in the middle of a look, if it is told to."""

    def __init__(self, permit: HeldPermit) -> None:
        self.asked: list[str] = []
        self.treacherous = False
        self._permit = permit

    def __getattr__(self, name: str) -> Any:
        async def call(*_args: object, **_more: object) -> None:
            self.asked.append(name)
            raise AssertionError(f"{name} is not to be asked here")

        return call

    async def inventory(self, *, caller: Caller) -> Inventory:
        self.asked.append("inventory")
        await trio.lowlevel.checkpoint()
        if self.treacherous:
            self._permit.kill()
        return Inventory.model_construct(windows=[])

    async def settle(self) -> None:
        await trio.lowlevel.checkpoint()
        if self.treacherous:
            self._permit.kill()


@pytest.fixture
def permit() -> HeldPermit:
    return HeldPermit()


@pytest.fixture
def desk(permit: HeldPermit) -> FakeDesk:
    return FakeDesk(permit)


@pytest.fixture
def hands(desk: FakeDesk, permit: HeldPermit) -> Hands:
    def judge() -> None:
        raise BodyStopped("the owner stopped the body")

    caller = Caller(id="c", scope=Scope.DRIVER)
    return Hands(
        cast(Desk, desk), permit, judge=judge, call_id="code_1", epoch=1, caller=caller, lease_token="t"
    )


@pytest.mark.parametrize("op", ARGS)
async def test_nothing_is_done_once_the_lease_has_ended(
    hands: Hands, desk: FakeDesk, permit: HeldPermit, op: str
) -> None:
    """Whatever it is: code is told why, and that it is over."""
    permit.kill()
    answer, tail = await hands.do(op, ARGS[op])
    assert answer["error"] == {"message": "the owner stopped the body", "code": "stopped", "over": True}
    assert (desk.asked, tail) == ([], b"")


@pytest.mark.parametrize("op", ["windows", "settle"])
async def test_what_was_seen_too_late_is_not_told(hands: Hands, desk: FakeDesk, op: str) -> None:
    """By then it may be what somebody else's desktop looks like."""
    assert (await hands.do(op, {}))[0] == {"value": [] if op == "windows" else None}
    desk.treacherous = True
    assert "error" in (await hands.do(op, {}))[0]


@pytest.mark.parametrize(
    ("op", "args", "said"),
    [
        ("fly", {}, "`ui` has no 'fly'"),
        ("windows", None, "`ui` has no 'windows'"),
        ("inputs", {"inputs": "click"}, "inputs"),
        ("inputs", {"inputs": [{"type": "click", "x": "1", "y": 1}]}, "inputs"),
        ("activate", {"window_id": True}, "window_id"),
        ("close", {}, "window_id"),
        ("launch", {"name": 1}, "name"),
        ("set_clipboard", {"text": None}, "text"),
        ("screenshot", {"max_width": "x"}, "max_width"),
    ],
)
async def test_what_is_malformed_is_an_answer(
    hands: Hands, desk: FakeDesk, op: str, args: Any, said: str
) -> None:
    """Judged as a client's request is; it is not over, and nothing was asked of the body."""
    error = cast(dict[str, Any], (await hands.do(op, args))[0]["error"])
    assert said in error["message"] + str(error)
    assert (error["code"], error["over"], desk.asked) == ("invalid_request", False, [])


async def test_calls_are_counted_whatever_they_are(hands: Hands, desk: FakeDesk) -> None:
    """Good ones and bad ones alike; the one too many is refused without a look at it."""
    for n in range(MAX_UI_CALLS):
        await hands.do("windows" if n % 2 else "fly", {})
    answer, _ = await hands.do("windows", {})
    assert cast(dict[str, Any], answer["error"])["code"] == "too_many_ui_calls"
    assert hands.calls == MAX_UI_CALLS + 1
    assert len(desk.asked) == MAX_UI_CALLS // 2


async def test_the_ids_of_inputs_are_made_for_the_call(hands: Hands, desk: FakeDesk) -> None:
    """One for each, so that the door need not look them up first."""
    seen: list[tuple[str, bool]] = []

    async def take(request: Any, *, minted: bool, **_: object) -> Any:
        await trio.lowlevel.checkpoint()
        seen.append((request.request_id, minted))
        raise BodyStopped("enough")

    desk.input = take
    await hands.do("inputs", ARGS["inputs"])
    await hands.do("windows", {})
    await hands.do("inputs", ARGS["inputs"])
    assert seen == [("code_1.1", True), ("code_1.3", True)]
