"""The watch over the home folder: what is counted, what is too much, and what follows from it."""

from __future__ import annotations

import os

import pytest
import trio

from bodyd.desktop import quota
from bodyd.desktop.desktop import open_desktop
from bodyd.desktop.quota import HomeWatch, Usage, measure
from bodyd.errors import HomeFull

MIB = 1 << 20


def test_what_is_there_is_counted(tmp_path):
    """Bytes on disk, at any depth that is allowed, links as what they are themselves."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(bytes(MIB))
    (tmp_path / "a" / "to-root").symlink_to("/")
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 100 * MIB)
    usage = measure(tmp_path, 10 * MIB)
    assert MIB <= usage.bytes < 2 * MIB
    assert usage.beyond == ""
    assert measure(tmp_path / "gone", MIB) == Usage(0)


def test_no_more_is_counted_than_is_asked(tmp_path):
    """Beyond *enough* the count ends."""
    for number in range(50):
        (tmp_path / str(number)).write_bytes(bytes(MIB))
    assert 3 * MIB < measure(tmp_path, 3 * MIB).bytes < 6 * MIB


def test_a_hostile_folder_is_too_much(tmp_path, monkeypatch):
    """Thousands of levels, more files than are ever counted: said, and neither memory nor descriptors go."""
    before = len(os.listdir("/proc/self/fd"))
    at = os.open(tmp_path, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    assert measure(tmp_path, 1 << 40).beyond == f"folders over {quota.MAX_DEPTH} deep"
    monkeypatch.setattr(quota, "MAX_FILES", 10)
    (tmp_path / "many").mkdir()
    for number in range(20):
        (tmp_path / "many" / str(number)).touch()
    assert measure(tmp_path / "many", 1 << 40).beyond == "over 10 files"
    assert len(os.listdir("/proc/self/fd")) == before
    _remove(tmp_path)


def _remove(path):
    """Without recursion: shutil's own can't."""
    while (path / "d").exists():
        (path / "d").rename(path / "old")
        if (path / "old" / "d").exists():
            (path / "old" / "d").rename(path / "d")
        (path / "old").rmdir()


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_folder_that_can_not_be_read_is_too_much(tmp_path):
    """What an app of the same user hides from the count is not free."""
    (tmp_path / "hidden").mkdir(mode=0)
    assert "can't be read" in measure(tmp_path, MIB).beyond


async def test_two_marks(tmp_path):
    """Over the limit is full, twice the limit is over; each change is told once, with the reason."""
    told = []
    watch = HomeWatch(tmp_path, 4 * MIB, told.append)
    file = tmp_path / "file"
    for size in (1, 5, 6, 9, 5, 1):
        file.write_bytes(bytes(size * MIB))
        await watch.look()
    assert told == ["full", "over", "full", "ok"]
    file.write_bytes(bytes(9 * MIB))
    assert await watch.look() == "over"
    assert f"and may have {4 * MIB} bytes (limits.home_bytes)" in watch.why
    assert watch.snapshot()["state"] == "over"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.may_run)
        await trio.testing.wait_all_tasks_blocked()
        assert nursery.child_tasks
        file.unlink()
        await watch.look()
    with trio.fail_after(5):
        await watch.may_run()


async def test_without_a_limit_nothing_is_looked_at(tmp_path, autojump_clock):
    """0 is no limit."""
    watch = HomeWatch(tmp_path, 0, lambda state: None)
    with trio.move_on_after(1000):
        await watch.run()
    assert watch.snapshot() == {"state": "ok", "bytes": 0, "limit_bytes": None}


async def test_a_full_home_shuts_the_network_and_ends_the_apps_when_far_over(configure):
    """Full: no network and no launch, with a clear error. Far over: the apps wait. Freed: all as before."""
    sections = {"limits": {"home_bytes": 4 * MIB}, "desktop": {"apps": {"true": ("/usr/bin/true",)}}}
    async with open_desktop(configure(**sections), report=lambda _: None) as desktop:
        file = desktop.layout.home / "big"
        file.write_bytes(bytes(5 * MIB))
        assert await desktop.home.look() == "full"
        assert desktop.egress.snapshot()["shut"] == "the home folder is full"
        assert desktop.isolation["limits"]["home"]["state"] == "full"
        with pytest.raises(HomeFull, match=r"limits\.home_bytes"):
            await desktop.launch("true")
        session = desktop._session
        assert session is not None
        file.write_bytes(bytes(9 * MIB))
        await desktop.home.look()
        with trio.fail_after(30):
            while desktop._session is not None:
                await desktop._changed.wait()
            await session.box.wait()
        file.unlink()
        await desktop.home.look()
        with trio.fail_after(30):
            while desktop._session is None:
                await desktop._changed.wait()
        await desktop.launch("true")
        assert desktop.egress.snapshot()["shut"] is None


async def test_a_home_far_over_can_be_emptied(configure):
    """The apps wait for room, and whoever makes it does not wait for the apps; they begin again at once."""
    async with open_desktop(configure(limits={"home_bytes": 4 * MIB}), report=lambda _: None) as desktop:
        file = desktop.layout.home / "big"
        file.write_bytes(bytes(9 * MIB))
        await desktop.home.look()
        with trio.fail_after(30):
            async with desktop.without_apps():
                assert desktop._session is None
                file.unlink()
            assert desktop.home.state == "ok"
            while desktop._session is None:
                await desktop._changed.wait()
