"""Stopping everything in a sandbox for a while, and letting it go on.

By signals, for cgroups can't be relied on: SIGSTOP can be neither caught nor ignored, and a fork that
meets it does not happen. What a program had itself stopped before goes on, too, when it is thawed.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import trio

from .ledger import descendants

FREEZE_S = 1.0
_LOOK_S = 0.002
_AT_REST = frozenset("TtZX")


async def freeze(init_pid: int) -> bool:
    """Stop every process below a namespace's init, which itself only reaps; False if that can't be done.

    Returns once a look has found all of them at rest. What forks faster than it can be stopped, or can't be
    interrupted, is not at rest after FREEZE_S: then kill it.

    Cancellation: what was stopped stays so.
    """
    stopped: set[int] = set()
    with trio.move_on_after(FREEZE_S):
        while True:
            inside = descendants(init_pid)
            fresh = [pid for pid in inside if pid not in stopped]
            if not fresh and all(map(_at_rest, inside)):
                return True
            stopped |= _send(init_pid, fresh, signal.SIGSTOP)
            await trio.sleep(_LOOK_S)  # a stop is only seen in /proc: nothing tells of it
    return False


def thaw(init_pid: int) -> None:
    """Let everything below the init go on."""
    _send(init_pid, descendants(init_pid), signal.SIGCONT)


def _send(init_pid: int, pids: Collection[int], number: signal.Signals) -> set[int]:
    """Signal those of *pids* that are still below the init once they are held by a pidfd; returns them."""
    held: dict[int, int] = {}
    for pid in pids:
        with suppress(ProcessLookupError):
            held[pid] = os.pidfd_open(pid)
    inside = held.keys() & set(descendants(init_pid)) if held else set()
    for pid, fd in held.items():
        if pid in inside:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(fd, number)
        os.close(fd)
    return inside


def _at_rest(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # gone
        return True
    return stat[stat.rindex(")") + 2] in _AT_REST
