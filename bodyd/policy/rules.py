"""The verdict on a batch, before any of it is sent. Pure.

The rules so far are the configuration's lists of action types; the door calls `judge` at the one
place where every later rule (roles, pages, texts) will be judged too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bodyd.contract.actions import Action
from bodyd.contract.ports import Verdict


@dataclass(frozen=True, slots=True)
class Rules:
    """Action types (or "*") that are denied, and that need an approval."""

    deny: frozenset[str] = frozenset()
    approve: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Judgement:
    """`rule` names what fired, for the audit and the message; None where nothing did."""

    verdict: Verdict
    rule: str | None = None
    index: int | None = None


def judge(rules: Rules, actions: Sequence[Action]) -> Judgement:
    """The strictest verdict over *actions*: person > approve > allow."""
    asked: Judgement | None = None
    for index, action in enumerate(actions):
        if _named(rules.deny, action):
            return Judgement(Verdict.PERSON, f"policy.deny:{action.type}", index)
        if asked is None and _named(rules.approve, action):
            asked = Judgement(Verdict.APPROVE, f"policy.approve:{action.type}", index)
    return asked or Judgement(Verdict.ALLOW)


def _named(types: frozenset[str], action: Action) -> bool:
    return "*" in types or action.type in types
