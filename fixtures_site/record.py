"""What happened on the page in one run: kept by the server, told by the page, read by the grader.

Pure. The page is inside the body and may be anything by the time it speaks, so every event is
checked, and one that arrives twice (a repeated POST) counts once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MAX_EVENTS = 5_000
MAX_TEXT = 2_000


class BadEvent(ValueError):
    """An event that the page's own script does not send."""


@dataclass(slots=True)
class Record:
    """One run.

    Attributes:
        run: Its name; events of another run are refused.
        toggles: How often the panel was opened or closed by its button.
        log: Every event in order: {n, type, ...}.
    """

    run: str
    seed: int
    panel_open_at_start: bool
    panel_open: bool = field(init=False)
    toggles: int = 0
    search: str = ""
    shown: int = 0
    log: list[dict[str, Any]] = field(default_factory=list)
    _seen: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.panel_open = self.panel_open_at_start

    def take(self, page: str, events: object) -> int:
        """Apply what one load of the page, named *page*, reports; returns how many were new.

        Raises:
            BadEvent: nothing of the list was applied.
        """
        if not isinstance(events, list):
            raise BadEvent("`events` must be a list")
        checked = [_check(event) for event in events]
        fresh = [event for event in checked if event["n"] > self._seen.get(page, 0)]
        if len(self.log) + len(fresh) > MAX_EVENTS:
            raise BadEvent(f"more than {MAX_EVENTS} events in one run; reset it")
        for event in fresh:
            self._seen[page] = event["n"]
            self._apply(event)
            self.log.append({**event, "n": len(self.log) + 1})
        return len(fresh)

    def _apply(self, event: dict[str, Any]) -> None:
        match event["type"]:
            case "shown":
                self.shown += 1
            case "toggle":
                self.toggles += 1
                self.panel_open = event["open"]
            case _:
                self.search = event["value"]

    def state(self) -> dict[str, Any]:
        """A copy as JSON."""
        return {
            "run": self.run,
            "seed": self.seed,
            "panel_open_at_start": self.panel_open_at_start,
            "panel_open": self.panel_open,
            "toggles": self.toggles,
            "search": self.search,
            "shown": self.shown,
            "log": [dict(event) for event in self.log],
        }


def _check(event: object) -> dict[str, Any]:
    match event:
        case {"n": int(n), "type": "shown"} if not isinstance(n, bool):
            return {"n": n, "type": "shown"}
        case {"n": int(n), "type": "toggle", "open": bool(is_open)} if not isinstance(n, bool):
            return {"n": n, "type": "toggle", "open": is_open}
        case {"n": int(n), "type": "search", "value": str(value)} if not isinstance(n, bool):
            if len(value) > MAX_TEXT:
                raise BadEvent(f"a search text has at most {MAX_TEXT} characters")
            return {"n": n, "type": "search", "value": value}
        case _:
            pass
    raise BadEvent("an event is {n, type: shown | toggle with open | search with value}")
