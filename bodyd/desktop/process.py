"""The one place that starts processes: every one of them in a bwrap sandbox of its own.

Four rules shape it. The uid is dropped before bwrap starts, for a sandbox begun by real root can
write /proc/sys. The spawn happens on the main thread, for the parent-death signal is tied to the
thread that forked (bubblewrap#692). The program is held back until the pidfd of its namespace's
init is open, for killing the outer bwrap too early leaks the sandbox (bubblewrap#633). And the kill
goes to that init: once its pidfd is readable, everything in the namespace is gone.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
import signal
import subprocess
import threading
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

import trio

from bodyd.errors import IsolationUnavailable

from .cgroups import NONE, Cgroups, Group
from .ledger import Ledger, children, descendants, open_verified
from .spec import Descriptors, SandboxSpec, arguments

HANDSHAKE_S = 10.0
KILL_S = 5.0
RING_BYTES = 64 * 1024
_PR_SET_CHILD_SUBREAPER = 36


class Sandbox:
    """A running sandbox; made by `sandbox()` or `start()`, ended by `kill()`."""

    def __init__(
        self, spec: SandboxSpec, spawned: _Spawned, init_pid: int, init_fd: int, group: Group
    ) -> None:
        self.spec = spec
        self._group = group
        self.init_pid = init_pid
        self._outer = spawned.outer
        self._outer_fd = os.pidfd_open(spawned.outer.pid)
        self._init_fd = init_fd
        self._output = spawned.output
        self._ring = bytearray()
        self._closed = False
        self._news = trio.Event()
        self._draining = trio.Lock()
        self._killing = trio.Lock()

    @property
    def outer_pid(self) -> int:
        return self._outer.pid

    @property
    def alive(self) -> bool:
        return not self._closed and self._outer.poll() is None

    def tail(self) -> str:
        """The end of what the sandbox printed, as far as it was drained: for diagnostics only."""
        return self._ring.decode("utf-8", "replace")

    async def drain(self) -> None:
        """Read the output into a bounded ring until it ends; run it beside anything that prints much.

        Cancellation: safe; what was read stays.
        """
        async with self._draining:  # one reader at a time; a second waits for the same end
            with suppress(trio.ClosedResourceError):  # `kill` has read the rest
                while self._output >= 0:
                    await trio.lowlevel.wait_readable(self._output)
                    if not self._read_output():
                        return

    async def said(self, text: str) -> None:
        """Wait until *text* was printed; something else has to drain. For self-tests."""
        while text not in self.tail():
            await self._news.wait()

    async def last_words(self) -> str:
        """What a sandbox that is about to end prints until it does; bounded to a second."""
        with trio.move_on_after(1.0):
            await self.drain()
        return self.tail().strip() or "no message"

    async def wait(self) -> int:
        """The exit status of the program, once it has ended (negative: killed by that signal).

        What it left running inside may still be there until `kill()`.
        """
        await _readable(self._outer_fd)
        return self._outer.wait()

    async def terminate(self, grace: float) -> None:
        """SIGTERM to the program, at most *grace* seconds for it to end, then `kill()`."""
        for pid in children(self.init_pid):
            fd = open_verified(pid, lambda pid=pid: pid in children(self.init_pid))  # type: ignore[misc]
            if fd is not None:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(fd, signal.SIGTERM)
                os.close(fd)
        with trio.move_on_after(grace):
            await self.wait()
        await self.kill()

    async def kill(self) -> None:
        """SIGKILL the namespace; returns once all of it is gone and reaped. Safe to repeat, at once too.

        Cancellation: the kill is sent in any case; the wait for the end is shielded and bounded.
        """
        if self._closed:
            await trio.lowlevel.checkpoint()
            return
        for fd in (self._init_fd, self._outer_fd):
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(fd, signal.SIGKILL)
        with trio.move_on_after(KILL_S, shield=True) as scope:
            await self._gone()
        if scope.cancelled_caught:
            raise IsolationUnavailable(f"the sandbox {self.spec.name!r} did not die within {KILL_S:.0f} s")

    async def _gone(self) -> None:
        async with self._killing:  # a second killer waits for the first, who closes the descriptors
            if not self._closed:
                await _readable(self._init_fd)
                await _readable(self._outer_fd)
                self._reap()

    def _reap(self) -> None:
        self._closed = True
        self._outer.wait()
        with suppress(ChildProcessError):  # reparented to us only if the outer bwrap went first
            os.waitid(os.P_PIDFD, self._init_fd, os.WEXITED | os.WNOHANG)
        if self._output >= 0:
            while self._read_output():
                pass
            trio.lowlevel.notify_closing(self._output)
            os.close(self._output)
            self._output = -1
        os.close(self._init_fd)
        os.close(self._outer_fd)
        self._group.remove()

    def _read_output(self) -> bool:
        """Take what is there; False at the end, or if there is nothing just now."""
        if self._output < 0:  # killed between the readiness and the read
            return False
        try:
            chunk = os.read(self._output, 65536)
        except BlockingIOError:
            return False
        self._news.set()
        self._news = trio.Event()
        self._ring += chunk
        del self._ring[:-RING_BYTES]
        return bool(chunk)


@asynccontextmanager
async def sandbox(
    spec: SandboxSpec,
    *,
    ledger: Ledger | None = None,
    cgroups: Cgroups = NONE,
    stdout: int | None = None,
    stderr: int | None = None,
) -> AsyncIterator[Sandbox]:
    """A sandbox that is dead when the context is left, whichever way. Arguments as for `start`."""
    started = await start(spec, ledger=ledger, cgroups=cgroups, stdout=stdout, stderr=stderr)
    async with held(started, ledger=ledger) as box:
        yield box


@asynccontextmanager
async def held(box: Sandbox, *, ledger: Ledger | None = None) -> AsyncIterator[Sandbox]:
    """Own a started sandbox: it is dead when the context is left. Enter it without a checkpoint between."""
    try:
        yield box
    finally:
        with trio.move_on_after(KILL_S + 1, shield=True):
            await box.kill()
        if ledger is not None and not box.alive:
            ledger.remove(box.outer_pid, box.init_pid)


async def start(
    spec: SandboxSpec,
    *,
    ledger: Ledger | None = None,
    cgroups: Cgroups = NONE,
    stdout: int | None = None,
    stderr: int | None = None,
) -> Sandbox:
    """Start *spec*; its program runs when this returns. Only from the main thread.

    Args:
        ledger: Where it is recorded before the program runs, for a daemon that comes after us.
        cgroups: Where its group is made, with the limits of the spec.
        stdout, stderr: Descriptors for the program's output; None collects it for `Sandbox.tail`.
    Raises:
        IsolationUnavailable: the sandbox could not be built; nothing is left of it.
    Cancellation:
        Not cancellable, bounded by HANDSHAKE_S: started, or nothing happened.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("sandboxes start on the main thread: their life is tied to that of the thread")
    _become_subreaper()
    group = cgroups.make(spec.name, spec.group)
    try:
        spawned = _spawn(spec, stdout, stderr)
    except BaseException:
        group.remove()
        raise
    init_pid, init_fd = 0, None
    refused = ""
    with trio.move_on_after(HANDSHAKE_S, shield=True), suppress(_Failed):
        init_pid = await _child_pid(spawned.info)
        init_fd = open_verified(init_pid, lambda: init_pid in children(spawned.outer.pid))
        if (
            group.paths and init_fd is not None
        ):  # in a thread: the kernel may wait for a grace period, tens of milliseconds
            refused = await trio.to_thread.run_sync(group.enter, init_pid)
    os.close(spawned.info)
    if init_fd is None:
        failure = await _abandon(spec, spawned)
        group.remove()
        raise IsolationUnavailable(failure)
    box = Sandbox(spec, spawned, init_pid, init_fd, group)
    if refused:
        os.close(spawned.block)
        await box.kill()
        raise IsolationUnavailable(refused)
    if ledger is not None:
        ledger.add(spec.name, spawned.outer.pid, init_pid)
    with suppress(BrokenPipeError):  # a mount failed meanwhile: `wait` and `tail` say so
        os.write(spawned.block, b"1")
    os.close(spawned.block)
    return box


