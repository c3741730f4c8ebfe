"""What happened, as told to watchers (`GET /v1/events`, console, audit): past tense, no pixels."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Event(BaseModel):
    """One happening.

    Attributes:
        type: "lease.granted", "action.completed", "display.restarted", …
        at: Unix milliseconds.
        data: JSON-able facts; no secrets, typed text or pixels.
    """

    model_config = ConfigDict(frozen=True)
    type: str
    at: int
    data: dict[str, object] = {}
