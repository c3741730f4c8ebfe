"""The working root: one folder a conversation, kept between its calls, the least used leaving first.

What is inside belongs to commands and is hostile: the daemon follows no link there, and reads nothing but
sizes. Layout: WORKSPACE/DIGEST/{work,tmp}, of which only the last two are open to the shell's uid.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from bodyd.contract.shell import WORKSPACE
from bodyd.desktop.quota import measure
from bodyd.errors import InvalidRequest, Unavailable


@dataclass(frozen=True, slots=True)
class Folder:
    """A conversation's: `work` is the working root, `tmp` is its /tmp."""

    path: Path

    @property
    def work(self) -> Path:
        return self.path / "work"

    @property
    def tmp(self) -> Path:
        return self.path / "tmp"

    def inside(self, wanted: str | None) -> str:
        """The path inside the sandbox of a working directory, relative or below WORKSPACE.

        Raises:
            InvalidRequest: it leaves the root, goes through a link, or is no folder.
        """
        pure = PurePosixPath(WORKSPACE, wanted or "")
        if ".." in pure.parts or "\0" in str(pure) or not pure.is_relative_to(WORKSPACE):
            raise _no_folder("it leads out of the working root")
        parts = pure.relative_to(WORKSPACE).parts
        at = os.open(self.work, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            for part in parts:
                below = os.open(part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
                os.close(at)
                at = below
        except OSError as exc:
            links = exc.errno in (errno.ELOOP, errno.ENOTDIR)
            raise _no_folder("it goes through a link or a file" if links else "there is none") from None
        finally:
            os.close(at)
        return str(pure)

    def size(self, enough: int) -> int:
        """Bytes on disk, counted until they exceed *enough*; slow where there is much: use a thread.

        A folder with more files, or deeper, than is ever counted is more than enough, too.
        """
        usage = measure(self.path, enough)
        return max(usage.bytes, enough + 1) if usage.beyond else usage.bytes


class Workspace:
    """All folders. *uid* owns what is in them; None: the daemon's own."""

    def __init__(self, root: Path, *, uid: int | None, keep: int) -> None:
        self._root = root
        self._uid = uid
        self._keep = keep

    def folder(self, conversation_id: str) -> Folder:
        """The folder of a conversation, made if it is new.

        Raises:
            Unavailable: it can't be made.
        """
        folder = Folder(self._root / hashlib.sha256(conversation_id.encode()).hexdigest()[:32])
        try:
            if not folder.path.is_dir():
                self._make(folder)
            os.utime(folder.path)
        except OSError as exc:
            raise Unavailable(f"the working folder can't be made: {exc.strerror}") from exc
        return folder

    def surplus(self, used: Collection[Path]) -> list[Path]:
        """The least used folders beyond those to keep, without those in use."""
        found = sorted((p for p in self._root.iterdir() if p.is_dir()), key=lambda p: p.stat().st_mtime)
        return [path for path in found[: max(0, len(found) - self._keep)] if path not in used]

    def remove(self, path: Path) -> None:
        """Remove a folder with all that is in it; links in it are removed, not followed."""
        shutil.rmtree(path, ignore_errors=True)

    def _make(self, folder: Folder) -> None:
        """Whole or not at all: what a crash leaves half made has another name."""
        partial = Path(f"{folder.path}.new")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        for name in ("work", "tmp"):
            path = partial / name
            path.mkdir()
            path.chmod(0o700)
            if self._uid is not None:
                os.chown(path, self._uid, self._uid)
        partial.chmod(0o711)
        partial.rename(folder.path)


def _no_folder(why: str) -> InvalidRequest:
    return InvalidRequest(f"working_directory: {why}", param="working_directory")
