"""What one connection remembers: its last response with `store: false`, so that it can be continued there.

Source: OpenAI Responses API, WebSocket mode; Open Responses, WebSocket transport: a continuation that
fails evicts what it continued.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from . import pictures
from .history import Kept

MOST_PICTURES = 64 * 1024 * 1024
"""Bytes of pictures; the oldest are forgotten first."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """A response that is in no store, with everything before it."""

    id: str
    root: str
    items: tuple[Kept, ...]
    images: dict[str, bytes] = field(repr=False)


class Memory:
    """At most one response."""

    def __init__(self) -> None:
        self._last: Remembered | None = None

    def of(self, id: object) -> Remembered | None:
        """The response of that id, if it is the one."""
        return self._last if self._last is not None and self._last.id == id else None

    def keep(self, id: str, root: str, items: Sequence[Kept], images: Mapping[str, bytes]) -> None:
        sizes = {digest: len(data) for digest, data in images.items()}
        _, stay = pictures.within([kept.item for kept in items], sizes, MOST_PICTURES)
        self._last = Remembered(id, root, tuple(items), {digest: images[digest] for digest in stay})

    def evict(self, id: object) -> None:
        """Forget the response of that id: a continuation of it failed."""
        if self.of(id) is not None:
            self._last = None
