"""Packs: what only a person may do, in the words of a language, as data. Pure.

A pack is a TOML file: the shipped ones are in languages/, an owner's may be added. It is read strictly,
since a rule that is silently not there is a hole: an unknown name, an empty phrase, a doubled one are errors
that name the place. All that detect.py finds comes from packs; without any, everything is allowed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from bodyd.contract.actions import plainly
from bodyd.contract.ports import Verdict
from bodyd.errors import ConfigError

from .lexicon import NOTHING, Lexicon, phrase
from .normal import Words, words

MAX_PACK = 256 * 1024  # characters


class Kind(StrEnum):
    """What a rule is about; the names of a pack's sections and of `[[domains]]` lists."""

    PASSWORD = "password"
    CODE = "code"
    CAPTCHA = "captcha"
    SIGN_IN = "sign_in"
    CARD = "card"
    PAYMENT = "payment"
    DESTRUCTION = "destruction"
    DATA = "data"


def _readable(written: str) -> str:
    if not any(len(w) > 1 or not w.isascii() for w in phrase(written)):
        raise ValueError("a phrase has a word of two letters or more")
    return written


def _once(entries: tuple[str, ...]) -> tuple[str, ...]:
    seen: dict[Words, str] = {}
    for written in entries:
        twin = seen.setdefault(phrase(written), written)
        if twin is not written:
            raise ValueError(f"{written!r} is {twin!r} again")
    return entries


Phrases = Annotated[
    tuple[Annotated[str, Field(max_length=100), AfterValidator(_readable)], ...], AfterValidator(_once)
]
Pair = Annotated[str, Field(pattern=r"^[a-z-]+=\S+$")]
Place = Annotated[str, Field(pattern=r"^(\*\.)?[a-z0-9-]+(\.[a-z0-9-]+)*(/\S*)?$")]
Host = Annotated[str, Field(pattern=r"^(\*\.)?[a-z0-9-]+(\.[a-z0-9-]+)*$")]
Names = tuple[Annotated[str, Field(min_length=1, max_length=100)], ...]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Section(_Part):
    """The rules of one kind.

    Attributes:
        verdict: What they come to.
        controls: In the name of what is pressed. `exact`: all of its name, but for amounts. `on_page`: so,
            on a page of this kind only.
        unless: Where one of these stands, no phrase within it counts.
        fields: In the name of a field that is written to. `marks`: in its id, name, class or placeholder.
        titles: In the title of a page or window that is of this kind. `exact_titles`: all of a part of it.
        urls: In the path or query of a page of this kind.
        dialogs: In the name or text of a dialog that asks whether to go on. `drops`: what one drops on.
        roles, attributes: Of such a field, by accessibility ("password text"; "text-input-type=password").
        frames: "host" or "host/path" of documents of this kind in whole. `keys`: chords outside of text.
    """

    verdict: Literal["approve", "person"] = "person"
    controls: Phrases = ()
    exact: Phrases = ()
    on_page: Phrases = ()
    unless: Phrases = ()
    fields: Phrases = ()
    marks: Phrases = ()
    titles: Phrases = ()
    exact_titles: Phrases = ()
    urls: Phrases = ()
    dialogs: Phrases = ()
    drops: Phrases = ()
    roles: Names = ()
    attributes: tuple[Pair, ...] = ()
    frames: tuple[Place, ...] = ()
    keys: Names = ()


class Answers(_Part):
    """What a dialog is answered with: `no` is let through, the rest is not."""

    no: Phrases = ()


class Commands(_Part):
    """`programs`: "rm -r": a program with words or letters of options, "dd of=/dev/*": or their beginning.

    `calls`: Names of Python functions. `opaque`: words after which nobody knows what will run.
    """

    programs: Names = ()
    calls: Names = ()
    opaque: Names = ()


