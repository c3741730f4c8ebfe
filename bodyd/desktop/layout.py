"""Directories of one body: what persists, what a boot forgets, and who may enter them.

    state/           0710 root:apps (0700 unprivileged)   the apps' uid passes through, lists nothing
      home/          0700, the apps'                      persists; hostile content, never followed
      workspace/     0711, the daemon's                   the shell's folders, one a conversation
      private/       0700, the daemon's                   journal, tokens
    run/             0711 (0700 unprivileged)
      private/       0700, the daemon's                   lock, ledger of sandboxes
      a11y/          0710, the daemon's:apps              the accessibility bus's socket, where there is one
      x/             0710, X server:apps                  no one else passes
        N/           the X server's                       the socket of display generation N

With a shell, state/ is 0711: its uid passes through, too. Two locks, one on each root, keep two daemons
from owning one body. Nothing below home/ is ever opened, created or changed by the daemon.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bodyd.config import Config
from bodyd.errors import ConfigError

from .cgroups import NONE, Cgroups, open_cgroups
from .ledger import Ledger


@dataclass(frozen=True, slots=True)
class Uids:
    """Who runs what on the host. `drop` is False where the daemon itself is unprivileged."""

    apps: int
    x: int
    shell: int
    code: int
    drop: bool

    @property
    def separate(self) -> bool:
        return self.apps != self.x


@dataclass(frozen=True, slots=True)
class Layout:
    """The prepared directories of a body that this daemon owns."""

    state: Path
    run: Path
    uids: Uids
    ledger: Ledger
    cgroups: Cgroups = NONE

    @property
    def home(self) -> Path:
        return self.state / "home"

    @property
    def private(self) -> Path:
        return self.state / "private"

    @property
    def workspace(self) -> Path:
        return self.state / "workspace"

    def x_dir(self, generation: int) -> Path:
        """A fresh directory for the socket of a new X server; older generations are removed."""
        root = self.run / "x"
        shutil.rmtree(root, ignore_errors=True)
        # Xvfb opens its own directory to everyone (1777), so the one above it has to keep others out.
        for path in (root, root / str(generation)):
            _make(path, 0o710, uid=self.uids.x, gid=self.uids.apps if self.uids.drop else None)
        return path

    def a11y_dir(self) -> Path:
        """The directory of the accessibility bus's socket; only the daemon puts anything into it."""
        path = self.run / "a11y"
        _make(path, 0o710, gid=self.uids.apps if self.uids.drop else None)
        return path


def uids(config: Config) -> Uids:
    """Root drops to `base_uid` and the three after it; anyone else stays who they are."""
    if os.geteuid() == 0:
        base = config.desktop.base_uid
        return Uids(base, base + 1, base + 2, base + 3, drop=True)
    return Uids(os.geteuid(), os.geteuid(), os.geteuid(), os.geteuid(), drop=False)


@contextmanager
def open_layout(config: Config) -> Iterator[Layout]:
    """Make the directories, take both locks, kill what a dead daemon left.

    Raises:
        ConfigError: another daemon owns this body, or a directory is unfit; with what to do.
    """
    who = uids(config)
    state, run = config.state, config.run
    _root(state, (0o711 if config.shell.enabled else 0o710) if who.drop else 0o700, who)
    _root(run, 0o711 if who.drop else 0o700, who)
    for root in (state, run):
        _make(root / "private", 0o700)
    with _locked(run / "private" / "lock", run), _locked(state / "private" / "lock", state):
        _home(state / "home", who)
        if config.shell.enabled:
            _workspace(state / "workspace", who)
        ledger = Ledger(run / "private" / "sandboxes.json")
        ledger.reap_stale()
        try:
            yield Layout(state, run, who, ledger, open_cgroups(config.name))
        finally:
            for name in ("x", "a11y"):
                shutil.rmtree(run / name, ignore_errors=True)


def _root(path: Path, mode: int, who: Uids) -> None:
    """Make *path* with its missing parents; refuse one that was plainly made for something else."""
    if path.is_dir() and not (path / "private").exists() and set(os.listdir(path)) - {"api.sock"}:
        raise ConfigError(f"{path} is in use for something else; name a new or an empty directory")
    missing = [p for p in (path, *path.parents) if not p.exists()]
    for parent in reversed(missing[1:]):
        _make(parent, 0o755)
    _make(path, mode, gid=who.apps if who.drop else None)
    for parent in path.resolve().parents:
        _check_parent(path, parent, who)


def _check_parent(path: Path, parent: Path, who: Uids) -> None:
    """No one else may swap what is below *parent*, and the apps' uid must be able to pass through it."""
    info = parent.stat()
    mode = info.st_mode
    if info.st_uid not in (0, os.geteuid()) or (mode & stat.S_IWOTH and not mode & stat.S_ISVTX):
        raise ConfigError(
            f"{path}: others can replace what is below {parent} (owner uid {info.st_uid}, "
            f"mode {stat.S_IMODE(mode):o}); choose another place (state_dir, run_dir)"
        )
    passes = mode & stat.S_IXOTH or (info.st_gid == who.apps and mode & stat.S_IXGRP)
    if who.drop and not passes:
        raise ConfigError(
            f"{path}: uid {who.apps}, which the apps run as, can't pass through {parent}; choose another "
            f"place (state_dir, run_dir) or run: chmod o+x {parent}"
        )


def _make(path: Path, mode: int, *, uid: int | None = None, gid: int | None = None) -> None:
    """Make a directory of ours, or put the mode and owner of an existing one right."""
    try:
        path.mkdir(exist_ok=True)
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as exc:
        raise ConfigError(f"{path}: {exc.strerror}; it must be a directory that the daemon can make") from exc
    try:
        owner = os.fstat(fd).st_uid
        if owner not in (os.geteuid(), uid):
            raise ConfigError(f"{path} belongs to uid {owner}; it must be the daemon's (uid {os.geteuid()})")
        if uid is not None or gid is not None:
            os.fchown(fd, -1 if uid is None else uid, -1 if gid is None else gid)
        os.fchmod(fd, mode)
    finally:
        os.close(fd)


def _home(path: Path, who: Uids) -> None:
    if not path.is_symlink() and not path.exists():
        _make(path, 0o700, uid=who.apps, gid=who.apps if who.drop else None)
        return
    info = path.lstat()
    if not stat.S_ISDIR(info.st_mode):
        raise ConfigError(f"{path} must be a directory; move it away")
    if info.st_uid != who.apps:
        raise ConfigError(
            f"{path} belongs to uid {info.st_uid}, the apps run as uid {who.apps}; set base_uid to match, "
            f"or run: chown -R -h {who.apps}:{who.apps} {path}"
        )


def _workspace(path: Path, who: Uids) -> None:
    """Where the shell's folders are made; its uid has to reach them from the root on."""
    _make(path, 0o711 if who.drop else 0o700)
    for parent in path.resolve().parents if who.drop else ():
        if not parent.stat().st_mode & stat.S_IXOTH:
            raise ConfigError(
                f"{path}: uid {who.shell}, which the shell runs as, can't pass through {parent}; choose "
                f"another state_dir, or run: chmod o+x {parent}"
            )


@contextmanager
def _locked(path: Path, owned: Path) -> Iterator[None]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(fd, 20, 0).decode("ascii", "replace").strip() or "unknown"
            raise ConfigError(
                f"{owned} is owned by another daemon (pid {holder}); end it with `kill {holder}`, or give "
                "this body another name, state_dir and run_dir"
            ) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(fd)
