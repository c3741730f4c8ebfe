"""Copies of the home folder, by name: made, put back, removed; never half a home, whenever the machine stops.

    state/snapshots/NAME/home, meta.json     a snapshot; whole as soon as it has its name
    state/snapshots/.new-…, .gone-…          one in the making, one on its way out
    state/home.new                           what is to become the home, or was it

A copy is made by `cp`, as the apps' own user: what an app has planted in its home can't reach further than
the app could. The home is swapped by one rename. No app may run meanwhile: desktop.py sees to that.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import trio

from bodyd.errors import DiskFull, InvalidRequest, NotFound, SnapshotExists, Unavailable

from .layout import Layout
from .quota import measure

MAX_SNAPSHOTS = 32
SPARE_BYTES = 64 * 1024 * 1024
"""What has to be left of the disk besides the copy."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_ENOUGH = 2**62
_AT_FDCWD, _EXCHANGE = -100, 2
_libc = ctypes.CDLL(None, use_errno=True)

Make = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is known of one. `created_at` in Unix ms."""

    name: str
    created_at: int
    bytes: int


class Snapshots:
    """Those of one body. Every method that changes something wants the apps stopped, but `delete`."""

    def __init__(self, layout: Layout, *, now_ms: Callable[[], int]) -> None:
        self._layout = layout
        self._now_ms = now_ms
        self._root = layout.state / "snapshots"
        self._next = layout.state / "home.new"

    def recover(self) -> None:
        """Remove what a crash left half made. Before any app runs. Blocks."""
        shutil.rmtree(self._next, ignore_errors=True)
        if self._root.is_dir():
            for path in self._root.iterdir():
                if path.name.startswith("."):
                    shutil.rmtree(path, ignore_errors=True)

    def list(self) -> list[Snapshot]:
        """All of them, oldest first."""
        found = []
        for path in self._root.iterdir() if self._root.is_dir() else ():
            if _NAME.fullmatch(path.name):
                try:
                    found.append(Snapshot(**json.loads((path / "meta.json").read_text())))
                except (OSError, ValueError, TypeError):
                    continue  # not one of ours
        return sorted(found, key=lambda one: (one.created_at, one.name))

    async def create(self, name: str) -> Snapshot:
        """Copy the home under *name*.

        Raises:
            InvalidRequest: no name; or MAX_SNAPSHOTS are there.
            SnapshotExists, DiskFull, Unavailable: nothing was changed.
        Cancellation:
            Nothing is left of it.
        """
        target = self._path(name)
        if target.exists():
            raise SnapshotExists(f"there is a snapshot {name!r} already; delete it, or choose another name")
        if len(self.list()) >= MAX_SNAPSHOTS:
            raise InvalidRequest(f"{MAX_SNAPSHOTS} snapshots are there already; delete one", param="name")
        size = await self._room_for(self._layout.home)
        self._root.mkdir(mode=0o711, exist_ok=True)
        made = self._root / f".new-{secrets.token_hex(6)}"
        try:
            made.mkdir(mode=0o711)
            await self._copy(self._layout.home, made / "home")
            snapshot = Snapshot(name, self._now_ms(), size)
            (made / "meta.json").write_text(json.dumps(asdict(snapshot)))
            await trio.to_thread.run_sync(_durable, made)
            made.rename(target)
            _durable_names(self._root)
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(lambda: shutil.rmtree(made, ignore_errors=True))
        return snapshot

    async def restore(self, name: str) -> Snapshot:
        """Make the home what it was in *name*; the present one is gone.

        Raises:
            NotFound, DiskFull, Unavailable: nothing was changed.
        Cancellation:
            The home is whole, the old or the new.
        """
        snapshot = next((one for one in self.list() if one.name == name), None)
        if snapshot is None:
            raise NotFound(f"there is no snapshot {name!r:.80}", param="name")
        source = self._path(name) / "home"
        await self._room_for(source)
        await self._replace(lambda: self._copy(source, self._next))
        return snapshot

    async def reset(self) -> None:
        """Make the home an empty one. Cancellation: as of `restore`."""

        async def empty() -> None:
            self._make(self._next)

        await self._replace(empty)

    async def delete(self, name: str) -> None:
        """Remove one. Raises NotFound. Cancellation: it is removed, or there."""
        path = self._path(name)
        gone = self._root / f".gone-{secrets.token_hex(6)}"
        try:
            path.rename(gone)
        except OSError:
            raise NotFound(f"there is no snapshot {name!r:.80}", param="name") from None
        await trio.to_thread.run_sync(lambda: shutil.rmtree(gone, ignore_errors=True))

    # -- inside ------------------------------------------------------------------------------------

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise InvalidRequest(
                f"{name!r:.80} is no name for a snapshot: letters, digits, '.', '_' and '-', at most 64",
                param="name",
            )
        return self._root / name

    async def _replace(self, make: Make) -> None:
        """Make `home.new`, then let it and the home change places in one step."""
        home = self._layout.home
        try:
            await trio.to_thread.run_sync(lambda: shutil.rmtree(self._next, ignore_errors=True))
            await make()
            await trio.to_thread.run_sync(_durable, self._next)
            _exchange(self._next, home)
            _durable_names(home.parent)
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(lambda: shutil.rmtree(self._next, ignore_errors=True))

    def _make(self, path: Path) -> None:
        uids = self._layout.uids
        path.mkdir(mode=0o700)
        if uids.drop:
            os.chown(path, uids.apps, uids.apps)

    async def _copy(self, source: Path, target: Path) -> None:
        uids = self._layout.uids
        self._make(target)
        run = partial(
            trio.run_process,
            ["cp", "-a", "--reflink=auto", "--no-target-directory", ".", str(target)],
            cwd=source,
            check=False,
            stdout=subprocess.DEVNULL,
            capture_stderr=True,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        )
        if uids.drop:
            done = await run(user=uids.apps, group=uids.apps, extra_groups=[])
        else:
            done = await run()
        if done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()
            if any("No space left" in line for line in said):
                raise DiskFull("the disk was full before the copy was whole; nothing was changed")
            raise Unavailable(f"the copy failed: {said[-1][:300] if said else done.returncode}")

    async def _room_for(self, source: Path) -> int:
        """Bytes of *source*.

        Raises:
            DiskFull: there is no room for another of it.
        """
        usage = await trio.to_thread.run_sync(measure, source, _ENOUGH)
        if usage.beyond:
            raise Unavailable(f"the home folder can't be copied: it has {usage.beyond}")
        used = usage.bytes
        free = shutil.disk_usage(self._layout.state).free
        if free < used + SPARE_BYTES:
            raise DiskFull(f"the copy takes {used} bytes and {free} are free; delete a snapshot or make room")
        return used


def _exchange(one: Path, other: Path) -> None:
    """Swap two names in one step (renameat2, RENAME_EXCHANGE)."""
    if _libc.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _EXCHANGE) != 0:
        number = ctypes.get_errno()
        why = os.strerror(number)
        if number in (errno.EINVAL, errno.ENOSYS):
            why = "its file system can't swap two folders in one step; use ext4, xfs, btrfs or tmpfs"
        raise Unavailable(f"the home can't be replaced: {why}")


def _durable(path: Path) -> None:
    """Everything of *path*'s file system is on the disk (syncfs)."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if _libc.syncfs(fd) != 0:
            raise Unavailable(f"the copy could not be made durable: {os.strerror(ctypes.get_errno())}")
    finally:
        os.close(fd)


def _durable_names(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
