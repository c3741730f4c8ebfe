"""Approvals in memory: asked, answered once, withdrawn with whoever asked."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from bodyd.contract.actions import Click
from bodyd.contract.events import Event
from bodyd.contract.ports import ApprovalRequest
from bodyd.errors import NotFound
from bodyd.policy.approvals import MOST, Approvals


def request(name: str = "apr_1") -> ApprovalRequest:
    return ApprovalRequest(name, "talk", "print", 4, "a.rule", (Click(x=1, y=2),), "why", "shot_1", ("rm x",))


@pytest.fixture
def told() -> list[Event]:
    return []


@pytest.fixture
def approvals(told: list[Event]) -> Approvals:
    return Approvals(now_ms=lambda: 7, announce=told.append)


@pytest.mark.parametrize("approve", [True, False])
async def test_a_question_is_answered_once(approvals: Approvals, told: list[Event], approve: bool):
    """All who wait for it get the answer; a second one is refused. Events don't say what it was about."""
    answers = []

    async def wait(how: str) -> None:
        answers.append(await (approvals.decide(request()) if how == "decide" else approvals.decided("apr_1")))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait, "decide")
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(wait, "decided")
        await trio.testing.wait_all_tasks_blocked()
        (shown,) = approvals.pending()
        assert shown == {
            "approval_id": "apr_1",
            "conversation_id": "talk",
            "epoch": 4,
            "rule": "a.rule",
            "reason": "why",
            "asked_at": 7,
            "screenshot_id": "shot_1",
            "actions": [{"type": "click", "x": 1, "y": 2, "button": "left"}],
            "commands": ["rm x"],
        }
        approvals.answer("apr_1", approve=approve)
    assert answers == [approve, approve]
    assert approvals.pending() == []
    with pytest.raises(NotFound):
        approvals.answer("apr_1", approve=True)
    assert [event.type for event in told] == [
        "approval.asked",
        f"approval.{'approved' if approve else 'refused'}",
    ]
    assert "rm" not in repr(told)


async def test_a_question_goes_with_whoever_asked(approvals: Approvals, told: list[Event]):
    """Given up, it can't be answered any more."""
    with trio.move_on_after(0):
        await approvals.decide(request())
    assert approvals.pending() == []
    assert told[-1].type == "approval.withdrawn"
    assert not await approvals.decided("apr_1")


async def test_of_too_many_questions_the_last_is_refused(approvals: Approvals):
    """So is one under an id that waits already."""
    async with trio.open_nursery() as nursery:
        for number in range(MOST - 1):
            nursery.start_soon(approvals.decide, request(f"apr_{number}"))
        await trio.testing.wait_all_tasks_blocked()
        assert not await approvals.decide(request())
        nursery.start_soon(approvals.decide, request("last"))
        await trio.testing.wait_all_tasks_blocked()
        assert not await approvals.decide(request("beyond"))
        nursery.cancel_scope.cancel()
