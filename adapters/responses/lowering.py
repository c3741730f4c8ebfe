"""From public history to what the model's server is sent: items, `tools`, `tool_choice`.

Pure. The stored history is never touched: this makes the upstream copy. Tools that the server has
itself pass; the rest become function calls, whose names come from the request's registry.
Counterpart: restoring.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from .notes import NOTE, note_of, public
from .pictures import PLACEHOLDER
from .registry import Registry
from .wire import family

Json = dict[str, Any]
Images = Literal["tool", "user"]

_KIND_OF_ITEM = {
    "computer_call": "computer",
    "computer_call_output": "computer",
    "shell_call": "shell",
    "shell_call_output": "shell",
    "apply_patch_call": "apply_patch",
    "apply_patch_call_output": "apply_patch",
    "custom_tool_call": "custom",
    "custom_tool_call_output": "custom",
}
NO_PICTURE = "No screenshot was returned for this call."


def items(
    history: Iterable[Json],
    registry: Registry,
    *,
    native: frozenset[str],
    images: Images = "tool",
    encrypted_reasoning: bool = False,
) -> list[Json]:
    """*history* as the server can read it.

    Args:
        images: Whether a lowered screenshot stands in the function's output, or in a user message
            after the outputs of its round, for servers whose tool messages have text alone.
    """
    lowering = _Lowering(registry, native, images, encrypted_reasoning)
    for item in history:
        lowering.add(item)
    lowering.flush()
    return lowering.sent


def tool_choice(choice: object, registry: Registry) -> object:
    """*choice* with the names that the server knows; one of a tool that was left out becomes auto."""
    if not isinstance(choice, Mapping):
        return choice
    kind = choice.get("type")
    if kind == "allowed_tools":
        allowed = [tool_choice(tool, registry) for tool in choice.get("tools") or ()]
        return {**choice, "tools": [tool for tool in allowed if isinstance(tool, Mapping)]}
    if kind in ("function", "custom"):
        name = registry.name_of(str(choice.get("name")), choice.get("namespace"))
        entry = registry.called(name)
        lowered = entry is not None and entry.lowered
        rest = {key: value for key, value in choice.items() if key != "namespace"}
        return {**rest, "type": "function" if lowered else kind, "name": name}
    public_kind = "computer" if str(kind).startswith("computer") else family(str(kind))
    entry = registry.of_kind(public_kind)
    if entry is None:
        return choice
    if entry.upstream is None:
        return "auto"
    return {"type": "function", "name": entry.name} if entry.lowered else dict(choice)


class _Lowering:
    def __init__(
        self, registry: Registry, native: frozenset[str], images: Images, encrypted_reasoning: bool
    ) -> None:
        self.sent: list[Json] = []
        self._registry = registry
        self._native = native
        self._images = images
        self._encrypted = encrypted_reasoning
        self._waiting: list[Json] = []
        self._answers: dict[str, Json] = {}

    def add(self, item: Json) -> None:
        kind = item["type"]
        if not kind.endswith("_output"):
            self.flush()
        tool = _KIND_OF_ITEM.get(kind)
        if kind == "reasoning":
            self._add_reasoning(item)
        elif kind == "additional_tools":
            return  # its tools are in the registry
        elif kind == "compaction" and (summary := note_of(item)) is not None:
            self.sent.append(_said(f"What happened in this conversation before, in short:\n{summary}"))
        elif kind == "function_call":
            name = self._registry.name_of(item["name"], item.get("namespace"))
            self.sent.append(_without({**public(item), "name": name}, "namespace"))
        elif tool is None or self._has(tool):
            self.sent.append(_with_a_picture(public(item)))
            if (note := note_of(item)) is not None:
                self._waiting.append(_said(note))
        elif kind == "computer_call_output":
            self._add_screenshot(item)
        elif kind.endswith("_output"):
            self._add_output(item, _result_text(item))
        else:
            self.sent.append(self._call(item, tool))

    def flush(self) -> None:
        """Put what had to wait for the last output of a round behind it."""
        self.sent += self._waiting
        self._waiting = []

    def _has(self, tool: str) -> bool:
        entry = self._registry.of_kind(tool)
        if entry is not None:
            return not entry.lowered
        return tool in self._native or (tool == "computer" and "computer_use_preview" in self._native)

    def _add_reasoning(self, item: Json) -> None:
        if self._encrypted:
            self.sent.append(item)
        elif item.get("content") or item.get("summary"):
            self.sent.append(_without(item, "encrypted_content"))

    def _call(self, item: Json, tool: str) -> Json:
        name = self._registry.name_of(item["name"], item.get("namespace")) if tool == "custom" else tool
        call: Json = {
            "type": "function_call",
            "call_id": item["call_id"],
            "name": name,
            "arguments": json.dumps(_arguments(item), ensure_ascii=False),
        }
        if isinstance(item.get("id"), str):
            call["id"] = item["id"]
        return call

    def _add_output(self, item: Json, value: str | list[Json]) -> None:
        """A function has one output: what a call was answered beyond it is put into that."""
        first = self._answers.setdefault(item["call_id"], made := _output(item, value))
        if first is made:
            self.sent.append(made)
        else:
            first["output"] = [*_parts(first["output"]), *_parts(value)]

    def _add_screenshot(self, item: Json) -> None:
        picture = input_image(item["output"])
        note = note_of(item)
        if picture is None:
            self.sent.append(_output(item, note or NO_PICTURE))
        elif self._images == "tool":
            parts = [{"type": "input_text", "text": note}] if note else []
            self.sent.append(_output(item, [*parts, picture]))
        else:
            self.sent.append(_output(item, note or "The screenshot follows."))
            told = {"type": "input_text", "text": f"The screenshot of call {item['call_id']}:"}
            self._waiting.append({"type": "message", "role": "user", "content": [told, picture]})


def input_image(output: Mapping[str, Any]) -> Json | None:
    """A computer_screenshot as an input_image, or None where it has no picture."""
    url, file = output.get("image_url"), output.get("file_id")
    if url == PLACEHOLDER or not (url or file):
        return None
    detail = output.get("detail") or "auto"
    place = {"image_url": url} if url else {"file_id": file}
    return {"type": "input_image", **place, "detail": "high" if detail == "original" else detail}


def _with_a_picture(item: Json) -> Json:
    """A computer_call_output always shows something: servers refuse one without a valid picture."""
    if item["type"] != "computer_call_output" or input_image(item["output"]) is not None:
        return item
    return {**item, "output": {**item["output"], "image_url": PLACEHOLDER}}


def _said(text: str) -> Json:
    return {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": text}]}


def _output(item: Json, value: str | list[Json]) -> Json:
    return {"type": "function_call_output", "call_id": item["call_id"], "output": value}


def _parts(value: str | list[Json]) -> list[Json]:
    return [{"type": "input_text", "text": value}] if isinstance(value, str) else value


def _arguments(item: Json) -> Json:
    match item["type"]:
        case "computer_call":
            return {"actions": item["actions"] if "actions" in item else [item["action"]]}
        case "shell_call":
            return {key: value for key, value in item["action"].items() if value is not None}
        case "custom_tool_call":
            return {"input": item["input"]}
        case _:
            return {"operation": item["operation"]}


def _result_text(item: Json) -> str | list[Json]:
    match item["type"]:
        case "shell_call_output":
            result = json.dumps({"output": item["output"]}, ensure_ascii=False)
            note = note_of(item)
            return f"{note}\n{result}" if note else result
        case "custom_tool_call_output":
            value: str | list[Json] = item["output"]
            return value
        case _:
            told = {key: item[key] for key in ("status", "output") if item.get(key) is not None}
            return json.dumps(told, ensure_ascii=False)


def _without(item: Json, name: str) -> Json:
    return {key: value for key, value in item.items() if key not in (name, NOTE)}
