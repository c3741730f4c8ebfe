"""The script: what the model does next, given what it has done and what it saw last.

Pure. It keeps nothing between calls, like any model: its memory is the conversation. It opens the
Filters panel if that is closed, types a word in the search box, and says done only once it has seen
the word stand there. It gives up, saying what it could not find, after a bounded number of tries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .eyes import Sight, Unreadable, look
from .ink import Box

WORD = "penguin"
PATIENCE = 4  # looks in a row for a screen that is still coming
LAG = 2  # looks in a row for what an action should have changed
ATTEMPTS = 3  # times that one thing is tried
MOST_ROUNDS = 22

Action = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Round:
    """One computer_call: its actions, and the PNG that came back, if one did."""

    actions: tuple[Mapping[str, Any], ...]
    screenshot: bytes | None


@dataclass(frozen=True, slots=True)
class Act:
    """Ask for these actions, in order."""

    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class Say:
    """The last word."""

    text: str


Step = Act | Say

_LOOK = Act(({"type": "screenshot"},))
_WAIT = Act(({"type": "wait"},))


def decide(rounds: Sequence[Round]) -> Step:
    """The next step after *rounds*."""
    if not rounds:
        return _LOOK
    if len(rounds) >= MOST_ROUNDS:
        return Say(f"I failed: the task was not done after {MOST_ROUNDS} rounds.")
    last = rounds[-1]
    if last.screenshot is None:
        return Say("I failed: no screenshot came back, and I can't act without seeing the screen.")
    try:
        sight = look(last.screenshot, word=WORD)
    except Unreadable as exc:
        return Say(f"I failed: {exc}.")
    return judge(sight, rounds)


def judge(sight: Sight, rounds: Sequence[Round]) -> Step:
    """The next step for what is seen now, given what was done before."""
    if sight.show is not None:
        return _open(sight.show, rounds)
    if sight.hide is not None:
        return _search(sight, rounds)
    if _waits(rounds) < PATIENCE:
        return _WAIT
    return Say("I failed: I can see no button that reads Show filters or Hide filters.")


def _open(button: Box, rounds: Sequence[Round]) -> Step:
    """The panel is closed: click its button, and give the page time to follow before clicking again."""
    clicks = sum(_clicked(each, button) for each in rounds)
    if clicks and _waits(rounds) < LAG:
        return _WAIT
    if clicks < ATTEMPTS:
        return Act((_click(button),))
    return Say("I failed: I clicked Show filters, and the panel stayed closed.")


def _search(sight: Sight, rounds: Sequence[Round]) -> Step:
    """The panel is open: type the word, and look whether it stands in the box."""
    typed = [each for each in rounds if any(action.get("type") == "type" for action in each.actions)]
    if not typed:
        if sight.field is not None:
            return Act((_click(sight.field), {"type": "type", "text": WORD}))
        if _waits(rounds) < LAG:
            return _WAIT
        return Say("I failed: the Filters panel is open, but I can see no search box.")
    place = _place(typed[-1])
    if any(box.contains(*place) for box in sight.typed):
        return Say(_done(rounds))
    if _waits(rounds) < LAG:
        return _WAIT
    if len(typed) < ATTEMPTS:
        again = {"type": "click", "button": "left", "x": place[0], "y": place[1]}
        select = {"type": "keypress", "keys": ["CTRL", "A"]}
        return Act((again, select, {"type": "type", "text": WORD}))
    return Say(f"I failed: I typed {WORD}, and can't see it in the search box.")


def _done(rounds: Sequence[Round]) -> str:
    clicks = [each for each in rounds if [action.get("type") for action in each.actions] == ["click"]]
    how = "was closed, so I clicked Show filters" if clicks else "was already open, so I left it alone"
    return f"The Filters panel {how}. Then I typed {WORD} in the search box, where I can see it now."


def _click(box: Box) -> Action:
    x, y = box.centre
    return {"type": "click", "button": "left", "x": x, "y": y}


def _clicked(each: Round, button: Box) -> bool:
    """Whether *each* clicked where *button* is, and did nothing else."""
    match each.actions:
        case ({"type": "click", "x": int(x), "y": int(y)},):
            return button.contains(x, y)
        case _:
            return False


def _place(each: Round) -> tuple[int, int]:
    """Where *each* clicked first."""
    for action in each.actions:
        match action:
            case {"type": "click", "x": int(x), "y": int(y)}:
                return x, y
            case _:
                pass
    return -1, -1


def _waits(rounds: Sequence[Round]) -> int:
    """How many rounds at the end only waited."""
    count = 0
    for each in reversed(rounds):
        if not any(action.get("type") == "wait" for action in each.actions):
            break
        count += 1
    return count
