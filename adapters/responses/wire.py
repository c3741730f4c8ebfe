"""What the wire has: item and tool types, and what each must carry to be stored and sent on.

Pure. Items and tools stay the JSON objects that came in, so that fields nobody here knows are kept;
only what this gateway reads is checked. Source: OpenAI Responses API, `input` and `tools`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bodyd.errors import InvalidRequest, UnknownType, UnsupportedTool

Json = dict[str, Any]

CALLS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "computer_call": "computer_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
}
"""Calls that somebody outside the model's server must answer, each with its kind of output."""

OUTPUTS = {output: call for call, output in CALLS.items()}

PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "cto",
    "computer_call": "cu",
    "computer_call_output": "cuo",
    "shell_call": "sh",
    "shell_call_output": "sho",
    "apply_patch_call": "apc",
    "apply_patch_call_output": "apo",
    "compaction": "cmp",
}

_OTHER_ITEMS = frozenset(
    "message reasoning item_reference compaction compaction_trigger additional_tools configuration_update "
    "file_search_call web_search_call image_generation_call code_interpreter_call tool_search_call "
    "tool_search_output mcp_list_tools mcp_call mcp_approval_request mcp_approval_response program "
    "program_output".split()
)
KNOWN_ITEMS = _OTHER_ITEMS | CALLS.keys() | OUTPUTS.keys()

LOWERED = frozenset({"computer", "computer_use", "computer_use_preview", "shell", "apply_patch", "custom"})
"""Built-in tools that can be offered as a function to a server that has only those."""

COMPUTERS = frozenset({"computer", "computer_use", "computer_use_preview"})

LEFT_OUT = frozenset({"web_search", "web_search_preview", "tool_search"})
"""Left out, with a warning, where the server lacks them: the model works without."""

HOSTED = frozenset(
    {"file_search", "mcp", "code_interpreter", "programmatic_tool_calling", "image_generation"} | LEFT_OUT
)
KNOWN_TOOLS = LOWERED | HOSTED | {"function", "namespace", "local_shell"}


def family(kind: str) -> str:
    """A tool type without its date: `web_search_2025_08_26` is a `web_search`."""
    for name in ("web_search_preview", "web_search"):
        if kind.startswith(f"{name}_20"):
            return name
    return kind


def input_items(raw: object, *, passthrough: bool = False) -> list[Json]:
    """`input` as a list of checked items; a string is one user message.

    Raises:
        InvalidRequest, UnknownType, UnsupportedTool: `param` names the field, such as input[2].call_id.
    """
    if raw is None:
        return []
    if isinstance(raw, str):
        return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": raw}]}]
    if not isinstance(raw, list):
        raise InvalidRequest("input must be a string or a list of items", param="input")
    return [item(value, param=f"input[{index}]", passthrough=passthrough) for index, value in enumerate(raw)]


def item(raw: object, *, param: str, passthrough: bool = False) -> Json:
    """One item, checked and in its canonical form; unknown fields are kept."""
    if not isinstance(raw, dict):
        raise InvalidRequest(f"{param} must be an object", param=param)
    kind = raw.get("type")
    if kind is None:
        kind = _untyped(raw, param)
    if not isinstance(kind, str):
        raise InvalidRequest(f"{param}.type must be a string", param=f"{param}.type")
    if kind.startswith("local_shell_call"):
        raise UnsupportedTool(
            "the legacy local_shell is not offered; use the tool `shell` with a local environment, "
            "whose items are shell_call and shell_call_output",
            param=f"{param}.type",
        )
    if kind not in KNOWN_ITEMS and not passthrough:
        raise UnknownType(f"{param}.type {kind!r:.80} is not known here", param=f"{param}.type")
    found = {**raw, "type": kind}
    if kind == "additional_tools":
        tools(found.get("tools"), param=f"{param}.tools", passthrough=passthrough)
    check = _CHECKS.get(kind)
    return check(found, param) if check is not None else found


