"""A call lives under its lease: refused without one, dead or frozen as soon as it is fenced."""

from __future__ import annotations

import random
import time

import pytest
import trio

from bodyd.contract.lease import AcquireRequest, LeaseState
from bodyd.contract.ports import ProcessResult
from bodyd.errors import EndNotRecorded, JournalUnavailable, LeaseError, StaleEpoch, StaleLease
from tests.desktop.conftest import descendants

from .trees import BOMB, TREE
from .world import (
    OWNER,
    SOON,
    World,
    chunks_until,
    left_once_written,
    revoked_once_written,
    until,
    world,
)

FENCES = {
    "release": lambda w: w.release(),
    "revoke": lambda w: w.leases.revoke(caller=OWNER),
    "stop": lambda w: w.leases.stop(caller=OWNER),
    "takeover": lambda w: w.leases.takeover(caller=OWNER),
    "pause": lambda w: w.leases.pause(caller=OWNER),
}


async def test_without_a_lease_nothing_runs():
    """A token that holds no claim, or an epoch that has passed, is refused before anything is looked at."""
    async with world() as w:
        with pytest.raises(StaleLease):
            await w.run("touch ran", lease_token="x" * 43)
        with pytest.raises(StaleEpoch):
            await w.run("touch ran", epoch=99)
        assert list(w.layout.workspace.iterdir()) == []


@pytest.mark.parametrize("name", FENCES)
async def test_fencing_the_lease_kills_the_tree(name):
    """Release, revoke, stop, take-over and pause: once proved, nothing is left, and the results say so."""
    async with world() as w, w.call(TREE, "echo never") as output:
        await chunks_until(output, "up")
        with trio.fail_after(SOON):
            await FENCES[name](w)
        assert descendants() == []
        cut, never = [one async for one in output if isinstance(one, ProcessResult)]
        assert (cut.stdout, cut.exit_code) == ("up\n", 137)
        assert cut.stderr.startswith("cancelled: ")
        assert never.exit_code == 137
        assert "not begun" in never.stderr


async def test_leaving_the_call_kills_the_tree():
    """A caller that goes away leaves no process, and the audit says cancelled."""
    async with world() as w:
        async with w.call(TREE) as output:
            await chunks_until(output, "up")
        assert descendants() == []
        assert [row["how"] for row in await w.audited("shell.command")] == ["cancelled"]


async def test_a_hand_over_waits_for_the_tree():
    """The next driver is granted nothing while a command of the last one runs."""
    async with world() as w, w.call(TREE) as output:
        await chunks_until(output, "up")
        await w.leases.release(w.token)
        with trio.fail_after(SOON):
            await w.acquire("next")
        assert descendants() == []


async def test_a_running_command_keeps_the_claim():
    """A command that runs for longer than the ttl is in use all the while."""
    async with world() as w:
        await w.release()
        request = AcquireRequest(conversation_id="talk", ttl_ms=300)
        w.token = (await w.leases.acquire(request, caller=OWNER)).lease_token
        (result,) = await w.run("sleep 1; echo done")
        assert result.stdout == "done\n"


async def test_frozen_commands_go_on_after_the_hand_back():
    """With freeze, a take-over stops everything, clocks too; after the hand-back it goes on."""
    count = "i=0; while :; do i=$((i+1)); echo $i > at; done &\n"
    count += "echo up; until test -e go; do sleep 0.01; done; echo on"
    async with world(on_takeover="freeze") as w, w.call(count, timeout_ms=3000) as output:
        await chunks_until(output, "up")
        await until((w.work() / "at").exists)
        with trio.fail_after(SOON):
            grant = await w.leases.takeover(caller=OWNER)
        assert _states() <= {"T", "S", "Z"}
        before = (w.work() / "at").read_text()
        await trio.sleep(0.2)
        assert (w.work() / "at").read_text() == before
        assert w.shell.running == 1
        (w.work() / "go").touch()
        with trio.fail_after(SOON):
            await w.leases.handback(caller=OWNER, lease_token=grant.lease_token)
            results = [one async for one in output if isinstance(one, ProcessResult)]
        assert (results[0].stdout, results[0].exit_code) == ("up\non\n", 0)


async def test_the_time_of_a_freeze_does_not_count():
    """A frozen command has as much time left afterwards as it had before."""
    async with (
        world(on_takeover="freeze") as w,
        w.call("echo up; sleep 0.6; echo on", timeout_ms=1500) as output,
    ):
        await chunks_until(output, "up")
        with trio.fail_after(SOON):
            grant = await w.leases.takeover(caller=OWNER)
            await trio.sleep(1.6)
            await w.leases.handback(caller=OWNER, lease_token=grant.lease_token)
            results = [one async for one in output if isinstance(one, ProcessResult)]
        assert results[0].exit_code == 0


