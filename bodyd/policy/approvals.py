"""Approvals that wait for a person, in memory: what the owner's console shows and answers.

Implements ports.ApprovalPort. An approval is for once, and for exactly what is shown; whoever asked and went
away takes the question with it. A restart answers nothing: what waited was refused with its call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import trio

from bodyd.contract.events import Event
from bodyd.contract.ports import ApprovalRequest
from bodyd.errors import NotFound

MOST = 64
"""How many may wait at once; one more is refused."""


@dataclass(eq=False)
class _Waiting:
    request: ApprovalRequest
    asked_at: int
    answered: trio.Event = field(default_factory=trio.Event)
    approved: bool = False

    def to_json(self) -> dict[str, Any]:
        asked = self.request
        return {
            "approval_id": asked.approval_id,
            "conversation_id": asked.conversation_id,
            "epoch": asked.epoch,
            "rule": asked.rule,
            "reason": asked.reason,
            "asked_at": self.asked_at,
            "screenshot_id": asked.screenshot_id,
            "actions": [action.model_dump(mode="json", exclude_none=True) for action in asked.actions],
            "commands": list(asked.commands),
        }


class Approvals:
    """The questions of one body.

    Args:
        announce: Told that there is a question, or an answer; never what it is about.
    """

    def __init__(self, *, now_ms: Callable[[], int], announce: Callable[[Event], None]) -> None:
        self._now_ms = now_ms
        self._announce = announce
        self._waiting: dict[str, _Waiting] = {}

    async def decide(self, request: ApprovalRequest) -> bool:
        """Ask, and wait for the answer.

        Cancellation:
            The question is withdrawn.
        """
        if len(self._waiting) >= MOST or request.approval_id in self._waiting:
            return False
        waiting = self._waiting[request.approval_id] = _Waiting(request, self._now_ms())
        self._tell("approval.asked", request.approval_id)
        try:
            await waiting.answered.wait()
        finally:
            if self._waiting.pop(request.approval_id, None) is not None:
                self._tell("approval.withdrawn", request.approval_id)
        return waiting.approved

    async def decided(self, approval_id: str) -> bool:
        """See ports.ApprovalPort."""
        waiting = self._waiting.get(approval_id)
        if waiting is None:
            return False
        await waiting.answered.wait()
        return waiting.approved

    def pending(self) -> list[dict[str, Any]]:
        """What waits for an answer, oldest first."""
        return [waiting.to_json() for waiting in self._waiting.values()]

    def answer(self, approval_id: str, *, approve: bool) -> None:
        """Approve once, or refuse.

        Raises:
            NotFound: it does not wait any more: it was answered, has expired or was withdrawn.
        """
        waiting = self._waiting.pop(approval_id, None)
        if waiting is None:
            raise NotFound(
                "nothing of this id waits for an answer: it was answered, or whoever asked has left"
            )
        waiting.approved = approve
        waiting.answered.set()
        self._tell("approval.approved" if approve else "approval.refused", approval_id)

    def _tell(self, kind: str, approval_id: str) -> None:
        self._announce(Event(type=kind, at=self._now_ms(), data={"approval_id": approval_id}))
