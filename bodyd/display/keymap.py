"""The keymap as data: which key makes a keysym, and which spare keycodes take new ones. Pure.

Counterpart: typist.py, which reads the map from the server and writes it. A map is the core
protocol's: one row of keysyms per keycode, of which the first two (plain, Shift) of the first group
are used; what a layout has on deeper levels (@ on a German keyboard) counts as missing and is bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

FIRST_KEYCODE = 8
LAST_KEYCODE = 255

Row = tuple[int, ...]

SPARE: tuple[int, ...] = (
    208,
    *range(210, 215),
    *range(217, 225),
    *range(226, 232),
    234,
    *range(242, 256),
    209,
    215,
    216,
    232,
    233,
    *range(235, 242),
)
"""Keycodes that may be bound anew, quietest first: browsers have no key code of their own for the
first 35. One block, so that one request can write them. 225 (Search) is left alone, as are 166 (Back)
and 181 (Refresh) and their like below: browsers act on those whatever is bound to them."""

_MAIN_BLOCK = frozenset((*range(10, 62), 65))
"""The letters, digits and signs of the evdev keycodes, and the space bar."""

_VENDOR = 0x1008_0000, 0x1008_FFFF  # XF86 keysyms: what multimedia keys mean
_FUNCTION = 0xFF00, 0xFFFF


@dataclass(frozen=True, slots=True)
class Stroke:
    """How a keysym is made: press `code`, with Shift or without."""

    code: int
    shift: bool


class Keymap:
    """One reading of the server's map."""

    def __init__(self, rows: Sequence[Row], modifier_codes: Iterable[int] = ()) -> None:
        """
        Args:
            rows: Of keycodes 8 to 255, all of one width.
            modifier_codes: Keycodes that are modifiers, and so never spare.
        """
        self.rows = tuple(rows)
        self._modifiers = frozenset(modifier_codes)
        self._strokes: dict[int, Stroke] = {}
        ranked = sorted(
            (code not in _MAIN_BLOCK, level, code, keysym)
            for code, row in enumerate(self.rows, FIRST_KEYCODE)
            for level, keysym in enumerate(row[:2])
            if keysym
        )
        for _, level, code, keysym in ranked:
            self._strokes.setdefault(keysym, Stroke(code, bool(level)))

    @property
    def width(self) -> int:
        return len(self.rows[0])

    def row(self, code: int) -> Row:
        return self.rows[code - FIRST_KEYCODE]

    def find(self, keysym: int) -> Stroke | None:
        """The stroke for *keysym*: the main block's if it has one, else the plainest."""
        return self._strokes.get(keysym)

    def missing(self, keysyms: Iterable[int]) -> tuple[int, ...]:
        """Those that no key makes, once each, in order."""
        return tuple(dict.fromkeys(k for k in keysyms if k not in self._strokes))

    def spare(self) -> tuple[int, ...]:
        """The keycodes of SPARE that really are: bound to nothing, or to a multimedia or function key."""
        return tuple(c for c in SPARE if c not in self._modifiers and all(map(_expendable, self.row(c))))


class Scratch:
    """What is bound on the spare keycodes: appended to, and wiped only as a whole.

    A keycode with a meaning is never given another while an app may have its key press unread: apps
    look the meaning up when they read. Two keysyms a keycode; an odd last one fills both places, since
    a lone lower-case letter would get its capital under Shift and a changed row later on.
    """

    def __init__(self, spare: Sequence[int]) -> None:
        self._spare = tuple(spare)
        self._used = 0
        self.rows: dict[int, Row] = {}

    @property
    def capacity(self) -> int:
        return 2 * len(self._spare)

    def plan(self, keysyms: Sequence[int]) -> Plan | None:
        """Where the missing *keysyms* would go; None if they are more than there is room for at all."""
        need = (len(keysyms) + 1) // 2
        if need > len(self._spare):
            return None
        wipe = self._used + need > len(self._spare)
        start = 0 if wipe else self._used
        codes = self._spare[start : start + need]
        pairs = ((keysyms[2 * i], keysyms[min(2 * i + 1, len(keysyms) - 1)]) for i in range(need))
        return Plan(dict(zip(codes, pairs, strict=True)), wipe)

    def adopt(self, rows: dict[int, Row]) -> None:
        """Take over what an earlier scratch has bound: known, but to be wiped before anything is added."""
        self._used, self.rows = len(self._spare), dict(rows)

    def apply(self, plan: Plan) -> None:
        """The plan has been written."""
        if plan.wipe:
            self._used, self.rows = 0, {}
        self._used += len(plan.rows)
        self.rows.update(plan.rows)


@dataclass(frozen=True, slots=True)
class Plan:
    """Rows to write; `wipe`: they replace all earlier ones."""

    rows: dict[int, Row]
    wipe: bool


def block(rows: dict[int, Row], keymap: Keymap) -> tuple[int, list[Row]]:
    """The one contiguous write that puts *rows* in place: its first keycode, and full-width rows.

    Rows in between are written back as they are.
    """
    first, last = min(rows), max(rows)
    pad = keymap.width
    return first, [
        (*rows[code], *(0,) * (pad - len(rows[code]))) if code in rows else keymap.row(code)
        for code in range(first, last + 1)
    ]


def note_of_rows(rows: dict[int, Row]) -> list[int]:
    """*rows* as one list of numbers: the width, then keycode and keysyms of each."""
    width = len(next(iter(rows.values()), ()))
    return [width, *(number for code, row in rows.items() for number in (code, *row))]


def rows_from_note(note: list[int]) -> dict[int, Row] | None:
    """The rows that `note_of_rows` wrote; None if it wasn't (any app can write there)."""
    if not note or not 2 <= note[0] <= 64 or len(note[1:]) % (note[0] + 1):
        return None
    step = note[0] + 1
    rows = {note[at]: tuple(note[at + 1 : at + step]) for at in range(1, len(note), step)}
    return rows if rows.keys() <= set(SPARE) else None


def _expendable(keysym: int) -> bool:
    return keysym == 0 or _VENDOR[0] <= keysym <= _VENDOR[1] or _FUNCTION[0] <= keysym <= _FUNCTION[1]
