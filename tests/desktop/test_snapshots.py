"""Copies of a home: made, put back, killed half way. On folders of the test's own; no desktop."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import random
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from bodyd import __version__
from bodyd.desktop import snapshots
from bodyd.desktop.layout import Layout, open_layout
from bodyd.desktop.ledger import Ledger
from bodyd.desktop.snapshots import MAX_SNAPSHOTS, Snapshots
from bodyd.errors import DiskFull, InvalidRequest, NotFound, SnapshotExists, Unavailable

from .conftest import BASE_UID, descendants


@pytest.fixture
def layout(configure):
    with open_layout(configure()) as layout:
        yield layout


@pytest.fixture
def kept(layout: Layout) -> Snapshots:
    return Snapshots(layout, now_ms=lambda: 7)


def own(layout: Layout, path: Path) -> None:
    if layout.uids.drop:
        os.chown(path, layout.uids.apps, layout.uids.apps, follow_symlinks=False)


def furnish(layout: Layout, word: str) -> None:
    """A home with what homes have: odd names, links, holes, modes."""
    home = layout.home
    (home / "docs").mkdir(exist_ok=True)
    (home / "docs" / "größe 漢字\n.txt").write_text(word)
    (home / "-rf").write_text(word)
    if not (home / "away").is_symlink():
        (home / "away").symlink_to("/etc/passwd")
    with (home / "hole").open("wb") as hole:
        hole.truncate(50_000_000)
    (home / "run").write_text("#!/bin/sh")
    (home / "run").chmod(0o751)
    for path in (home / "docs", *home.rglob("*")):
        own(layout, path)


def seen(home: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in sorted(home.rglob("*")):
        info = path.lstat()
        what = os.readlink(path) if path.is_symlink() else path.is_dir() or path.stat().st_size
        found[str(path.relative_to(home))] = (what, info.st_mode, info.st_uid, info.st_mtime_ns)
    return found


async def test_what_is_put_back_is_what_was_copied(layout: Layout, kept: Snapshots):
    """Names, contents, modes, owners, times, links as links; a hole takes no room."""
    furnish(layout, "first")
    before = seen(layout.home)
    made = await kept.create("a")
    assert made.bytes < 10_000_000
    furnish(layout, "second, and longer")
    (layout.home / "more").write_text("later")
    assert await kept.restore("a") == made
    assert seen(layout.home) == before
    assert layout.home.stat().st_mode & 0o777 == 0o700
    assert layout.home.stat().st_uid == layout.uids.apps
    assert kept.list() == [made]


async def test_what_is_known_of_a_snapshot(layout: Layout, kept: Snapshots):
    """Files and versions are told; the browser's is the profile's word, believed only as a version."""
    furnish(layout, "first")
    made = await kept.create("none")
    assert (made.files, made.browser_version, made.bodyd_version) == (6, None, __version__)
    profile = layout.home / "chromium"
    profile.mkdir()
    own(layout, profile)
    word = profile / "Last Version"
    for number, (said, known) in enumerate(
        [("131.0.6778.85", "131.0.6778.85"), ("1.2; rm -rf /", None), ("9" * 100, None), (None, None)]
    ):
        word.unlink(missing_ok=True)
        os.mkfifo(word) if said is None else word.write_text(said)
        own(layout, word)
        assert (await kept.create(f"a{number}")).browser_version == known
    assert kept.list()[0].browser_version == "131.0.6778.85"


async def test_progress_is_told(layout: Layout, kept: Snapshots):
    """From none to all of the files, never back; odd names count as one."""
    for number in range(300):
        path = layout.home / f"{number}\n\n{'x' * 100}"
        path.write_text("")
        own(layout, path)
    told = []
    await kept.create("a", progress=lambda done, of: told.append((done, of)))
    assert told[0] == (0, 300)
    assert told[-1] == (300, 300)
    assert told == sorted(told)
    assert len(told) > 3


async def test_odd_files_are_copied_as_they_are(layout: Layout, kept: Snapshots):
    """Pipes, sockets, hard links, folders closed to writing, bits: nothing is followed or opened up."""
    home = layout.home
    os.mkfifo(home / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(home / "socket"))
    (home / "one").write_text("twice")
    os.link(home / "one", home / "two")
    (home / "loop").symlink_to(".")
    (home / "dangling").symlink_to("/nonesuch/../x")
    (home / "closed").mkdir()
    (home / "closed" / "in").write_text("in")
    (home / "bits").write_text("")
    for path in home.rglob("*"):
        own(layout, path)
    (home / "bits").chmod(0o4755)
    (home / "closed").chmod(0o555)
    before = seen(home)
    await kept.create("a")
    await kept.reset()
    await kept.restore("a")
    assert seen(home) == before
    assert len(list(layout.state.glob("home.old-*"))) == 2
    await kept.sweep()
    assert list(layout.state.glob("home.*")) == []
    assert (home / "one").stat().st_ino == (home / "two").stat().st_ino


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a uid of the apps' own")
async def test_what_the_apps_can_not_read_is_named(layout: Layout, kept: Snapshots):
    """The copier is no more than an app: a file that is closed to it ends the copy, and is named."""
    (layout.home / "other").write_text("root's")
    (layout.home / "other").chmod(0o600)
    with pytest.raises(Unavailable, match="other"):
        await kept.create("a")
    assert kept.list() == []
    assert list((layout.state / "snapshots").iterdir()) == []


async def test_a_start_removes_what_was_half_made(layout: Layout, kept: Snapshots):
    """Copies in the making and on their way out; not what somebody else has put there."""
    await kept.create("a")
    root = layout.state / "snapshots"
    for path in (
        root / ".new-1",
        root / ".gone-1",
        layout.state / "home.new-1",
        layout.state / "home.old-1",
        root / ".mine",
    ):
        (path / "home").mkdir(parents=True)
    kept.recover()
    await kept.sweep()
    assert {path.name for path in root.iterdir()} == {"a", ".mine"}
    assert list(layout.state.glob("home.*")) == []
    (root / "strange").mkdir()
    assert [one.name for one in kept.list()] == ["a"]


async def test_a_file_system_that_can_not_swap_refuses(layout: Layout, kept: Snapshots, monkeypatch):
    """Better no new home than half of one: the error says which file systems can."""
    furnish(layout, "first")
    before = seen(layout.home)

    class Old:
        syncfs = staticmethod(snapshots._libc.syncfs)

        @staticmethod
        def renameat2(*_: object) -> int:
            ctypes.set_errno(errno.EINVAL)
            return -1

    monkeypatch.setattr(snapshots, "_libc", Old)
    with pytest.raises(Unavailable, match="ext4"):
        await kept.reset()
    assert seen(layout.home) == before
    assert list(layout.state.glob("home.*")) == []


async def test_a_reset_is_an_empty_home(layout: Layout, kept: Snapshots):
    """Of the apps' own, as at the first start; snapshots stay."""
    furnish(layout, "first")
    await kept.create("a")
    await kept.reset()
    assert list(layout.home.iterdir()) == []
    assert (layout.home.stat().st_uid, layout.home.stat().st_mode & 0o777) == (layout.uids.apps, 0o700)
    assert [one.name for one in kept.list()] == ["a"]


