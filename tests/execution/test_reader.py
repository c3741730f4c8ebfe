"""What was read, held to bash itself: it starts no program that the reader did not see."""

from __future__ import annotations

import json
import random

from bodyd.execution.grammar import Unreadable, read

from .world import world

PROGRAMS = ("pa", "pb", "pc", "pd")
PIECES = (
    *PROGRAMS, *(f"{name} " for name in PROGRAMS), "x=1 ", "x", "-n ", "$x", "${x:-pb}", '"$(', ")", ')"',
    "$(", "(", "{ ", "; }", ";", "; ", "&&", "||", "|", "|&", "&", "\n", "if ", "; then ", "; else ", "; fi",
    "for x in a b; do ", "; done", "while ", "until ", "; do ", "!", "! ", "'", '"', "\\", "\\\n", "#", " #",
    " ", " >f ", " <f ", " 2>&1 ", " <<E\n", "\nE\n", " <<'E'\n", " <<-E\n\t", "\n\tE\n", "`", "$((", "))",
    "[ ", " ]", "*", "~", "=", "break", "time ",
)  # fmt: skip

# Each text has a file of its own for what it ran, read at the end: what runs in the background may be late.
DRIVER = r"""
import json, os, subprocess, sys
os.makedirs("bin", exist_ok=True)
os.makedirs("ran", exist_ok=True)
for name in sys.argv[1:]:
    with open(f"bin/{name}", "w") as stub:
        stub.write(f"#!/bin/sh\necho {name} >> /workspace/ran/$TEXT\nexit 1\n")
    os.chmod(f"bin/{name}", 0o755)
texts, wrong = json.load(open("texts")), []
for number, text in enumerate(texts):
    open("f", "w").close()
    open(f"ran/{number}", "w").close()
    try:
        done = subprocess.run(["/usr/bin/bash", "-c", "--", text],
                              env={"PATH": "/workspace/bin", "TEXT": str(number)},
                              timeout=0.5, capture_output=True, stdin=subprocess.DEVNULL)
        wrong.append(b"syntax error" in done.stderr or b"unexpected EOF" in done.stderr)
    except subprocess.TimeoutExpired:
        wrong.append(False)
ran = [sorted(set(open(f"ran/{number}").read().split())) for number in range(len(texts))]
json.dump(list(zip(ran, wrong)), open("done", "w"))
"""


def written(chance: random.Random) -> str:
    """A text made of what shells are made of; a part of them is one that is read."""
    return "".join(chance.choice(PIECES) for _ in range(chance.randint(2, 14)))


async def test_bash_starts_nothing_that_was_not_read(times):
    """Random texts that are read: bash takes each for a command, and runs no program beside those found."""
    chance, texts = random.Random(77), {}
    while len(texts) < times(3000):
        text = written(chance)
        try:
            commands = read(text)
        except Unreadable:
            continue
        names = {c.words[0].text for c in commands if c.words}
        if None not in names and names & set(PROGRAMS):
            texts[text] = names
    async with world(limits={"timeout_ms": 600_000}) as w:
        await w.out("mkdir -p bin")
        (w.work() / "texts").write_text(json.dumps(list(texts)))
        (w.work() / "driver.py").write_text(DRIVER)
        await w.out("python3 driver.py " + " ".join(PROGRAMS))
        ran = json.loads((w.work() / "done").read_text())
    wrong = [
        (text, started, sorted(map(str, names)))
        for (text, names), (started, faulty) in zip(texts.items(), ran, strict=True)
        if faulty or not set(started) <= names
    ]
    assert wrong == []
