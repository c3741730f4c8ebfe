"""Commands in real sandboxes: what they get, what they may do, what comes of them, and that they end."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from bodyd.errors import ConfigError, InvalidRequest, IsolationUnavailable, LeaseError, PolicyRefused
from bodyd.policy import approvals
from tests.desktop.conftest import ROOT, descendants

from .world import OWNER, SOON, chunks_until, names_of, until, world


async def test_stdout_stderr_and_status_come_back_apart():
    """Each command has its own streams and exit code; a failure does not stop those after it."""
    async with world() as w:
        first, second, third = await w.run("echo out; echo err >&2; exit 3", "kill -9 $$", "nonesuch")
    assert (first.stdout, first.stderr, first.exit_code) == ("out\n", "err\n", 3)
    assert second.exit_code == 137
    assert third.exit_code == 127
    assert "nonesuch" in third.stderr
    assert [r.command for r in (first, second, third)] == [0, 1, 2]


async def test_the_environment_is_what_is_configured_and_no_more(monkeypatch):
    """Nothing of the daemon's environment is inside: no secret, no DISPLAY; what is configured is."""
    monkeypatch.setenv("PLANTED_SECRET", "hunter2")
    monkeypatch.setenv("DISPLAY", ":77")
    async with world(environment={"CI": "yes"}) as w:
        names = dict(line.split("=", 1) for line in (await w.out("env")).splitlines())
    assert names["CI"] == "yes"
    assert names["HOME"] == "/workspace"
    assert not {"PLANTED_SECRET", "DISPLAY", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS"} & names.keys()


async def test_inside_there_is_no_way_to_the_desktop_or_the_host():
    """No X socket, no profile, no host files, no open descriptors, no network, no nested user namespaces."""
    async with world() as w:
        assert await w.out("ls /") == "bin\ndev\netc\nlib\nlib64\nproc\nsbin\ntmp\nusr\nworkspace\n"
        assert await w.out("ls /tmp /dev/shm") == "/dev/shm:\n\n/tmp:\n"
        held = await w.out("ls -l /proc/self/fd")
        assert held.count("pipe:") == 2
        assert not any(kind in held for kind in ("memfd", "socket:", "pidfd"))
        tried = "import socket; socket.create_connection(('192.0.2.1', 80), 1)"
        (network,) = await w.run(f'python3 -c "{tried}"')
        assert "Network is unreachable" in network.stderr
        (nested,) = await w.run("unshare -U true")
        assert nested.exit_code != 0
        (core,) = await w.run("echo x > /proc/sys/kernel/core_pattern")
        assert core.exit_code != 0


@pytest.mark.skipif(not ROOT, reason="needs uids of its own")
async def test_commands_run_under_a_uid_of_their_own():
    """On the host, they are neither root, nor the apps', nor the X server's."""
    async with world() as w, w.call("sleep 600"):
        await until(lambda: "sleep" in names_of())
        owners = {os.stat(f"/proc/{pid}").st_uid for pid in descendants()}
        assert owners == {w.layout.uids.shell}
        assert len({w.layout.uids.apps, w.layout.uids.x, w.layout.uids.shell}) == 3


async def test_a_folder_persists_across_calls_of_one_conversation():
    """Files stay for the same conversation, in the working folder and in /tmp; another's are not seen."""
    async with world() as w:
        await w.out("echo kept > file; echo too > /tmp/file; mkdir -p a/b")
        assert await w.out("cat file /tmp/file") == "kept\ntoo\n"
        await w.release()
        await w.acquire("another")
        assert await w.out("ls . /tmp") == ".:\n\n/tmp:\n"
        await w.release()
        await w.acquire("talk")
        assert await w.out("cat ../file", working_directory="a") == "kept\n"


async def test_the_least_used_folders_leave():
    """Only so many conversations keep a folder; the one longest unused goes first."""
    async with world(folders=2) as w:
        for name in ("one", "two", "three"):
            await w.release()
            await w.acquire(name)
            await w.out("ls")
        await until(lambda: len(list(w.layout.workspace.iterdir())) == 2)


@pytest.mark.parametrize(
    "wanted", ["..", "a/../..", "/", "/etc", "/workspace/../etc", "link", "link/x", "none", "file"]
)
async def test_a_working_directory_is_below_the_root(wanted):
    """What leaves the working root, goes through a link, or is no folder, is refused; nothing is run."""
    async with world() as w:
        await w.out("ln -s / link; touch file; mkdir -p a/b")
        with pytest.raises(InvalidRequest) as caught:
            await w.run("touch ran", working_directory=wanted)
        assert caught.value.param == "working_directory"
        assert "ran" not in await w.out("ls")
        assert await w.out("pwd", working_directory="a/b") == "/workspace/a/b\n"
        assert await w.out("pwd", working_directory="/workspace/a") == "/workspace/a\n"


async def test_a_timeout_keeps_what_came():
    """A command over its time is a timeout with its output so far, and those after it still run."""
    async with world() as w:
        slow, after = await w.run("echo begun; sleep 600", "echo after", timeout_ms=500)
        assert (slow.stdout, slow.exit_code, slow.timed_out) == ("begun\n", None, True)
        assert (after.stdout, after.exit_code, after.timed_out) == ("after\n", 0, False)


async def test_the_configured_timeout_is_the_most():
    """A request can lower the time, not raise it."""
    async with world(limits={"timeout_ms": 300}) as w:
        (slow,) = await w.run("sleep 600", timeout_ms=600_000)
        assert slow.timed_out


async def test_commands_may_run_at_once():
    """Concurrent commands see one another, and their results come in the order of the commands."""
    wait = "until test -e done; do sleep 0.01; done; echo first"
    async with world() as w:
        first, second = await w.run(wait, "touch done; echo second", concurrent=True)
        assert (first.stdout, second.stdout) == ("first\n", "second\n")


@pytest.mark.parametrize(
    "holder", ["sleep 600 &", "nohup sleep 600 &", "setsid sleep 600 & disown;", "(sleep 600 &);"]
)
async def test_what_is_left_behind_neither_holds_the_call_nor_stays(holder):
    """A background process with the pipes open does not keep the call; it is dead when the call returns."""
    async with world() as w:
        with trio.fail_after(SOON):
            assert await w.out(f"{holder} echo done") == "done\n"
        assert descendants() == []


async def test_programs_that_want_a_terminal_are_told_there_is_none():
    """stdin is at its end, there is no terminal to open, and what waits for one is bounded by the timeout."""
    async with world() as w:
        assert await w.out("cat; echo end") == "end\n"
        (tty,) = await w.run("tty; exec 3<> /dev/tty")
        assert "not a tty" in tty.stdout
        assert tty.exit_code != 0
        (fifo,) = await w.run("mkfifo f; cat f", timeout_ms=300)
        assert fifo.timed_out


async def test_output_is_cut_in_the_middle():
    """Head and tail within the limit, of stdout and stderr together, and the omitted bytes counted."""
    async with world() as w:
        (long,) = await w.run("seq 100000; seq 100000 >&2", max_output_length=1000)
    assert len(long.stdout) + len(long.stderr) <= 1000
    assert long.stdout.startswith("1\n2\n")
    assert long.stdout.endswith("\n100000\n")
    assert long.stderr.endswith("\n100000\n")
    assert f"{long.omitted_bytes // 2} bytes omitted" in long.stdout


async def test_binary_and_split_text_come_through():
    """Bytes that are no UTF-8 are replaced; characters written byte by byte are whole."""
    async with world() as w:
        split = 'for b in e6 97 a5; do printf "\\x$b"; sleep 0.02; done'
        assert await w.out(split) == "日"
        assert (await w.out("printf 'a\\xff\\x00b'")) == "a�\0b"


async def test_output_is_streamed_as_it_comes():
    """A chunk arrives while its command still runs, stream by stream; the result has all of it again."""
    command = "echo one; until test -e go; do sleep 0.01; done; echo two >&2"
    async with world() as w, w.call(command) as output:
        await chunks_until(output, "one\n")
        (w.work() / "go").touch()
        await chunks_until(output, "two\n", "stderr")
        (result,) = [one async for one in output]
    assert (result.stdout, result.stderr, result.exit_code) == ("one\n", "two\n", 0)


async def test_endless_output_ends():
    """More output than is allowed kills the command, and says so; the daemon keeps next to nothing."""
    async with world(limits={"output_bytes": 4 * 1024 * 1024}) as w:
        (flood,) = await w.run("yes", max_output_length=1000)
    assert flood.exit_code == 137
    assert "more than 4194304 bytes of output" in flood.stderr
    assert len(flood.stdout) <= 1000


async def test_limits_hold():
    """Processes, memory, file size and CPU time are limited inside; the daemon is not disturbed."""
    limits = {"processes": 32, "memory_bytes": 128 * 1024 * 1024, "file_bytes": 1024 * 1024, "cpu_ms": 1000}
    async with world(limits=limits) as w:
        (forks,) = await w.run("for i in $(seq 100); do sleep 600 & done; echo all", timeout_ms=1500)
        assert "Resource temporarily unavailable" in forks.stderr or forks.timed_out
        (memory,) = await w.run("python3 -c 'x = bytearray(512 << 20)'")
        assert "MemoryError" in memory.stderr
        (big,) = await w.run("head -c 4M /dev/zero > big; stat -c %s big")
        assert big.stdout == "1048576\n"
        (spin,) = await w.run("while :; do :; done", timeout_ms=20_000)
        assert spin.exit_code in (137, 152)


async def test_a_full_folder_ends_the_call():
    """What fills the working folder beyond its quota is killed, and told why; it can be emptied again."""
    async with world(limits={"folder_bytes": 8 * 1024 * 1024}) as w:
        (full,) = await w.run("for i in $(seq 16); do head -c 1M /dev/zero > f$i; done; sleep 600")
        assert full.exit_code == 137
        assert "the working folder is over" in full.stderr
        await w.out("rm f*")


@pytest.fixture
def shown() -> Iterator[Path]:
    """A folder of the host that no list of reserved paths covers, with a file to read and one to write to."""
    root = Path(tempfile.mkdtemp(prefix="bodyd-test-", dir="/var/tmp"))
    for path, mode in ((root, 0o755), (root / "ro", 0o755), (root / "rw", 0o777)):
        path.mkdir(exist_ok=True)
        path.chmod(mode)
    (root / "ro" / "file").write_text("hello")
    (root / "link").symlink_to(root / "ro")
    yield root
    shutil.rmtree(root)


async def test_paths_of_the_host_are_shown_as_configured(shown):
    """A read-only path can be read and not written; a read-write one both."""
    async with world(read_only=[f"{shown}/ro"], read_write=[f"{shown}/rw"]) as w:
        assert await w.out(f"cat {shown}/ro/file; echo x > {shown}/rw/file") == "hello"
        (refused,) = await w.run(f"echo x > {shown}/ro/file")
        assert "Read-only" in refused.stderr
    assert (shown / "rw" / "file").read_text() == "x\n"


@pytest.mark.parametrize("name", ["missing", "link"])
async def test_paths_that_are_not_there_refuse_the_start(shown, name):
    """A path that is missing, or leads through a link, is no path to show."""
    with pytest.RaisesGroup(pytest.RaisesExc(ConfigError, match=name), flatten_subgroups=True):
        async with world(read_only=[f"{shown}/{name}"]):
            pass


async def test_denied_commands_run_nothing_of_their_call():
    """One refused command refuses the call, names its place and rule, and runs nothing."""
    async with world(policy={"default": "deny", "allow": ["touch", "ls"]}) as w:
        with pytest.raises(PolicyRefused) as caught:
            await w.run("touch ran", "curl example.org")
        assert caught.value.param == "commands[1]"
        assert "curl" not in caught.value.message
        assert await w.out("ls") == ""
        (row,) = await w.audited("shell.refused")
        assert row["index"] == 1
        assert [c["verdict"] for c in row["commands"]] == ["allow", "deny"]


class Approvals:
    """Answers as told, and remembers what it was asked."""

    def __init__(self, answer: bool) -> None:
        self.answer = answer
        self.asked = []

    async def decide(self, request):
        self.asked.append(request)
        return self.answer


async def test_approval_is_somebodys_or_a_refusal():
    """A command that needs approval runs if the hook says so; without a hook, it is refused."""
    policy = {"default": "allow", "approve": ["touch"]}
    async with world(policy=policy) as w:
        with pytest.raises(PolicyRefused, match="no approval hook"):
            await w.run("touch x")
    for answer in (True, False):
        hook = Approvals(answer)
        async with world(policy=policy, approvals=hook) as w:
            if answer:
                await w.out("touch x")
            else:
                with pytest.raises(PolicyRefused, match="nobody approved"):
                    await w.run("touch x")
        assert hook.asked[0].rule == "shell.approve:touch"
        assert hook.asked[0].conversation_id == "talk"


async def test_a_question_is_void_after_a_hand_over():
    """It is withdrawn at once, and the call is refused by the lease, not for want of an answer."""
    asked = trio.Event()
    hook = approvals.Approvals(now_ms=lambda: 1, announce=lambda event: asked.set())
    async with world(policy={"default": "allow", "approve": ["touch"]}, approvals=hook) as w:

        async def ask() -> None:
            with pytest.raises(LeaseError):
                await w.run("touch x")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await asked.wait()
            assert hook.pending()[0]["commands"] == ["touch x"]
            await w.leases.revoke(caller=OWNER, reason="enough")
        assert hook.pending() == []


async def test_every_command_is_audited_and_none_of_its_text():
    """Before: length, keyed digest, verdict. After: how it ended, exit code, bytes. Never the text."""
    async with world() as w:
        await w.run("echo topsecret", "sleep 600", timeout_ms=300)
        (call,) = await w.audited("shell.call")
        ended = await w.audited("shell.command")
        rows = repr(await w.journal.tail(100))
    assert [c["length"] for c in call["commands"]] == [14, 9]
    assert [(e["how"], e["exit"], e["stdout_bytes"]) for e in ended] == [
        ("exit", 0, 10),
        ("timeout", None, 0),
    ]
    assert "topsecret" not in rows
    assert call["commands"][0]["digest"] != call["commands"][1]["digest"]


async def test_commands_reach_their_own_egress_list_alone():
    """With a list of its own the shell has a proxy, and the proxy denies what is not on the list."""
    async with world(egress={"allow": ["example.org"]}) as w:
        said = await w.out(
            "python3 - <<'E'\nimport urllib.request as u\ntry: u.urlopen('http://example.com')\n"
            "except Exception as e: print(e)\nE"
        )
        assert "403" in said
        assert w.shell.egress.snapshot()["denied"] == {"example.com": 1}


async def test_a_shell_that_can_not_run_anything_does_not_start(monkeypatch):
    """What is wrong is said at the start, in the words of what failed."""
    monkeypatch.setattr("bodyd.execution.box.SHELL", "/usr/bin/nonesuch")
    failure = pytest.RaisesExc(IsolationUnavailable, match="nonesuch")
    with pytest.RaisesGroup(failure, flatten_subgroups=True):
        async with world():
            pass
