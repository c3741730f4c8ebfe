"""What an input did to its target, by the app's own word: for `expect`, and as evidence of an effect.

Asked only where accessibility is on. Evidence is had within a bound, or not at all: no input waits for an
app that does not answer. The counterpart that sends is dispatcher.py.
"""

from __future__ import annotations

import trio

from bodyd.contract import actions as a
from bodyd.contract.elements import AccessibilityState, Element, Target
from bodyd.contract.geometry import Point
from bodyd.contract.ports import AccessibilityPort
from bodyd.errors import AccessibilityUnavailable

LOOK_SECONDS = 0.2
"""For evidence; a stated expectation has its own deadline."""

FIELDS = frozenset({"value", "text", "focused", "checked", "selected"})
_STEPS = 3
_CHANGING = frozenset({"checked", "selected", "expanded", "pressed"})
_PRESSES = (a.Click, a.DoubleClick, a.TripleClick, a.ButtonUp, *a.KEYBOARD_TYPES)


async def target_of(port: AccessibilityPort, point: Point | None) -> Element | None:
    """What an input at *point* acts on, or one of the keyboard (None): the link, not the words in it.

    Raises:
        AccessibilityUnavailable.
    """
    target = await (port.focused() if point is None else port.at(point))
    return await _acted_on(port, target) if target is not None else None


async def seen_before(
    port: AccessibilityPort | None, action: a.Action, point: Point | None
) -> Element | None:
    """The target of an input that may change it, as it is before; None if it can't be had at once."""
    if port is None or port.state is not AccessibilityState.READY or not isinstance(action, _PRESSES):
        return None
    with trio.move_on_after(LOOK_SECONDS):
        try:
            return await target_of(port, point)
        except AccessibilityUnavailable:
            pass
    return None


async def evidence(port: AccessibilityPort | None, before: Element | None) -> str | None:
    """What has changed of the target since; None for nothing, or if it can't be had at once."""
    if port is None or before is None or port.state is not AccessibilityState.READY:
        return None
    with trio.move_on_after(LOOK_SECONDS):
        try:
            target = await port.element(before.id)
            return difference(before, target.element if target is not None else None)
        except AccessibilityUnavailable:
            pass
    return None


def difference(before: Element, after: Element | None) -> str | None:
    """The name of what an input is known to have changed of its target."""
    if after is None:
        return None
    if before.value is not None and after.value is not None and before.value != after.value:
        return "value_changed"
    if "focused" in after.states and "focused" not in before.states:
        return "focus_gained"
    if _CHANGING & set(before.states) != _CHANGING & set(after.states):
        return "state_changed"
    return None


async def read(port: AccessibilityPort, field: str, target: Element | None) -> str | None:
    """What *field* of the target is now, or else of what has the keyboard; None: it has no such thing.

    Raises:
        AccessibilityUnavailable: nobody can say.
    """
    if target is None:
        now = await target_of(port, None)
    else:
        found = await port.element(target.id)
        now = found.element if found is not None else None
    if now is None:
        raise AccessibilityUnavailable("the target of the input is not there any more")
    match field:
        case "value":
            return now.value
        case "text":
            return now.value if now.value is not None else now.name
        case _:
            return "true" if field in now.states else "false"


async def _acted_on(port: AccessibilityPort, target: Target) -> Element | None:
    """The target itself if it can be acted on, else the nearest around it that can, else itself."""
    if target.element is not None and not target.element.actionable:
        for around in target.ancestors[:_STEPS]:
            found = await port.element(around.id)
            if found is not None and found.element is not None and found.element.actionable:
                return found.element
    return target.element