async def test_frozen_commands_die_with_their_claim():
    """A revoke while a person drives kills what was frozen: nothing is left suspended."""
    async with world(on_takeover="freeze") as w, w.call(TREE) as output:
        await chunks_until(output, "up")
        with trio.fail_after(SOON):
            await w.leases.takeover(caller=OWNER)
            assert w.shell.running == 1
            await w.leases.revoke(caller=OWNER)
            results = [one async for one in output if isinstance(one, ProcessResult)]
        assert results[0].exit_code == 137
        assert descendants() == []


async def test_two_frozen_calls_wait_without_waking_each_other():
    """Suspended calls cost nothing while they wait, and both go on."""
    wait = "echo up; until test -e go; do sleep 0.01; done; echo on"
    async with world(on_takeover="freeze") as w, w.call(wait) as one, w.call(wait) as two:
        await chunks_until(one, "up")
        await chunks_until(two, "up")
        with trio.fail_after(SOON):
            grant = await w.leases.takeover(caller=OWNER)
            spent = time.thread_time()
            await trio.sleep(0.3)
            assert time.thread_time() - spent < 0.2
            (w.work() / "go").touch()
            await w.leases.handback(caller=OWNER, lease_token=grant.lease_token)
            for output in (one, two):
                assert [r.exit_code async for r in output if isinstance(r, ProcessResult)] == [0]


async def test_a_frozen_fork_bomb_is_stopped_or_dead():
    """What forks for ever can't outrun the freeze: when the take-over is proved, nothing of it runs."""
    async with world(on_takeover="freeze", limits={"processes": 60}) as w, w.call(BOMB) as output:
        await chunks_until(output, "full")
        with trio.fail_after(SOON):
            grant = await w.leases.takeover(caller=OWNER)
        assert grant.lease.state is LeaseState.HELD
        assert "R" not in _states()


async def test_cancelled_at_any_moment_nothing_is_left(times):
    """A call that is left 0 to 60 ms after it was made leaves no process, whatever it was doing."""
    chance = random.Random(11)
    async with world() as w:
        for _ in range(times(150)):
            with trio.move_on_after(chance.uniform(0, 0.06)):
                await w.run(TREE)
            assert descendants() == []
            assert w.shell.running == 0


async def test_a_cancelled_tree_is_dead_within_bounds(times):
    """Stubborn trees and fork bombs, cancelled: what is left when the call returns is nothing, each time."""
    took = []
    async with world(limits={"processes": 128}) as w:
        for turn in range(times(100)):
            command, sign = (BOMB, "full") if turn % 2 else (TREE, "up")
            async with w.call(command) as output:
                await chunks_until(output, sign)
                begun = time.perf_counter()
            took.append(time.perf_counter() - begun)
            assert descendants() == []
    assert max(took) < 5.0  # the figure is bench/execution's


async def test_an_audit_that_can_not_be_written_runs_nothing(monkeypatch):
    """A full disk: the call is refused before any command; in the middle, it ends with the error."""

    async def full(kind: str, data: object) -> int:
        raise JournalUnavailable("the disk is full")

    async with world() as w:
        await _end_with_full_disk(w, full, monkeypatch)
        with pytest.raises(JournalUnavailable):
            await w.run("touch ran")
        assert not (w.work() / "ran").exists()


async def _end_with_full_disk(w: World, full, monkeypatch) -> None:
    async with w.call("echo up; sleep 0.2", "touch ran") as output:
        await chunks_until(output, "up")
        monkeypatch.setattr(w.journal, "audit", full)
        with pytest.raises(EndNotRecorded):
            [one async for one in output]


async def test_every_call_on_record_has_its_ends_there(monkeypatch):
    """Also one whose lease ends, or whose client leaves, while it is being written down."""
    async with world() as w:
        with revoked_once_written(w, "shell.call", monkeypatch), pytest.raises(LeaseError):
            await w.run("true", "true")
        await w.acquire()
        with trio.CancelScope() as client, left_once_written(w, "shell.call", client, monkeypatch):
            await w.run("true")
        calls, ends = await w.audited("shell.call"), await w.audited("shell.command")
    first, second = (one["call_id"] for one in calls)
    assert [(one["call_id"], one["index"], one["how"]) for one in ends] == [
        (first, 0, "cancelled"),
        (first, 1, "cancelled"),
        (second, 0, "cancelled"),
    ]


async def test_closing_the_shell_kills_everything():
    """A daemon that stops leaves nothing of any call."""
    async with trio.open_nursery() as nursery:
        ready = trio.Event()

        async def use() -> None:
            async with world() as w, w.call(TREE) as output:
                await chunks_until(output, "up")
                ready.set()
                await trio.sleep_forever()

        nursery.start_soon(use)
        await ready.wait()
        nursery.cancel_scope.cancel()
    await until(lambda: descendants() == [])


def _states() -> set[str]:
    """The states of the processes of sandboxes, but for bwrap itself."""
    found = set()
    for pid in descendants():
        try:
            with open(f"/proc/{pid}/stat") as file:
                name, _, rest = file.read().partition("(")[2].rpartition(")")
        except OSError:
            continue
        if name != "bwrap":
            found.add(rest.split()[0])
    return found
