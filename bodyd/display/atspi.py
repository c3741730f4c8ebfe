"""AT-SPI's words: roles, states, and the nodes of an app's cache, read from untrusted values. Pure.

Source: at-spi2-core 2.46, atspi-constants.h and xml/*.xml. Its counterparts are apptree.py and elements.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bodyd.contract.elements import MAX_NAME, STATES

ROLES = (
    "invalid|accelerator label|alert|animation|arrow|calendar|canvas|check box|check menu item|color chooser|"
    "column header|combo box|date editor|desktop icon|desktop frame|dial|dialog|directory pane|drawing area|"
    "file chooser|filler|focus traversable|font chooser|frame|glass pane|html container|icon|image|"
    "internal frame|label|layered pane|list|list item|menu|menu bar|menu item|option pane|page tab|"
    "page tab list|panel|password text|popup menu|progress bar|push button|radio button|radio menu item|"
    "root pane|row header|scroll bar|scroll pane|separator|slider|spin button|split pane|status bar|table|"
    "table cell|table column header|table row header|tearoff menu item|terminal|text|toggle button|tool bar|"
    "tool tip|tree|tree table|unknown|viewport|window|extended|header|footer|paragraph|ruler|application|"
    "autocomplete|editbar|embedded|entry|chart|caption|document frame|heading|page|section|redundant object|"
    "form|link|input method window|table row|tree item|document spreadsheet|document presentation|"
    "document text|document web|document email|comment|list box|grouping|image map|notification|info bar|"
    "level bar|title bar|block quote|audio|video|definition|article|landmark|log|marquee|math|rating|timer|"
    "static|math fraction|math root|subscript|superscript|description list|description term|"
    "description value|footnote|content deletion|content insertion|mark|suggestion|push button menu"
).split("|")

_BITS = (
    "invalid active armed busy checked collapsed defunct editable enabled expandable expanded focusable "
    "focused has_tooltip horizontal iconified modal multi_line multiselectable opaque pressed resizable "
    "selectable selected sensitive showing single_line stale transient vertical visible manages_descendants "
    "indeterminate required truncated animated invalid_entry supports_autocompletion selectable_text "
    "is_default visited checkable has_popup read_only"
).split()
BIT = {name: 1 << bit for bit, name in enumerate(_BITS)}
_TOLD = [(name, BIT[name]) for name in STATES]

PASSWORD, DOCUMENT_WEB, PANEL = map(ROLES.index, ("password text", "document web", "panel"))
_ACTED_ON = frozenset(
    ROLES.index(name)
    for name in (
        "check box|check menu item|combo box|date editor|desktop icon|dial|list item|menu|menu item|page tab|"
        "password text|push button|radio button|radio menu item|slider|spin button|toggle button|entry|link|"
        "tree item|push button menu|column header|table column header"
    ).split("|")
)
_LISTED = frozenset(
    ROLES.index(name)
    for name in (
        "alert|canvas|dialog|drawing area|heading|image|label|static|text|terminal|table cell|progress bar|"
        "status bar|tool tip|document web|notification|level bar|caption|video|audio|frame|window"
    ).split("|")
)
_VALUED = frozenset(ROLES.index(name) for name in ("slider", "spin button", "progress bar", "level bar"))
_TEXTUAL = frozenset(ROLES.index(name) for name in ("entry", "text", "terminal", "spin button"))

Ref = tuple[str, str]
"""Whose, and where: a unique bus name and an object path."""

NOWHERE: Ref = ("", "")
_OBJECT = "\ufffc"  # stands for an object within text
_ID = re.compile(r"([0-9]{1,9}\.[0-9]{1,9})((?:/[A-Za-z0-9_]{1,100}){1,12})")
_USUAL = "/org/a11y/atspi/accessible"


@dataclass(frozen=True, slots=True)
class Item:
    """One node as its app has told of it."""

    ref: Ref
    parent: Ref
    role: int
    name: str
    states: int
    count: int = -1
    """Of children, when its app told of it; -1: it did not."""
    index: int = 0
    """Among its parent's children."""

    def has(self, state: str) -> bool:
        return bool(self.states & BIT[state])

    @property
    def role_name(self) -> str:
        return ROLES[self.role] if 0 <= self.role < len(ROLES) else "unknown"

    @property
    def actionable(self) -> bool:
        """It shows, is enabled, and is of a kind that a click does something to."""
        if not self.has("showing") or not (self.has("enabled") or self.has("sensitive")):
            return False
        editable_text = self.role in _TEXTUAL and self.has("editable")
        return self.role in _ACTED_ON or editable_text

    @property
    def listed(self) -> bool:
        """Worth telling of: it can be acted on, says something, or is a surface that says nothing."""
        if not self.has("showing"):
            return False
        return self.actionable or (self.role in _LISTED and (bool(self.name) or self.role in _SURFACES))

    @property
    def words(self) -> bool:
        """Text alone, which what it stands in has as its name."""
        return self.role in _WORDS

    @property
    def textual(self) -> bool:
        """Its text is its value; never a password's."""
        return self.role in _TEXTUAL and self.role != PASSWORD

    @property
    def valued(self) -> bool:
        return self.role in _VALUED

    def with_state(self, name: str, on: bool) -> Item:
        bit = BIT.get(name, 0)
        return replace(self, states=self.states | bit if on else self.states & ~bit)


