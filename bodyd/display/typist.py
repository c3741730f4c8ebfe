"""The typist: makes every keysym of a text typeable by at most one change of the server's keymap.

Append-only, exact in every toolkit tried, and kind to window managers, which grab their keys again
(tens of milliseconds of CPU) at each change: facts in docs/explanation/display.md. Lives on the
sender's connection; its memory outlives a lost connection, and what it believes is checked against
the server's map whenever someone else may have changed that.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from Xlib import Xatom

from .connection import XObject
from .keymap import (
    FIRST_KEYCODE,
    LAST_KEYCODE,
    SPARE,
    Keymap,
    Plan,
    Row,
    Scratch,
    Stroke,
    block,
    note_of_rows,
    rows_from_note,
)
from .xinput import SenderConnection

_NOTE = "BODYD_KEYMAP"


class Readiness(Enum):
    READY = "every keysym has its key"
    FULL = "the spare keys must be wiped first, once no app has a key press unread"
    TOO_MANY = "more new keysyms than there are places"


class Typist:
    """Keysyms to strokes. All methods but the properties block on the sender's connection.

    Attributes:
        changes: How many mapping changes texts have cost.
        uses: How often keysyms were asked for.
        restores: How many times the map was put back, counted apart.
    """

    def __init__(self) -> None:
        self.changes = 0
        self.uses = 0
        self.restores = 0
        self._keymap: Keymap | None = None
        self._scratch = Scratch(())
        self._original: dict[int, Row] = {}
        self.stale = True

    @property
    def bound(self) -> bool:
        """The map is not as it was found."""
        return bool(self._scratch.rows)

    def distrust(self) -> None:
        """Read the map again before the next use: it was changed, or the connection is new."""
        self.stale = True

    def recheck(self, x: SenderConnection) -> bool:
        """If the map is distrusted, read it; whether it really differs."""
        self.stale |= x.echo.remapped()
        if not self.stale or self._keymap is None:
            return False
        before = self._keymap.rows
        return self._read(x).rows != before

    def find(self, keysym: int) -> Stroke | None:
        return self._keymap.find(keysym) if self._keymap is not None else None

    def prepare(self, x: SenderConnection, keysyms: Iterable[int], *, may_wipe: bool = False) -> Readiness:
        """Bind what is missing of *keysyms*, in one request, and read it back.

        Args:
            may_wipe: No app has a key press unread: spare keys may get new meanings.
        """
        self.uses += 1
        keymap = self._keymap
        self.stale |= x.echo.remapped()
        if self.stale or keymap is None:
            keymap = self._read(x)
        missing = keymap.missing(keysyms)
        if not missing:
            return Readiness.READY
        plan = self._scratch.plan(missing)
        if plan is None:
            return Readiness.TOO_MANY
        if plan.wipe and not may_wipe:
            return Readiness.FULL
        self._bind(x, keymap, plan)
        self.changes += 1
        return Readiness.READY if not self._read(x).missing(keysyms) else Readiness.TOO_MANY

    def restore(self, x: SenderConnection, uses: int) -> None:
        """Put the spare keys' rows back as they were found; again a single request.

        Nothing is done if there were more than *uses* uses by now: some app may need them yet.
        """
        if self.uses != uses:
            return
        keymap = self._read(x) if self.stale or self._keymap is None else self._keymap
        if self._scratch.rows:
            self._write(x, keymap, {code: self._original[code] for code in self._scratch.rows})
            self._scratch.apply(Plan({}, wipe=True))
            x.root.delete_property(x.atom(_NOTE))
            self.restores += 1
            self._read(x)

    def adopt(self, x: SenderConnection) -> bool:
        """Find what an earlier connection's typist has left bound; whether there is anything.

        What was there before is written down on the root window as long as anything is bound, so a
        daemon that reconnects to a running server can still put it back.
        """
        keymap = self._read(x)
        note: XObject = x.root.get_full_property(x.atom(_NOTE), Xatom.CARDINAL)
        original = rows_from_note(list(note.value)) if note is not None else None
        if not original or self._scratch.rows:
            return self.bound
        changed = {code: keymap.row(code)[:2] for code, row in original.items() if keymap.row(code) != row}
        self._original = original
        self._scratch = Scratch(tuple(code for code in SPARE if code in original))
        self._scratch.adopt(changed)
        return self.bound

    def _bind(self, x: SenderConnection, keymap: Keymap, plan: Plan) -> None:
        old = {code: self._original[code] for code in self._scratch.rows} if plan.wipe else {}
        if not self._scratch.rows:
            x.root.change_property(x.atom(_NOTE), Xatom.CARDINAL, 32, note_of_rows(self._original))
        self._write(x, keymap, {**old, **plan.rows})
        self._scratch.apply(plan)

    def _write(self, x: SenderConnection, keymap: Keymap, rows: dict[int, Row]) -> None:
        first, block_rows = block(rows, keymap)
        x.display.change_keyboard_mapping(first, block_rows)
        x.display.sync()
        x.echo.remapped()  # the notice of our own change

    def _read(self, x: SenderConnection) -> Keymap:
        """Read the map; if our bindings are not in it any more, it is the new original."""
        self.stale = False
        rows: XObject = x.display.get_keyboard_mapping(FIRST_KEYCODE, LAST_KEYCODE - FIRST_KEYCODE + 1)
        modifiers: XObject = x.display.get_modifier_mapping()
        keymap = Keymap([tuple(row) for row in rows], (code for row in modifiers for code in row))
        kept = all(keymap.row(code)[:2] == row for code, row in self._scratch.rows.items())
        if not kept or not self._scratch.rows:
            self._scratch = Scratch(keymap.spare())
            self._original = {code: keymap.row(code) for code in keymap.spare()}
        self.stale |= x.echo.remapped()
        self._keymap = keymap
        return keymap
