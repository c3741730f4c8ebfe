"""One watcher, as the hub sees it: what it misses, what is under way to it, and what waits to be sent.

Words go before pictures; of pointer, cursor, screen and state only the latest is kept. So what waits
is bounded, however slowly its client reads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import trio

from .protocol import WINDOW
from .regions import Rects

SLOW_SECONDS = 0.12
"""A frame that takes longer than this to be acknowledged tells how thin the link is."""

THIN = 300_000
"""Bytes a second below which a link is thin."""

_TELLING_BYTES = 4_000
_MEMORY = 0.7


@dataclass(frozen=True, slots=True)
class _UnderWay:
    sequence: int
    sent_at: float
    size: int


class Watcher:
    """A mailbox for one client.

    Args:
        sees: Whether it may see the screen just now; asked again before every picture.
        video: It decodes H.264.
    """

    def __init__(self, *, sees: Callable[[], bool], video: bool) -> None:
        self.sees = sees
        self.video = video
        self.missing: Rects = ()
        self.rough: Rects = ()
        self.chained = False
        self.not_before = 0.0
        self.shown = False  # it has been sent anything that it would have to hide
        self._under_way: deque[_UnderWay] = deque()
        self._rate: float | None = None
        self._words: deque[str | bytes] = deque()
        self._latest: dict[str, str | bytes] = {}
        self._frames: deque[tuple[int, bytes]] = deque()
        self._news = trio.Event()

    @property
    def has_room(self) -> bool:
        return len(self._under_way) < WINDOW

    @property
    def thin(self) -> bool:
        """Its link is too slow for what tiles of a moving picture take."""
        return self._rate is not None and self._rate < THIN

    @property
    def oldest(self) -> float | None:
        """When the oldest frame that is not acknowledged was sent."""
        return self._under_way[0].sent_at if self._under_way else None

    def say(self, word: str, *, latest: str | None = None) -> None:
        """Send a text message; of several with the same *latest*, the last alone, after all others."""
        self._put(word, latest)

    def say_in_order(self, word: str, *, latest: str) -> None:
        """As `say`, but before whatever is said from here on; it replaces what waits as *latest*."""
        self._latest.pop(latest, None)
        self._put(word, None)

    def show_cursor(self, picture: bytes) -> None:
        self._put(picture, "cursor")

    def deliver(self, sequence: int, frame: bytes) -> None:
        """Send a frame; the caller has seen that there is room."""
        self._under_way.append(_UnderWay(sequence, trio.current_time(), len(frame)))
        self._frames.append((sequence, frame))
        self.shown = True
        self._wake()

    def acknowledge(self, sequence: int) -> None:
        """That frame, and all before it, have been drawn."""
        now = trio.current_time()
        outstanding = sum(frame.size for frame in self._under_way)
        while self._under_way and self._under_way[0].sequence <= sequence:
            frame = self._under_way.popleft()
            took = now - frame.sent_at
            if frame.size >= _TELLING_BYTES or took < SLOW_SECONDS:
                self._learn(outstanding / took if took > SLOW_SECONDS else 10 * THIN)

    def forget_frames(self) -> None:
        """Nothing that waits may be sent any more."""
        waiting = {sequence for sequence, _ in self._frames}
        self._under_way = deque(f for f in self._under_way if f.sequence not in waiting)
        self._frames.clear()
        self._latest.pop("pointer", None)
        self._latest.pop("cursor", None)

    async def next(self) -> str | bytes:
        """What to send next.

        Cancellation:
            Nothing is lost.
        """
        while True:
            if self._words:
                return self._words.popleft()
            if self._latest:
                return self._latest.pop(next(iter(self._latest)))
            if self._frames:
                return self._frames.popleft()[1]
            self._news = trio.Event()
            await self._news.wait()

    def _put(self, message: str | bytes, latest: str | None) -> None:
        if latest is None:
            self._words.append(message)
        else:
            self._latest[latest] = message
        self._wake()

    def _learn(self, rate: float) -> None:
        self._rate = rate if self._rate is None else _MEMORY * self._rate + (1 - _MEMORY) * rate

    def _wake(self) -> None:
        self._news.set()