@dataclass(frozen=True, slots=True)
class Finished:
    """A sandboxed program that ran to its end."""

    status: int
    output: str


async def run(spec: SandboxSpec) -> Finished:
    """Run *spec* to its end and collect the last RING_BYTES of its output.

    Cancellation: the sandbox is dead when Cancelled propagates.
    """
    async with sandbox(spec) as box:
        await box.drain()
        status = await box.wait()
    return Finished(status, box.tail())


def command(spec: SandboxSpec, args_fd: int) -> list[str]:
    """The command line on the host: drop the uid, set the limits, become bwrap.

    Raises:
        IsolationUnavailable: one of the three programs is missing.
    """
    line: list[str] = []
    if spec.uid == 0 or (spec.uid is None and os.geteuid() == 0):
        raise ValueError("a sandbox never starts as root")
    if spec.uid is not None:
        line += [_tool("setpriv"), f"--reuid={spec.uid}", f"--regid={spec.uid}", "--clear-groups"]
        line += ["--inh-caps=-all", "--bounding-set=-all", "--no-new-privs", "--"]
    if spec.limits is not None:
        soft, hard = _open_files(spec.limits.open_files)
        line += [_tool("prlimit"), "--core=0", f"--nofile={soft}:{hard}", "--"]
    return [*line, _tool("bwrap"), "--args", str(args_fd), "--", *spec.argv]