class Value(_Part):
    """Something of the owner's that goes to `origins` only (hosts), however it is spaced."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    text: Annotated[str, Field(min_length=4, max_length=1_000, repr=False)]
    origins: tuple[Host, ...] = ()

    @model_validator(mode="after")
    def _compares(self) -> Value:
        if len("".join(words(self.text))) < 4:
            raise ValueError("a value has four letters or digits at least")
        return self


class Data(_Part):
    """`patterns`: of leaks.py. `files`: names that are not uploaded, "*" for any part."""

    patterns: tuple[Literal["card", "iban", "id", "key"], ...] = ()
    files: Names = ()
    values: tuple[Value, ...] = ()


class Domain(_Part):
    """What holds otherwise at `match`: a host, or "*." and those below it."""

    match: Host
    allow: tuple[Kind, ...] = ()
    approve: tuple[Kind, ...] = ()
    person: tuple[Kind, ...] = ()

    @model_validator(mode="after")
    def _decided(self) -> Domain:
        named = [*self.allow, *self.approve, *self.person]
        if not named or len(set(named)) < len(named):
            raise ValueError("name each kind once, and one at least")
        return self

    def verdict(self, kind: Kind | None) -> Verdict | None:
        lists = {Verdict.ALLOW: self.allow, Verdict.APPROVE: self.approve, Verdict.PERSON: self.person}
        return next((verdict for verdict, kinds in lists.items() if kind in kinds), None)


class Pack(_Part):
    """One file. `language` is its name in rule ids; `spelling` writes letters out ("ä" = "ae")."""

    language: Annotated[str, Field(pattern=r"^[a-z][a-z-]{1,30}$")]
    spelling: dict[Annotated[str, Field(min_length=1, max_length=1)], str] = {}
    fillers: Names = ()
    answers: Answers = Answers()
    commands: Commands = Commands()
    password: Section = Section()
    code: Section = Section()
    captcha: Section = Section()
    sign_in: Section = Section()
    card: Section = Section()
    payment: Section = Section()
    destruction: Section = Section()
    data: Data = Data()
    domains: tuple[Domain, ...] = ()


def load(text: str, source: str) -> Pack:
    """Read a pack strictly; *source* names it in messages.

    Raises:
        ConfigError: not TOML, too long, or the first fault by its place ("payment.controls.3").
    """
    if len(text) > MAX_PACK:
        raise ConfigError(f"{source}: {len(text)} characters; a pack has {MAX_PACK} at most")
    try:
        return Pack.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError(f"{source}: {exc}") from None
    except ValidationError as exc:
        fault = exc.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in fault["loc"])
        raise ConfigError(f"{source}: {where}: {_said(fault)}", param=where) from None


def _said(fault: ErrorDetails) -> str:
    if fault["type"] == "string_pattern_mismatch":
        return f"it must be of the form {fault['ctx']['pattern']}"
    return plainly(fault)


_LISTS = "controls exact on_page unless fields marks titles exact_titles urls dialogs drops".split()
_SECTIONS = [kind for kind in Kind if kind is not Kind.DATA]


@dataclass(frozen=True, slots=True)
class Chapter:
    """The rules of one kind in one language, ready to be compared."""

    kind: Kind
    language: str
    section: Section
    lists: Mapping[str, Lexicon]

    @property
    def verdict(self) -> Verdict:
        return Verdict(self.section.verdict)


@dataclass(frozen=True, slots=True)
class Book:
    """Several packs as one. `openers`: words of which one is in the name of any control that is stopped."""

    chapters: tuple[Chapter, ...] = ()
    openers: frozenset[str] = frozenset()
    no: Lexicon = NOTHING
    fillers: frozenset[str] = frozenset()
    commands: tuple[Commands, ...] = ()
    data: tuple[Data, ...] = ()
    domains: tuple[Domain, ...] = ()


def bind(packs: Iterable[Pack]) -> Book:
    """All of *packs* together: any of them stops.

    Raises:
        ConfigError: two have the same name.
    """
    bound = tuple(packs)
    names = [pack.language for pack in bound]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"two packs have the language {name!r}; name one otherwise")
    chapters = tuple(_chapter(pack, kind) for pack in bound for kind in _SECTIONS)
    return Book(
        chapters=chapters,
        openers=frozenset(
            word for c in chapters for part in ("controls", "exact") for word in c.lists[part].starts
        ),
        no=Lexicon.merged(Lexicon.of(pack.answers.no, pack.spelling) for pack in bound),
        fillers=frozenset(w for pack in bound for filler in pack.fillers for w in words(filler)),
        commands=tuple(pack.commands for pack in bound),
        data=tuple(pack.data for pack in bound),
        domains=tuple(domain for pack in bound for domain in pack.domains),
    )


def _chapter(pack: Pack, kind: Kind) -> Chapter:
    section: Section = getattr(pack, kind)
    lists = {name: Lexicon.of(getattr(section, name), pack.spelling) for name in _LISTS}
    return Chapter(kind, pack.language, section, lists)
