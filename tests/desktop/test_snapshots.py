"""Copies of a home: made, put back, killed half way. On folders of the test's own; no desktop."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from bodyd.desktop import snapshots
from bodyd.desktop.layout import Layout, open_layout
from bodyd.desktop.ledger import Ledger
from bodyd.desktop.snapshots import MAX_SNAPSHOTS, Snapshots
from bodyd.errors import DiskFull, InvalidRequest, NotFound, SnapshotExists

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
    assert list(layout.state.glob("home.new*")) == []


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
        end_orphans()
        assert seen(layout.home) in wanted.values()
        assert list(layout.state.glob("home.new*")) == []
        names = {path.name for path in (layout.state / "snapshots").iterdir()}
        assert {"even", "odd"} <= names
        for name in names - {"even", "odd"}:
            assert seen(layout.state / "snapshots" / name / "home") in wanted.values()
            await kept.delete(name)
