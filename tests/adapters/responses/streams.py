"""What a well-formed stream of Responses events is, as a checker of our own: `faults` names what is wrong."""

from __future__ import annotations

from typing import Any

from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter, ValidationError

Json = dict[str, Any]

UNION: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
TERMINAL = {"response.completed", "response.incomplete", "response.failed"}
FILLED = {
    "response.output_text.delta": "text",
    "response.function_call_arguments.delta": "arguments",
    "response.shell_call_command.delta": "command",
}


def faults(events: list[Json]) -> list[str]:
    """Every rule that *events* break; none for a good stream."""
    found: list[str] = []
    if [event.get("sequence_number") for event in events] != list(range(len(events))):
        found.append("sequence numbers do not count up from 0")
    if not events or events[0]["type"] != "response.created":
        found.append("the first event is not response.created")
    if not events or events[-1]["type"] not in TERMINAL:
        found.append("the last event is not terminal")
    if sum(event["type"] in TERMINAL for event in events) != 1:
        found.append("there is not exactly one terminal event")
    ids = {event["response"]["id"] for event in events if "response" in event}
    if len(ids) > 1:
        found.append("the response id changes")
    for event in events:
        found += _types(event)
    return found + _items(events)


def _types(event: Json) -> list[str]:
    try:
        made = UNION.validate_python(event)
    except ValidationError as exc:
        return [f"{event['type']}: {exc.errors()[0]['msg']} at {exc.errors()[0]['loc']}"]
    return [] if made.type == event["type"] else [f"{event['type']} is no event of the union"]


def _items(events: list[Json]) -> list[str]:
    found: list[str] = []
    opened: dict[int, Json] = {}
    closed: dict[int, Json] = {}
    text: dict[tuple[int, int], str] = {}
    for event in events:
        index = event.get("output_index")
        if index is None:
            continue
        if event["type"] == "response.output_item.added":
            if index != len(opened):
                found.append(f"output index {index} is opened out of turn")
            opened[index] = event["item"]
            found += _zero(event["item"])
        elif index not in opened or index in closed:
            found.append(f"{event['type']} for an item that is not open")
        elif event["type"] == "response.output_item.done":
            closed[index] = event["item"]
            for name in ("id", "call_id", "type"):
                if event["item"].get(name) != opened[index].get(name):
                    found.append(f"the {name} of item {index} changes")
            if event["item"].get("status") == "in_progress":
                found.append(f"item {index} is done and in progress")
        else:
            if "item_id" in event and event["item_id"] != opened[index]["id"]:
                found.append(f"{event['type']} names another item")
            found += _text(event, text)
    if opened.keys() != closed.keys():
        found.append("an item is never closed")
    final = events[-1].get("response", {}).get("output") if events else None
    if final != [closed[index] for index in sorted(closed)]:
        found.append("the final output is not what was streamed")
    return found + _unique(closed)


def _zero(item: Json) -> list[str]:
    full = item.get("content") or item.get("arguments") or item.get("summary")
    if item["type"] == "shell_call":
        full = item["action"]["commands"]
    return [f"{item['type']} is opened with content"] if full else []


def _text(event: Json, text: dict[tuple[int, int], str]) -> list[str]:
    where = (event["output_index"], event.get("content_index", event.get("command_index", 0)))
    if event["type"] in FILLED:
        text[where] = text.get(where, "") + event["delta"]
    name = FILLED.get(event["type"].removesuffix("done") + "delta")
    if event["type"].endswith(".done") and name is not None and event[name] != text.get(where, ""):
        return [f"{event['type']} is not the sum of its deltas"]
    return []


def _unique(closed: dict[int, Json]) -> list[str]:
    ids = [item["id"] for item in closed.values()]
    calls = [item["call_id"] for item in closed.values() if item["type"].endswith("_call")]
    found = ["an item id is used twice"] if len(set(ids)) < len(ids) else []
    return found + (["a call id is used twice"] if len(set(calls)) < len(calls) else [])
