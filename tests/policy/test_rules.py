"""The configured verdicts."""

from __future__ import annotations

from bodyd.contract import actions as a
from bodyd.contract.ports import Verdict
from bodyd.policy.rules import Judgement, Rules, judge, judge_type

BATCH = [a.Click(x=1, y=1), a.Type(text="x"), a.Wait()]


def test_nothing_configured_allows():
    """The default lets ordinary input through."""
    assert judge(Rules(), BATCH).verdict is Verdict.ALLOW


def test_the_strictest_rule_wins_and_is_named():
    """A denied action outranks one that could be approved, wherever it stands."""
    rules = Rules(deny=frozenset({"type"}), approve=frozenset({"*"}))
    judgement = judge(rules, BATCH)
    assert (judgement.verdict, judgement.rule, judgement.index) == (Verdict.PERSON, "policy.deny:type", 1)
    judgement = judge(Rules(approve=frozenset({"wait", "type"})), BATCH)
    assert (judgement.verdict, judgement.rule, judgement.index) == (Verdict.APPROVE, "policy.approve:type", 1)


def test_acts_are_judged_by_their_type():
    """What is no input has the same rules: deny before approve, "*" for everything."""
    rules = Rules(deny=frozenset({"launch"}), approve=frozenset({"launch", "close"}))
    assert judge_type(rules, "launch") == Judgement(Verdict.PERSON, "policy.deny:launch")
    assert judge_type(rules, "close") == Judgement(Verdict.APPROVE, "policy.approve:close")
    assert judge_type(rules, "activate") == Judgement(Verdict.ALLOW)
    assert judge_type(Rules(deny=frozenset({"*"})), "resize").verdict is Verdict.PERSON
