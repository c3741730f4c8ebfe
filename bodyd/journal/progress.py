"""How far the running batch has come, in a mapped file: what a kill -9 leaves behind.

A store into a shared mapping survives the death of the process, costs well under a microsecond and
needs no thread; only the loss of the whole machine can lose it, and a boot id tells that case apart.
Counterparts: the door's dispatcher writes, recovery.py reads. An aid, never the authority: without
it, unfinished batches become `uncertain`.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bodyd.errors import JournalUnavailable

from .traces import SLOTS, encode

_SIZE = 4096
_HEADER = 64
_MAGIC = b"bodydtr1"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Marks:
    """The trace of one batch. Callable from any thread; every call is one store."""

    def __init__(self, words: memoryview, sequence: int) -> None:
        self._words = words
        self._slot = sequence % SLOTS
        self._sequence = sequence
        self.note(0, 0)

    def note(self, index: int, units: int) -> None:
        """*units* of inputs[*index*] were acknowledged, and the next atom may be on its way.

        Everything before *index* was confirmed: a batch goes on only then.
        """
        self._words[self._slot] = encode(self._sequence, index, units, exact=False)

    def reached(self, index: int, units: int = 0) -> None:
        """The same, and nothing more is on its way: call between inputs, and once after the last."""
        self._words[self._slot] = encode(self._sequence, index, units, exact=True)


class Progress:
    """The open file, for `open_progress`.

    Attributes:
        trusted: It was last written under this boot of this machine, so what it holds is all there
            was. Otherwise the last stores may be lost: what it holds is a lower bound.
    """

    def __init__(self, path: Path) -> None:
        """Open or make *path* (0600), with its blocks allocated: a full disk must not be a SIGBUS.

        Raises:
            OSError: it can't be made, read or allocated.
        """
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            sound = os.fstat(self._descriptor).st_size == _SIZE
            if not sound:
                os.ftruncate(self._descriptor, 0)
                os.pwrite(self._descriptor, bytes(_SIZE), 0)
                os.fsync(self._descriptor)
            self._map = mmap.mmap(self._descriptor, _SIZE)
        except BaseException:
            os.close(self._descriptor)
            raise
        self._words = memoryview(self._map)[_HEADER : _HEADER + 8 * SLOTS].cast("Q")
        self.trusted = sound and self._map[:_HEADER] == _header()

    def words(self) -> tuple[int, ...]:
        """The traces as they stand, for recovery."""
        return tuple(self._words)

    def begin_anew(self) -> None:
        """Forget every trace and trust the file from now on: once nothing is unfinished any more."""
        for slot in range(SLOTS):
            self._words[slot] = 0
        self._map[:_HEADER] = _header()
        self._map.flush()
        self.trusted = True

    def marks(self, sequence: int) -> Marks:
        """Start the trace of a batch: from now on something of it may have been sent."""
        return Marks(self._words, sequence)

    def close(self) -> None:
        self._words.release()
        self._map.close()
        os.close(self._descriptor)


@contextmanager
def open_progress(path: Path) -> Iterator[Progress]:
    """Open the progress file for as long as the journal is.

    Raises:
        JournalUnavailable: it can't be made or read.
    """
    try:
        progress = Progress(path)
    except OSError as exc:
        raise JournalUnavailable(f"{path} can't be used: {exc.strerror or exc}") from exc
    try:
        yield progress
    finally:
        progress.close()


def _header() -> bytes:
    return (_MAGIC + _boot_id()).ljust(_HEADER, b"\0")


def _boot_id() -> bytes:
    """Names this boot of the machine; a fresh name (so: no trust) where there is none."""
    try:
        return _BOOT_ID.read_bytes().strip()[:36]
    except OSError:
        return os.urandom(16).hex().encode()
