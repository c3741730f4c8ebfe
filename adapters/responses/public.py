"""The Response object: every field present, null where unset.

Pure. Source: OpenAI Responses API, `Response`; Open Responses, `ResponseResource`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]

_DEFAULTS: Json = {
    "background": False,
    "frequency_penalty": 0.0,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "presence_penalty": 0.0,
    "previous_response_id": None,
    "prompt": None,
    "prompt_cache_key": None,
    "prompt_cache_retention": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": 1.0,
    "tool_choice": "auto",
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
_ECHOED = ("access_programs", "image", "moderation", "prompt_cache_options")
_FUNCTION: Json = {"description": None, "parameters": None, "strict": None}


def begun(
    request: Mapping[str, Any], *, id: str, created_at: int, model: str, conversation: str | None
) -> Json:
    """A response that has just begun, echoing *request*."""
    echoed = {
        name: default if request.get(name) is None else request[name] for name, default in _DEFAULTS.items()
    }
    echoed |= {name: request[name] for name in _ECHOED if request.get(name) is not None}
    return {
        "id": id,
        "object": "response",
        "created_at": created_at,
        "completed_at": None,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "model": model,
        "output": [],
        "usage": None,
        "conversation": {"id": conversation} if conversation else None,
        **echoed,
        "reasoning": {**_DEFAULTS["reasoning"], **(request.get("reasoning") or {})},
        "text": _text(request.get("text")),
        "tools": [_tool(tool) for tool in request.get("tools") or ()],
    }


def _tool(tool: Json) -> Json:
    return {**_FUNCTION, **tool} if tool["type"] == "function" else tool


def _text(raw: object) -> Json:
    text = dict(raw) if isinstance(raw, Mapping) else {}
    form = text.get("format") or {"type": "text"}
    if form.get("type") == "json_schema":
        form = {"description": None, "strict": False, **form}
    return {**text, "format": form}


def total(usages: list[Json]) -> Json | None:
    """The sum of what the rounds used; None if no round said."""
    if not usages:
        return None
    cached = written = reasoning = 0
    for usage in usages:
        inside = usage.get("input_tokens_details") or {}
        cached += inside.get("cached_tokens") or 0
        written += inside.get("cache_write_tokens") or 0
        reasoning += (usage.get("output_tokens_details") or {}).get("reasoning_tokens") or 0
    fed = sum(usage.get("input_tokens") or 0 for usage in usages)
    made = sum(usage.get("output_tokens") or 0 for usage in usages)
    return {
        "input_tokens": fed,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
        "output_tokens": made,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": fed + made,
    }
