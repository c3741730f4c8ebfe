"""A shell command read into the simple commands that it would start. Pure.

A subset of the grammar (POSIX 2.10, and bash where it differs), read with certainty or not at all: what
is left out is refused by `Unreadable`, never guessed at, for a parser that guesses is one that a command
can be written around. Read: lists, pipelines, groups, subshells, if, while, until, for, quoting,
parameters, $( ), here-documents, redirections. Left out, among others: backquotes, arithmetic, arrays,
functions, case, [[ ]], process substitution. Counterpart: rules.py judges what was read. (Long, for a
grammar is one thing: each of its productions is a short method that calls the others.)
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

MAX_DEPTH = 32
_Vague = Callable[[], None]

_META = " \t\n;&|<>()"
_GLOB = "*?[{"
_ENDS = frozenset("then elif else fi do done } esac in ]]".split())
_LEFT_OUT = frozenset("case function select coproc [[".split())
_RESERVED = _ENDS | _LEFT_OUT | frozenset("if for while until { ! time".split())
_PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]")
_BRACED = re.compile(
    r"\{(?:#?[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-])(?:(?::?[-+=?]|##?|%%?|//?)[^$`'\"\\{}]*)?\}"
)
_ASSIGNED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_REDIRECT = re.compile(r"&>>|&>|<<<|<<-|<<|<>|<&|>&|>>|>\||<|>")


class Unreadable(Exception):
    """What this parser can't read with certainty, in a few words without the command's text."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word: its `text`, None if it is only known at run time; `head` is what is certain at its start."""

    text: str | None
    head: str = ""


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command: the names that it assigns, and its words; either may be empty."""

    words: tuple[Word, ...]
    assigned: tuple[str, ...] = ()


def read(text: str) -> tuple[Command, ...]:
    """Every simple command in *text*, those in substitutions too, in the order of their ends.

    Raises:
        Unreadable: something in it is outside of the subset.
    """
    if _CONTROL.search(text):
        raise Unreadable("a control character")
    reader = _Reader(text)
    reader.sequence(frozenset())
    if reader.at < len(text):
        raise Unreadable("something that is left over")
    return tuple(reader.found)


class _Reader:
    """Recursive descent over one text; a method stands behind what it has read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.found: list[Command] = []
        self._heredocs: list[tuple[str, bool, bool]] = []
        self._depth = 0

    # -- lists and compound commands ---------------------------------------------------------------

    def sequence(self, stops: frozenset[str]) -> str:
        """Commands up to one of the reserved words *stops*, ")" or the end; returns which."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise Unreadable("too deep a nesting")
        empty = self._depth > 1
        while True:
            self._gap()
            if self._peek() in ("", ")"):
                end = self._peek()
                break
            word = self._reserved()
            if word in stops:
                self.at += len(word)
                end = word
                break
            if word in _ENDS:
                raise Unreadable("a reserved word where none belongs")
            self._pipeline()
            self._separator()
            empty = False
        if self._heredocs or empty:
            raise Unreadable("a here-document without its end, or a list of nothing")
        self._depth -= 1
        return end

    def _pipeline(self) -> None:
        joint = ""
        while True:
            if joint.strip("&") != "|":
                self._prefixed()
            self._command()
            self._blank()
            for joint in ("||", "&&", "|&", "|"):
                if self.text.startswith(joint, self.at):
                    self.at += len(joint)
                    self._gap()
                    break
            else:
                return

    def _separator(self) -> None:
        if self.text.startswith(";;", self.at):
            raise Unreadable(";;")
        if self._peek() in (";", "&"):
            self.at += 1
        elif self._peek() not in ("", "\n", ")"):
            raise Unreadable("something behind a command")

    def _prefixed(self) -> None:
        """What may stand before a pipeline, and only there."""
        while (word := self._reserved()) in ("!", "time"):
            self.at += len(word)
            self._blank()
            if word == "time" and self._reserved() == "-p":
                self.at += 2
                self._blank()

    def _command(self) -> None:
        word = self._reserved()
        if self._peek() == "(":
            self._subshell()
        elif word in _LEFT_OUT or word in _ENDS:
            raise Unreadable("syntax that is not read here")
        elif word in ("{", "if", "while", "until", "for"):
            self.at += len(word)
            self._compound(word)
        else:
            self._simple()
            return
        while self._redirection():
            self._blank()

    def _subshell(self) -> None:
        if self.text.startswith("((", self.at):
            raise Unreadable("arithmetic")
        self._enclosed()
        self._blank()

    def _enclosed(self) -> None:
        """A list in parentheses, which nothing of the outside reaches into."""
        if self._heredocs:
            raise Unreadable("a here-document around a subshell")
        self.at += 1
        self.sequence(frozenset())
        if self._peek() != ")":
            raise Unreadable("a parenthesis that is not closed")
        self.at += 1

    def _compound(self, word: str) -> None:
        match word:
            case "{":
                self._until("}")
            case "if":
                self._until("then")
                while (end := self._until("elif", "else", "fi")) == "elif":
                    self._until("then")
                if end == "else":
                    self._until("fi")
            case "for":
                self._for()
            case _:
                self._until("do")
                self._until("done")
        self._blank()

    def _until(self, *stops: str) -> str:
        end = self.sequence(frozenset(stops))
        if end not in stops:
            raise Unreadable("a compound command that is not ended")
        return end

    def _for(self) -> None:
        self._blank()
        name = _NAME.match(self.text, self.at)
        if name is None:
            raise Unreadable("a loop over something else than a name")
        self.at = name.end()
        self.found.append(Command((), (name.group(),)))
        self._gap()
        if self._reserved() == "in":
            self.at += 2
            self._blank()
            while self._peek() not in ("", ";", "\n"):
                self._word()
                self._blank()
        if self._peek() == ";":
            self.at += 1
        self._gap()
        if self._reserved() != "do":
            raise Unreadable("a loop without its body")
        self.at += 2
        self._until("done")

    # -- simple commands ---------------------------------------------------------------------------

    def _simple(self) -> None:
        words: list[Word] = []
        assigned: list[str] = []
        before = self.at
        while self._peek() not in ("", "\n", ";", "|", ")"):
            if self._redirection():
                self._blank()
                continue
            if self._peek() == "&":
                break
            if self._peek() == "(":
                raise Unreadable("a function or an array")
            start = self.at
            word = self._word()
            found = _ASSIGNED.match(self.text, start)
            if found and found.end() <= self.at and not words:
                assigned.append(found.group().rstrip("+="))
            else:
                words.append(word)
            if self._peek() == "(":
                raise Unreadable("a function or an array")
            self._blank()
        if self.at == before:
            raise Unreadable("a command that is missing")
        if words and words[0].text in _RESERVED:
            raise Unreadable("a reserved word that is quoted")
        self.found.append(Command(tuple(words), tuple(assigned)))

    def _redirection(self) -> bool:
        at = self.at
        while at < len(self.text) and self.text[at] in "0123456789":
            at += 1
        operator = _REDIRECT.match(self.text, at)
        if operator is None or (operator.group().startswith("&") and at > self.at):
            return False
        self.at = operator.end()
        if self._peek() == "(":
            raise Unreadable("process substitution")
        self._blank()
        start = self.at
        if self._peek() == "" or self._peek() in _META:
            raise Unreadable("a redirection to nothing")
        if operator.group() in ("<<", "<<-"):
            self._heredoc(start, operator.group() == "<<-")
        else:
            self._word()
        return True

    def _heredoc(self, start: int, tabs: bool) -> None:
        word = self._word()
        raw = self.text[start : self.at]
        quoted = any(mark in raw for mark in "'\"\\")
        if word.text is None or "$" in raw or "\n" in word.text:
            raise Unreadable("a here-document whose end is not plain")
        self._heredocs.append((word.text, quoted, tabs))

    def _newline(self) -> None:
        """Past a line's end, and past the here-documents that begin behind it."""
        self.at += 1
        pending, self._heredocs = self._heredocs, []
        for end, quoted, tabs in pending:
            body = []
            while True:
                if self.at >= len(self.text):
                    raise Unreadable("a here-document without its end")
                stop = self.text.find("\n", self.at)
                line = self.text[self.at : stop if stop >= 0 else None]
                self.at = stop + 1 if stop >= 0 else len(self.text)
                if (line.lstrip("\t") if tabs else line) == end:
                    break
                body.append(line)
            if not quoted and any(mark in line for line in body for mark in ("`", "$(", "${", "$[", "\\")):
                raise Unreadable("a here-document with substitutions; quote its delimiter")

    # -- words ---------------------------------------------------------------------------------------

    def _word(self) -> Word:
        made: list[str] = []
        certain: str | None = None  # the text before the first piece that is not

        def vague() -> None:
            nonlocal certain
            certain = "".join(made) if certain is None else certain

        if self._reserved() == "[":
            self.at += 1
            return Word("[", "[")
        if self._peek() == "~":
            vague()
        while (char := self._peek()) and char not in _META:
            self.at += 1
            if char == "\\":
                made.append(self._escaped())
            elif char == "'":
                made.append(self._through("'"))
            elif char == '"':
                self._quoted(made, vague)
            elif char == "$":
                self._dollar(made, vague, quoted=False)
            elif char == "`":
                raise Unreadable("backquotes")
            else:
                if char in _GLOB:
                    vague()
                made.append(char)
        text = "".join(made)
        return Word(text, text) if certain is None else Word(None, certain)

    def _escaped(self) -> str:
        char = self._peek()
        self.at += len(char)
        if not char:
            raise Unreadable("a backslash at the end")
        if char == "\n":
            raise Unreadable("a line that is joined inside a word")
        return char

    def _through(self, end: str) -> str:
        stop = self.text.find(end, self.at)
        if stop < 0:
            raise Unreadable("a quote that is not closed")
        inside, self.at = self.text[self.at : stop], stop + 1
        return inside

    def _quoted(self, made: list[str], vague: _Vague) -> None:
        while (char := self._peek()) != '"':
            self.at += 1
            if not char:
                raise Unreadable("a quote that is not closed")
            if char == "`":
                raise Unreadable("backquotes")
            if char == "$":
                self._dollar(made, vague, quoted=True)
            elif char == "\\" and self._peek() and self._peek() in '$`"\\\n':
                made.append(self._escaped())
            else:
                made.append(char)
        self.at += 1

    def _dollar(self, made: list[str], vague: _Vague, *, quoted: bool) -> None:
        char = self._peek()
        if char == "(":
            if self.text.startswith("((", self.at):
                raise Unreadable("arithmetic")
            vague()
            self._enclosed()
        elif char == "{":
            braced = _BRACED.match(self.text, self.at)
            if braced is None:
                raise Unreadable("a parameter expansion that is not plain")
            vague()
            self.at = braced.end()
        elif char == "[" or (char and char in "'\"" and not quoted):
            raise Unreadable("arithmetic, or a quote with escapes")
        elif (name := _PARAMETER.match(self.text, self.at)) is not None:
            vague()
            self.at = name.end()
        else:
            made.append("$")

    # -- between words -------------------------------------------------------------------------------

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _blank(self) -> None:
        """Past spaces, joined lines and a comment, but not past the end of the line."""
        while True:
            if self._peek() in (" ", "\t"):
                self.at += 1
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
            else:
                break
        if self._peek() == "#":
            stop = self.text.find("\n", self.at)
            self.at = len(self.text) if stop < 0 else stop

    def _gap(self) -> None:
        """Past everything between two commands."""
        self._blank()
        while self._peek() == "\n":
            self._newline()
            self._blank()

    def _reserved(self) -> str:
        """The unquoted word that begins here, without reading it."""
        stop = self.at
        while stop < len(self.text) and self.text[stop] not in _META:
            stop += 1
        return self.text[self.at : stop]