_WORDS = frozenset((ROLES.index("static"), ROLES.index("label")))
_SURFACES = frozenset((ROLES.index("canvas"), ROLES.index("drawing area"), DOCUMENT_WEB))


def states_of(bits: int) -> tuple[str, ...]:
    """The states that are told of, in their fixed order."""
    return tuple(name for name, bit in _TOLD if bits & bit)


def element_id(ref: Ref) -> str | None:
    """The id of *ref*; None if its path is none that an id can be made of."""
    text = ref[0].removeprefix(":") + ref[1].removeprefix(_USUAL)
    return text if _ID.fullmatch(text) and ref_of(text) == ref else None


def ref_of(element_id: str) -> Ref | None:
    """What an id names; None if it is none."""
    match = _ID.fullmatch(element_id)
    if match is None:
        return None
    name, path = match.groups()
    return (f":{name}", path if path.startswith("/org/") else _USUAL + path)


def bounded(text: object, limit: int = MAX_NAME) -> str:
    """Untrusted text without control characters, cut to *limit*; "" for what is no text."""
    if not isinstance(text, str):
        return ""
    cut = text[: 4 * limit]
    return "".join(c for c in cut if (c.isprintable() or c in "\n\t") and c != _OBJECT)[:limit]


def ref_in(raw: object) -> Ref | None:
    """A reference of the wire; None if it is none, or refers to nothing."""
    match raw:
        case (str(name), str(path)) if name.startswith(":") and len(name) < 40 and len(path) < 400:
            return None if path.endswith("/null") else (name, path)
        case _:
            return None


def state_bits(raw: object) -> int:
    """The two words of a state set."""
    match raw:
        case [int(low), int(high)]:
            return (low & 0xFFFFFFFF) | ((high & 0xFFFFFFFF) << 32)
        case [int(low)]:
            return low & 0xFFFFFFFF
        case _:
            return 0


def item_in(raw: object, owner: str) -> Item | None:
    """A node of *owner*'s cache, in either shape (with a child count, or with a list of children)."""
    match raw:
        case (ref, _, parent, int(index), int(count), list(), name, int(role), _, states):
            pass
        case (ref, _, parent, list(children), list(), name, int(role), _, states):
            index, count = 0, len(children)
        case _:
            return None
    own = ref_in(ref)
    if own is None or own[0] != owner:
        return None
    return Item(own, ref_in(parent) or NOWHERE, role, bounded(name), state_bits(states), count, index)


def items_in(raw: Sequence[Any], owner: str, limit: int) -> dict[str, Item]:
    """The nodes of an app's answer to GetItems, by path, at most *limit*."""
    found: dict[str, Item] = {}
    for each in raw[:limit]:
        item = item_in(each, owner)
        if item is not None:
            found[item.ref[1]] = item
    return found
