"""Asking somebody before a call is carried out: for a provider's safety checks, and for what the door parked.

The door parks a request that its policy wants approved and names the approval; once that is given, the same
request id executes. Nobody to ask, or nobody answering in time, means no.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from uuid import uuid4

import trio

from bodyd.contract import computer_call as cc
from bodyd.contract.ports import ApprovalPort, ApprovalRequest
from bodyd.errors import ApprovalRequired, PolicyRefused

Json = dict[str, Any]

MOST_POSTED = 3
"""Times that one call goes to the door: an approval may turn out void, but not for ever."""


@dataclass(frozen=True, slots=True)
class Consent:
    """Who is asked, and for how long a response waits: `seconds`, or to the approval's own expiry (inf)."""

    port: ApprovalPort | None
    seconds: float

    async def of_checks(self, call: Json, conversation: str, epoch: int) -> bool:
        """Whether somebody took on this very call with its pending safety checks.

        Raises:
            InvalidRequest: the call can't be read.
        """
        if self.port is None:
            return False
        actions = cc.parse_item({**call, "status": "completed"}).actions
        request = ApprovalRequest(
            approval_id=f"apr_{uuid4().hex}",
            conversation_id=conversation,
            fingerprint=sha256(repr(actions).encode()).hexdigest(),
            epoch=epoch,
            rule="pending_safety_checks",
            actions=actions,
            reason=_words(call["pending_safety_checks"]),
        )
        return await self._within(self.port.decide(request))

    async def of_door(self, refusal: ApprovalRequired) -> bool:
        """Whether what the door parked with *refusal* was approved."""
        parked = refusal.details.get("approval_id")
        if self.port is None or not isinstance(parked, str):
            return False
        return await self._within(self.port.decided(parked))

    async def _within(self, answer: Awaitable[bool]) -> bool:
        with trio.move_on_after(self.seconds):
            return await answer
        return False


def withheld(refusal: PolicyRefused) -> bool:
    """Whether *refusal* is for want of an approval, and not for good."""
    rule = str(refusal.details.get("rule") or "")
    return rule.partition(":")[0].endswith("approve")


def _words(checks: list[Json]) -> str:
    """What the provider said, for whoever is asked: codes and messages, untrusted."""
    return "; ".join(
        ": ".join(str(check[n]) for n in ("code", "message") if check.get(n)) for check in checks
    )
