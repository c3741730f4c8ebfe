"""Figures of several actors doing the same in turns, and their rows: ours beside each peer's."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from bench.peers import Peer, PeerFailed, Took


class Actor(Protocol):
    """Whoever is measured."""

    name: str

    @property
    def call(self) -> Callable[..., Awaitable[Took]]: ...


class Comparison:
    """What *ours* and *peers* took to do one kind of thing."""

    def __init__(self, do: str, ours: Actor, peers: Sequence[Peer]) -> None:
        self.actors: list[Actor] = [ours, *peers]
        self._do, self._ours, self._peers = do, ours, peers
        self._figures: dict[tuple[str, str], list[float]] = defaultdict(list)

    async def attempt(self, actor: Actor, **arguments: int | str) -> Took | None:
        """Have it done, or return None if a peer fails; its note says why."""
        try:
            return await actor.call(self._do, **arguments)
        except PeerFailed:
            return None

    def add(self, what: str, actor: Actor, value: float) -> None:
        self._figures[what, actor.name].append(value)

    def median(self, what: str, actor: Actor) -> float | None:
        figures = self._figures[what, actor.name]
        return statistics.median(figures) if figures else None

    def worst(self, what: str) -> int:
        """The least of ours."""
        return int(min(self._figures[what, self._ours.name]))

    def rows(self, what: str, name: str, unit: str, bar: float | None = None) -> list[dict[str, Any]]:
        """A row for each peer, with our own figure in each; the bar stands in the first."""
        value = self.median(what, self._ours)
        assert value is not None
        found: list[dict[str, Any]] = []
        for peer in self._peers:
            figure = self.median(what, peer)
            theirs: dict[str, Any] = {"name": peer.name, "value": None if figure is None else rounded(figure)}
            if figure is None:
                theirs["note"] = peer.why(self._do) or "nothing of it arrived"
            found.append({**row(name, value, unit, None if found else bar), "peer": theirs})
        return found


def row(name: str, value: float, unit: str, bar: float | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "value": rounded(value), "unit": unit}
    return found if bar is None else {**found, "bar": rounded(bar), "ok": value <= bar}


def rounded(value: float) -> float:
    return int(value) if value == int(value) else round(value) if value >= 1000 else round(value, 3)
