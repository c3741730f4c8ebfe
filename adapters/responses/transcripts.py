"""The events of a response as they were told, packed for the store, so that they can be told again by number.

Pure. The Response objects in them are left out: they follow from the stored one. Pictures are told by
reference. A response whose events were lost (the daemon was killed) is told anew, its items whole.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic_core import from_json, to_json

from . import lifecycle, pictures

Json = dict[str, Any]

LEVEL = 1


def pack(events: Sequence[Json]) -> Json:
    """*events*, all but the terminal one, as a document's body."""
    told = [_packed(event) for event in events]
    return {"events": base64.b64encode(zlib.compress(to_json(told), LEVEL)).decode("ascii")}


def unpack(body: Json, response: Json) -> list[Json]:
    """The events of *response*, which has ended, with the numbers that they had."""
    told = from_json(zlib.decompress(base64.b64decode(body["events"])))
    return _numbered([*(_unpacked(event, response) for event in told), _terminal(response)])


def anew(response: Json, after: int) -> list[Json]:
    """Events for a *response* whose own were lost. Whoever had got further is still told how it ended."""
    events = _numbered([*_told(response), _terminal(response)])
    if after >= len(events) - 1:
        events[-1]["sequence_number"] = after + 1
    return events


def _packed(event: Json) -> Json:
    kept = {name: value for name, value in event.items() if name != "sequence_number"}
    if "response" in kept:
        kept["response"] = kept["response"]["status"]
    elif "item" in kept:
        kept["item"] = pictures.take(kept["item"], {})
    return kept


def _unpacked(event: Json, response: Json) -> Json:
    if "response" in event:
        return {**event, "response": _begun(response, event["response"])}
    if "item" in event:
        return {**event, "item": pictures.by_reference(event["item"])}
    return event


def _told(response: Json) -> Iterator[Json]:
    begun = _begun(response, "in_progress")
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(response["output"]):
        yield from lifecycle.events(item, index)


def _begun(response: Json, status: str) -> Json:
    unset = dict.fromkeys(("usage", "completed_at", "error", "incomplete_details"))
    return {**response, "status": status, "output": [], **unset}


def _terminal(response: Json) -> Json:
    last = response["status"] if response["status"] in ("completed", "incomplete") else "failed"
    return {"type": f"response.{last}", "response": response}


def _numbered(events: Sequence[Json]) -> list[Json]:
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]
