"""Sandboxes as processes: started whole or not at all, stopped whole, whatever happens in between."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest
import trio

from bodyd.desktop import process, seccomp
from bodyd.desktop.layout import uids
from bodyd.desktop.ledger import Ledger, start_time
from bodyd.desktop.process import run, sandbox, start
from bodyd.desktop.spec import Bind, Limits, SandboxSpec, Tmpfs
from bodyd.errors import IsolationUnavailable

from .conftest import ROOT, descendants

STUBBORN = "trap '' TERM; for i in 1 2 3 4; do setsid sh -c 'trap \"\" TERM; sleep 600' & done; echo up; wait"


@pytest.fixture
def spec(configure):
    who = uids(configure())

    def make(*argv, **more):
        uid = who.apps if who.drop else None
        more.setdefault("env", {"PATH": "/usr/bin:/bin"})
        return SandboxSpec("test", argv, uid, more.pop("filter", None) or seccomp.strict_filter(), **more)

    return make


async def test_run_gives_status_and_output(spec):
    """A program's status and output come back; both streams are collected."""
    finished = await run(spec("/bin/sh", "-c", "echo out; echo err >&2; exit 3"))
    assert finished.status == 3
    assert finished.output == "out\nerr\n"


async def test_the_output_kept_is_bounded(spec):
    """Of endless output the last part is kept, and the sandbox still dies at once."""
    async with sandbox(spec("/bin/sh", "-c", "yes; true")) as box, trio.open_nursery() as nursery:
        nursery.start_soon(box.drain)
        await box.said("y\n" * 100)
        while len(box.tail()) < process.RING_BYTES:
            await box._news.wait()
        assert len(box.tail()) <= process.RING_BYTES
        await box.kill()
        nursery.cancel_scope.cancel()


async def test_kill_takes_everything(spec):
    """Processes that ignore SIGTERM in sessions of their own are gone when kill returns, and reaped."""
    async with sandbox(spec("/bin/sh", "-c", STUBBORN)) as box, trio.open_nursery() as nursery:
        nursery.start_soon(box.drain)
        await box.said("up")
        assert len(descendants()) >= 6
        await box.kill()
        assert descendants() == []
        assert not box.alive
        nursery.cancel_scope.cancel()


async def test_a_fork_bomb_is_bounded_and_dies(spec):
    """The process limit holds inside, and a bomb is gone within the bound of kill."""
    bomb = "import os\nwhile True:\n  try: os.fork()\n  except OSError: print('full', flush=True)"
    argv = ("/usr/bin/prlimit", "--nproc=100", "--", "/usr/bin/python3", "-I", "-S", "-c", bomb)
    async with sandbox(spec(*argv)) as box, trio.open_nursery() as nursery:
        nursery.start_soon(box.drain)
        await box.said("full")
        assert len(descendants()) <= 110
        with trio.fail_after(process.KILL_S):
            await box.kill()
        nursery.cancel_scope.cancel()


async def test_terminate_is_gentle_first(spec):
    """SIGTERM reaches the program itself, which has its time to end in its own way."""
    gentle = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    async with sandbox(spec("/bin/sh", "-c", gentle)) as box, trio.open_nursery() as nursery:
        nursery.start_soon(box.drain)
        await box.said("up")
        await box.terminate(10)
        assert "bye" in box.tail()
        nursery.cancel_scope.cancel()


async def test_terminate_is_not_endless(spec):
    """What ignores SIGTERM is killed when its grace is over."""
    async with sandbox(spec("/bin/sh", "-c", STUBBORN)) as box, trio.open_nursery() as nursery:
        nursery.start_soon(box.drain)
        await box.said("up")
        await box.terminate(0.05)
        assert not box.alive
        nursery.cancel_scope.cancel()


async def test_several_tasks_may_wait(spec):
    """The end is told to everyone who waits for it, with the same status."""
    statuses = []
    async with sandbox(spec("/bin/sleep", "600")) as box, trio.open_nursery() as nursery:

        async def wait():
            statuses.append(await box.wait())

        nursery.start_soon(wait)
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        await box.kill()
    assert len(statuses) == 2
    assert len(set(statuses)) == 1


async def test_cancelled_at_any_moment_nothing_is_left(spec, times):
    """A start that is cancelled 0 to 20 ms later leaves no process, whatever it was doing."""
    chance = random.Random(7)
    for _ in range(times(150)):
        with trio.move_on_after(chance.uniform(0, 0.02)):
            async with sandbox(spec("/bin/sh", "-c", STUBBORN)):
                await trio.sleep_forever()
        assert descendants() == []


async def test_a_body_that_raises_leaves_nothing(spec):
    """An exception passes through as it is, after the sandbox is gone."""
    with pytest.raises(LookupError, match="mine"):
        async with sandbox(spec("/bin/sleep", "600")):
            raise LookupError("mine")
    assert descendants() == []


