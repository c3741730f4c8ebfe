"""Copies of the home folder, by name: made, put back, removed; never half a home, whenever the machine stops.

    state/snapshots/NAME/home, meta.json     a snapshot; whole as soon as it has its name
    state/snapshots/.new-…, .gone-…          one in the making, one on its way out
    state/home.new-…, home.old-…             what is to become the home, and what it was

The home is swapped by one rename. No app may run meanwhile: desktop.py sees to that. Counterpart: copying.py.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import re
import secrets
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import trio

from bodyd import __version__
from bodyd.errors import DiskFull, InvalidRequest, NotFound, SnapshotExists, Unavailable

from .copying import copy_home
from .layout import Layout
from .quota import Usage, measure

MAX_SNAPSHOTS = 32
SPARE_BYTES = 64 * 1024 * 1024
"""What has to be left of the disk besides the copy."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_ENOUGH = 2**62
_AT_FDCWD, _EXCHANGE = -100, 2
_libc = ctypes.CDLL(None, use_errno=True)

Make = Callable[[Path], Awaitable[None]]
Progress = Callable[[int, int], None]
"""Called with how many files are copied, and of how many."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is known of one.

    Attributes:
        created_at: Unix ms.
        bytes: On disk; `files` counts folders, too.
        bodyd_version: Of the daemon that made it.
        browser_version: Of the browser that had the profile, by the profile's own word; None: no profile.
            An older browser may refuse it.
    """

    name: str
    created_at: int
    bytes: int
    files: int = 0
    bodyd_version: str = ""
    browser_version: str | None = None


def _unheard(done: int, of: int) -> None:
    """The Progress of who does not ask."""


