"""The ledger of sandboxes: what a daemon that died may have left, and its safe removal.

Written into the run directory before a sandbox's program starts. A process is only ever signalled
through a pidfd whose start time, boot and pid namespace are those recorded: a reused pid is not ours.
"""

from __future__ import annotations

import json
import os
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Record:
    """One process: `start` in clock ticks since boot (proc(5), field 22 of stat)."""

    name: str
    pid: int
    start: int


class Ledger:
    """The processes of one run directory, kept in a file that only the daemon can read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._records: dict[int, Record] = {}
        self._world = _world()

    def add(self, name: str, *pids: int) -> None:
        """Record live processes that this daemon has just started."""
        for pid in pids:
            start = start_time(pid)
            if start is not None:
                self._records[pid] = Record(name, pid, start)
        self._write()

    def remove(self, *pids: int) -> None:
        """Forget processes that are gone. Written with the next that is added: a dead one harms nobody."""
        for pid in pids:
            self._records.pop(pid, None)

    def reap_stale(self) -> list[Record]:
        """Kill what an earlier daemon recorded and is still there; returns those killed."""
        killed = [record for record in self._read() if _kill(record)]
        self._write()
        return killed

    def _read(self) -> list[Record]:
        try:
            raw = json.loads(self._path.read_text())
            if raw["world"] != self._world:
                return []
            return [Record(str(r["name"]), int(r["pid"]), int(r["start"])) for r in raw["processes"]]
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return []

    def _write(self) -> None:
        document = {"world": self._world, "processes": [asdict(r) for r in self._records.values()]}
        partial = self._path.with_suffix(".new")
        partial.write_text(json.dumps(document))
        partial.replace(self._path)


def start_time(pid: int) -> int | None:
    """When *pid* started, or None if there is none such (a zombie counts as none)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else int(fields[19])


def children(pid: int) -> list[int]:
    """The direct children of *pid*, over all of its threads."""
    found: list[int] = []
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    return found


def descendants(pid: int) -> list[int]:
    """All below *pid*, deepest first: no parent acts on the death of a child that is yet to be seen."""
    return [d for child in children(pid) for d in (*descendants(child), child)]


def open_verified(pid: int, holds: Callable[[], bool]) -> int | None:
    """A pidfd of *pid*, if *holds* is still true once it is open; the caller closes it."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return None
    if holds():
        return fd
    os.close(fd)
    return None


def _kill(record: Record) -> bool:
    fd = open_verified(record.pid, lambda: start_time(record.pid) == record.start)
    if fd is None:
        return False
    try:
        signal.pidfd_send_signal(fd, signal.SIGKILL)
        select.select([fd], [], [], 2.0)  # bounded: SIGKILL to an init takes its namespace along
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)
    return True


def _world() -> list[object]:
    """What a pid and a start time are relative to."""
    return [_BOOT_ID.read_text().strip(), os.stat("/proc/self/ns/pid").st_ino]
