"""Control groups: found in what the kernel says, proved by trying; real ones where this machine has them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trio

from bodyd.desktop import cgroups
from bodyd.desktop.cgroups import CONTROLLERS, NONE, Cgroups, Group, open_cgroups
from bodyd.desktop.desktop import open_desktop
from bodyd.desktop.layout import uids
from bodyd.desktop.process import run, sandbox
from bodyd.desktop.seccomp import strict_filter
from bodyd.desktop.spec import GroupLimits, SandboxSpec
from bodyd.errors import IsolationUnavailable

HERE = open_cgroups("test")
V1 = """\
30 25 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
31 25 0:27 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
32 25 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
33 25 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""
V2 = "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"
IN_A_CONTAINER = "30 25 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n"


def tree(root: Path, *paths: str, **files: str) -> None:
    """Directories as the kernel would show them; its files are plain ones here."""
    for path in paths:
        directory = root / path
        directory.mkdir(parents=True)
        for name, content in files.items():
            (directory / name.replace("__", ".")).write_text(content)


@pytest.fixture
def kernel(monkeypatch):
    """A directory has its files from the start and may be removed with them, as the kernel's own."""
    made = "memory.max memory.limit_in_bytes pids.max cpu.max cpu.cfs_quota_us cpu.cfs_period_us cgroup.procs"
    mkdir, rmdir = Path.mkdir, Path.rmdir

    def make(path, *args, **kwargs):
        mkdir(path, *args, **kwargs)
        for name in made.split():
            (path / name).write_text("")

    def remove(path):
        for file in path.iterdir():
            file.unlink()
        rmdir(path)

    def install():
        monkeypatch.setattr(Path, "mkdir", make)
        monkeypatch.setattr(Path, "rmdir", remove)

    return install


def test_version_1_has_a_place_for_each_controller(tmp_path, kernel):
    """Each in its hierarchy, in the daemon's own group there; what is limited is written in its words."""
    own = "3:memory:/a/b\n2:pids:/\n1:cpu,cpuacct:/\n0::/\n"
    tree(tmp_path, "sys/fs/cgroup/memory/a/b", "sys/fs/cgroup/pids", "sys/fs/cgroup/cpu,cpuacct",
         cgroup__procs="")  # fmt: skip
    kernel()
    found = open_cgroups("x", mounts=V1, own=own, root=tmp_path)
    assert found.missing == {}
    assert found.places["memory"].path == tmp_path / "sys/fs/cgroup/memory/a/b"
    group = found.make("apps", GroupLimits(1 << 30, 100, 1.5))
    files = [file for path in group.paths for file in path.iterdir()]
    written = {file.name: file.read_text() for file in files if file.read_text()}
    assert written["memory.limit_in_bytes"] == str(1 << 30)
    assert written["pids.max"] == "100"
    assert (written["cpu.cfs_quota_us"], written["cpu.cfs_period_us"]) == ("150000", "100000")
    assert group.enter(7) == ""
    assert all((path / "cgroup.procs").read_text() == "7" for path in group.paths)
    group.remove()
    assert not any(path.exists() for path in group.paths)
    assert found.make("apps", GroupLimits()).paths == []


@pytest.mark.parametrize("handed", ["cpu memory pids", ""])
def test_version_2_has_one_group_for_all(tmp_path, kernel, handed):
    """One directory; controllers that are not handed down yet are, where nobody else is in the group."""
    where = "sys/fs/cgroup/unit"
    tree(tmp_path, where, cgroup__controllers="cpu memory pids", cgroup__subtree_control=handed,
         cgroup__procs="")  # fmt: skip
    kernel()
    found = open_cgroups("x", mounts=V2, own="0::/unit\n", root=tmp_path)
    assert found.missing == {}
    group = found.make("apps", GroupLimits(1 << 30, 100, 1.5))
    (path,) = group.paths
    assert (path / "memory.max").read_text() == str(1 << 30)
    assert (path / "cpu.max").read_text() == "150000 100000"
    assert found.describe() == dict.fromkeys(CONTROLLERS, "cgroup")


@pytest.mark.parametrize(
    ("inside", "reason"), [("alone", None), ("crowded", "others run in it, too")], ids=lambda x: str(x)
)
def test_a_group_with_processes_hands_nothing_down(tmp_path, kernel, monkeypatch, inside, reason):
    """The kernel refuses while there are any: the daemon moves itself aside, but nobody else."""
    pids = f"{os.getpid()}\n" + ("1\n" if inside == "crowded" else "")
    where = tmp_path / "sys/fs/cgroup/unit"
    tree(tmp_path, "sys/fs/cgroup/unit", cgroup__controllers="memory", cgroup__subtree_control="",
         cgroup__procs=pids)  # fmt: skip
    write = cgroups._write

    def refusing(path, value):
        if path.name == "cgroup.subtree_control" and not (where / "bodyd-daemon").exists():
            raise OSError(16, "Device or resource busy")
        write(path, value)

    monkeypatch.setattr(cgroups, "_write", refusing)
    kernel()
    found = open_cgroups("x", mounts=V2, own="0::/unit\n", root=tmp_path)
    assert found.missing["processes"] == f"{where}: the controller pids is not handed down to it"
    if reason:
        assert reason in found.missing["memory"]
        assert not (where / "bodyd-daemon").exists()
    else:
        assert found.places["memory"].path == where
        assert (where / "bodyd-daemon" / "cgroup.procs").read_text() == str(os.getpid())
        again = open_cgroups("x", mounts=V2, own="0::/unit/bodyd-daemon\n", root=tmp_path)
        assert again.places["memory"].path == where


