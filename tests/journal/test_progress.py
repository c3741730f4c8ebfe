"""The mapped file that a kill leaves behind."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys

import pytest

from bodyd.errors import JournalUnavailable
from bodyd.journal import progress
from bodyd.journal.progress import open_progress
from bodyd.journal.traces import SLOTS, Reached, Unknown, trace

NOTER = """
import sys
from pathlib import Path
from bodyd.journal.progress import open_progress
with open_progress(Path(sys.argv[1])) as file:
    file.begin_anew()
    for sequence in range(1, 1 << 30):
        marks = file.marks(sequence)
        for index in range(64):
            for units in range(1000):
                marks.note(index, units)
            marks.reached(index + 1)
        if sequence == 1:
            print("going", flush=True)
"""


def test_a_new_file_is_private_allocated_and_holds_no_trace(tmp_path):
    """Its blocks are there from the start: a full disk must not kill the daemon at a store."""
    with open_progress(tmp_path / "progress") as file:
        assert not file.trusted
        assert trace(file.words(), 1) is Unknown.NEVER_STARTED
    status = (tmp_path / "progress").stat()
    assert stat.S_IMODE(status.st_mode) == 0o600
    assert status.st_blocks * 512 >= status.st_size == 4096


def test_marks_are_there_after_the_file_is_opened_again(tmp_path):
    """Under the same boot they are all there was."""
    with open_progress(tmp_path / "progress") as file:
        file.begin_anew()
        marks = file.marks(7)
        assert trace(file.words(), 7) == Reached(0, 0, exact=False)
        marks.note(2, 30)
        file.marks(8).reached(1)
    with open_progress(tmp_path / "progress") as file:
        assert file.trusted
        assert trace(file.words(), 7) == Reached(2, 30, exact=False)
        assert trace(file.words(), 8) == Reached(1, 0, exact=True)


def test_beginning_anew_forgets_every_trace(tmp_path):
    """A database that was restored from a backup counts from an earlier number again."""
    with open_progress(tmp_path / "progress") as file:
        file.marks(7)
        file.begin_anew()
        assert file.words() == (0,) * SLOTS


def test_after_another_boot_the_file_is_not_trusted_until_begun_anew(tmp_path, monkeypatch):
    """What a power cut left may be older than what was sent."""
    path = tmp_path / "progress"
    with open_progress(path) as file:
        file.begin_anew()
        file.marks(7)
    another = tmp_path / "boot_id"
    another.write_text("11111111-2222-3333-4444-555555555555\n")
    monkeypatch.setattr(progress, "_BOOT_ID", another)
    with open_progress(path) as file:
        assert not file.trusted
        assert trace(file.words(), 7) == Reached(0, 0, exact=False)
        file.begin_anew()
    with open_progress(path) as file:
        assert file.trusted


def test_where_boots_have_no_name_the_file_is_never_trusted(tmp_path, monkeypatch):
    """Uncertain is the honest answer where nothing tells a restart of the machine from one of bodyd."""
    monkeypatch.setattr(progress, "_BOOT_ID", tmp_path / "nothing")
    for _ in range(2):
        with open_progress(tmp_path / "progress") as file:
            assert not file.trusted
            file.begin_anew()


def test_a_file_of_another_size_is_begun_anew_and_not_trusted(tmp_path):
    """A cut file is no proof that nothing was sent."""
    path = tmp_path / "progress"
    with open_progress(path) as file:
        file.begin_anew()
    os.truncate(path, 100)
    with open_progress(path) as file:
        assert not file.trusted


def test_a_file_that_can_not_be_opened_is_told(tmp_path):
    """A link is not followed: someone else would choose what is overwritten."""
    (tmp_path / "progress").symlink_to(tmp_path / "elsewhere")
    with (
        pytest.raises(JournalUnavailable, match="progress can't be used"),
        open_progress(tmp_path / "progress"),
    ):
        pass


def test_a_disk_without_room_for_its_blocks_is_told_before_the_mapping(tmp_path, monkeypatch):
    """A store into a page that the disk can't hold would be a SIGBUS."""

    def full(*_args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(JournalUnavailable, match="No space left"), open_progress(tmp_path / "progress"):
        pass


def test_a_mark_after_the_end_is_a_bug_and_no_crash(tmp_path):
    """The mapping is gone: a store must not reach into nothing."""
    with open_progress(tmp_path / "progress") as file:
        marks = file.marks(7)
    with pytest.raises(ValueError, match="released"):
        marks.note(0, 1)


def test_a_kill_in_the_middle_of_a_million_marks_leaves_whole_words(tmp_path, times):
    """Every trace that is found is one that was put there."""
    path = tmp_path / "progress"
    for _ in range(times(50)):
        child = subprocess.Popen([sys.executable, "-c", NOTER, str(path)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        assert child.stdout.readline() == b"going\n"
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()
        with open_progress(path) as file:
            assert file.trusted
            last = max(word >> 28 for word in file.words())
            found = trace(file.words(), last)
            assert isinstance(found, Reached)
            assert found.index <= 64
            assert found.units < 1000
            if last > 1:
                assert trace(file.words(), last - 1) == Reached(64, 0, exact=True)
