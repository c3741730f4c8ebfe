"""What a judgement goes by, and what it comes to. Pure. Counterpart: detect.py judges."""

from __future__ import annotations

from dataclasses import dataclass

from bodyd.contract.elements import Element, Target
from bodyd.contract.ports import Verdict

from .packs import Chapter, Kind

MAX_SHOWN = 80  # characters


@dataclass(frozen=True, slots=True)
class Scene:
    """What is known of where an action would land, by the word of apps and pages.

    Attributes:
        target: What the pointer is on; for the keyboard, what has it. None: nobody says.
        drop: Where a drag ends.
        default: What Enter presses in the target's form, if that is known.
        others: What else is in view. Without it, access keys are judged by the page alone.
        says: The text of the dialog around the target.
        clipboard: What a paste by keys or the middle button would bring.
        window_title: Of the window that gets it.
    """

    target: Target | None = None
    drop: Target | None = None
    default: Element | None = None
    others: tuple[Element, ...] = ()
    says: str = ""
    clipboard: str = ""
    window_title: str = ""


@dataclass(frozen=True, slots=True)
class Upload:
    """Files that a page or an app would be given; `sample` is the beginning of their text."""

    names: tuple[str, ...]
    sample: str = ""


@dataclass(frozen=True, slots=True)
class Command:
    """A shell's text."""

    text: str


@dataclass(frozen=True, slots=True)
class Code:
    """Python, for the code tool."""

    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict, the rule that it is by ("payment.exact:en"), and what a person is told of it.

    `words` may quote what a page calls something: untrusted, on one line, cut to MAX_SHOWN.
    """

    verdict: Verdict = Verdict.ALLOW
    rule: str | None = None
    kind: Kind | None = None
    words: str = ""


CLEAR = Finding()

_SAID = {
    Kind.PASSWORD: "a password is asked for",
    Kind.CODE: "a one-time code is asked for",
    Kind.CAPTCHA: "it is to be shown that a person is here",
    Kind.SIGN_IN: "somebody would be signed in",
    Kind.CARD: "a card or an account is asked for",
    Kind.PAYMENT: "money would be spent",
    Kind.DESTRUCTION: "something would be destroyed",
    Kind.DATA: "something confidential would leave",
}


def by_chapter(
    chapter: Chapter, part: str, what: str, *, why: str = "", verdict: Verdict | None = None
) -> Finding:
    """A finding of a chapter's *part*, at *what* (untrusted)."""
    return of_kind(
        chapter.kind, f"{part}:{chapter.language}", what, why=why, verdict=verdict or chapter.verdict
    )


def of_kind(kind: Kind, part: str, what: str, *, why: str = "", verdict: Verdict = Verdict.PERSON) -> Finding:
    told = f"{why}: {_SAID[kind]}" if why else _SAID[kind]
    return Finding(verdict, f"{kind}.{part}", kind, f"{told} (“{shown(what)}”)" if shown(what) else told)


def shown(text: str) -> str:
    """Untrusted text for people: one line, nothing invisible, cut."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= MAX_SHOWN else line[: MAX_SHOWN - 1] + "…"
