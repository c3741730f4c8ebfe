"""How far a batch came, as one 64-bit word that a kill can't tear. Pure.

Counterparts: progress.py keeps the words in a mapped file, recovery.py reads them after a crash.
Layout, high to low: sequence 36 bits, input index 7, exact 1, units 20. A batch has the slot
`sequence % SLOTS`; sequences only grow, so an older one there proves that nothing was dispatched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

SLOTS = 64
MAX_SEQUENCE = (1 << 36) - 1
MAX_INDEX = (1 << 7) - 1
MAX_UNITS = (1 << 20) - 1


class Unknown(Enum):
    """NEVER_STARTED: the dispatch had not begun. OVERWRITTEN: a later batch took the slot."""

    NEVER_STARTED = "never_started"
    OVERWRITTEN = "overwritten"


@dataclass(frozen=True, slots=True)
class Reached:
    """Every input before *index* was confirmed; *units* of that one were acknowledged.

    `exact`: no more than that can have been sent. Else the next atom may have been on the wire.
    """

    index: int
    units: int
    exact: bool


Trace = Reached | Unknown


def encode(sequence: int, index: int, units: int, *, exact: bool) -> int:
    """The word. Units are clamped: they are a lower bound in any case.

    Raises:
        ValueError: the sequence or the index has no room.
    """
    if not (0 < sequence <= MAX_SEQUENCE and 0 <= index <= MAX_INDEX and units >= 0):
        raise ValueError(f"no trace for sequence {sequence}, index {index}, units {units}")
    return sequence << 28 | index << 21 | exact << 20 | min(units, MAX_UNITS)


def trace(words: Sequence[int], sequence: int) -> Trace:
    """What the SLOTS *words* say about the batch *sequence*."""
    word = words[sequence % SLOTS]
    found = word >> 28
    if found < sequence:
        return Unknown.NEVER_STARTED
    if found > sequence:
        return Unknown.OVERWRITTEN
    return Reached(word >> 21 & MAX_INDEX, word & MAX_UNITS, exact=bool(word >> 20 & 1))
