"""What an input is known to have done: readbacks only, never a guess. Pure.

Windows that opened, closed, became active or changed their title are evidence for the input before
them, if they are of an app that the batch has acted on, and except titles that were changing by
themselves. Changed pixels are reported and confirm
nothing. The counterpart that reads the screen is dispatcher.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bodyd.contract import actions as a
from bodyd.contract.inventory import Window
from bodyd.contract.receipts import Effect, Outcome

_MANAGERS = frozenset({"window_activated", "window_minimised", "window_restored"})


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between two looks at the windows: what, and which window."""

    kind: str
    window: int


def changes(
    before: Sequence[Window], after: Sequence[Window], *, restless: frozenset[int] = frozenset()
) -> tuple[Change, ...]:
    """The differences between two looks, the most telling first.

    `restless` windows change their title without input: that proves nothing.
    """
    old, new = {w.id: w for w in before}, {w.id: w for w in after}
    found = [Change("window_opened", w) for w in new.keys() - old.keys()]
    found += [Change("window_closed", w) for w in old.keys() - new.keys()]
    for window in new.keys() & old.keys():
        was, now = old[window], new[window]
        if now.active and not was.active:
            found.append(Change("window_activated", window))
        if now.title != was.title and window not in restless:
            found.append(Change("window_retitled", window))
        if now.minimised != was.minimised:
            found.append(Change("window_minimised" if now.minimised else "window_restored", window))
    return tuple(found)


def attributable(
    found: Sequence[Change], clients: Mapping[int, int], touched: frozenset[int], *, managed: bool
) -> tuple[Change, ...]:
    """Those of *found* that the input can have brought about: an app that got none acts by itself.

    Args:
        clients: The X client of each window.
        touched: The clients that the batch was aimed at.
        managed: The input was for the window manager, which may activate and hide any window.
    """
    return tuple(
        change
        for change in found
        if clients.get(change.window) in touched or (managed and change.kind in _MANAGERS)
    )


def activated(found: Sequence[Change]) -> frozenset[int]:
    """The windows that have become active."""
    return frozenset(c.window for c in found if c.kind == "window_activated")


@dataclass(slots=True)
class Restless:
    """Windows whose titles change by themselves: noticed between batches, forgotten after a while.

    One such change may be a page that was slow to load; a second makes it a habit, remembered longer.
    """

    memory: float = 10.0
    habit: float = 120.0
    _seen: dict[int, tuple[float, ...]] = field(default_factory=dict)

    def note(self, before: Sequence[Window], after: Sequence[Window], now: float) -> None:
        """Two looks with no input between them."""
        old = {w.id: w.title for w in before}
        for window in after:
            if window.id in old and old[window.id] != window.title:
                self._seen[window.id] = (*self._seen.get(window.id, ())[-1:], now)

    def at(self, now: float) -> frozenset[int]:
        recent = {w: tuple(t for t in times if now - t < self.habit) for w, times in self._seen.items()}
        self._seen = {w: times for w, times in recent.items() if times}
        return frozenset(w for w, times in recent.items() if times[1:] or _fresh(times, now, self.memory))


def _fresh(times: Sequence[float], now: float, memory: float) -> bool:
    return any(now - t < memory for t in times)


def effect(
    action: a.Action,
    *,
    found: Sequence[Change] = (),
    pointer_read_back: bool = False,
    changed: bool | None = None,
) -> Effect:
    """The effect of a fully delivered input that states no expectation.

    Args:
        found: Window changes seen after it and before the next input.
        pointer_read_back: The pointer was where a move put it.
        changed: Whether pixels changed that were not changing before.
    """
    if isinstance(action, a.Wait | a.TakeScreenshot):
        return Effect(outcome=None)
    if isinstance(action, a.Move) and pointer_read_back:
        return Effect(outcome=Outcome.CONFIRMED, evidence="pointer_at_target", changed=changed)
    if found:
        return Effect(outcome=Outcome.CONFIRMED, evidence=found[0].kind, changed=changed)
    return Effect(outcome=Outcome.UNCERTAIN, changed=changed)


def stated(met: bool | None) -> Effect:
    """The effect of one that states an expectation, which overrules the rest; None: it could not be read."""
    match met:
        case True:
            return Effect(outcome=Outcome.CONFIRMED, evidence="expect_met")
        case False:
            return Effect(outcome=Outcome.FAILED, evidence="expect_unmet")
        case None:
            return Effect(outcome=Outcome.UNCERTAIN, evidence="expect_unread")


def text_matches(expect: a.Expect, actual: str | None) -> bool:
    """Whether *actual* satisfies `equals` and `contains` (both, where both are stated)."""
    if actual is None:
        return False
    return (expect.equals is None or actual == expect.equals) and (
        expect.contains is None or expect.contains in actual
    )
