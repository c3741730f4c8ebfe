"""The stream events of one whole item, in the order that the SDKs expect.

Pure; without sequence numbers, which the log of a response gives. Every item is opened with zero values
before it is filled, and closed with the same ids. Source: OpenAI Responses API, streaming events.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

_OPENED: dict[str, Json] = {
    "message": {"content": [], "status": "in_progress"},
    "reasoning": {"summary": []},
    "function_call": {"arguments": "", "status": "in_progress"},
    "custom_tool_call": {"input": ""},
    "computer_call": {"status": "in_progress"},
    "apply_patch_call": {"status": "in_progress"},
    "shell_call_output": {"output": [], "status": "in_progress"},
    "computer_call_output": {"status": "in_progress"},
    "function_call_output": {"status": "in_progress"},
}


def opened(item: Json) -> Json:
    """*item* as it is when it has just begun."""
    kind = item["type"]
    if kind == "shell_call":
        return {**item, "action": {**item["action"], "commands": []}, "status": "in_progress"}
    begun = {**item, **_OPENED.get(kind, {})}
    if kind == "reasoning":
        for name in ("content", "encrypted_content", "status"):
            begun.pop(name, None)
    elif kind == "custom_tool_call" and "status" in item:
        begun["status"] = "in_progress"
    return begun


def finished(item: Json) -> Json:
    """*item* with every field that the clients' types require; nulls that they forbid are left out."""
    kind = item["type"]
    if kind == "message":
        parts = [finished_part(part) for part in item.get("content") or ()]
        return {
            **item,
            "role": "assistant",
            "status": item.get("status") or "completed",
            "content": parts,
        }
    if kind == "reasoning":
        kept = {key: value for key, value in item.items() if value is not None}
        return {**kept, "summary": kept.get("summary") or []}
    if kind in ("function_call", "computer_call", "shell_call", "apply_patch_call"):
        done = {**item, "status": item.get("status") or "completed"}
        return {key: value for key, value in done.items() if value is not None or key not in _NULLS}
    return item


_NULLS = frozenset({"namespace", "caller", "async", "action", "actions", "created_by"})


def finished_part(part: Json) -> Json:
    if part.get("type") != "output_text":
        return part
    return {**part, "annotations": part.get("annotations") or [], "logprobs": part.get("logprobs") or []}


def events(item: Json, index: int) -> Iterator[Json]:
    """All events of *item*, which is finished, at output *index*."""
    place = {"output_index": index}
    yield {"type": "response.output_item.added", **place, "item": opened(item)}
    within = {**place, "item_id": item["id"]}
    match item["type"]:
        case "message":
            yield from _message(item, within)
        case "reasoning":
            yield from _reasoning(item, within)
        case "function_call":
            yield from _text(
                "function_call_arguments", within, item["arguments"], "arguments", name=item["name"]
            )
        case "custom_tool_call":
            yield from _text("custom_tool_call_input", within, item["input"], "input")
        case "shell_call":
            yield from _commands(item["action"]["commands"], place)
        case "shell_call_output":
            for number, chunk in enumerate(item["output"]):
                yield shell_output_delta(within, number, stdout=chunk["stdout"], stderr=chunk["stderr"])
                yield shell_output_done(within, number, chunk)
        case _:
            pass
    yield {"type": "response.output_item.done", **place, "item": item}


def shell_output_delta(within: Json, number: int, *, stdout: str = "", stderr: str = "") -> Json:
    told = {"stdout": stdout} if stdout else {}
    told |= {"stderr": stderr} if stderr else {}
    return {
        "type": "response.shell_call_output_content.delta",
        **within,
        "command_index": number,
        "delta": told,
    }


def shell_output_done(within: Json, number: int, chunk: Json) -> Json:
    return {
        "type": "response.shell_call_output_content.done",
        **within,
        "command_index": number,
        "output": [chunk],
    }


def _message(item: Json, within: Json) -> Iterator[Json]:
    for index, part in enumerate(item["content"]):
        place = {**within, "content_index": index}
        if part["type"] == "refusal":
            empty = {**part, "refusal": ""}
            yield {"type": "response.content_part.added", **place, "part": empty}
            yield {"type": "response.refusal.delta", **place, "delta": part["refusal"]}
            yield {"type": "response.refusal.done", **place, "refusal": part["refusal"]}
        else:
            text = part.get("text", "")
            empty = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            yield {"type": "response.content_part.added", **place, "part": empty}
            yield {"type": "response.output_text.delta", **place, "delta": text, "logprobs": []}
            yield {"type": "response.output_text.done", **place, "text": text, "logprobs": []}
        yield {"type": "response.content_part.done", **place, "part": part}


def _reasoning(item: Json, within: Json) -> Iterator[Json]:
    for index, part in enumerate(item.get("summary") or ()):
        place = {**within, "summary_index": index}
        text = part.get("text", "")
        yield {"type": "response.reasoning_summary_part.added", **place, "part": {**part, "text": ""}}
        yield {"type": "response.reasoning_summary_text.delta", **place, "delta": text}
        yield {"type": "response.reasoning_summary_text.done", **place, "text": text}
        yield {"type": "response.reasoning_summary_part.done", **place, "part": part}
    for index, part in enumerate(item.get("content") or ()):
        place = {**within, "content_index": index}
        text = part.get("text", "")
        yield {"type": "response.reasoning_text.delta", **place, "delta": text}
        yield {"type": "response.reasoning_text.done", **place, "text": text}


def _text(event: str, within: Json, text: str, field: str, **extra: str) -> Iterator[Json]:
    yield {"type": f"response.{event}.delta", **within, "delta": text}
    yield {"type": f"response.{event}.done", **within, field: text, **extra}


def _commands(commands: list[str], place: Json) -> Iterator[Json]:
    for number, command in enumerate(commands):
        which = {**place, "command_index": number}
        yield {"type": "response.shell_call_command.added", **which, "command": ""}
        yield {"type": "response.shell_call_command.delta", **which, "delta": command}
        yield {"type": "response.shell_call_command.done", **which, "command": command}
