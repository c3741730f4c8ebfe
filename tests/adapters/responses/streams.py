"""What a well-formed stream of Responses events is, as a checker of our own: `faults` names what is wrong.

It follows the order that OpenAI's recordings have and SDKs rely on, knows nothing of how the gateway
makes its events, and is proved in test_streaming.py: every single mutation of a good stream is a fault.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter, ValidationError

Json = dict[str, Any]

UNION: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
TERMINAL = {"response.completed", "response.incomplete", "response.failed"}
ENDS = {"status", "output", "usage", "completed_at", "error", "incomplete_details"}
"""Fields of a Response that change while it is made."""
FILLED = {"status", "content", "arguments", "input", "summary", "output", "encrypted_content"}
"""Fields of an item that change while it is open."""


def faults(events: list[Json]) -> list[str]:
    """Every rule that *events* break; none for a good stream."""
    if not events:
        return ["there are no events"]
    found: list[str] = []
    if [event.get("sequence_number") for event in events] != list(range(len(events))):
        found.append("sequence numbers do not count up from 0")
    for event in events:
        found += _types(event)
    return found or [*_frame(events), *_items(events)]


def _types(event: Json) -> list[str]:
    """Whether it is an event of the SDK's union; the same event is judged once."""
    return _judged(json.dumps({**event, "sequence_number": 0}))


@cache
def _judged(text: str) -> list[str]:
    event = json.loads(text)
    try:
        made = UNION.validate_python(event)
    except ValidationError as exc:
        return [f"{event.get('type')}: {exc.errors()[0]['msg']} at {exc.errors()[0]['loc']}"]
    return [] if made.type == event["type"] else [f"{event['type']} is no event of the union"]


# -- the response ------------------------------------------------------------------------------------------


def _frame(events: list[Json]) -> Iterator[str]:
    """created, queued if it is, in_progress; the items; one end. The Response is the same all along."""
    of_response = [event for event in events if "response" in event]
    names = [event["type"].removeprefix("response.") for event in of_response]
    if names[:-1] not in (["created", "in_progress"], ["created", "queued", "in_progress"]):
        yield "it does not begin with created, in_progress"
    if of_response[:-1] != events[: len(of_response) - 1] or events[-1]["type"] not in TERMINAL:
        yield "created and in_progress are not its first events, and a terminal one its last"
        return
    last = events[-1]["response"]
    queued = "queued" in names
    for event in of_response[:-1]:
        begun = event["response"]
        waiting = queued and event["type"] != "response.in_progress"
        if begun["status"] != ("queued" if waiting else "in_progress"):
            yield f"{event['type']} has the status {begun['status']}"
        if begun.keys() != last.keys() or any(begun[name] for name in ENDS - {"status"}):
            yield f"{event['type']} has not the fields of a begun response"
        elif any(begun[name] != last[name] for name in last.keys() - ENDS):
            yield f"the response of {event['type']} is another than the last"
    told = "failed" if last["status"] == "cancelled" else last["status"]
    if events[-1]["type"] != f"response.{told}":
        yield f"{events[-1]['type']} ends a response that is {last['status']}"
    yield from _ending(last)


def _ending(last: Json) -> Iterator[str]:
    if (last["status"] == "completed") != (last["completed_at"] is not None):
        yield "completed_at is for completed responses"
    if last["completed_at"] is not None and last["completed_at"] < last["created_at"]:
        yield "it was completed before it was created"
    if (last["status"] == "failed") != (last["error"] is not None):
        yield "an error is for failed responses"
    if (last["status"] == "incomplete") != (last["incomplete_details"] is not None):
        yield "incomplete_details are for incomplete responses"
    usage = last["usage"]
    if usage and usage["total_tokens"] != usage["input_tokens"] + usage["output_tokens"]:
        yield "the tokens do not add up"
    unfinished = [item.get("status") == "incomplete" for item in last["output"]]
    if any(unfinished[:-1]):
        yield "an incomplete item is not the last one"


