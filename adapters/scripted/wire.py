"""The Responses shapes: what came in as rounds of the script, what goes out as items and events.

Source: OpenAI Responses API, `computer_call`, `computer_call_output`, streaming events.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bodyd.contract.screenshots import MAX_IMAGE_BYTES

from .script import Act, Round, Say, Step

Json = dict[str, Any]

_PNG_URL = "data:image/png;base64,"


def has_computer(request: Mapping[str, Any]) -> bool:
    """Whether the request declares the current computer tool."""
    tools = request.get("tools") or ()
    return any(isinstance(tool, Mapping) and tool.get("type") == "computer" for tool in tools)


def rounds(request: Mapping[str, Any]) -> list[Round]:
    """The computer calls since the last user message, each with the picture that answered it."""
    items = request.get("input")
    if not isinstance(items, Sequence) or isinstance(items, str):
        return []
    calls: list[Mapping[str, Any]] = []
    pictures: dict[str, bytes | None] = {}
    for item in items:
        if not isinstance(item, Mapping):
            continue
        if item.get("role") == "user":
            calls.clear()
        elif item.get("type") == "computer_call":
            calls.append(item)
        elif item.get("type") == "computer_call_output":
            pictures[str(item.get("call_id"))] = _picture(item.get("output"))
    return [Round(_actions(call), pictures.get(str(call.get("call_id")))) for call in calls]


def _actions(call: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    actions = call.get("actions")
    listed = actions if isinstance(actions, list) else [call.get("action")]
    return tuple(action for action in listed if isinstance(action, Mapping))


def _picture(output: object) -> bytes | None:
    """The PNG of a `computer_screenshot` (or `input_image`) that carries it as a data URL."""
    match output:
        case {"image_url": str(url)} if url.startswith(_PNG_URL) and len(url) <= 2 * MAX_IMAGE_BYTES:
            try:
                return base64.b64decode(url.removeprefix(_PNG_URL), validate=True)
            except (binascii.Error, ValueError):
                return None
        case _:
            return None


def item(step: Step, *, token: str) -> Json:
    """The output item of *step*; *token* makes its ids unique."""
    match step:
        case Act(actions):
            return {
                "type": "computer_call",
                "id": f"cu_{token}",
                "call_id": f"call_{token}",
                "status": "completed",
                "pending_safety_checks": [],
                "actions": [dict(action) for action in actions],
            }
        case Say(text):
            return {
                "type": "message",
                "id": f"msg_{token}",
                "role": "assistant",
                "status": "completed",
                "phase": "final_answer",
                "content": [_text(text)],
            }


def _text(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def begun(request: Mapping[str, Any], *, token: str, created_at: int) -> Json:
    """A Response object in progress."""
    return {
        "id": f"resp_{token}",
        "object": "response",
        "created_at": created_at,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": request.get("instructions"),
        "metadata": request.get("metadata") or {},
        "model": request.get("model") or "scripted",
        "output": [],
        "parallel_tool_calls": False,
        "previous_response_id": request.get("previous_response_id"),
        "temperature": request.get("temperature"),
        "tool_choice": request.get("tool_choice") or "auto",
        "tools": request.get("tools") or [],
        "top_p": request.get("top_p"),
        "usage": None,
    }


def completed(response: Json, output: Json) -> Json:
    """The same Response with its one output item. A script counts no tokens: its usage is zero."""
    usage = {
        "input_tokens": 0,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 0,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 0,
    }
    return {**response, "status": "completed", "output": [output], "usage": usage}


def events(done: Json) -> Iterator[Json]:
    """What follows `response.in_progress` for a completed Response, without sequence numbers."""
    for index, whole in enumerate(done["output"]):
        place: Json = {"output_index": index}
        if whole["type"] == "message":
            yield from _message_events(whole, place)
        else:
            yield {"type": "response.output_item.added", **place, "item": {**whole, "status": "in_progress"}}
        yield {"type": "response.output_item.done", **place, "item": whole}
    yield {"type": "response.completed", "response": done}


def _message_events(whole: Json, place: Json) -> Iterator[Json]:
    part = whole["content"][0]
    within: Json = {**place, "item_id": whole["id"], "content_index": 0}
    empty = {**whole, "status": "in_progress", "content": []}
    yield {"type": "response.output_item.added", **place, "item": empty}
    yield {"type": "response.content_part.added", **within, "part": _text("")}
    yield {"type": "response.output_text.delta", **within, "delta": part["text"], "logprobs": []}
    yield {"type": "response.output_text.done", **within, "text": part["text"], "logprobs": []}
    yield {"type": "response.content_part.done", **within, "part": part}