def _untyped(raw: Mapping[str, Any], param: str) -> str:
    if "role" in raw:
        return "message"
    if set(raw) == {"id"}:
        return "item_reference"
    raise InvalidRequest(f"{param}.type is missing", param=f"{param}.type")


def _text(value: Mapping[str, Any], name: str, param: str, *, empty: bool = False) -> str:
    found = value.get(name)
    if not isinstance(found, str) or not (found or empty):
        what = "a string" if empty else "a non-empty string"
        raise InvalidRequest(f"{param}.{name} must be {what}", param=f"{param}.{name}")
    return found


def _message(value: Json, param: str) -> Json:
    if value.get("role") not in ("user", "assistant", "system", "developer"):
        raise InvalidRequest(
            f"{param}.role must be user, assistant, system or developer", param=f"{param}.role"
        )
    content = value.get("content")
    if isinstance(content, str):
        kind = "output_text" if value["role"] == "assistant" else "input_text"
        return {**value, "content": [{"type": kind, "text": content}]}
    _parts(content, f"{param}.content")
    return value


def _parts(content: object, param: str) -> None:
    if not isinstance(content, list):
        raise InvalidRequest(f"{param} must be a string or a list of parts", param=param)
    for index, part in enumerate(content):
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            where = f"{param}[{index}]"
            raise InvalidRequest(f"{where} must be an object with a type", param=f"{where}.type")


def _reference(value: Json, param: str) -> Json:
    _text(value, "id", param)
    return value


def _named_call(value: Json, param: str) -> Json:
    _text(value, "call_id", param)
    _text(value, "name", param)
    field = "arguments" if value["type"] == "function_call" else "input"
    _text(value, field, param, empty=True)
    return value


def _named_output(value: Json, param: str) -> Json:
    _text(value, "call_id", param)
    if not isinstance(value.get("output"), str):
        _parts(value.get("output"), f"{param}.output")
    return value


def computer_call(value: Json, param: str) -> Json:
    """Either `actions` or, in the preview form, one `action`; a copy of the first beside them is dropped."""
    _text(value, "call_id", param)
    actions, action = value.get("actions"), value.get("action")
    if actions is not None:
        found = {key: part for key, part in value.items() if key != "action"}
        where = f"{param}.actions"
        if not isinstance(actions, list):
            raise InvalidRequest(f"{where} must be a list", param=where)
        for index, one in enumerate(actions):
            _action(one, f"{where}[{index}]")
    elif action is not None:
        found = {key: part for key, part in value.items() if key != "actions"}
        _action(action, f"{param}.action")
    else:
        raise InvalidRequest(f"{param} must have actions", param=f"{param}.actions")
    checks = found.get("pending_safety_checks")
    if checks is not None and not isinstance(checks, list):
        where = f"{param}.pending_safety_checks"
        raise InvalidRequest(f"{where} must be a list", param=where)
    return {**found, "pending_safety_checks": checks or []}


def _action(value: object, param: str) -> None:
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise InvalidRequest(f"{param} must be an object with a type", param=f"{param}.type")


def _computer_output(value: Json, param: str) -> Json:
    _text(value, "call_id", param)
    output, where = value.get("output"), f"{param}.output"
    if not isinstance(output, dict):
        raise InvalidRequest(f"{where} must be a computer_screenshot", param=where)
    kind = output.get("type")
    if kind not in ("computer_screenshot", "input_image"):
        raise InvalidRequest(f"{where}.type must be computer_screenshot", param=f"{where}.type")
    url, file = output.get("image_url"), output.get("file_id")
    if not isinstance(url, str) and not isinstance(file, str):
        raise InvalidRequest(f"{where} must have image_url or file_id", param=f"{where}.image_url")
    return {**value, "output": {**output, "type": "computer_screenshot"}}


