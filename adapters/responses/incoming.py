"""What a model's server sends, checked before anything is made of it.

Pure. Fields that this gateway reads have the types that it reads them as, or the server has failed; what it
only passes on is left alone. Calls that make no sense are another matter: the model is told of those
(restoring.py). Counterpart: rounds.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bodyd.errors import UpstreamFailed

Json = dict[str, Any]

_TEXTS = {"output_text": "text", "refusal": "refusal", "reasoning_text": "text", "summary_text": "text"}
_OWNERS = {
    "content_part": ("message", "reasoning"),
    "output_text": ("message",),
    "output_text.annotation": ("message",),
    "refusal": ("message",),
    "reasoning_text": ("reasoning",),
    "reasoning_summary_part": ("reasoning",),
    "reasoning_summary_text": ("reasoning",),
    "function_call_arguments": ("function_call",),
    "custom_tool_call_input": ("custom_tool_call",),
}
"""What an event tells, and the items that have such."""
_WHOLE = {
    "output_text": "text",
    "refusal": "refusal",
    "reasoning_text": "text",
    "reasoning_summary_text": "text",
    "function_call_arguments": "arguments",
    "custom_tool_call_input": "input",
}
"""Texts that are told in deltas, and the field that has it at the end."""
_NUMBERED = {
    "content_part": "content_index",
    "output_text": "content_index",
    "output_text.annotation": "content_index",
    "refusal": "content_index",
    "reasoning_text": "content_index",
    "reasoning_summary_part": "summary_index",
    "reasoning_summary_text": "summary_index",
}
REASONS = frozenset({"max_output_tokens", "max_messages", "content_filter", "steered"})


def item(raw: object) -> Json:
    """An item of the output, with what can be left out put in.

    Raises:
        UpstreamFailed: it can't be read.
    """
    found = _object(raw, "an item")
    kind = found.get("type")
    if not isinstance(kind, str) or not kind:
        raise _nonsense("an item has no type")
    check = _CHECKS.get(kind)
    if check is None:
        return found
    if not isinstance(found.get("status"), str | None):
        raise _nonsense("a status is no string")
    return check(found)


def suits(kind: str, item: str) -> bool:
    """Whether an event of type *kind* can be about an item of type *item*."""
    owners = _OWNERS.get(_subject(kind))
    return owners is None or item in owners


def event(raw: Mapping[str, Any]) -> Json:
    """An event about an item that is open.

    Raises:
        UpstreamFailed: a field is missing, or has another type than it should.
    """
    kind = str(raw["type"])
    subject, what = _subject(kind), kind.rpartition(".")[2]
    found = {key: value for key, value in raw.items() if key not in ("sequence_number", "obfuscation")}
    if subject in _NUMBERED:
        number = _NUMBERED[subject]
        found[number] = index(raw.get(number, 0))
    if subject in ("content_part", "reasoning_summary_part"):
        found["part"] = _part(raw.get("part"))
    elif subject in _WHOLE:
        name = "delta" if what == "delta" else _WHOLE[subject]
        found[name] = _text(raw, name)
    return found


def index(raw: object) -> int:
    """An output index, or a part's.

    Raises:
        UpstreamFailed: it is none.
    """
    if isinstance(raw, bool) or not isinstance(raw, int) or raw < 0:
        raise _nonsense("an index is no whole number")
    return raw


def output(response: Mapping[str, Any]) -> list[object]:
    """The items of a Response object, unread.

    Raises:
        UpstreamFailed: they are no list.
    """
    return _list(response.get("output"), "the output")


def usage(raw: object) -> Json | None:
    """Counts of tokens; what is none is nothing. A bill is no reason to lose an answer."""
    if not isinstance(raw, Mapping):
        return None
    made: Json = {name: _count(raw, name) for name in ("input_tokens", "output_tokens")}
    for name, inner in (
        ("input_tokens_details", ("cached_tokens", "cache_write_tokens")),
        ("output_tokens_details", ("reasoning_tokens",)),
    ):
        details = raw.get(name)
        made[name] = {one: _count(details, one) for one in inner} if isinstance(details, Mapping) else {}
    return made


def error(raw: object) -> Json:
    """An error object, or an empty one."""
    return dict(raw) if isinstance(raw, Mapping) else {}


def reason(raw: object) -> str:
    """Why a response is incomplete, in a word that clients know."""
    found = error(raw).get("reason")
    return found if isinstance(found, str) and found in REASONS else "max_output_tokens"


def _subject(kind: str) -> str:
    return kind.removeprefix("response.").rpartition(".")[0]


def _count(raw: Mapping[str, Any], name: str) -> int:
    found = raw.get(name)
    return found if isinstance(found, int) and found > 0 else 0


def _message(raw: Json) -> Json:
    content = raw.get("content")
    if isinstance(content, str):
        content = [{"type": "output_text", "text": content}]
    return {**raw, "content": [_part(part) for part in _list(content, "a message's content")]}


def _reasoning(raw: Json) -> Json:
    found = dict(raw)
    for name in ("summary", "content"):
        if raw.get(name) is not None:
            found[name] = [_part(part) for part in _list(raw[name], f"the {name} of reasoning")]
    if not isinstance(raw.get("encrypted_content"), str | None):
        raise _nonsense("encrypted_content is no string")
    return found


def _function(raw: Json) -> Json:
    return {**_named(raw), "arguments": _text(raw, "arguments")}


def _custom(raw: Json) -> Json:
    return {**_named(raw), "input": _text(raw, "input")}


def _named(raw: Json) -> Json:
    if not isinstance(raw.get("name"), str):
        raise _nonsense("a call has no name")
    if not isinstance(raw.get("namespace"), str | None):
        raise _nonsense("a namespace is no string")
    return raw


def _any(raw: Json) -> Json:
    return raw  # restoring.py reads the rest


def _patch(raw: Json) -> Json:
    _object(raw.get("operation"), "an operation")
    return raw


_CHECKS: dict[str, Callable[[Json], Json]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _function,
    "custom_tool_call": _custom,
    "apply_patch_call": _patch,
    "computer_call": _any,
    "shell_call": _any,
}


def _part(raw: object) -> Json:
    found = _object(raw, "a part")
    kind = found.get("type")
    if not isinstance(kind, str):
        raise _nonsense("a part has no type")
    if (name := _TEXTS.get(kind)) is not None:
        found[name] = _text(found, name)
    if kind == "output_text":
        for name in ("annotations", "logprobs"):
            found[name] = _list(found.get(name), name)
    return found


def _text(raw: Mapping[str, Any], name: str) -> str:
    found = raw.get(name)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise _nonsense(f"{name} is no string")
    return found


def _object(raw: object, what: str) -> Json:
    if not isinstance(raw, Mapping):
        raise _nonsense(f"{what} is no object")
    return dict(raw)


def _list(raw: object, what: str) -> list[Any]:
    if raw is None:
        return []
    if not isinstance(raw, list):
        raise _nonsense(f"{what} is no list")
    return raw


def _nonsense(why: str) -> UpstreamFailed:
    return UpstreamFailed(f"the model's server sent something that makes no sense: {why}")