async def test_refusals_change_nothing(layout: Layout, kept: Snapshots, monkeypatch: pytest.MonkeyPatch):
    """Names that are none, are taken or are not there; too many; no room."""
    furnish(layout, "first")
    before = seen(layout.home)
    await kept.create("a")
    for name in ("", "..", "a/b", ".hidden", "-x", "x" * 65, "a\n"):
        with pytest.raises(InvalidRequest):
            await kept.create(name)
    with pytest.raises(SnapshotExists):
        await kept.create("a")
    for call in (kept.restore, kept.delete):
        with pytest.raises(NotFound):
            await call("b")
    monkeypatch.setattr(snapshots, "MAX_SNAPSHOTS", 1)
    with pytest.raises(InvalidRequest):
        await kept.create("b")
    monkeypatch.setattr(snapshots, "MAX_SNAPSHOTS", MAX_SNAPSHOTS)
    monkeypatch.setattr(snapshots, "SPARE_BYTES", 2**60)
    for call in (kept.create, kept.restore):
        with pytest.raises(DiskFull):
            await call("b" if call == kept.create else "a")
    assert seen(layout.home) == before
    await kept.delete("a")
    assert kept.list() == []
    assert list((layout.state / "snapshots").iterdir()) == []


async def test_a_cancelled_copy_leaves_nothing(layout: Layout, kept: Snapshots):
    """Neither a snapshot nor a changed home."""
    furnish(layout, "first")
    await kept.create("a")
    before = seen(layout.home)
    for call in (lambda: kept.create("b"), lambda: kept.restore("a"), kept.reset):
        with trio.CancelScope() as scope:
            scope.cancel()
            await call()
        assert scope.cancelled_caught
    assert seen(layout.home) == before
    assert [path.name for path in (layout.state / "snapshots").iterdir()] == ["a"]
    assert list(layout.state.glob("home.*")) == []


