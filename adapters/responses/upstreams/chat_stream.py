"""Chat Completions chunks as Responses events.

Pure. Servers differ: Ollama sends a call whole and gives every call the index 0; some leave ids out; the
usage comes in a last chunk without choices. A new id, or a new name under a known index that is already
whole, is therefore a new call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .chat_chunk import checked

Json = dict[str, Any]

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


@dataclass(slots=True)
class _Part:
    """An open item: reasoning, the message, or one call."""

    index: int
    item: Json
    text: str = ""
    key: tuple[int, str] | None = None


class ChatStream:
    """Feed it chunks; `finish` ends it. `token` makes ids unique."""

    def __init__(self, *, token: Callable[[], str], model: str, created_at: int) -> None:
        self._token = token
        self._response: Json = {
            "id": f"resp_{token()}",
            "object": "response",
            "created_at": created_at,
            "model": model,
            "status": "in_progress",
            "output": [],
        }
        self._open: _Part | None = None
        self._output: list[Json] = []
        self._finish: str | None = None
        self._usage: Json | None = None

    def begin(self) -> list[Json]:
        return [{"type": "response.created", "response": dict(self._response)}]

    def feed(self, raw: Mapping[str, Any], *, whole: bool = False) -> Iterator[Json]:
        """The events of one chunk, or of a whole answer.

        Raises:
            UpstreamFailed: it can't be read.
        """
        chunk = checked(raw, whole=whole)
        if "usage" in chunk:
            self._usage = usage(chunk["usage"])
        for choice in chunk["choices"]:
            delta = choice["delta"]
            if reasoning := delta["reasoning_content"] or delta["reasoning"]:
                yield from self._reasoning(reasoning)
            if delta["content"]:
                yield from self._text(delta["content"])
            if delta["refusal"]:
                yield from self._text(delta["refusal"])
            for call in delta["tool_calls"]:
                yield from self._call(call)
            self._finish = choice["finish_reason"] or self._finish

    def finish(self) -> Iterator[Json]:
        """Close what is open, and the response."""
        yield from self._close()
        response = {**self._response, "output": self._output, "usage": self._usage}
        reason = _INCOMPLETE.get(self._finish or "")
        if reason is not None:
            response |= {"status": "incomplete", "incomplete_details": {"reason": reason}}
            yield {"type": "response.incomplete", "response": response}
        elif self._finish is None:
            error = {"code": "server_error", "message": "the model's server broke off before it was done"}
            yield {"type": "response.failed", "response": {**response, "status": "failed", "error": error}}
        else:
            yield {"type": "response.completed", "response": {**response, "status": "completed"}}

    def _reasoning(self, text: str) -> Iterator[Json]:
        if self._open is None or self._open.item["type"] != "reasoning":
            yield from self._begin({"type": "reasoning", "id": f"rs_{self._token()}", "summary": []})
        assert self._open is not None
        self._open.text += text
        yield {"type": "response.reasoning_text.delta", **self._place(), "content_index": 0, "delta": text}

    def _text(self, text: str) -> Iterator[Json]:
        if self._open is None or self._open.item["type"] != "message":
            item = {"type": "message", "id": f"msg_{self._token()}", "role": "assistant", "content": []}
            yield from self._begin(item)
            part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            yield {"type": "response.content_part.added", **self._place(), "content_index": 0, "part": part}
        assert self._open is not None
        self._open.text += text
        yield {"type": "response.output_text.delta", **self._place(), "content_index": 0, "delta": text}

    def _call(self, call: Mapping[str, Any]) -> Iterator[Json]:
        function = call["function"]
        if self._is_new(call):
            item = {
                "type": "function_call",
                "id": f"fc_{self._token()}",
                "call_id": call["id"] or f"call_{self._token()}",
                "name": function["name"],
                "arguments": "",
            }
            yield from self._begin(item)
            assert self._open is not None
            self._open.key = (call["index"], call["id"])
        assert self._open is not None
        if arguments := function["arguments"]:
            self._open.text += arguments
            yield {"type": "response.function_call_arguments.delta", **self._place(), "delta": arguments}

    def _is_new(self, call: Mapping[str, Any]) -> bool:
        found = self._open
        if found is None or found.key is None:
            return True
        index, id = found.key
        if call["index"] != index:
            return True
        if call["id"] and call["id"] != id:
            return True
        return bool(call["function"]["name"]) and not call["id"] and bool(found.text)

    def _begin(self, item: Json) -> Iterator[Json]:
        yield from self._close()
        self._open = _Part(len(self._output), item)
        place = {"output_index": self._open.index}
        yield {"type": "response.output_item.added", **place, "item": {**item, "status": "in_progress"}}

    def _close(self) -> Iterator[Json]:
        found = self._open
        if found is None:
            return
        place = self._place()
        item = found.item
        cut = self._finish in _INCOMPLETE
        match item["type"]:
            case "message":
                part = {"type": "output_text", "text": found.text, "annotations": [], "logprobs": []}
                within = {**place, "content_index": 0}
                yield {"type": "response.output_text.done", **within, "text": found.text}
                yield {"type": "response.content_part.done", **within, "part": part}
                item = {**item, "content": [part], "status": "incomplete" if cut else "completed"}
            case "reasoning":
                yield {
                    "type": "response.reasoning_text.done",
                    **place,
                    "content_index": 0,
                    "text": found.text,
                }
                item = {**item, "content": [{"type": "reasoning_text", "text": found.text}]}
            case _:
                yield {"type": "response.function_call_arguments.done", **place, "arguments": found.text}
                item = {**item, "arguments": found.text, "status": "incomplete" if cut else "completed"}
        self._open = None
        self._output.append(item)
        yield {"type": "response.output_item.done", "output_index": place["output_index"], "item": item}

    def _place(self) -> Json:
        assert self._open is not None
        return {"output_index": self._open.index, "item_id": self._open.item["id"]}


def usage(raw: Mapping[str, Any]) -> Json:
    """Chat Completions' usage, checked, in the words of Responses."""
    fed, made = raw["prompt_tokens"], raw["completion_tokens"]
    return {
        "input_tokens": fed,
        "input_tokens_details": {"cached_tokens": raw["prompt_tokens_details"].get("cached_tokens", 0)},
        "output_tokens": made,
        "output_tokens_details": {
            "reasoning_tokens": raw["completion_tokens_details"].get("reasoning_tokens", 0)
        },
        "total_tokens": raw["total_tokens"] or fed + made,
    }
