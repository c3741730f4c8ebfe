"""One round of the model: the server's events in, public events and finished items out.

Pure. Text streams through as it comes, under our output indexes; what stands for a public call is held
back until it is whole. An item that was never opened is opened before it is closed, and one that was
never closed is closed as incomplete, so that a careless server makes no malformed stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import incoming, lifecycle, restoring
from .registry import Registry
from .restoring import Malformed
from .wire import CALLS

Json = dict[str, Any]

NewId = Callable[[str], str]
"""Makes an id of an item type (or of "call")."""

_TERMINAL = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "failed",
}
_ACCUMULATED = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.function_call_arguments.delta": "arguments",
    "response.custom_tool_call_input.delta": "input",
}
_IN_PARTS = ("response.output_text.", "response.refusal.", "response.content_part.done")
"""Events inside a part, which is opened where the server didn't."""
_TEXT: Json = {"type": "output_text", "text": ""}
_REFUSAL: Json = {"type": "refusal", "refusal": ""}
RELAYED = frozenset(
    f"response.{name}"
    for name in (
        "content_part.added content_part.done output_text.delta output_text.done "
        "output_text.annotation.added refusal.delta refusal.done reasoning_text.delta reasoning_text.done "
        "reasoning_summary_part.added reasoning_summary_part.done reasoning_summary_text.delta "
        "reasoning_summary_text.done function_call_arguments.delta function_call_arguments.done "
        "custom_tool_call_input.delta custom_tool_call_input.done web_search_call.in_progress "
        "web_search_call.searching web_search_call.completed file_search_call.in_progress "
        "file_search_call.searching file_search_call.completed code_interpreter_call.in_progress "
        "code_interpreter_call.interpreting code_interpreter_call.completed code_interpreter_call_code.delta "
        "code_interpreter_call_code.done image_generation_call.in_progress image_generation_call.generating "
        "image_generation_call.partial_image image_generation_call.completed mcp_call.in_progress "
        "mcp_call.completed mcp_call.failed mcp_call_arguments.delta mcp_call_arguments.done "
        "mcp_list_tools.in_progress mcp_list_tools.completed mcp_list_tools.failed"
    ).split()
)
"""Events about an open item that clients' unions have; others are not passed on."""


