"""The journal's directory: private, claimed by one daemon, and never mistaken for a new one."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bodyd.errors import JournalUnavailable

JOURNAL_FILE = "journal.db"
IMAGES_FILE = "images.db"
PROGRESS_FILE = "progress"


@contextmanager
def claimed(directory: Path) -> Iterator[None]:
    """Make *directory* if it is not there, private (0700), and keep every other daemon out of it.

    The claim is an flock on the directory: it ends with the process, however that ends.

    Raises:
        JournalUnavailable: it is another user's or daemon's, or its journal is gone.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as exc:
        raise JournalUnavailable(
            f"{directory} can't be used as the journal's directory: {exc.strerror}"
        ) from exc
    try:
        _make_private(descriptor, directory)
        _lock(descriptor, directory)
        _refuse_a_gap(directory)
        yield
    finally:
        os.close(descriptor)


def _make_private(descriptor: int, directory: Path) -> None:
    status = os.fstat(descriptor)
    if status.st_uid != os.geteuid():
        raise JournalUnavailable(
            f"{directory} belongs to uid {status.st_uid}, and bodyd runs as uid {os.geteuid()}: "
            "chown it, or name another state directory"
        )
    if stat.S_IMODE(status.st_mode) & 0o077:
        try:
            os.fchmod(descriptor, 0o700)
        except OSError as exc:
            raise JournalUnavailable(f"{directory} can't be made private (0700): {exc.strerror}") from exc


def _lock(descriptor: int, directory: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as exc:
        raise JournalUnavailable(
            f"{directory} is in use by another bodyd: stop that one, or name another state directory"
        ) from exc
    except OSError as exc:
        raise JournalUnavailable(f"{directory} can't be locked: {exc.strerror}") from exc


def _refuse_a_gap(directory: Path) -> None:
    """A journal that vanished must not be begun anew in silence: epochs and request ids would repeat."""
    journal = directory / JOURNAL_FILE
    if journal.exists() and journal.stat().st_size > 0:
        return
    others = sorted(
        name
        for name in (f"{JOURNAL_FILE}-wal", IMAGES_FILE, PROGRESS_FILE)
        if (directory / name).exists() and (directory / name).stat().st_size > 0
    )
    if others:
        raise JournalUnavailable(
            f"{journal} is missing or empty, but {', '.join(others)} beside it show that there was one: "
            "restore a backup, or move those away too to start anew, which loses receipts and audit"
        )