# -- its items ---------------------------------------------------------------------------------------------


def _items(events: list[Json]) -> Iterator[str]:
    opened: dict[int, _Item] = {}
    for event in events:
        index = event.get("output_index")
        if index is None:
            continue
        kind = event["type"].removeprefix("response.")
        if kind == "output_item.added":
            if index != len(opened):
                yield f"output index {index} is opened out of turn"
            opened[index] = _Item(event["item"])
            yield from _zero(event["item"])
        elif index not in opened or opened[index].closed is not None:
            yield f"{kind} for an item that is not open"
        elif kind == "output_item.done":
            yield from opened[index].close(event["item"])
        else:
            yield from opened[index].take(kind, event)
    closed = [item.closed for _, item in sorted(opened.items())]
    if None in closed:
        yield "an item is never closed"
    if events[-1].get("response", {}).get("output") != closed:
        yield "the final output is not what was streamed"
    yield from _unique([item for item in closed if item is not None])


def _zero(item: Json) -> Iterator[str]:
    full = item["type"] != "computer_call_output" and any(item.get(name) for name in FILLED - {"status"})
    if full or (item["type"] == "shell_call" and item["action"]["commands"]):
        yield f"{item['type']} is opened with content"
    if item.get("status", "in_progress") != "in_progress":
        yield f"{item['type']} is opened as {item['status']}"


def _unique(closed: list[Json]) -> Iterator[str]:
    ids = [item["id"] for item in closed]
    calls = [item["call_id"] for item in closed if item["type"].endswith("_call") and "call_id" in item]
    if len(set(ids)) < len(ids):
        yield "an item id is used twice"
    if len(set(calls)) < len(calls):
        yield "a call id is used twice"


PARTS = {
    "content_part": ("content_index", ("output_text", "text"), ("refusal", "refusal")),
    "reasoning_summary_part": ("summary_index", ("reasoning_summary_text", "text")),
}
"""Events that open and close a part, its index, and the texts that are told inside."""
TEXTS = {
    "output_text": ("content_index", "text"),
    "refusal": ("content_index", "refusal"),
    "reasoning_summary_text": ("summary_index", "text"),
    "reasoning_text": ("content_index", "text"),
    "function_call_arguments": (None, "arguments"),
    "custom_tool_call_input": (None, "input"),
    "shell_call_command": ("command_index", "command"),
}
"""Events that tell a text in deltas: its index, and the field that has it whole."""


@dataclass
class _Text:
    told: str = ""
    done: bool = False


