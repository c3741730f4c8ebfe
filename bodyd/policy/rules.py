"""The verdict on a batch, before any of it is sent. Pure.

The rules so far are the configuration's lists of action types; the door calls `judge` at the one
place where every later rule (roles, pages, texts) will be judged too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

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


def judge_type(rules: Rules, kind: str) -> Judgement:
    """The verdict on something that is known by its type alone."""
    if _named(rules.deny, kind):
        return Judgement(Verdict.PERSON, f"policy.deny:{kind}")
    if _named(rules.approve, kind):
        return Judgement(Verdict.APPROVE, f"policy.approve:{kind}")
    return Judgement(Verdict.ALLOW)


def judge(rules: Rules, actions: Sequence[Action]) -> Judgement:
    """The strictest verdict over *actions*: person > approve > allow."""
    asked: Judgement | None = None
    for index, action in enumerate(actions):
        judgement = replace(judge_type(rules, action.type), index=index)
        if judgement.verdict is Verdict.PERSON:
            return judgement
        if asked is None and judgement.verdict is Verdict.APPROVE:
            asked = judgement
    return asked or Judgement(Verdict.ALLOW)


def _named(types: frozenset[str], kind: str) -> bool:
    return "*" in types or kind in types
