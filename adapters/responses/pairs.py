"""Every call has an output (one, as a rule), every output a call of its kind, no call_id is used twice.

Pure. Judged over the whole history with the new input, before anything is sent or run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from bodyd.errors import CallMismatch

from .wire import CALLS, OUTPUTS

Json = dict[str, Any]

MANY = frozenset({"custom_tool_call"})
"""Calls that may have several outputs: codex's scripts notify before they end."""


def check(items: Iterable[tuple[Json, str]]) -> None:
    """Refuse a history that no model's server can read.

    Args:
        items: Each with the field that it came in, such as input[3], or "" for stored ones.
    Raises:
        CallMismatch: names the public type and the call_id.
    """
    calls: dict[str, str] = {}
    answered: set[str] = set()
    for item, param in items:
        kind = item["type"]
        if kind in CALLS:
            if item["call_id"] in calls:
                raise _mismatch(f"the call_id of this {kind} was used before", item, param)
            calls[item["call_id"]] = kind
        elif kind in OUTPUTS:
            _answer(item, param, calls, answered)
    for call_id, kind in calls.items():
        if call_id not in answered:
            raise CallMismatch(
                f"No tool output found for {kind} {call_id!r:.80}: send its {CALLS[kind]}", param="input"
            )


def answerable(items: list[Json]) -> list[Json]:
    """*items* without calls that were cut off, which nobody can answer."""
    outputs = {item["call_id"] for item in items if item["type"] in OUTPUTS}
    return [
        item
        for item in items
        if item["type"] not in CALLS or item.get("status") != "incomplete" or item["call_id"] in outputs
    ]


def repeated(item: Json, past: Iterable[Json]) -> bool:
    """Whether *item* is an output that *past* has already: some clients send all of them in every step."""
    return item["type"] in OUTPUTS and any(
        one["type"] == item["type"] and all(one.get(key) == item.get(key) for key in ("call_id", "output"))
        for one in past
    )


def whole(items: Sequence[Json]) -> set[str]:
    """The ids of *items* that stand for themselves: all but calls and outputs without their counterpart."""
    calls = {item["call_id"] for item in items if item["type"] in CALLS}
    outputs = {item["call_id"] for item in items if item["type"] in OUTPUTS}
    both = calls & outputs
    return {
        item["id"]
        for item in items
        if (item["type"] not in CALLS and item["type"] not in OUTPUTS) or item["call_id"] in both
    }


def _answer(item: Json, param: str, calls: dict[str, str], answered: set[str]) -> None:
    kind, call_id = item["type"], item["call_id"]
    called = calls.get(call_id)
    if called is None:
        raise _mismatch(f"No tool call found for this {kind}", item, param)
    if called != OUTPUTS[kind]:
        raise _mismatch(f"a {called} is answered by a {CALLS[called]}, not a {kind}", item, param)
    if call_id in answered and called not in MANY:
        raise _mismatch(f"this {called} has an output already", item, param)
    answered.add(call_id)


def _mismatch(message: str, item: Json, param: str) -> CallMismatch:
    where = f"{param}.call_id" if param else "input"
    return CallMismatch(f"{message}: call_id {item['call_id']!r:.80}", param=where)
