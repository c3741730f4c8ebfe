"""Control groups: memory, processes and CPU of a sandbox as a whole, where this daemon may write them.

Groups are made below the daemon's own, never beside or above it: who runs the daemon has said what is ours.
On cgroup v2 a group with processes can't hand its controllers down, so the daemon moves itself into a leaf
first, if nobody else is in its group. Where a limit can't be had this way, `missing` says why: the sandbox
then has its rlimits alone, and doctor and status say so.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bodyd.errors import IsolationUnavailable

from .spec import GroupLimits

CONTROLLERS = {"memory": "memory", "processes": "pids", "cpu": "cpu"}
"""What is limited, by the kernel's name for it."""

_PERIOD_US = 100_000
_LEAF = "bodyd-daemon"
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Place:
    """Where groups with one controller are made: the daemon's own group in that hierarchy."""

    path: Path
    unified: bool


@dataclass
class Group:
    """The directories of one sandbox's group, one a hierarchy."""

    paths: list[Path] = field(default_factory=list)

    def enter(self, *pids: int) -> str:
        """Move processes in; what they start from now on is in it, too. Why not, or "". It may take long."""
        try:
            for path in self.paths:
                for pid in pids:
                    _write(path / "cgroup.procs", str(pid))
        except ProcessLookupError:  # ended already: its own words say why
            return ""
        except OSError as exc:
            return f"the sandbox could not be put into its control group {path}: {exc.strerror}"
        return ""

    def remove(self) -> None:
        """Once all in it are dead. One that is still busy is swept by the next start."""
        for path in self.paths:
            with suppress(OSError):
                path.rmdir()


@dataclass(frozen=True)
class Cgroups:
    """What can be limited here.

    Attributes:
        missing: Why not, by what is not ("memory", "processes", "cpu").
    """

    prefix: str
    places: Mapping[str, Place]
    missing: Mapping[str, str]

    def make(self, name: str, limits: GroupLimits) -> Group:
        """A group with *limits*, as far as they can be had.

        Raises:
            IsolationUnavailable: one that could be had at the start, can't be had now.
        """
        group = Group()
        leaf = f"{self.prefix}{name}-{os.getpid()}-{next(_numbers)}"
        try:
            for what, place in self.places.items():
                wanted = list(_settings(what, limits, unified=place.unified))
                if not wanted:
                    continue
                path = place.path / leaf
                if path not in group.paths:
                    path.mkdir()
                    group.paths.append(path)
                for file, value in wanted:
                    _write(path / file, value)
        except OSError as exc:
            group.remove()
            raise IsolationUnavailable(f"no control group for the sandbox {name!r}: {exc}") from exc
        return group

    def describe(self) -> dict[str, str]:
        """By what is limited: "cgroup", or "rlimit" for what each sandbox limits itself, or "none"."""
        without = {"memory": "rlimit", "processes": "rlimit", "cpu": "none"}
        return {what: "cgroup" if what in self.places else without[what] for what in CONTROLLERS}


NONE = Cgroups("", {}, dict.fromkeys(CONTROLLERS, "they were not looked for"))


def open_cgroups(
    body: str, *, mounts: str | None = None, own: str | None = None, root: Path = Path("/")
) -> Cgroups:
    """Find the places, prove each by a group that is made and removed, and sweep what a dead daemon left.

    Args:
        mounts, own, root: For tests: the texts of /proc/self/mountinfo and /proc/self/cgroup, and
            where their paths begin.
    """
    prefix = f"bodyd-{body}-"
    places: dict[str, Place] = {}
    missing: dict[str, str] = {}
    found = _find(
        Path("/proc/self/mountinfo").read_text() if mounts is None else mounts,
        Path("/proc/self/cgroup").read_text() if own is None else own,
    )
    for what, controller in CONTROLLERS.items():
        place = found.get(controller)
        if place is None:
            missing[what] = f"no hierarchy of control groups has the controller {controller} here"
            continue
        place = Place(root / place.path.relative_to("/"), place.unified)
        try:
            if place.unified:
                place = _delegated(place, controller)
            _prove(place, what, prefix)
        except OSError as exc:
            missing[what] = f"{place.path}: {exc.strerror}"
            continue
        places[what] = place
    for place in set(places.values()):
        for left in place.path.glob(f"{prefix}*"):
            if not os.path.exists(f"/proc/{left.name.removeprefix(prefix).split('-')[1]}"):
                with suppress(OSError):
                    left.rmdir()
    return Cgroups(prefix, places, missing)