def end_orphans() -> None:
    """What its daemon left in the middle of a start came to this process, the subreaper."""
    for pid in descendants():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


CHILD = """
import sys, trio
from pathlib import Path
from bodyd.config import Config, load
from bodyd.desktop.layout import Layout, uids
from bodyd.desktop.ledger import Ledger
from bodyd.desktop.snapshots import Snapshots
config = load(Path(sys.argv[1]))
layout = Layout(config.state, config.run, uids(config), Ledger(config.run / "private" / "x.json"))
kept = Snapshots(layout, now_ms=lambda: 8)
async def main():
    print("go", flush=True)
    turn = 0
    while True:
        await kept.restore("odd" if turn % 2 else "even")
        name = f"more-{turn}"
        await kept.create(name)
        await kept.delete(name)
        turn += 1
trio.run(main)
"""


async def test_a_kill_at_any_moment_leaves_a_whole_home(layout: Layout, kept: Snapshots, times, configure):
    """The home is one snapshot or the other, whole; what was half made is gone after the next start."""
    wanted = {}
    for word in ("even", "odd"):
        await kept.reset()
        for number in range(60):
            path = layout.home / f"{word}-{number}"
            path.write_text(word * 2000)
            own(layout, path)
        await kept.create(word)
        wanted[word] = seen(layout.home)
    chance = random.Random(5)
    config = layout.state.parent / "bodyd.toml"
    config.write_text(
        f'state_dir = "{layout.state}"\nrun_dir = "{layout.run}"\n[desktop]\nbase_uid = {BASE_UID}\n'
    )
    for _ in range(times(60)):
        child = subprocess.Popen(  # noqa: ASYNC220
            [sys.executable, "-c", CHILD, str(config)], stdout=subprocess.PIPE, start_new_session=True
        )
        assert child.stdout is not None
        assert child.stdout.readline() == b"go\n"
        await trio.sleep(chance.uniform(0, 0.5))
        os.kill(child.pid, signal.SIGKILL)
        child.stdout.close()
        child.wait()
        Ledger(layout.run / "private" / "x.json").reap_stale()  # its copier, as the next start would
        kept.recover()
        await kept.sweep()
        end_orphans()
        assert seen(layout.home) in wanted.values()
        assert list(layout.state.glob("home.*")) == []
        names = {path.name for path in (layout.state / "snapshots").iterdir()}
        assert {"even", "odd"} <= names
        for name in names - {"even", "odd"}:
            assert seen(layout.state / "snapshots" / name / "home") in wanted.values()
            await kept.delete(name)
