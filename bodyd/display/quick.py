"""Input for a person who watches: as input.py sends it, without reading back what came of each atom.

A person sees for themselves, and feels each millisecond; an agent needs the receipt. The permit is
asked before every atom all the same, and one round trip at the end acknowledges them all, in order. Only the
end of a click is waited for: until a window manager has let the press through, keys would overtake both.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from bodyd.contract.atoms import Atom, ButtonUp, Char, Pause
from bodyd.contract.ports import Permit

from .input import Sender, untypable

MOST_CLICKED = 3
"""Buttons beyond are the wheel's, that no window manager takes to give a window the focus."""


class QuickSender(Sender):
    """Sends one list of atoms, and asks one question after it."""

    def _begin(self, *, typing: bool) -> None:
        """Nothing to listen for: no echo is compared."""

    def _send(self, atom: Atom, rest: Sequence[Atom], permit: Permit, stop: threading.Event) -> bool:
        """One atom; False ends the list."""
        if isinstance(atom, Pause):
            self._x.display.flush()
            return self._wait(atom.seconds, permit, stop)
        if isinstance(atom, Char) and untypable(atom.character):
            self._report.failure, self._report.untypable_at = "untypable", self._report.sent
            return False
        self._report.certain = False
        self._make(atom)
        self._expected.clear()
        if isinstance(atom, ButtonUp) and atom.button <= MOST_CLICKED:
            self._compare_pointer(moved=True)
        self._report.sent += 1
        return True

    def _end(self) -> None:
        self._x.display.sync()
        self._report.certain = True
