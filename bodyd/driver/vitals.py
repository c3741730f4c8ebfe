"""What is well and what is not, as last seen, and when it is time to mend. Pure.

The counterpart that looks and mends is health.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field

READY, UNKNOWN = "ready", "unknown"
FROZEN, HUNG, DEAD, BLANK = "frozen", "hung", "dead", "blank"

MISSES = 3
"""So many looks in a row must have failed: a busy machine misses one."""


@dataclass(slots=True)
class Vitals:
    """One look at the body. It begins with the worst: whatever has not answered yet has not answered.

    Attributes:
        x: The X server: ready, or frozen (it runs and does not answer).
        window_manager: ready, hung, or unknown.
        capture: ready, dead (the X server answers, and no picture is to be had), or unknown.
        screen: ready, blank (windows are open and every pixel is the same), or unknown.
        round_trip: Seconds, if the X server answered.
    """

    x: str = FROZEN
    window_manager: str = HUNG
    capture: str = DEAD
    screen: str = UNKNOWN
    round_trip: float | None = None

    def states(self) -> dict[str, str]:
        """By component. While the X server does not answer, nobody can tell how the others are."""
        if self.x != READY:
            return {"x": self.x, "window_manager": UNKNOWN, "capture": UNKNOWN, "screen": UNKNOWN}
        return {
            "x": self.x,
            "window_manager": self.window_manager,
            "capture": self.capture,
            "screen": self.screen,
        }

    def trouble(self) -> str | None:
        """What is wrong, for a receipt; None if nothing is."""
        wrong = [f"{name} {state}" for name, state in self.states().items() if state not in (READY, UNKNOWN)]
        return ", ".join(wrong) or None


@dataclass(slots=True)
class Patience:
    """Counts failed looks in a row: `note` says when MISSES of them have lasted for *seconds*."""

    seconds: float
    misses: int = 0
    since: float = field(default=0.0)

    def note(self, well: bool, now: float) -> bool:
        """Whether it is time to mend; the count then begins anew."""
        if well:
            self.misses = 0
            return False
        if self.misses == 0:
            self.since = now
        self.misses += 1
        if self.misses < MISSES or now - self.since < self.seconds:
            return False
        self.misses = 0
        return True


@dataclass(slots=True)
class Escalation:
    """The gentle remedy first, the strong one if it was needed again within *memory* seconds."""

    memory: float
    last: float | None = None

    def strong(self, now: float) -> bool:
        """Whether the remedy needed now is the strong one."""
        again = self.last is not None and now - self.last < self.memory
        self.last = None if again else now
        return again
