"""What changed on the screen, when, and whether it matters. Pure: times and rectangles come in.

A *mark* is taken before an input; changes after it are its own, except in regions that were busy at
the mark: changing again and again by themselves (a caret, a video). Counterpart: watch.py, which
feeds this from XDamage. Times are seconds of one monotonic clock.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from bodyd.contract.geometry import Bounds

BUSY_WINDOW = 2.2
"""Seconds looked back: three phases of the slowest usual caret (0.6 s) and some."""

BUSY_CHANGES = 3
BUSY_SPAN = 0.5
"""So many changes over so many seconds make a region busy: a page painted in three steps is not."""

MARK_LIFE = 10.0
"""Seconds after which a forgotten mark no longer counts its changes as caused by input."""

BUSY_FRESH = 0.75
"""A region that has been still for longer is busy no more: a page that was being painted is done."""

CARET_WIDTH = 4
"""Pixels: what is narrower is a caret; everything else is a sign of an app at work."""

LONGEST_PATIENCE = 0.25
"""Seconds that a settle waits at most for a first change, where apps have lately been slow to show one."""

_REACTED_WITHIN = 0.5  # seconds: what changes later was not the input's doing, as a rule
_SPARE = 1.5  # times the usual reaction
_RISE, _FALL, _FADE = 0.5, 0.2, 0.8

_SLACK = 2  # pixels by which repeated changes of one thing may differ
_MOST_RECTS = 48
_MOST_BATCHES = 512


@dataclass(frozen=True, slots=True)
class Settled:
    """How a settle ended.

    Attributes:
        quiet: Nothing that matters changed for the time asked for; False: the cap came first.
        changed: What has changed since the mark, busy regions left out, coarsely joined.
    """

    quiet: bool
    changed: tuple[Bounds, ...]


class Mark:
    """The state of the screen's activity at one moment, and its own changes since.

    Attributes:
        at: When it was taken.
        busy: Regions to ignore.
        last: When something that matters changed last; None if nothing did.
    """

    __slots__ = ("__weakref__", "_changed", "at", "busy", "last", "settled")

    def __init__(self, at: float, busy: tuple[Bounds, ...]) -> None:
        self.at = at
        self.busy = busy
        self.last: float | None = None
        self.settled = False
        self._changed: list[Bounds] = []

    @property
    def changed(self) -> tuple[Bounds, ...]:
        return tuple(self._changed)

    def ignores(self, rect: Bounds) -> bool:
        return any(_inside(rect, box) for box in self.busy)

    def note(self, at: float, rects: Iterable[Bounds]) -> None:
        own = [rect for rect in rects if not self.ignores(rect)]
        if own:
            self.last = at
            for rect in own:
                join(self._changed, rect)


@dataclass(slots=True)
class _Batch:
    at: float
    rects: tuple[Bounds, ...]
    background: bool  # not known to be caused by input: evidence that a region is busy


class Activity:
    """The record of changes, and the marks that are watching.

    Attributes:
        at_work: When something wider than a caret changed last.
    """

    def __init__(self) -> None:
        self._batches: deque[_Batch] = deque(maxlen=_MOST_BATCHES)
        self._marks: weakref.WeakSet[Mark] = weakref.WeakSet()
        self.at_work = float("-inf")
        self._reaction = 0.0  # seconds that apps have lately taken to show something after an input
        self._awaited: tuple[Mark, float] | None = None

    def note(self, at: float, rects: Iterable[Bounds]) -> None:
        """Some rectangles have changed."""
        coarse: list[Bounds] = []
        for rect in rects:
            join(coarse, rect)
        if any(rect.width > CARET_WIDTH for rect in coarse):
            self.at_work = at
        watching = [m for m in self._marks if not m.settled and at - m.at < MARK_LIFE]
        for mark in watching:
            mark.note(at, coarse)
        self._learn(at, coarse)
        own = [r for r in coarse if any(not m.ignores(r) for m in watching)]
        ambient = [r for r in coarse if r not in own]
        for rects_, background in ((own, False), (ambient, True)):
            if rects_:
                self._batches.append(_Batch(at, tuple(rects_), background))

    def mark(self, at: float) -> Mark:
        mark = Mark(at, self._busy(at))
        self._marks.add(mark)
        return mark

    def await_reaction(self, mark: Mark, at: float) -> float:
        """All inputs of *mark* are sent; how long apps may take to react, in seconds: 0 if they are quick.

        How long they do take is learnt from what comes, even after the wait for it is over.
        """
        self._reaction *= 1.0 if self._awaited is None else _FADE  # nothing came of the last one
        self._awaited = (mark, at)
        return min(LONGEST_PATIENCE, self._reaction * _SPARE)

    def _learn(self, at: float, rects: Iterable[Bounds]) -> None:
        if self._awaited is None or all(self._awaited[0].ignores(rect) for rect in rects):
            return
        took, self._awaited = at - self._awaited[1], None
        if took <= _REACTED_WITHIN:
            self._reaction += (took - self._reaction) * (_RISE if took > self._reaction else _FALL)

    def settle(self, mark: Mark, *, quiet: bool) -> Settled:
        """The wait for *mark* is over. If it never became quiet, what kept it busy is busy from now on."""
        mark.settled = True
        self._marks.discard(mark)
        if not quiet:
            for batch in self._batches:
                if batch.at >= mark.at:
                    batch.background = True
        return Settled(quiet, mark.changed)

    def _busy(self, now: float) -> tuple[Bounds, ...]:
        clusters: list[tuple[Bounds, list[float]]] = []
        for batch in self._batches:
            if not batch.background or now - batch.at > BUSY_WINDOW:
                continue
            for rect in batch.rects:
                box, times = rect, [batch.at]
                apart = []
                for other, other_times in clusters:
                    if _touches(box, other):
                        box, times = box.union(other), sorted({*times, *other_times})
                    else:
                        apart.append((other, other_times))
                clusters = [*apart, (box, times)]
        return tuple(
            box
            for box, times in clusters
            if len(times) >= BUSY_CHANGES
            and times[-1] - times[0] >= BUSY_SPAN
            and now - times[-1] <= BUSY_FRESH
        )


def join(rects: list[Bounds], rect: Bounds) -> None:
    """Add *rect* to a short list: into a rectangle that hardly grows by it, or as its own."""
    for index, other in enumerate(rects):
        both = other.union(rect)
        if _area(both) <= (_area(other) + _area(rect)) * 5 // 4:
            rects[index] = both
            return
    rects.append(rect)
    if len(rects) > _MOST_RECTS:
        last, before = rects.pop(), rects.pop()
        rects.append(last.union(before))


def _area(rect: Bounds) -> int:
    return rect.width * rect.height


def _inside(rect: Bounds, box: Bounds) -> bool:
    return (
        rect.x >= box.x - _SLACK
        and rect.y >= box.y - _SLACK
        and rect.right <= box.right + _SLACK
        and rect.bottom <= box.bottom + _SLACK
    )


def _touches(one: Bounds, other: Bounds) -> bool:
    return (
        one.x <= other.right + _SLACK
        and other.x <= one.right + _SLACK
        and one.y <= other.bottom + _SLACK
        and other.y <= one.bottom + _SLACK
    )