@dataclass
class _Item:
    """An open item: its parts and texts so far, by kind and number."""

    added: Json
    closed: Json | None = None
    parts: dict[str, list[Json | None]] = field(default_factory=dict)
    texts: dict[tuple[str, int], _Text] = field(default_factory=dict)
    chunks: list[Json] = field(default_factory=list)
    streams: dict[tuple[int, str], str] = field(default_factory=dict)

    def take(self, kind: str, event: Json) -> Iterator[str]:
        """One event inside."""
        if "item_id" in event and event["item_id"] != self.added["id"]:
            yield f"{kind} names another item"
        name, _, what = kind.rpartition(".")
        if name in PARTS:
            yield from self._part(name, what, event)
        elif name in TEXTS:
            yield from self._text(name, what, event)
        elif name == "shell_call_output_content":
            yield from self._output(what, event)

    def _part(self, name: str, what: str, event: Json) -> Iterator[str]:
        parts, number = self.parts.setdefault(name, []), event[PARTS[name][0]]
        texts = [(kind, full) for kind, full in PARTS[name][1:] if full in event["part"]]
        if what == "added":
            if number != len(parts) or None in parts:
                yield f"{name} {number} is opened out of turn"
            if any(event["part"][full] for _, full in texts):
                yield f"{name} is opened with content"
            parts.append(None)
            return
        if number != len(parts) - 1 or parts[number] is not None:
            yield f"{name} {number} is closed and not open"
            return
        parts[number] = event["part"]
        for kind, full in texts:
            text = self.texts.get((kind, number), _Text())
            if not text.done or text.told != event["part"][full]:
                yield f"{name} {number} is closed with another text than was told"

    def _text(self, name: str, what: str, event: Json) -> Iterator[str]:
        index, full = TEXTS[name]
        number = event[index] if index else 0
        for part, (_, *kinds) in PARTS.items():
            parts = self.parts.get(part, [])
            inside = len(parts) == number + 1 and parts[number] is None
            if name in dict(kinds) and not inside:
                yield f"{name} outside of its part"
        known = (name, number) in self.texts
        text = self.texts.setdefault((name, number), _Text())
        if what == "added":  # commands alone are opened by themselves
            if known or event[full] or number != sum(kind == name for kind, _ in self.texts) - 1:
                yield f"{name} {number} is opened out of turn"
            return
        if text.done or (name == "shell_call_command" and not known):
            yield f"{name}.{what} for a text that is not open"
        if what == "delta":
            text.told += event["delta"]
            return
        text.done = True
        if event[full] != text.told:
            yield f"{name}.done is not the sum of its deltas"
        if name == "function_call_arguments" and event["name"] != self.added["name"]:
            yield f"{name}.done names another function"

    def _output(self, what: str, event: Json) -> Iterator[str]:
        number = event["command_index"]
        if number != len(self.chunks):
            yield f"output of command {number} out of turn"
        elif what == "delta":
            for stream, text in event["delta"].items():
                self.streams[number, stream] = self.streams.get((number, stream), "") + text
        else:
            (chunk,) = event["output"]
            self.chunks.append(chunk)
            if any(chunk[s] != self.streams.get((number, s), "") for s in ("stdout", "stderr")):
                yield f"the output of command {number} is not the sum of its deltas"

    def close(self, item: Json) -> Iterator[str]:
        """The item is done: nothing that was known of it has changed, and it is what was told."""
        self.closed = item
        kind = item["type"]
        open_ended = FILLED - {"output"} if kind == "computer_call_output" else FILLED
        fixed = [{k: v for k, v in one.items() if k not in open_ended} for one in (self.added, item)]
        if kind == "shell_call":
            fixed = [{**one, "action": {**one["action"], "commands": []}} for one in fixed]
        if fixed[0] != fixed[1]:
            yield f"what was known of a {kind} has changed"
        if kind != "reasoning" and self.added.keys() != item.keys():
            yield f"a {kind} is opened without fields that it has in the end"
        if item.get("status") == "in_progress" or ("status" in item) < ("status" in self.added):
            yield f"a {kind} is done without an end"
        if not all(text.done for text in self.texts.values()):
            yield f"a text of a {kind} is not done"
        if self._told(kind) != self._has(kind, item):
            yield f"a {kind} is done with something else than was told"

    def _told(self, kind: str) -> object:
        match kind:
            case "message":
                return self.parts.get("content_part", [])
            case "reasoning":
                content = [t.told for (name, _), t in self.texts.items() if name == "reasoning_text"]
                return self.parts.get("reasoning_summary_part", []), content
            case "shell_call_output":
                return self.chunks
            case "function_call" | "custom_tool_call" | "shell_call":
                return [text.told for text in self.texts.values()]
            case _:
                return None

    def _has(self, kind: str, item: Json) -> object:
        match kind:
            case "message":
                return item["content"]
            case "reasoning":
                return item["summary"], [part["text"] for part in item.get("content") or ()]
            case "shell_call_output":
                return item["output"]
            case "function_call":
                return [item["arguments"]]
            case "custom_tool_call":
                return [item["input"]]
            case "shell_call":
                return item["action"]["commands"]
            case _:
                return None
