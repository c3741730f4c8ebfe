"""Whether the task was done: judged from the site's own record, never from what a driver says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

WORD = "penguin"
TASK = (
    "Check whether the Filters panel is open. If it is not, click Show filters. "
    "Then type penguin in the search box. Use the computer tool for UI interaction."
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`reasons` says what is wrong, one sentence each; empty on success."""

    success: bool
    reasons: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"success": self.success, "reasons": list(self.reasons)}


def grade(state: Mapping[str, Any]) -> Verdict:
    """Judge a `Record.state()`: the panel open, its button used no more than needed, the word typed."""
    reasons = []
    if not state["panel_open"]:
        reasons.append("the Filters panel is closed")
    needed = 0 if state["panel_open_at_start"] else 1
    if state["toggles"] != needed:
        reasons.append(f"the panel's button was clicked {_times(state['toggles'])}, not {_times(needed)}")
    if state["search"] != WORD:
        reasons.append(f"the search box holds {state['search']!r:.60}, not {WORD!r}")
    return Verdict(success=not reasons, reasons=tuple(reasons))


def _times(count: int) -> str:
    return {0: "never", 1: "once"}.get(count, f"{count} times")
