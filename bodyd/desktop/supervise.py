"""Supervision: a program that ends is started again, at once at first, ever later if it keeps ending."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import structlog
import trio

DELAYS = (0.05, 0.5, 1.0, 2.0, 5.0)
HEALTHY_S = 30.0

log = structlog.get_logger("bodyd.desktop")


class Backoff:
    """How long to wait before the next start; a run of HEALTHY_S forgives the failures before it."""

    def __init__(self) -> None:
        self._failures = 0

    def after(self, lived: float) -> float:
        """The delay, in seconds, after a life of *lived* seconds; never over the last of DELAYS."""
        if lived >= HEALTHY_S:
            self._failures = 0
        delay = DELAYS[min(self._failures, len(DELAYS) - 1)]
        self._failures += 1
        return delay


@dataclass(slots=True)
class Component:
    """One supervised part, as /readyz shows it.

    Attributes:
        state: starting, running, restarting or stopped.
        pid: On the host, while it runs.
        restarts: Ends that nobody asked for, since the daemon started.
    """

    name: str
    state: str = "starting"
    pid: int | None = None
    restarts: int = 0
    detail: str = ""
    _backoff: Backoff = field(default_factory=Backoff, repr=False)

    def to_json(self) -> dict[str, object]:
        shown: dict[str, object] = {"state": self.state, "pid": self.pid, "restarts": self.restarts}
        return {**shown, "detail": self.detail} if self.detail else shown

    async def supervise(self, run: Callable[[], Awaitable[int]]) -> None:
        """Call *run*, which returns a program's exit status, again and again until cancelled.

        Raises: whatever *run* raises: that is not an end of the program but of its surroundings.
        """
        while True:
            began = trio.current_time()
            status = await run()
            self.pid = None
            self.state = "restarting"
            self.restarts += 1
            self.detail = f"ended with status {status}"
            delay = self._backoff.after(trio.current_time() - began)
            log.warning("component_ended", component=self.name, status=status, restart_in_s=delay)
            await trio.sleep(delay)
