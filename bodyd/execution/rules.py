"""The verdict on a command, before anything of it runs. Pure.

Rules speak of the programs that a command starts itself. They are no wall: an allowed interpreter does
what its script says, and the wall is the sandbox. Whatever can't be known counts as matching a rule that
forbids and as not matching one that allows. Counterparts: grammar.py reads, contract/shell.py has the form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from bodyd.contract.shell import ShellPolicy, Verb

from .grammar import Unreadable, Word, read

# Builtins that make text into commands, or change what a later name or syntax means.
_OPAQUE = frozenset(
    ". source eval trap alias unalias enable coproc mapfile readarray let bind complete compgen compopt fc "
    "hash shopt history".split()
)
# Programs and builtins whose arguments name another command.
_WRAPPERS = frozenset(
    "command builtin exec env nohup nice ionice chrt taskset timeout setsid stdbuf xargs sudo doas su watch "
    "parallel chroot unshare nsenter script flock prlimit busybox strace ltrace time".split()
)
_FINDERS = frozenset("find fd fdfind".split())
_FIND_RUNS = frozenset("-exec -execdir -ok -okdir -x -X --exec --exec-batch".split())
_SHELLS = frozenset("sh bash dash rbash zsh ksh".split())
_HARMLESS = frozenset(
    ": true false cd pwd echo printf test [ export set unset read exit return break continue shift wait "
    "umask local declare typeset readonly type times getopts".split()
)
_SETTERS = frozenset("export declare typeset local readonly read unset getopts printf".split())
_SET_OPTIONS = re.compile(r"[-+][euxfvo]+|pipefail|errexit|nounset|noglob|xtrace|--")
_COUNT = re.compile(r"[0-9.]+[a-zA-Z]?")
# Variables that decide which program a name means, or what runs beside it.
_STEERING = re.compile(
    r"(?<![$\w])(?<!\$\{)(?:PATH|ENV|IFS|SHELLOPTS|BASHOPTS|PS4|PROMPT_COMMAND|GLOBIGNORE|(?:BASH|LD)_\w+)(?!\w)"
)
_SYSTEM = ("/usr/bin/", "/bin/", "/usr/sbin/", "/sbin/")
_STRICT = ("allow", "approve", "deny")
MAX_SCRIPTS = 4


@dataclass(frozen=True, slots=True)
class Judgement:
    """`rule` names what decided, for the audit and the message: "deny:rm", "default", "unparsed:eval"."""

    verb: Verb
    rule: str


def judge(policy: ShellPolicy, text: str) -> Judgement:
    """The strictest verdict over every program that *text* starts."""
    assert policy.default != "none"
    judgements = [Judgement("allow", "empty")]
    try:
        judgements += _judge_text(policy, text, 0)
    except Unreadable as exc:
        judgements.append(Judgement(policy.unparsed, f"unparsed:{exc}"))
        judgements += _mentioned(policy, text)
    return max(judgements, key=lambda j: (_STRICT.index(j.verb), j.rule != "empty"))


def _judge_text(policy: ShellPolicy, text: str, depth: int) -> Iterator[Judgement]:
    if _STEERING.search(text):
        raise Unreadable("a variable that decides what is executed")
    if depth > MAX_SCRIPTS:
        raise Unreadable("scripts in scripts")
    for command in read(text):
        if command.words:
            yield from _judge_words(policy, command.words, depth)


def _judge_words(policy: ShellPolicy, words: Sequence[Word], depth: int) -> Iterator[Judgement]:
    name = words[0].text
    if name is None:
        raise Unreadable("a command name that is made at run time")
    base = PurePosixPath(name).name or name
    if base in _OPAQUE:
        raise Unreadable(f"{base}, which makes text into commands")
    if any(_STEERING.search(word.head) for word in words):
        raise Unreadable("a variable that decides what is executed")
    _check_setter(base, words)
    yield _judge_one(policy, name, base, words)
    if base in _SHELLS:
        yield from _judge_text(policy, _script(words), depth + 1)
    elif base in _WRAPPERS:
        yield from _judge_wrapped(policy, words, depth)
    elif base in _FINDERS and any(w.text is None or w.text in _FIND_RUNS for w in words[1:]):
        yield from _forbidden_among(policy, words[1:])


def _judge_one(policy: ShellPolicy, name: str, base: str, words: Sequence[Word]) -> Judgement:
    for verb, rules in (("deny", policy.deny), ("approve", policy.approve)):
        for rule in rules:
            if _forbids(rule, name, base, words):
                return Judgement(verb, f"{verb}:{rule}")  # type: ignore[arg-type]
    if any(_permits(rule, name, words) for rule in policy.allow):
        return Judgement("allow", "allow")
    if name in _HARMLESS:
        return Judgement("allow", "builtin")
    assert policy.default != "none"
    return Judgement(policy.default, "default")


def _forbids(rule: str, name: str, base: str, words: Sequence[Word]) -> bool:
    """Whether the rule may match: a word that is not known could be any."""
    first, *rest = rule.split()
    if first != "*" and first not in (name, base):
        return False
    if len(words) - 1 < len(rest):  # an unknown word may be several, once it is split
        return any(w.text is None for w in words[1:])
    return all(
        want in ("*", word.text) or word.text is None for want, word in zip(rest, words[1:], strict=False)
    )


def _permits(rule: str, name: str, words: Sequence[Word]) -> bool:
    """Whether the rule does match: a bare rule means the system's program of that name, no other's."""
    first, *rest = rule.split()
    bare = name if "/" not in name else next((name[len(p) :] for p in _SYSTEM if name.startswith(p)), name)
    if "/" in bare and bare != first:
        return False
    if first not in ("*", name, bare) or len(words) - 1 < len(rest):
        return False
    return all(
        word.text is not None and want in ("*", word.text)
        for want, word in zip(rest, words[1:], strict=False)
    )


def _check_setter(base: str, words: Sequence[Word]) -> None:
    """Builtins that set variables by name must not do so by a name that is made at run time."""
    if base == "set" and not all(w.text and _SET_OPTIONS.fullmatch(w.text) for w in words[1:]):
        raise Unreadable("options of the shell")
    if base == "printf":
        words = words[:3]
    if base in _SETTERS and any(
        w.text is None and "=" not in w.head for w in words[1 : 2 if base == "printf" else None]
    ):
        raise Unreadable("a variable name that is made at run time")


def _script(words: Sequence[Word]) -> str:
    """What `sh -c` is given to execute."""
    for place, word in enumerate(words[1:], 1):
        if word.text is None or not word.text.startswith("-") or word.text.startswith("--"):
            break
        if "c" in word.text:
            script = words[place + 1].text if place + 1 < len(words) else None
            if script is not None:
                return script
            break
    raise Unreadable("a shell whose script is not plain")


def _judge_wrapped(policy: ShellPolicy, words: Sequence[Word], depth: int) -> Iterator[Judgement]:
    for place, word in enumerate(words[1:], 1):
        if word.text is None:
            raise Unreadable("a command name that is made at run time")
        if not (word.text.startswith("-") or "=" in word.text or _COUNT.fullmatch(word.text)):
            yield from _forbidden_among(policy, words[1:])
            yield from _judge_words(policy, words[place:], depth)
            return


def _forbidden_among(policy: ShellPolicy, words: Sequence[Word]) -> Iterator[Judgement]:
    """Any of these words may be a command's name, with what follows it."""
    for place, word in enumerate(words):
        if word.text is None:
            continue
        base = PurePosixPath(word.text).name or word.text
        if base in _OPAQUE and word.text != ".":
            raise Unreadable(f"{base}, which makes text into commands")
        found = _judge_one(policy, word.text, base, words[place:])
        if found.rule.startswith(("deny:", "approve:")):
            yield found


def _mentioned(policy: ShellPolicy, text: str) -> Iterator[Judgement]:
    """For a text that can't be read: rules that forbid a name which stands somewhere in it."""
    names = set(re.findall(r"[\w.+-]+", text))
    for verb, rules in (("deny", policy.deny), ("approve", policy.approve)):
        for rule in rules:
            if PurePosixPath(rule.split()[0]).name in names:
                yield Judgement(verb, f"{verb}:{rule}")  # type: ignore[arg-type]
