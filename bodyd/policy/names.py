"""What a target is, and what it is called: roles and names sorted for the judgement. Pure.

A role is the page's claim, too: a button that calls itself a field is known by its tag, or by that nothing
can be written in it.
"""

from __future__ import annotations

from collections.abc import Iterator

from bodyd.contract.elements import Element, Target

from .normal import Words, readings, split_names
from .packs import Chapter


def _roles(text: str) -> frozenset[str]:
    return frozenset(role.strip() for role in text.split(","))


CONTROLS = _roles(
    "button, push button, toggle button, push button menu, check box, radio button, switch, link, menu item, "
    "check menu item, radio menu item, list item, tree item, table cell, slider, spin button, combo box, "
    "page tab, icon"
)
FIELDS = _roles("entry, text, password text, spin button, combo box, editbar, search box, date editor")
SLIDERS = _roles("slider, scroll bar, dial")
MENUS = _roles("menu, menu bar, menu item, check menu item, radio menu item, popup menu")
DIALOGS = _roles("dialog, alert, file chooser, color chooser")
CONTAINERS = DIALOGS | _roles("document web, document frame, document text, frame, window, application")
BARE = _roles(", canvas, drawing area, unknown, invalid, redundant object, image map, embedded")
_WRITTEN_TAGS = frozenset(("", "input", "textarea", "select"))
_PRESSED_TAGS = frozenset("button a summary area label".split())
_PRESSED_TYPES = frozenset("submit button image reset".split())
_NAMING = "title placeholder-text placeholder description value id name class href src alt".split()
_MARKING = "id name class placeholder-text placeholder autocomplete title".split()
MAX_PLAIN = 8
"""Words of a text that may be a control under another role; a longer one is read, not pressed."""


def attribute(target: Target, name: str) -> str:
    return next((value for key, value in target.attributes if key == name), "")


def is_field(target: Target | None) -> bool:
    """Whether a press only puts the keyboard into it."""
    if target is None or target.element is None or target.element.role not in FIELDS:
        return False
    if (
        attribute(target, "tag") not in _WRITTEN_TAGS
        or attribute(target, "text-input-type") in _PRESSED_TYPES
    ):
        return False
    return target.element.role == "password text" or "editable" in target.element.states


def takes_text(target: Target | None) -> bool:
    """Whether keys write in it: fields, and what a page lets one edit (where a press may do anything)."""
    if is_field(target):
        return True
    return target is not None and target.element is not None and "editable" in target.element.states


def is_bare(target: Target | None) -> bool:
    """Whether nobody knows what a press there does: no element, a canvas, a thing without role or name."""
    if target is None or target.element is None or target.element.role in BARE:
        return True
    return target.element.role not in CONTAINERS and not any(readings(text) for text in called(target))


def called(target: Target) -> Iterator[str]:
    """What a person would call it: its name, and those of the controls that it is a part of."""
    element = target.element
    if element is None:
        return
    contains = element.role in CONTAINERS and attribute(target, "tag") not in _PRESSED_TAGS
    if not contains and (element.role in CONTROLS | FIELDS | SLIDERS or _brief(element.name)):
        yield element.name
    if element.role in CONTROLS:
        return
    for ancestor in target.ancestors:
        if ancestor.role in CONTROLS:
            yield ancestor.name
            return


def labels(target: Target) -> Iterator[str]:
    """What it is called, and, where that says nothing, what its attributes call it."""
    names = [name for name in called(target) if readings(name)]
    yield from names
    if not names:
        yield (target.element.value if target.element else None) or ""
        yield from (split_names(attribute(target, key)) for key in _NAMING)


def dialog(target: Target) -> str | None:
    """The name of the innermost dialog around it; None outside of one."""
    return next((a.name for a in target.ancestors if a.role in DIALOGS), None)


def about(target: Target) -> Iterator[str]:
    """What a field is for, in words: its name, or else that of the nearest group that has one."""
    name = target.element.name if target.element else ""
    yield name
    if not any(any(word.isalpha() for word in reading) for reading in readings(name)):
        yield next((a.name for a in target.ancestors if readings(a.name)), "")


def marks(target: Target) -> Iterator[str]:
    yield from (split_names(attribute(target, key)) for key in _MARKING)


def pressed_by(chapter: Chapter, called: list[Words], fillers: frozenset[str]) -> str | None:
    """The part of a chapter that says what is done by pressing what is called so."""
    lists = chapter.lists
    for reading in called:
        if lists["controls"].among(reading, lists["unless"]):
            return "controls"
        if lists["exact"].is_all(reading, fillers):
            return "exact"
    return None


def is_control(element: Element) -> bool:
    return element.role in CONTROLS or (bool(element.name) and _brief(element.name))


def _brief(name: str) -> bool:
    return len(name.split()) <= MAX_PLAIN