def shell_call(value: Json, param: str) -> Json:
    """`action.commands`: at least one string."""
    _text(value, "call_id", param)
    action, where = value.get("action"), f"{param}.action"
    if not isinstance(action, dict):
        raise InvalidRequest(f"{where} must be an object", param=where)
    commands = action.get("commands")
    if not isinstance(commands, list) or not commands or not all(isinstance(one, str) for one in commands):
        where = f"{where}.commands"
        raise InvalidRequest(f"{where} must be a list of at least one string", param=where)
    for name in ("timeout_ms", "max_output_length"):
        limit = action.get(name)
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
            raise InvalidRequest(f"{where}.{name} must be a whole number or null", param=f"{where}.{name}")
    return value


def _shell_output(value: Json, param: str) -> Json:
    _text(value, "call_id", param)
    chunks, where = value.get("output"), f"{param}.output"
    if not isinstance(chunks, list):
        raise InvalidRequest(f"{where} must be a list", param=where)
    for index, chunk in enumerate(chunks):
        _chunk(chunk, f"{where}[{index}]")
    return value


def _chunk(chunk: object, param: str) -> None:
    if not isinstance(chunk, dict):
        raise InvalidRequest(f"{param} must be an object", param=param)
    for name in ("stdout", "stderr"):
        _text(chunk, name, param, empty=True)
    outcome, where = chunk.get("outcome"), f"{param}.outcome"
    kind = outcome.get("type") if isinstance(outcome, dict) else None
    if not isinstance(outcome, dict) or not isinstance(kind, str):
        raise InvalidRequest(f"{where} must be an object of type exit or timeout", param=where)
    code = outcome.get("exit_code")
    if kind == "exit" and (isinstance(code, bool) or not isinstance(code, int | None)):
        raise InvalidRequest(f"{where}.exit_code must be a whole number", param=f"{where}.exit_code")


def _patch_call(value: Json, param: str) -> Json:
    _text(value, "call_id", param)
    if not isinstance(value.get("operation"), dict):
        raise InvalidRequest(f"{param}.operation must be an object", param=f"{param}.operation")
    return value


def _patch_output(value: Json, param: str) -> Json:
    _text(value, "call_id", param)
    return value


_CHECKS: dict[str, Callable[[Json, str], Json]] = {
    "message": _message,
    "item_reference": _reference,
    "function_call": _named_call,
    "function_call_output": _named_output,
    "custom_tool_call": _named_call,
    "custom_tool_call_output": _named_output,
    "computer_call": computer_call,
    "computer_call_output": _computer_output,
    "shell_call": shell_call,
    "shell_call_output": _shell_output,
    "apply_patch_call": _patch_call,
    "apply_patch_call_output": _patch_output,
}


def tools(raw: object, *, param: str = "tools", passthrough: bool = False) -> list[Json]:
    """`tools` checked; unknown fields are kept.

    Raises:
        InvalidRequest, UnknownType, UnsupportedTool: `param` names the tool.
    """
    if raw is None:
        return []
    if not isinstance(raw, list):
        raise InvalidRequest(f"{param} must be a list", param=param)
    return [_tool(value, f"{param}[{index}]", passthrough) for index, value in enumerate(raw)]


def _tool(value: object, param: str, passthrough: bool) -> Json:
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise InvalidRequest(f"{param} must be an object with a type", param=f"{param}.type")
    kind = family(value["type"])
    if kind == "local_shell":
        raise UnsupportedTool(
            'the legacy local_shell is not offered; use {"type": "shell", "environment": {"type": "local"}}',
            param=f"{param}.type",
        )
    if kind not in KNOWN_TOOLS and not passthrough:
        raise UnknownType(f"{param}.type {value['type']!r:.80} is not known here", param=f"{param}.type")
    if kind in ("function", "custom", "namespace"):
        _text(value, "name", param)
    if kind == "namespace":
        tools(value.get("tools"), param=f"{param}.tools", passthrough=passthrough)
    environment = value.get("environment")
    typed = isinstance(environment, dict) and isinstance(environment.get("type"), str)
    if kind == "shell" and environment is not None and not typed:
        where = f"{param}.environment"
        raise InvalidRequest(f"{where} must be an object with a type", param=where)
    return value