class Snapshots:
    """Those of one body. Every method that changes something wants the apps stopped, but `delete`.

    One of them at a time: the caller sees to that.
    """

    def __init__(self, layout: Layout, *, now_ms: Callable[[], int]) -> None:
        self._layout = layout
        self._now_ms = now_ms
        self._root = layout.state / "snapshots"
        self._old: list[Path] = []

    def recover(self) -> None:
        """Find what a crash left half made, for `sweep` to remove. Before any other step."""
        self._old += (
            *self._layout.state.glob("home.new-*"),
            *self._layout.state.glob("home.old-*"),
            *self._root.glob(".new-*"),
            *self._root.glob(".gone-*"),
        )

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

    async def may_create(self, name: str) -> Usage:
        """How much there is to copy; raises as `create`, which asks again. Apps may run."""
        if self._path(name).exists():
            raise SnapshotExists(f"there is a snapshot {name!r} already; delete it, or choose another name")
        if len(self.list()) >= MAX_SNAPSHOTS:
            raise InvalidRequest(f"{MAX_SNAPSHOTS} snapshots are there already; delete one", param="name")
        return await self._room_for(self._layout.home)

    async def may_restore(self, name: str) -> Usage:
        """As `may_create`, of `restore`."""
        self._known(name)
        return await self._room_for(self._path(name) / "home")

    async def create(self, name: str, *, progress: Progress = _unheard) -> Snapshot:
        """Copy the home under *name*.

        Raises:
            InvalidRequest: no name; or MAX_SNAPSHOTS are there.
            SnapshotExists, DiskFull, Unavailable: nothing was changed.
        Cancellation:
            Nothing is left of it.
        """
        usage = await self.may_create(name)
        target = self._path(name)
        self._root.mkdir(mode=0o711, exist_ok=True)
        async with self._in_the_making(self._root / f".new-{secrets.token_hex(6)}") as made:
            made.mkdir(mode=0o711)
            browser = await self._copy(self._layout.home, made / "home", usage, progress)
            snapshot = Snapshot(name, self._now_ms(), usage.bytes, usage.files, __version__, browser)
            (made / "meta.json").write_text(json.dumps(asdict(snapshot)))
            await trio.to_thread.run_sync(_durable, made)
            made.rename(target)
            _durable_names(self._root)
        return snapshot

    async def restore(self, name: str, *, progress: Progress = _unheard) -> Snapshot:
        """Make the home what it was in *name*; the present one is gone.

        Raises:
            NotFound, DiskFull, Unavailable: nothing was changed.
        Cancellation:
            The home is whole, the old or the new.
        """
        usage = await self.may_restore(name)
        snapshot, source = self._known(name), self._path(name) / "home"

        async def copy(target: Path) -> None:
            await self._copy(source, target, usage, progress)

        await self._replace(copy)
        return snapshot

    async def reset(self) -> None:
        """Make the home an empty one. Cancellation: as of `restore`."""

        async def empty(target: Path) -> None:
            self._make(target)

        await self._replace(empty)

    async def sweep(self) -> None:
        """Remove the homes that were replaced, and what `recover` found; apps may run, and other steps.

        Cancellation: what is left goes after the next start.
        """
        while self._old:
            await trio.to_thread.run_sync(_remove, self._old.pop(), abandon_on_cancel=True)

    async def delete(self, name: str) -> None:
        """Remove one. Raises NotFound. Cancellation: it is removed, or there."""
        path = self._path(name)
        gone = self._root / f".gone-{secrets.token_hex(6)}"
        try:
            path.rename(gone)
        except OSError:
            raise NotFound(f"there is no snapshot {name!r:.80}", param="name") from None
        await trio.to_thread.run_sync(_remove, gone)

    # -- inside ------------------------------------------------------------------------------------

    def _known(self, name: str) -> Snapshot:
        for one in self.list():
            if one.name == name:
                return one
        raise NotFound(f"there is no snapshot {name!r:.80}", param="name")

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise InvalidRequest(
                f"{name!r:.80} is no name for a snapshot: letters, digits, '.', '_' and '-', at most 64",
                param="name",
            )
        return self._root / name

    async def _replace(self, make: Make) -> None:
        """Let what *make* makes and the home change places in one step."""
        home = self._layout.home
        # a name of its own: what writes to another still, can't write here
        async with self._in_the_making(self._layout.state / f"home.new-{secrets.token_hex(6)}") as made:
            await make(made)
            await trio.to_thread.run_sync(_durable, made)
            _exchange(made, home)
            old = self._layout.state / f"home.old-{secrets.token_hex(6)}"
            made.rename(old)  # the apps need not wait for its removal
            self._old.append(old)
            _durable_names(home.parent)

    @asynccontextmanager
    async def _in_the_making(self, path: Path) -> AsyncIterator[Path]:
        """A path to make something at; what is there in the end is removed."""
        try:
            yield path
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(_remove, path)

    def _make(self, path: Path) -> None:
        uids = self._layout.uids
        path.mkdir(mode=0o700)
        if uids.drop:
            os.chown(path, uids.apps, uids.apps)

    async def _copy(self, source: Path, target: Path, usage: Usage, progress: Progress) -> str | None:
        self._make(target)
        progress(0, usage.files)
        return await copy_home(
            self._layout, source, target, lambda done: progress(min(done, usage.files), usage.files)
        )

    async def _room_for(self, source: Path) -> Usage:
        """How much *source* is.

        Raises:
            DiskFull: there is no room for another of it.
            Unavailable: it can't be counted.
        """
        usage = await trio.to_thread.run_sync(measure, source, _ENOUGH)
        if usage.beyond:
            raise Unavailable(f"the home can't be copied: it has {usage.beyond}")
        free = shutil.disk_usage(self._layout.state).free
        if free < usage.bytes + SPARE_BYTES:
            raise DiskFull(
                f"the copy takes {usage.bytes} bytes and {free} are free, of which {SPARE_BYTES} must stay; "
                "delete a snapshot, or make room"
            )
        return usage


def _remove(path: Path) -> None:
    """Remove a folder, also what its owner has closed to himself; a daemon that is not root is that owner."""
    if os.geteuid() != 0:
        for at, folders, _ in os.walk(path):
            for each in (os.path.join(at, name) for name in folders):
                if not os.path.islink(each):
                    os.chmod(each, 0o700)
    shutil.rmtree(path, ignore_errors=True)


def _exchange(one: Path, other: Path) -> None:
    """Swap two names in one step (renameat2, RENAME_EXCHANGE)."""
    if _libc.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _EXCHANGE) != 0:
        number = ctypes.get_errno()
        why = os.strerror(number)
        if number in (errno.EINVAL, errno.ENOSYS, errno.EXDEV, errno.ENOTSUP):
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