async def test_a_sandbox_is_a_child_of_the_main_thread(spec):
    """The parent-death signal comes when the forking thread ends: that is the main one, not a worker."""
    await trio.to_thread.run_sync(lambda: None)
    async with sandbox(spec("/bin/sleep", "600")) as box:
        assert str(box.outer_pid) in _children_of_main_thread()


def _children_of_main_thread():
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


async def test_only_the_main_thread_starts_sandboxes(spec):
    """Started from another thread it would die with that thread: refused as the bug it is."""
    caught = []

    def elsewhere():
        try:
            start(spec("/bin/true")).send(None)
        except RuntimeError as exc:
            caught.append(str(exc))

    await trio.to_thread.run_sync(elsewhere)
    assert "main thread" in caught[0]


async def test_a_sandbox_never_starts_as_root(spec):
    """Uid 0 is refused before anything is spawned."""
    with pytest.raises(ValueError, match="root"):
        await run(SandboxSpec("test", ("/bin/true",), 0, seccomp.strict_filter()))


@pytest.mark.skipif(not ROOT, reason="only root can forget to drop its uid")
async def test_root_without_a_uid_to_drop_to_starts_nothing(spec):
    """A daemon of root's whose spec names no uid is refused: /proc/sys would be writable inside."""
    with pytest.raises(ValueError, match="root"):
        await run(SandboxSpec("test", ("/bin/true",), None, seccomp.strict_filter()))


async def test_several_tasks_may_kill(spec):
    """Whoever comes second waits for the same end."""
    async with sandbox(spec("/bin/sleep", "600")) as box, trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(box.kill)
    assert not box.alive


async def test_what_can_not_be_built_says_why(spec):
    """A mount that fails, sooner or later in the start, ends in bwrap's own words, and leaves nothing."""
    try:
        finished = await run(spec("/bin/true", binds=(Bind("/nonexistent-source", "/x"),)))
    except IsolationUnavailable as exc:
        said = exc.message
    else:
        assert finished.status == 1
        said = finished.output
    assert "/nonexistent-source" in said
    with pytest.raises(IsolationUnavailable, match="could not be built"):
        await run(spec("/bin/true", scratch=(Tmpfs("/x", -1),)))


async def test_without_bwrap_nothing_starts(spec, monkeypatch):
    """A missing bwrap is refused with the package to install."""
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(IsolationUnavailable, match="not installed; install the package"):
        await run(spec("/bin/true"))


async def test_open_files_are_limited(spec):
    """The limit of open files is set before bwrap, and core dumps are off."""
    finished = await run(spec("/bin/sh", "-c", "ulimit -Hn; ulimit -c", limits=Limits(open_files=99)))
    assert finished.output.split() == ["99", "0"]


async def test_the_killed_outer_bwrap_leaves_nothing(spec):
    """Killing the outer bwrap behind our back still ends and reaps all of it."""
    async with sandbox(spec("/bin/sh", "-c", STUBBORN)) as box, trio.open_nursery() as nursery:
        nursery.start_soon(box.drain)
        await box.said("up")
        os.kill(box.outer_pid, signal.SIGKILL)
        assert await box.wait() == -signal.SIGKILL
        await box.kill()
        assert descendants() == []
        nursery.cancel_scope.cancel()


async def test_the_ledger_lets_the_next_daemon_reap(spec, place):
    """What is recorded is killed by a later ledger on the same file; once reaped it is forgotten."""
    path = place / "ledger.json"
    async with sandbox(spec("/bin/sleep", "600"), ledger=Ledger(path)) as box:
        assert {r.pid for r in Ledger(path).reap_stale()} == {box.outer_pid, box.init_pid}
        await box.wait()
    assert Ledger(path).reap_stale() == []


def test_the_ledger_never_kills_a_stranger(place):
    """A pid whose start time, or whose boot, is another's is not touched; nor does a broken file matter."""
    path = place / "ledger.json"
    ledger = Ledger(path)
    ledger.add("me", os.getpid())
    text = path.read_text()
    path.write_text(text.replace(str(start_time(os.getpid())), "1"))
    assert Ledger(path).reap_stale() == []
    path.write_text(text.replace('"world": ["', '"world": ["x'))
    assert Ledger(path).reap_stale() == []
    path.write_text("{")
    assert Ledger(path).reap_stale() == []


@pytest.mark.skipif(not ROOT, reason="needs a uid of its own")
async def test_the_process_limit_ignores_what_else_the_uid_runs(spec):
    """Counted inside its namespace, the limit leaves room although the uid runs many processes elsewhere."""
    crowd = "for i in $(seq 40); do sleep 600 & done; echo up; wait"
    limited = (
        "/usr/bin/prlimit",
        "--nproc=20",
        "--",
        "/bin/sh",
        "-c",
        "for i in 1 2 3; do true & done; wait",
    )
    async with sandbox(spec("/bin/sh", "-c", crowd)) as box, trio.open_nursery() as nursery:
        nursery.start_soon(box.drain)
        await box.said("up")
        assert (await run(spec(*limited))).status == 0
        nursery.cancel_scope.cancel()