def test_what_can_not_be_had_is_said(tmp_path):
    """No such hierarchy, another container's, or no right to write: no place, and the reason."""
    for mounts, own in (("", "0::/\n"), (IN_A_CONTAINER, "0::/docker/other\n")):
        found = open_cgroups("x", mounts=mounts, own=own, root=tmp_path)
        assert found.places == {}
        assert set(found.missing) == set(CONTROLLERS)
    found = open_cgroups("x", mounts=V1, own="3:memory:/gone\n", root=tmp_path)
    assert "No such file" in found.missing["memory"]
    assert found.describe() == {"memory": "rlimit", "processes": "rlimit", "cpu": "none"}
    assert NONE.make("apps", GroupLimits(1, 1, 1)).paths == []


def test_the_path_is_seen_from_the_mount(tmp_path, kernel):
    """In a container the mount begins at the container's own group."""
    tree(tmp_path, "sys/fs/cgroup/leaf", cgroup__controllers="memory", cgroup__subtree_control="memory",
         cgroup__procs="")  # fmt: skip
    kernel()
    found = open_cgroups("x", mounts=IN_A_CONTAINER, own="0::/docker/abc/leaf\n", root=tmp_path)
    assert found.places["memory"].path == tmp_path / "sys/fs/cgroup/leaf"


@pytest.fixture
def spec(configure):
    who = uids(configure())

    def make(*argv, **limits):
        group = GroupLimits(**limits)
        uid = who.apps if who.drop else None
        return SandboxSpec("test", argv, uid, strict_filter(), env={"PATH": "/usr/bin"}, group=group)

    return make


needs = {
    what: pytest.mark.skipif(what not in HERE.places, reason=f"{what}: {HERE.missing.get(what)}")
    for what in CONTROLLERS
}


def left(cgroups: Cgroups) -> list[Path]:
    """Groups that this process has made: a body of the same name may be running beside it."""
    mine = f"{cgroups.prefix}*-{os.getpid()}-*"
    return [path for place in cgroups.places.values() for path in place.path.glob(mine)]


async def in_group(spec):
    async with sandbox(spec, cgroups=HERE) as box:
        with trio.fail_after(30):
            await box.drain()
            ended = await box.wait(), box.tail()
    assert left(HERE) == []
    return ended


@needs["memory"]
async def test_memory_ends_at_the_limit(spec):
    """What takes more than its group may have is killed; what takes less is not."""
    hog = "held = [bytearray(b'x' * (8 << 20)) for _ in range(32)]; print('all of it')"
    argv = ("/usr/bin/python3", "-I", "-c", hog)
    status, said = await in_group(spec(*argv, memory_bytes=64 << 20))
    assert status != 0
    assert "all of it" not in said
    assert await in_group(spec(*argv, memory_bytes=1 << 30)) == (0, "all of it\n")


@needs["processes"]
async def test_processes_end_at_the_limit(spec):
    """The whole group has so many, whatever limits its processes set themselves."""
    forks = "import os, sys, time\nfor n in range(100):\n  try:\n    if os.fork() == 0: time.sleep(600)\n"
    forks += "  except OSError:\n    print(n, flush=True); os._exit(0)"
    status, said = await in_group(spec("/usr/bin/python3", "-I", "-S", "-c", forks, processes=20))
    assert (status, int(said) < 20) == (0, True)


@needs["cpu"]
async def test_the_processor_is_shared_out(spec):
    """The group's quota is what was asked for, while it runs."""
    async with sandbox(spec("/usr/bin/sleep", "600", cpus=0.5), cgroups=HERE):
        quota = [file.read_text().split()[0] for path in left(HERE) for file in path.glob("cpu*quota_us")]
        quota += [file.read_text().split()[0] for path in left(HERE) for file in path.glob("cpu.max")]
    assert quota == ["50000"]


async def test_a_group_that_can_not_be_entered_starts_nothing(spec, monkeypatch):
    """No limit, no program: refused with the reason, and nothing is left."""
    monkeypatch.setattr(Group, "enter", lambda self, *pids: "the group is gone")
    monkeypatch.setattr(Cgroups, "make", lambda self, name, limits: Group([Path("/nonexistent/group")]))
    with pytest.raises(IsolationUnavailable, match="the group is gone"):
        await run(spec("/usr/bin/true"))


@needs["memory"]
async def test_the_apps_are_in_a_group(configure):
    """Status says what holds; the group is there while they live."""
    async with open_desktop(configure(name="grouped"), report=lambda _: None) as desktop:
        assert desktop.isolation["limits"]["memory"] == "cgroup"
        groups = left(desktop.layout.cgroups)
        assert any("-apps-" in path.name or "grouped-apps" in path.name for path in groups)
    assert left(desktop.layout.cgroups) == []
