"""From a function call of the model back to the public call that it stands for.

Pure. What can't be read (no JSON, no actions) stays a function call and is answered with the reason,
so that the model can try again. Counterpart: lowering.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bodyd.errors import InvalidRequest

from .registry import Entry, Registry
from .wire import computer_call, shell_call

Json = dict[str, Any]

DEFAULTED = ("pending_safety_checks",)


@dataclass(frozen=True, slots=True)
class Malformed:
    """A call of a lowered tool that makes no sense, and why."""

    item: Json
    reason: str


def item(raw: Json, registry: Registry) -> Json | Malformed:
    """The public item for the finished upstream item *raw*."""
    kind = raw.get("type")
    if kind == "function_call":
        entry = registry.called(str(raw.get("name")))
        if entry is None:
            return raw
        if not entry.lowered:
            return _renamed(raw, entry)
        return _restored(raw, entry)
    if kind == "custom_tool_call":
        entry = registry.called(str(raw.get("name")))
        return raw if entry is None else _renamed(raw, entry)
    try:
        if kind == "computer_call":
            return computer_call(raw, "call")
        if kind == "shell_call":
            return _shell(raw)
    except InvalidRequest as exc:
        return Malformed(raw, exc.message)
    return raw


def _renamed(raw: Json, entry: Entry) -> Json:
    restored = {**raw, "name": entry.public.get("name", raw["name"])}
    return {**restored, "namespace": entry.namespace} if entry.namespace else restored


def _restored(raw: Json, entry: Entry) -> Json | Malformed:
    try:
        arguments = json.loads(raw.get("arguments") or "{}")
    except ValueError as exc:
        return Malformed(raw, f"the arguments are not JSON: {exc}")
    if not isinstance(arguments, dict):
        return Malformed(raw, "the arguments must be a JSON object")
    base = {
        "id": raw.get("id"),
        "call_id": raw.get("call_id"),
        "status": raw.get("status") or "completed",
    }
    try:
        return _SHAPES[entry.kind](base, arguments, entry)
    except InvalidRequest as exc:
        return Malformed(raw, exc.message)


def _computer(base: Json, arguments: Mapping[str, Any], entry: Entry) -> Json:
    actions = arguments.get("actions")
    if actions is None and "type" in arguments:  # one bare action: seen from small models
        actions = [dict(arguments)]
    if isinstance(actions, Mapping):
        actions = [dict(actions)]
    checked = computer_call({**base, "type": "computer_call", "actions": actions}, "call")
    if entry.preview and len(checked["actions"]) == 1:
        action = checked.pop("actions")[0]
        return {**checked, "action": action}
    return checked


def _shell_from(base: Json, arguments: Mapping[str, Any], entry: Entry) -> Json:
    commands = arguments.get("commands", arguments.get("command"))
    action = {
        **arguments,
        "commands": [commands] if isinstance(commands, str) else commands,
        "timeout_ms": arguments.get("timeout_ms"),
        "max_output_length": arguments.get("max_output_length"),
    }
    action.pop("command", None)
    environment = entry.public.get("environment") or {"type": "local"}
    shown = {"type": environment["type"]}
    if "container_id" in environment:
        shown["container_id"] = environment["container_id"]
    return shell_call({**base, "type": "shell_call", "action": action, "environment": shown}, "call")


def _shell(raw: Json) -> Json:
    checked = shell_call(raw, "call")
    action = {"timeout_ms": None, "max_output_length": None, **checked["action"]}
    return {**checked, "action": action}


def _patch(base: Json, arguments: Mapping[str, Any], entry: Entry) -> Json:
    operation = arguments.get("operation")
    if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
        raise InvalidRequest("operation must be an object with a type and a path")
    return {**base, "type": "apply_patch_call", "operation": operation}


def _custom(base: Json, arguments: Mapping[str, Any], entry: Entry) -> Json:
    text = arguments.get("input")
    if not isinstance(text, str):
        raise InvalidRequest("input must be a string")
    call = {**base, "type": "custom_tool_call", "name": entry.public["name"], "input": text}
    return {**call, "namespace": entry.namespace} if entry.namespace else call


_SHAPES = {"computer": _computer, "shell": _shell_from, "apply_patch": _patch, "custom": _custom}


def held_back(item: Mapping[str, Any], registry: Registry) -> bool:
    """Whether *item*'s public form is only known once it is whole: nothing of it is streamed before."""
    kind = item.get("type")
    if kind in ("computer_call", "shell_call", "apply_patch_call"):
        return True
    if kind not in ("function_call", "custom_tool_call"):
        return False
    entry = registry.called(str(item.get("name")))
    return entry is not None and entry.lowered


def tools_of(items: Iterable[Json]) -> list[Json]:
    """The tools that `additional_tools` items of a history declare."""
    return [tool for one in items if one["type"] == "additional_tools" for tool in one.get("tools") or ()]
