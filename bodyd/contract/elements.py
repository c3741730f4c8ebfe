"""Elements: what the body's apps say about their own structure, through accessibility. Pure.

All of it is what apps and pages claim: names lie, bounds may be off. Everything here is bounded by
whoever read it (display/elements.py): strings by MAX_NAME and MAX_VALUE, lists by MAX_ELEMENTS.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from .geometry import Bounds

MAX_ELEMENTS = 500
"""Elements of one view."""

MAX_NAME = 200  # characters
MAX_VALUE = 1_000  # characters
MAX_DEPTH = 64
"""Ancestors that are followed upwards; an app whose tree is deeper, or circular, is cut off there."""


class Element(BaseModel):
    """One thing on the screen, in the words of its app: untrusted.

    Attributes:
        id: Names it as long as its app keeps it; `element` inputs name it together with the screenshot.
        role: AT-SPI's role in words ("push button", "password text", "entry", "link", "document web").
        name: "" where it has none.
        value: Text of a field, or a number of a slider; None where it has none, and for passwords always.
        states: Of STATES, those that hold.
        bounds: On the body's screen, cut to it.
        actionable: It is showing, enabled, and of a kind that a click does something to.
    """

    model_config = ConfigDict(frozen=True)
    id: str
    role: str
    name: str
    value: str | None = None
    states: tuple[str, ...] = ()
    bounds: Bounds
    actionable: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """The web page that an element is on; both are the page's own claims, but the URL is the browser's."""

    url: str
    title: str


@dataclass(frozen=True, slots=True)
class Ancestor:
    """One step outwards from a target."""

    id: str
    role: str
    name: str


@dataclass(frozen=True, slots=True)
class Target:
    """What an input would act on, with where it stands.

    Attributes:
        element: The innermost one; None where the app says that there is nothing (a bare canvas, say).
        ancestors: From its parent outwards, at most MAX_DEPTH; each with role and name, bounds where known.
        page: Of the nearest document around it; None outside of web pages.
        frames: URLs of the documents around it, innermost first: more than one is an iframe.
        complete: All of it was read; False: something was cut off, or did not answer.
        attributes: Object attributes of the element ("tag", "text-input-type", "id", "class").
    """

    element: Element | None
    ancestors: tuple[Ancestor, ...] = ()
    page: Page | None = None
    frames: tuple[str, ...] = ()
    complete: bool = True
    attributes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """One element of a tree, with what is in it."""

    element: Element
    children: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class View:
    """The elements of one look, in reading order of their tree; `truncated` if there were more."""

    elements: tuple[Element, ...]
    truncated: bool = False


class AccessibilityState(StrEnum):
    """OFF by configuration; DOWN: no bus or registry; SLOW: the last question was not answered in time."""

    OFF = "off"
    STARTING = "starting"
    READY = "ready"
    SLOW = "slow"
    DOWN = "down"


STATES = (
    "active", "busy", "checkable", "checked", "collapsed", "editable", "enabled", "expandable",
    "expanded", "focusable", "focused", "has_popup", "indeterminate", "invalid_entry", "modal",
    "multi_line", "pressed", "read_only", "required", "selectable", "selected", "single_line",
    "showing", "visible", "visited",
)  # fmt: skip