def bwrap_version() -> str:
    """What `bwrap --version` says; the one process that starts outside a sandbox."""
    done = subprocess.run([_tool("bwrap"), "--version"], capture_output=True, text=True, check=False)
    return done.stdout.strip()


# -- spawn and handshake --------------------------------------------------------------------------


class _Failed(Exception):
    """The outer bwrap ended, or said nothing, before its child was known."""


@dataclass(frozen=True, slots=True)
class _Spawned:
    outer: subprocess.Popen[bytes]
    info: int
    block: int
    output: int


def _spawn(spec: SandboxSpec, stdout: int | None, stderr: int | None) -> _Spawned:
    """Fork and exec, synchronously: the parent keeps one end of each pipe, the child the other."""
    with ExitStack() as ours, ExitStack() as theirs:
        info_r, info_w = _pipe(ours, theirs)
        block_r, block_w = _pipe(theirs, ours)
        out_r, out_w = _pipe(ours, theirs)
        files = {path: _memory_file(data, theirs) for path, data in spec.files.items()}
        fds = Descriptors(info_w, block_r, _memory_file(spec.seccomp, theirs), files)
        packed = "".join(f"{a}\0" for a in arguments(spec, fds)).encode()
        args = _memory_file(packed, theirs)
        inherited = (args, info_w, block_r, fds.seccomp, *files.values(), *spec.pass_fds)
        outer = subprocess.Popen(
            command(spec, args),
            stdin=subprocess.DEVNULL,
            stdout=out_w if stdout is None else stdout,
            stderr=out_w if stderr is None else stderr,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
            cwd="/",
            pass_fds=inherited,
            start_new_session=True,
        )
        ours.pop_all()
    for fd in (info_r, out_r):
        os.set_blocking(fd, False)
    return _Spawned(outer, info_r, block_w, out_r)


async def _child_pid(info: int) -> int:
    """Read bwrap's info document, which comes in pieces, for the pid of the namespace's init."""
    document = b""
    while True:
        await trio.lowlevel.wait_readable(info)
        piece = os.read(info, 4096)
        if not piece:
            raise _Failed
        document += piece
        with suppress(ValueError):
            return int(json.loads(document)["child-pid"])


async def _abandon(spec: SandboxSpec, spawned: _Spawned) -> str:
    """Kill and reap what came of a start that failed; returns why it failed, for a message."""
    outer = spawned.outer
    os.close(spawned.block)
    for pid in (*descendants(outer.pid), outer.pid):
        with suppress(OSError):
            fd = os.pidfd_open(pid)
            signal.pidfd_send_signal(fd, signal.SIGKILL)
            os.close(fd)
    fd = os.pidfd_open(outer.pid)
    try:
        with trio.move_on_after(KILL_S, shield=True):
            await _readable(fd)
    finally:
        os.close(fd)
    status = outer.wait()
    try:
        said = os.read(spawned.output, RING_BYTES).decode("utf-8", "replace").strip()
    except BlockingIOError:
        said = ""
    os.close(spawned.output)
    return f"the sandbox {spec.name!r} could not be built (status {status}): {said or 'no message'}"


async def _readable(pidfd: int) -> None:
    """Wait for the end of a process; on a duplicate, for Trio lets one task wait for a descriptor."""
    fd = os.dup(pidfd)
    try:
        await trio.lowlevel.wait_readable(fd)
    finally:
        os.close(fd)


def _pipe(reader: ExitStack, writer: ExitStack) -> tuple[int, int]:
    r, w = os.pipe2(os.O_CLOEXEC)
    reader.callback(os.close, r)
    writer.callback(os.close, w)
    return r, w


def _memory_file(data: bytes, owner: ExitStack) -> int:
    fd = os.memfd_create("bodyd", os.MFD_CLOEXEC)
    owner.callback(os.close, fd)
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        package = "bubblewrap" if name == "bwrap" else "util-linux"
        raise IsolationUnavailable(f"{name} is not installed; install the package {package} and start again")
    return path


def _open_files(wanted: int) -> tuple[int, int]:
    """Soft and hard limit: never above what the daemon itself was given."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    hard = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    return min(4096, hard), hard


def _become_subreaper() -> None:
    """Orphans of a bwrap that died come to the daemon, which reaps them."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
