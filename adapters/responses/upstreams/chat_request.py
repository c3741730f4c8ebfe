"""A lowered Responses request as one of Chat Completions (vLLM, llama.cpp, Ollama).

Pure. It takes functions alone; built-in tools were lowered before. Calls that follow one another become
one assistant message, and each result a message of its own. Source: OpenAI Chat Completions API.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Json = dict[str, Any]

_SAME = ("temperature", "top_p", "user", "parallel_tool_calls", "top_logprobs", "seed")
_SKIPPED = frozenset({"reasoning", "item_reference", "compaction"})


def translate(request: Mapping[str, Any], *, stream: bool) -> Json:
    """The body for POST /chat/completions."""
    sent: Json = {"model": request.get("model"), "messages": messages(request), "stream": stream}
    if stream:
        sent["stream_options"] = {"include_usage": True}
    sent |= {name: request[name] for name in _SAME if request.get(name) is not None}
    if request.get("top_logprobs"):
        sent["logprobs"] = True
    else:
        sent.pop("top_logprobs", None)
    if request.get("max_output_tokens") is not None:
        sent["max_tokens"] = request["max_output_tokens"]
    if (request.get("reasoning") or {}).get("effort") is not None:
        sent["reasoning_effort"] = request["reasoning"]["effort"]
    if (form := _response_format(request.get("text"))) is not None:
        sent["response_format"] = form
    if tools := [_tool(tool) for tool in request.get("tools") or () if tool["type"] == "function"]:
        sent["tools"] = tools
        choice = _tool_choice(request.get("tool_choice"))
        if choice is not None:
            sent["tool_choice"] = choice
    else:
        sent.pop("parallel_tool_calls", None)
    return sent


def messages(request: Mapping[str, Any]) -> list[Json]:
    """`instructions` and `input` as messages."""
    found: list[Json] = []
    if request.get("instructions"):
        found.append({"role": "system", "content": request["instructions"]})
    for item in _together(request.get("input") or ()):
        _add(found, item)
    return found


def _together(items: Iterable[Json]) -> Iterator[Json]:
    """*items* with every output right after its round of calls: chat servers take nothing in between."""
    listed = list(items)
    outputs = {item["call_id"]: item for item in listed if item["type"] == "function_call_output"}
    waiting: list[str] = []
    for item in listed:
        if item["type"] == "function_call":
            waiting.append(item["call_id"])
        elif item["type"] not in _SKIPPED:
            yield from (outputs.pop(id) for id in waiting if id in outputs)
            waiting.clear()
        if item["type"] != "function_call_output" or outputs.pop(item["call_id"], None) is not None:
            yield item


def _add(found: list[Json], item: Json) -> None:
    match item["type"]:
        case "message":
            role = "system" if item["role"] == "developer" else item["role"]
            found.append({"role": role, "content": _content(item["content"], role)})
        case "function_call":
            call = {
                "id": item["call_id"],
                "type": "function",
                "function": {"name": item["name"], "arguments": item["arguments"] or "{}"},
            }
            if found and found[-1]["role"] == "assistant":
                found[-1].setdefault("tool_calls", []).append(call)
            else:
                found.append({"role": "assistant", "content": None, "tool_calls": [call]})
        case "function_call_output":
            output = item["output"]
            content = output if isinstance(output, str) else _content(output, "tool")
            found.append({"role": "tool", "tool_call_id": item["call_id"], "content": content})
        case kind if kind not in _SKIPPED:
            found.append({"role": "system", "content": f"[An item of type {kind} is left out.]"})
        case _:
            pass


def _content(parts: str | Iterable[Json], role: str) -> str | list[Json]:
    """Text alone as one string, which every server takes; parts where there is a picture."""
    if isinstance(parts, str):
        return parts
    told = [_part(part) for part in parts]
    if role in ("assistant", "system") or all(part["type"] == "text" for part in told):
        return "\n".join(part["text"] for part in told if part["type"] == "text")
    return told


def _part(part: Json) -> Json:
    match part["type"]:
        case "input_image":
            image = {"url": part.get("image_url") or ""}
            if part.get("detail") in ("low", "high"):
                image["detail"] = part["detail"]
            return {"type": "image_url", "image_url": image}
        case "refusal":
            return {"type": "text", "text": part["refusal"]}
        case "input_file":
            return {"type": "text", "text": f"[file {part.get('filename') or ''} is left out]"}
        case _:
            return {"type": "text", "text": part.get("text") or ""}


def _tool(tool: Json) -> Json:
    function = {key: tool[key] for key in ("name", "description", "parameters") if tool.get(key) is not None}
    if tool.get("strict"):
        function["strict"] = True
    return {"type": "function", "function": function}


def _tool_choice(choice: object) -> object:
    if isinstance(choice, str):
        return choice
    if isinstance(choice, Mapping):
        if choice.get("type") == "function":
            return {"type": "function", "function": {"name": choice.get("name")}}
        if choice.get("type") == "allowed_tools":
            return choice.get("mode", "auto")
    return None


def _response_format(text: object) -> Json | None:
    form = text.get("format") if isinstance(text, Mapping) else None
    if not isinstance(form, Mapping) or form.get("type") == "text":
        return None
    if form.get("type") != "json_schema":
        return {"type": "json_object"}
    kept = {
        key: form[key] for key in ("name", "description", "schema", "strict") if form.get(key) is not None
    }
    return {"type": "json_schema", "json_schema": kept}
