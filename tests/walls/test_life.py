"""Attacks that want to outlive their end: every tree is dead within two seconds, wherever it grew."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
import trio

from bodyd.desktop.desktop import open_desktop
from bodyd.desktop.ledger import children
from bodyd.desktop.process import sandbox
from bodyd.desktop.seccomp import strict_filter
from bodyd.desktop.spec import SandboxSpec
from tests.desktop.conftest import ROOT, descendants
from tests.execution import world as shells

from .rooms import as_command, room, source

KINDS = ("bomb", "stubborn", "stopped", "namespaces")
DEAD_S = 2.0
BUSY = 4.0
"""What two seconds become where others have the machine's two cores."""


@pytest.mark.parametrize("kind", KINDS)
async def test_a_commands_tree_is_dead_when_its_caller_leaves(kind):
    """Fork bombs, programs deaf to SIGTERM, stopped ones, nested namespaces: nothing is left, soon."""
    async with shells.world() as world:
        async with world.call(as_command("trees", kind)) as output:
            await shells.chunks_until(output, "up")
            began = time.monotonic()
        assert time.monotonic() - began < DEAD_S * BUSY
        assert descendants() == []


@pytest.mark.parametrize("kind", KINDS)
async def test_an_apps_tree_is_dead_when_the_apps_are_restarted(kind, configure):
    """The same among the apps: the X server stays, and of the old sandbox there is nothing."""
    config = configure(desktop={"apps": {"tree": ("/usr/bin/python3", "-I", "-c", source("trees"), kind)}})
    async with open_desktop(config, report=lambda _: None) as desktop:
        await desktop.launch("tree")
        box = desktop._session.box
        with trio.fail_after(30):
            await box.said("up")
        inside = children(box.init_pid)
        began = time.monotonic()
        await box.kill()
        assert time.monotonic() - began < DEAD_S * BUSY
        assert children(box.init_pid) == []
        assert not set(inside) & set(descendants())
        await desktop.wait_generation(0)


async def test_closed_streams_do_not_hold_a_command():
    """A command that closes its output and goes on is bounded; one whose reader is gone ends itself."""
    async with shells.world() as world:
        (closed,) = await world.run("exec >&- 2>&-; sleep 600", timeout_ms=300)
        assert closed.timed_out
        (broken,) = await world.run("yes | head -1; echo ${PIPESTATUS[0]}")
        assert broken.stdout == "y\n141\n"
        assert descendants() == []


async def test_memory_is_not_the_hosts_to_give(configure):
    """A process that takes more than it may, by its own limit or its group's, does not get it."""
    config = {"limits": {"memory_bytes": 300 << 20}}
    async with room("apps", configure, **config) as attack:
        assert await attack("memory", str(200 << 20)) == "done"
        seen = "killed"
        with suppress(AssertionError):  # no result: it was ended before it had one
            seen = await attack("memory", str(1 << 30))
        assert seen in ("killed", "MemoryError")


@pytest.mark.soak
async def test_a_sandbox_outlives_the_threads_of_trio(configure):
    """Half a minute after its start, long after any idle worker thread has ended, it is still there."""
    uid = configure().desktop.base_uid if ROOT else None
    spec = SandboxSpec("test", ("/usr/bin/sleep", "600"), uid, strict_filter())
    async with sandbox(spec) as box:
        await trio.to_thread.run_sync(time.sleep, 0)
        with trio.move_on_after(30):
            await box.wait()
        assert box.alive
