"""Verdicts on commands: rules see through quoting and nesting, and doubt is never in a command's favour."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bodyd.contract.shell import ShellPolicy
from bodyd.execution.grammar import Unreadable, read
from bodyd.execution.rules import judge

LISTED = ShellPolicy(
    default="deny",
    allow=("ls", "cat", "grep", "wc", "git status", "env", "xargs", "bash", "find"),
    deny=("rm",),
)
OPEN = ShellPolicy(default="allow", approve=("git push",), deny=("rm", "curl"))

READ = {
    "a pipeline": "ls -l | grep x && echo done || false",
    "lines": "ls\ncat y\n\n# a comment\n",
    "a condition": 'if [ -f x ]; then cat x; elif test -d y; then ls y; else echo "no"; fi > log 2>&1',
    "loops": 'for f in *.txt "$@"; do cat "$f"; done; while read -r line; do echo "$line"; done < x',
    "groups": "(cd src && ls) ; { ls; cat y; } | wc -l",
    "substitution": 'echo "$(ls $(cat list))" ${HOME:-/x} ${#name} ${name%.txt}',
    "here-documents": "cat <<'EOF' > x\n$(rm y) `rm z`\nEOF\ncat <<-END\n\tplain $text\n\tEND\nls",
    "redirections": "ls >out 2>>err <in &>all >&2 <<<word >|force",
    "background": "ls & wait",
    "settings": "set -euo pipefail; export X=1 Y=$HOME; ls",
    "wrappers": "env -i A=1 ls -l; xargs -0 -n 1 ls; bash -ec 'ls | cat'",
    "joined lines": "ls \\\n  -l",
    "not": "! ls; time -p ls",
    "the system's paths": "/usr/bin/ls /bin; /bin/cat x",
    "odd words": "echo 'a'\"b\"\\c ~ {a,b} a#b $ $?",
    "find": "find . -name '*.py' -type f",
}


@pytest.mark.parametrize("text", READ.values(), ids=READ.keys())
def test_plain_commands_are_read_and_allowed(text: str) -> None:
    """What an allow list names, in any of the forms that are read, is allowed."""
    assert judge(LISTED, text).verb == "allow"


HIDDEN = {
    "plain": "rm x",
    "a path": "/usr/bin/rm x",
    "quoted": "r'm' x",
    "escaped": "\\rm x",
    "behind others": "ls; ls && ls | rm x",
    "a line later": "ls\nrm x",
    "in the background": "ls & rm x",
    "in a group": "{ (ls; rm x) }",
    "in a condition": "if rm x; then ls; fi",
    "in an else": "if ls; then ls; else rm x; fi",
    "in a loop": "for a in b; do rm x; done",
    "substituted": 'ls "$(rm x)"',
    "twice substituted": "ls $(ls $(rm x))",
    "in a default": "ls ${x:-$(rm x)}",
    "assigned": "A=$(rm x) ls",
    "redirected": "ls > $(rm x)",
    "behind a redirection": ">f rm x",
    "behind an assignment": "A=1 rm x",
    "wrapped": "env A=1 rm x",
    "wrapped twice": "env nohup nice -n 5 rm x",
    "by xargs": "ls | xargs -0 rm",
    "by find": "find . -exec rm {} +",
    "by a shell": "bash -c 'ls; rm x'",
    "by a shell in a shell": "sh -c \"sh -c 'rm x'\"",
    "backquotes": "ls `rm x`",
    "evaluated": "eval rm x",
    "a function": "f() { rm x; }; f",
    "a case": "case a in a) rm x;; esac",
    "a process": "cat <(rm x)",
    "a split keyword": "if false; then ls; el\\\nse rm x; fi",
    "a quoted keyword": "if false; then ls; 'else' rm x; fi; fi",
    "after a here-document": "cat <<E\nE\nrm x",
    "in a here-document": "cat <<E\n$(rm x)\nE",
    "negated": "! rm x",
    "timed": "time rm x",
    "command": "command rm x",
    "exec": "exec rm x",
}


@pytest.mark.parametrize("text", HIDDEN.values(), ids=HIDDEN.keys())
def test_a_denied_program_is_found_wherever_it_stands(text: str) -> None:
    """A deny rule holds for each form in which a shell would start the program, read or not."""
    assert judge(OPEN, text).verb == "deny"
    assert judge(LISTED, text).verb == "deny"


UNKNOWABLE = {
    "a name made at run time": "$(echo r)m x",
    "a name from a variable": "$CMD x",
    "a glob for a name": "/usr/bin/r? x",
    "eval": 'eval "$x"',
    "source": ". ./script",
    "a trap": "trap 'ls' EXIT",
    "an alias": "alias ls=cat",
    "a path to search": "PATH=. ls",
    "a path, quoted": 'export P"ATH"=.',
    "a path, by loop": "for PATH in .; do ls; done",
    "a path, read": "read PATH < x",
    "a path, by name at run time": "export $x",
    "a preload": "LD_PRELOAD=./x.so ls",
    "a split variable": "PA\\\nTH=. ls",
    "the shell's options": "set -k; ls",
    "a wrapped name at run time": "env $x",
    "a script file": "bash script.sh",
    "arithmetic": "echo $((x[$(ls)]))",
    "an array": "a=($(ls))",
    "a hash": "hash -p /tmp/x ls",
    "an expansion with code": "echo ${x@P}",
    "a control character": "ls \x01",
    "an open quote": "ls 'x",
    "an open group": "(ls",
    "a coprocess": "coproc ls",
    "an open here-document": "cat <<E\nls",
    "nothing to redirect to": "ls >",
    "much nesting": "(" * 40 + "ls" + ")" * 40,
}


@pytest.mark.parametrize("text", UNKNOWABLE.values(), ids=UNKNOWABLE.keys())
def test_what_can_not_be_known_is_denied_or_as_configured(text: str) -> None:
    """A command that can't be read with certainty has the verdict of `unparsed`, and says so."""
    judged = judge(OPEN, text)
    assert judged.verb == "deny"
    assert judged.rule.startswith("unparsed:")
    allowing = OPEN.model_copy(update={"unparsed": "allow"})
    assert judge(allowing, text).verb == "allow"


