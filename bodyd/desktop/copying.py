"""The copy of a home: `cp` in a sandbox of its own, as the apps' user.

What apps have planted in their home (links, odd names, odd modes) reaches no further than the sandbox, and a
copier that its daemon has left dies with it, or is found in the ledger. Counterpart: snapshots.py.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import trio

from bodyd.errors import DiskFull, Unavailable

from . import seccomp
from .layout import Layout
from .process import sandbox
from .spec import Bind, SandboxSpec

Told = Callable[[int], None]
"""Called with the number of files that are copied, now and then."""

_FROM, _TO = "/from", "/to"
_VERSION = re.compile(r"browser (\d{1,5}(?:\.\d{1,6}){1,3})$", re.MULTILINE)
# Chromium writes down which version last had a profile. What it says is the apps' word.
_SCRIPT = f"""
cp -a -v --reflink=auto --no-target-directory {_FROM} {_TO} || exit
if [ -f {_FROM}/chromium/"Last Version" ]; then
    printf "\\nbrowser " >&2; head -c 40 {_FROM}/chromium/"Last Version" >&2
fi
"""


async def copy_home(layout: Layout, source: Path, target: Path, told: Told) -> str | None:
    """Copy all of *source* into *target*, an empty folder of the apps'; nothing else may write to either.

    Returns:
        The version of the browser that had the profile, if there is one.
    Raises:
        DiskFull, Unavailable: *target* has a part of it.
        IsolationUnavailable: no sandbox can be built.
    Cancellation:
        The copier is dead; *target* has a part of it.
    """
    listed, lists = os.pipe2(os.O_CLOEXEC)
    ends = [listed, lists]
    try:
        os.set_blocking(listed, False)
        async with sandbox(_spec(layout, source, target), ledger=layout.ledger, stdout=lists) as box:
            os.close(ends.pop())
            async with trio.open_nursery() as nursery:
                nursery.start_soon(box.drain)
                nursery.start_soon(_count, listed, told)
            status = await box.wait()
    finally:
        for fd in ends:
            os.close(fd)
    if status == 0:
        version = _VERSION.search(box.tail())
        return version[1] if version else None
    complaints = [line for line in box.tail().splitlines() if line.startswith("cp: ")]
    if any("No space left" in line for line in complaints):
        raise DiskFull("the disk was full before the copy was whole; nothing was changed")
    why = complaints[-1][:300] if complaints else f"cp ended with status {status}"
    raise Unavailable(f"the home can't be copied: {why}")


def _spec(layout: Layout, source: Path, target: Path) -> SandboxSpec:
    return SandboxSpec(
        name="copy",
        argv=("/usr/bin/sh", "-c", _SCRIPT),
        uid=layout.uids.apps if layout.uids.drop else None,
        seccomp=seccomp.strict_filter(()),
        binds=(Bind(str(source), _FROM), Bind(str(target), _TO, writable=True)),
        env={"PATH": "/usr/bin", "LC_ALL": "C"},
        etc=("ld.so.cache",),
    )


async def _count(listed: int, told: Told) -> None:
    """cp names each file in one line, whatever is in its name."""
    lines = 0
    while True:
        await trio.lowlevel.wait_readable(listed)
        piece = os.read(listed, 65536)
        if not piece:
            return
        lines += piece.count(b"\n")
        told(lines)