def _find(mounts: str, own: str) -> dict[str, Place]:
    """The daemon's own group, by controller; the unified hierarchy has what no other has (cgroups(7))."""
    mounted: dict[str, tuple[str, str]] = {}
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if kind[0] == "cgroup2":
            mounted[""] = (fields[3], fields[4])
        elif kind[0] == "cgroup":
            mounted |= dict.fromkeys(kind[2].split(","), (fields[3], fields[4]))
    found: dict[str, Place] = {}
    for line in own.splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            if name in mounted and (place := _below(*mounted[name], path)) is not None:
                for controller in [name] if name else CONTROLLERS.values():
                    if name or controller not in found:
                        found[controller] = Place(place, unified=not name)
    return found


def _below(mount_root: str, mount_point: str, path: str) -> Path | None:
    """Where group *path* is to be found under a mount that shows the hierarchy from *mount_root* on."""
    if mount_root == "/":
        return Path(mount_point + path)
    if path == mount_root or path.startswith(mount_root + "/"):
        return Path(mount_point + path.removeprefix(mount_root))
    return None


def _delegated(place: Place, controller: str) -> Place:
    """The place, once its groups may have *controller*.

    Raises:
        OSError: they may not.
    """
    path = place.path.parent if place.path.name == _LEAF else place.path
    if controller not in (path / "cgroup.controllers").read_text().split():
        raise OSError(0, f"the controller {controller} is not handed down to it")
    handed = path / "cgroup.subtree_control"
    if controller in handed.read_text().split():
        return Place(path, unified=True)
    try:
        _write(handed, f"+{controller}")
    except OSError:
        inside = (path / "cgroup.procs").read_text().split()
        if inside != [str(os.getpid())]:
            raise OSError(0, "others run in it, too, so that it can't hand its controllers down") from None
        (path / _LEAF).mkdir(exist_ok=True)
        _write(path / _LEAF / "cgroup.procs", str(os.getpid()))
        _write(handed, f"+{controller}")
    return Place(path, unified=True)


def _prove(place: Place, what: str, prefix: str) -> None:
    """Make a group and limit it, as each sandbox will.

    Raises:
        OSError: it can't be done.
    """
    probe = place.path / f"{prefix}probe-{os.getpid()}-{what}"
    probe.mkdir()
    try:
        for file, value in _settings(what, GroupLimits(1 << 30, 1024, 1.0), unified=place.unified):
            _write(probe / file, value)
        if not os.access(place.path / "cgroup.procs", os.W_OK):
            raise OSError(0, "its processes can't be moved")
    finally:
        probe.rmdir()


def _settings(what: str, limits: GroupLimits, *, unified: bool) -> Iterator[tuple[str, str]]:
    """The files to write for one kind of limit, and what to write; nothing for a limit that is 0."""
    if what == "memory" and limits.memory_bytes:
        yield ("memory.max" if unified else "memory.limit_in_bytes"), str(limits.memory_bytes)
    elif what == "processes" and limits.processes:
        yield "pids.max", str(limits.processes)
    elif what == "cpu" and limits.cpus:
        quota = max(1000, round(limits.cpus * _PERIOD_US))
        if unified:
            yield "cpu.max", f"{quota} {_PERIOD_US}"
        else:
            yield "cpu.cfs_period_us", str(_PERIOD_US)
            yield "cpu.cfs_quota_us", str(quota)


def _write(path: Path, value: str) -> None:
    """In one write and without creating: a file of a control group, or an OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, value.encode())
    finally:
        os.close(fd)
