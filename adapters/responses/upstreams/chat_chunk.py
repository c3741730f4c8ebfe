"""What a Chat Completions server sends, checked: a chunk of a stream, or a whole answer.

Pure. Counterpart: chat_stream.py, which may rely on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bodyd.errors import UpstreamFailed

Json = dict[str, Any]


def checked(raw: Mapping[str, Any], *, whole: bool = False) -> Json:
    """*raw* with its first choice alone, all that is read of it having the right types.

    Args:
        whole: It is an answer, not a chunk: its calls are numbered by their places.
    Raises:
        UpstreamFailed: it can't be read.
    """
    choices = _list(raw.get("choices"), "choices")[:1]
    made: Json = {"choices": [_choice(_object(one, "a choice"), whole) for one in choices]}
    usage = raw.get("usage")
    return {**made, "usage": _counts(usage)} if isinstance(usage, Mapping) and usage else made


def _choice(raw: Json, whole: bool) -> Json:
    delta = _object(raw.get("delta") or raw.get("message") or {}, "a delta")
    calls = _list(delta.get("tool_calls"), "tool_calls")
    told = {name: _text(delta, name) for name in ("content", "refusal", "reasoning_content", "reasoning")}
    read = [_call(_object(call, "a call"), number if whole else None) for number, call in enumerate(calls)]
    return {"delta": {**told, "tool_calls": read}, "finish_reason": _text(raw, "finish_reason") or None}


def _call(raw: Json, number: int | None) -> Json:
    index = raw.get("index") if number is None else number
    if isinstance(index, bool) or not isinstance(index, int | None):
        raise _nonsense("the index of a call is no whole number")
    function = _object(raw.get("function") or {}, "a function")
    told = {name: _text(function, name) for name in ("name", "arguments")}
    return {"index": index or 0, "id": _text(raw, "id"), "function": told}


def _counts(raw: Mapping[str, Any]) -> Json:
    made: Json = {name: _count(raw, name) for name in ("prompt_tokens", "completion_tokens", "total_tokens")}
    for name, inner in (
        ("prompt_tokens_details", "cached_tokens"),
        ("completion_tokens_details", "reasoning_tokens"),
    ):
        details = raw.get(name)
        made[name] = {inner: _count(details, inner)} if isinstance(details, Mapping) else {}
    return made


def _count(raw: Mapping[str, Any], name: str) -> int:
    found = raw.get(name)
    return found if isinstance(found, int) and found > 0 else 0


def _text(raw: Json, name: str) -> str:
    """A text, or what some send in its place: null, or a list of text parts."""
    found = raw.get(name)
    if isinstance(found, list):
        found = "".join(_text(_object(part, "a part"), "text") for part in found)
    if not isinstance(found, str | None):
        raise _nonsense(f"{name} is no string")
    return found or ""


def _object(raw: object, what: str) -> Json:
    if not isinstance(raw, Mapping):
        raise _nonsense(f"{what} is no object")
    return dict(raw)


def _list(raw: object, what: str) -> list[Any]:
    if not isinstance(raw, list | None):
        raise _nonsense(f"{what} is no list")
    return raw or []


def _nonsense(why: str) -> UpstreamFailed:
    return UpstreamFailed(f"the model's server sent something that makes no sense: {why}")
