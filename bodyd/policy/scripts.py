"""Commands and code, by what they plainly say. Pure.

A second look beside the shell's own policy and the walls, and no wall itself: it finds what is written, with
quoting undone, and asks where something would be made up first. What code does on the screen is judged when
it does it, action by action.
"""

from __future__ import annotations

import ast
import fnmatch
import re
import warnings
from collections.abc import Iterator
from functools import partial

from bodyd.contract.ports import Verdict

from .leaks import leak
from .packs import Book, Kind
from .scene import Finding, of_kind

_PARTS = re.compile(r"[;\n&(){}`!]|\|\|")
_UNQUOTED = re.compile(r"\\\n|\$\{?IFS\}?|\$'|[\\'\"]")
_JOINED = (ast.BinOp, ast.JoinedStr, ast.List, ast.Tuple)
_SPACED = re.compile(r"\$\{?IFS\}?")


def judge_command(book: Book, text: str) -> Iterator[Finding]:
    """Findings on a shell's text."""
    if what := leak(book.data, text, ()):
        yield of_kind(Kind.DATA, "text", what)
    plain = _UNQUOTED.sub(lambda found: " " if _SPACED.match(found[0]) else "", text)
    yield from _called(book, plain)
    for part in dict.fromkeys(map(str.strip, _PARTS.split(plain))):
        if part:
            yield from _judge_pipeline(book, part)


def _called(book: Book, text: str) -> Iterator[Finding]:
    """Functions called in what a command gives to an interpreter: python3 -c "…"."""
    for name in dict.fromkeys(call for commands in book.commands for call in commands.calls):
        if f"{name}(" in text:
            yield of_kind(Kind.DESTRUCTION, f"calls:{name}", name)


def _judge_pipeline(book: Book, text: str) -> Iterator[Finding]:
    words = text.replace("|", " ").split()
    programs = [word.rpartition("/")[2] for word in words]
    for commands in book.commands:
        for rule in commands.programs:
            if _says(rule, programs, words):
                yield of_kind(Kind.DESTRUCTION, f"programs:{rule}", rule)
        for rule in commands.opaque:
            if _says(rule, programs, words):
                why = "what will run can't be known"
                yield of_kind(Kind.DESTRUCTION, f"opaque:{rule}", rule, why=why, verdict=Verdict.APPROVE)


def _says(rule: str, programs: list[str], words: list[str]) -> bool:
    """Whether a program stands among the words, with what the rule wants after it."""
    program, *wanted = rule.split()
    named = [name for name in programs if fnmatch.fnmatchcase(name, program)] if "*" in program else [program]
    first = min((programs.index(name) for name in named if name in programs), default=None)
    # The first one has after it whatever a later one has.
    return first is not None and all(any(map(partial(_meets, want), words[first + 1 :])) for want in wanted)


def _meets(want: str, word: str) -> bool:
    """One letter of an option is also met among several, in any case: "-r" by "-fR"."""
    if re.fullmatch(r"-\w", want):
        return re.fullmatch(r"-\w+", word) is not None and want[1] in word.lower()[1:]
    return fnmatch.fnmatchcase(word.lower(), want)


def judge_code(book: Book, text: str) -> Iterator[Finding]:
    """Findings on Python; on one that can't be read, as on a command."""
    yield from judge_command(book, text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
        yield from _judge_tree(book, tree)
    except (SyntaxError, ValueError):  # it will not run
        return
    except (RecursionError, MemoryError):
        yield of_kind(Kind.DESTRUCTION, "depth", "", why="the code can't be read", verdict=Verdict.APPROVE)


def _judge_tree(book: Book, tree: ast.AST) -> Iterator[Finding]:
    calls = {call for commands in book.commands for call in commands.calls}
    left = [(tree, False)]
    while left:
        node, within = left.pop()
        # What is put together is judged once, at its outermost: else long sums take forever.
        said = None if within else _constant(node)
        if said is not None:
            yield from judge_command(book, said)
        for name in (*_named(node), said or ""):
            if name and any(name == call or name.endswith(f".{call}") for call in calls):
                yield of_kind(Kind.DESTRUCTION, f"calls:{name}", name)
        left += ((child, isinstance(node, _JOINED)) for child in ast.iter_child_nodes(node))


def _constant(node: ast.AST) -> str | None:
    """The text that an expression of literals makes, as far as it is known: "rm" + " -rf", ["rm", "-rf"]."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            parts, between = [_constant(left), _constant(right)], ""
        case ast.JoinedStr(values=values):
            parts, between = [_constant(value) for value in values], ""
        case ast.List(elts=items) | ast.Tuple(elts=items):
            parts, between = [_constant(item) for item in items], " "
        case _:
            return None
    return between.join(part or "" for part in parts) or None


def _named(node: ast.AST) -> Iterator[str]:
    """Names as they are imported or used, dotted."""
    match node:
        case ast.ImportFrom(module=module, names=aliases):
            yield from (f"{module}.{alias.name}" for alias in aliases)
        case ast.Attribute(value=ast.Name(id=name), attr=attribute):
            yield f"{name}.{attribute}"
        case ast.Attribute(attr=attribute):
            yield f".{attribute}"
        case ast.Name(id=name):
            yield name
        case _:
            return