@dataclass(slots=True)
class _Open:
    """An item that has begun and is not held back."""

    index: int
    item: Json
    parts: list[Json] = field(default_factory=list)
    text: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Round:
    """Feed it every event of one upstream response.

    Attributes:
        next_index: The output index of the next item that is shown.
        items: Finished items in public form, in the order in which they ended.
        hidden: Says of a public item that clients don't see it.
        taken: Ids and call ids that are used up in this conversation; grows.
        status: completed, incomplete or failed, once the server has said so.
    """

    registry: Registry
    new_id: NewId
    next_index: int
    hidden: Callable[[Json], bool]
    taken: set[str]
    items: list[Json | Malformed] = field(default_factory=list)
    shown: list[Json] = field(default_factory=list)
    status: str | None = None
    usage: Json | None = None
    error: Json | None = None
    reason: str | None = None
    _open: dict[int, _Open] = field(default_factory=dict)
    _held: set[int] = field(default_factory=set)
    _ended: set[int] = field(default_factory=set)

    def feed(self, event: Mapping[str, Any]) -> list[Json]:
        """The public events that *event* comes to.

        Raises:
            UpstreamFailed: it makes no sense.
        """
        kind = str(event.get("type"))
        if self.status is not None:
            return []
        if kind == "response.output_item.added":
            return self._added(incoming.index(event.get("output_index")), incoming.item(event.get("item")))
        if kind == "response.output_item.done":
            return self._done(incoming.index(event.get("output_index")), incoming.item(event.get("item")))
        if kind in _TERMINAL:
            return self._terminal(_TERMINAL[kind], incoming.error(event.get("response")))
        if kind == "error":
            self.status, self.error = "failed", incoming.error(event.get("error") or event)
            return self.abandon()
        if kind in RELAYED:
            found = self._open.get(incoming.index(event.get("output_index")))
            if found is not None and incoming.suits(kind, found.item["type"]):
                return self._relayed(found, kind, incoming.event(event))
        return []

    def abandon(self) -> list[Json]:
        """Close what is open as incomplete: the server broke off."""
        events: list[Json] = []
        for index in sorted(self._open, key=lambda each: self._open[each].index):
            events += self._closed_early(self._open[index])
            self._ended.add(index)
        self._open.clear()
        return events

    def _added(self, index: int, raw: Json) -> list[Json]:
        if index in self._open or index in self._held or index in self._ended:
            return []
        if restoring.held_back(raw, self.registry):
            self._held.add(index)
            return []
        item = self._identified(_renamed(raw, self.registry))
        self._open[index] = _Open(self._next(), item)
        shown = lifecycle.opened(lifecycle.finished(item))
        place = {"output_index": self._open[index].index}
        return [{"type": "response.output_item.added", **place, "item": shown}]

    def _relayed(self, found: _Open, kind: str, event: Json) -> list[Json]:
        events: list[Json] = []
        number = event.get("content_index", 0)
        if kind == "response.content_part.added":
            if number != len(found.parts):
                return []
            found.parts.append({**event["part"]})
        elif kind.startswith(_IN_PARTS) and number >= len(found.parts):
            if number > len(found.parts):
                return []
            part = _REFUSAL if kind.startswith("response.refusal.") else _TEXT
            added = {"type": "response.content_part.added", "content_index": number, "part": part}
            events = self._relayed(found, added["type"], added)
        if (name := _ACCUMULATED.get(kind)) is not None:
            _accumulate(found, name, event)
        told = {**event, "output_index": found.index, "item_id": found.item["id"]}
        if kind.startswith("response.output_text."):
            told.setdefault("logprobs", [])
        if kind == "response.function_call_arguments.done":
            told["name"] = found.item["name"]
        if kind in ("response.content_part.added", "response.content_part.done"):
            told["part"] = lifecycle.finished_part(told["part"])
        return [*events, told]

    def _done(self, index: int, raw: Json) -> list[Json]:
        if index in self._ended:
            return []
        self._ended.add(index)
        self._held.discard(index)
        found = self._open.pop(index, None)
        public = restoring.item(raw, self.registry)
        if isinstance(public, Malformed):
            self.items.append(Malformed(self._identified(public.item), public.reason))
            return []
        if found is not None:
            item = lifecycle.finished({**public, **_names(found.item)})
            self._keep(item, shown=True)
            return [{"type": "response.output_item.done", "output_index": found.index, "item": item}]
        item = lifecycle.finished(self._identified(public))
        if self.hidden(item):
            self._keep(item, shown=False)
            return []
        self._keep(item, shown=True)
        return list(lifecycle.events(item, self._next()))

    def _terminal(self, status: str, response: Mapping[str, Any]) -> list[Json]:
        events: list[Json] = []
        for index, raw in enumerate(incoming.output(response)):
            events += self._done(index, incoming.item(raw))
        self.status = status
        self.usage = incoming.usage(response.get("usage"))
        if status == "incomplete":
            self.reason = incoming.reason(response.get("incomplete_details"))
        if status == "failed":
            self.error = incoming.error(response.get("error"))
        return events + self.abandon()

    def _closed_early(self, found: _Open) -> list[Json]:
        place = {"output_index": found.index}
        item = {**found.item, **found.text}
        events: list[Json] = []
        if item["type"] == "message":
            item["content"] = found.parts
            for number, part in enumerate(found.parts):
                within = {**place, "item_id": item["id"], "content_index": number}
                if part["type"] == "output_text":
                    done = {"type": "response.output_text.done", "text": part["text"], "logprobs": []}
                    events.append({**done, **within})
                closed = lifecycle.finished_part(part)
                events.append({"type": "response.content_part.done", **within, "part": closed})
        item = lifecycle.finished({**item, "status": "incomplete"})
        self._keep(item, shown=True)
        return [*events, {"type": "response.output_item.done", **place, "item": item}]

    def _keep(self, item: Json, *, shown: bool) -> None:
        self.items.append(item)
        if shown:
            self.shown.append(item)

    def _next(self) -> int:
        self.next_index += 1
        return self.next_index - 1

    def _identified(self, item: Json) -> Json:
        """*item* with an id, and a call_id if it is a call, that nothing in the conversation has."""
        found = {**item, "id": self._unused(item.get("id"), item["type"])}
        if item["type"] in CALLS or (item["type"].endswith("_call") and "call_id" in item):
            found["call_id"] = self._unused(item.get("call_id"), "call")
        return found

    def _unused(self, wanted: object, kind: str) -> str:
        fits = isinstance(wanted, str) and 0 < len(wanted) <= 200 and wanted not in self.taken
        name = str(wanted) if fits else self.new_id(kind)
        self.taken.add(name)
        return name


def _renamed(raw: Json, registry: Registry) -> Json:
    """A function's call under the name that the client gave it; its arguments are still to come."""
    text = {"function_call": "arguments", "custom_tool_call": "input"}.get(str(raw.get("type")))
    if text is None:
        return raw
    public = restoring.item({text: "", **raw}, registry)
    return raw if isinstance(public, Malformed) else public


def _names(item: Json) -> Json:
    return {name: item[name] for name in ("id", "call_id") if name in item}


def _accumulate(found: _Open, name: str, event: Mapping[str, Any]) -> None:
    if name in ("text", "refusal"):
        number = event.get("content_index", 0)
        if isinstance(number, int) and number < len(found.parts):
            part = found.parts[number]
            part[name] = part.get(name, "") + event["delta"]
    else:
        found.text[name] = found.text.get(name, "") + event["delta"]