@pytest.mark.parametrize(
    "text", ["./ls", "/workspace/ls", "bin/ls", "lss", "LS", "git push", "git", "git $x", "env ./ls"]
)
def test_an_allow_list_means_the_systems_programs(text: str) -> None:
    """A program of the same name elsewhere is another one; a rule's words all have to be there."""
    assert judge(LISTED, text).verb == "deny"


@pytest.mark.parametrize("text", ["git push", "/usr/bin/git push -f", "git $x", "git ${x} y", "env git push"])
def test_approval_is_asked_for_whatever_may_match(text: str) -> None:
    """A word that is known only at run time may be the one that a rule names."""
    assert judge(OPEN, text).verb == "approve"
    assert judge(OPEN, "git pull").verb == "allow"


def test_the_strictest_verdict_counts() -> None:
    """deny > approve > allow, over all that a command starts; and the rule is named."""
    assert judge(OPEN, "ls; git push; rm x").rule == "deny:rm"
    assert judge(OPEN, "ls; git push").rule == "approve:git push"
    assert judge(ShellPolicy(default="approve", allow=("ls",)), "ls; cat").rule == "default"


def test_any_word_may_be_asked_for() -> None:
    """`*` in a rule stands for one word."""
    policy = ShellPolicy(default="deny", allow=("git * --stat",), deny=("* --force",))
    assert judge(policy, "git diff --stat").verb == "allow"
    assert judge(policy, "git diff").verb == "deny"
    assert judge(policy, "tool --force").rule == "deny:* --force"


@given(st.text(alphabet="rm ls;&|(){}<>\"'\\$`\n#=x-[]!eval/ifthendo", max_size=60))
def test_no_text_breaks_the_parser(text: str) -> None:
    """Whatever is written: commands, or Unreadable, and a verdict in any case."""
    with suppress(Unreadable):
        read(text)
    assert judge(LISTED, text).verb in ("allow", "deny")
