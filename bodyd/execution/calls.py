"""One call: its commands in their sandboxes, their output, their limits, and the end of all of it.

It runs in the shell's own nursery, so that what ends it (a timeout, the caller, the lease) is told apart
and every command has one result. Counterpart: shell.py admits calls, and watches the lease for them.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import trio

from bodyd.contract.ports import CANCELLED_EXIT, ProcessChunk, ProcessResult
from bodyd.contract.shell import ShellLimits
from bodyd.desktop.freeze import freeze, thaw
from bodyd.errors import BodydError, EndNotRecorded

from .bounds import Live, Stream, shares
from .box import Box, Boxes
from .workspace import Folder

READ_BYTES = 64 * 1024
EAGER_READS, PACE_S = 64, 0.001
"""After so many reads of a stream there is a pause before each: about 60 MB a second at the most."""
FINISH_S = 6.0
"""For what has to be done though all is cancelled: the kill, the row in the audit."""
WATCH_FOLDER_S = 1.0

Report = Callable[[int, "Ended"], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended, for the audit: `how` is exit, timeout or cancelled."""

    how: str
    exit_code: int | None
    stdout_bytes: int
    stderr_bytes: int


class _Running:
    """A command that runs: what it wrote, and what is to be said of its end."""

    def __init__(self, number: int, length: int, tell: Callable[[ProcessChunk], None]) -> None:
        self.number = number
        self.out, self.err = Stream(length), Stream(length)
        self.note = ""
        self.over = trio.CancelScope()
        self.exit_code: int | None = None
        self._length = length
        self._tell = tell
        self._live = {"stdout": Live(length), "stderr": Live(length)}

    @property
    def written(self) -> int:
        return self.out.total + self.err.total

    def take(self, name: str, data: bytes) -> None:
        """Keep a piece of output, and tell it, as far as it is told."""
        (self.out if name == "stdout" else self.err).feed(data)
        text = self._live[name].feed(data, final=not data)
        if text:
            self._tell(ProcessChunk(self.number, name, text))

    def result(self, exit_code: int | None, *, timed_out: bool = False) -> ProcessResult:
        share_out, share_err = shares(self.out.length, self.err.length, self._length)
        out, err = self.out.cut(share_out), self.err.cut(share_err)
        text = err.text
        if self.note:
            text += ("\n" if text and not text.endswith("\n") else "") + self.note + "\n"
        return ProcessResult(
            out.text, text, exit_code, timed_out, out.omitted + err.omitted, command=self.number
        )


class Call:
    """Commands of one call, in one folder.

    Attributes:
        output: What comes of it; ends when it has ended. Bounded by the limit of each command's output.
        halted: Set while nothing of it runs: it is frozen, or over.
        done: Set once it is over, and nothing of it is left.
    """

    def __init__(
        self,
        boxes: Boxes,
        commands: Sequence[str],
        *,
        folder: Folder,
        cwd: str,
        timeout: float,
        length: int,
        limits: ShellLimits,
        room: trio.CapacityLimiter,
        report: Report,
    ) -> None:
        self.commands = tuple(commands)
        self.folder = folder
        self.halted = trio.Event()
        self.done = trio.Event()
        self.error: BodydError | None = None
        self._send, self.output = trio.open_memory_channel[ProcessChunk | ProcessResult](math.inf)
        self._boxes = boxes
        self._cwd = cwd
        self._timeout = timeout
        self._length = length
        self._limits = limits
        self._room = room
        self._report = report
        self._scope = trio.CancelScope()
        self._reason = ""
        self._live: dict[int, Box] = {}
        self._walls: dict[trio.CancelScope, float] = {}  # with the time that a frozen one has left
        self._frozen = False
        self._thawed = trio.Event()
        self._begun: dict[int, _Running] = {}
        self._results: dict[int, ProcessResult] = {}
        self._next = 0

    # -- from outside --------------------------------------------------------------------------------

    def end(self, reason: str) -> None:
        """Kill all of it; what had not ended has a result that says *reason*. Synchronous, safe to repeat."""
        self._reason = self._reason or reason
        self._scope.cancel(reason=reason)

    @property
    def frozen(self) -> bool:
        return self._frozen

    def so_far(self, number: int) -> ProcessResult:
        """The result of a command, or, before there is one, its output until now, without an exit code."""
        running = self._begun.get(number) or _Running(number, self._length, self._tell)
        if self.error is not None:
            running.note = self.error.message
        return self._results.get(number) or running.result(None)

    async def freeze(self) -> None:
        """Stop all of it, clocks too, until `thaw`; what can't be stopped is ended.

        Cancellation: stopped in part.
        """
        self._frozen, self._thawed = True, trio.Event()
        now = trio.current_time()
        for wall in self._walls:
            self._walls[wall], wall.deadline = wall.deadline - now, math.inf
        for box in list(self._live.values()):
            await self._stop(box)
        self.halted.set()

    def thaw(self) -> None:
        """Let it go on; the time that it was stopped does not count."""
        self._frozen, self.halted = False, trio.Event()
        for wall, left in self._walls.items():
            wall.deadline = trio.current_time() + left
        for box in self._live.values():
            thaw(box.sandbox.init_pid)
        self._thawed.set()

    async def run(self, concurrent: bool) -> None:
        """Run the commands; every one has its result when this returns.

        Cancellation: as `end`.
        """
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._watch_folder)
                    await (self._at_once() if concurrent else self._in_order())
                    nursery.cancel_scope.cancel(reason="every command has ended")
        finally:
            for number in range(len(self.commands)):
                if self.error is None and number not in self._results:
                    self._put(self._cancelled(_Running(number, self._length, self._tell), "not begun"))
            self._send.close()
            self.halted.set()
            self.done.set()

    # -- commands ------------------------------------------------------------------------------------

    async def _in_order(self) -> None:
        for number in range(len(self.commands)):
            await self._command(number)

    async def _at_once(self) -> None:
        async with trio.open_nursery() as nursery:
            for number in range(len(self.commands)):
                nursery.start_soon(self._command, number)

    async def _command(self, number: int) -> None:
        running = self._begun[number] = _Running(number, self._length, self._tell)
        wall, cancelled = trio.CancelScope(), True
        try:
            async with self._room:
                while self._frozen:
                    await self._thawed.wait()
                wall.deadline = trio.current_time() + self._timeout
                self._walls[wall] = self._timeout
                with wall, running.over:
                    await self._in_box(running)
            cancelled = False
        except BodydError as exc:
            self._fail(exc)
        finally:
            self._walls.pop(wall, None)
            if self.error is None:
                with trio.move_on_after(FINISH_S, shield=True) as patience:
                    await self._conclude(running, cancelled, wall.cancelled_caught)
                if patience.cancelled_caught:
                    self._fail(EndNotRecorded("the end of a command could not be written down"))

    async def _in_box(self, running: _Running) -> None:
        async with self._boxes.open(self.commands[running.number], self.folder, self._cwd) as box:
            self._live[running.number] = box
            try:
                if self._frozen:  # it was being built when all was stopped
                    await self._stop(box)
                async with trio.open_nursery() as readers:
                    readers.start_soon(self._read, box.stdout, "stdout", running)
                    readers.start_soon(self._read, box.stderr, "stderr", running)
                    status = await box.sandbox.wait()
                    readers.cancel_scope.cancel(reason="the command has ended")
                running.exit_code = status if status >= 0 else 128 - status
            finally:  # what it left behind dies: it would hold the pipes open, and nothing runs on
                with trio.move_on_after(FINISH_S, shield=True):
                    await box.sandbox.kill()
                del self._live[running.number]
                _drain(box.stdout, "stdout", running)
                _drain(box.stderr, "stderr", running)

    async def _read(self, fd: int, name: str, running: _Running) -> None:
        """Keep a stream's output; a flood is slowed down, so that it does not take the loop from the body."""
        for reads in itertools.count():
            if reads > EAGER_READS:
                await trio.sleep(PACE_S)
            await trio.lowlevel.wait_readable(fd)
            data = _some(fd)
            if data is None:
                continue
            if not data:
                return
            running.take(name, data)
            if running.written > self._limits.output_bytes:
                running.note = f"killed: more than {self._limits.output_bytes} bytes of output"
                running.exit_code = CANCELLED_EXIT
                running.over.cancel(reason="too much output")

    async def _conclude(self, running: _Running, cancelled: bool, timed_out: bool) -> None:
        for name in ("stdout", "stderr"):
            running.take(name, b"")
        if cancelled:
            result, how = self._cancelled(running, ""), "cancelled"
        elif timed_out:
            result, how = running.result(None, timed_out=True), "timeout"
        else:
            result, how = running.result(running.exit_code), "exit"
        ended = Ended(how, result.exit_code, running.out.total, running.err.total)
        try:
            await self._report(running.number, ended)
        except BodydError as exc:
            self._fail(EndNotRecorded(f"the end of a command could not be written down: {exc.message}"))
        else:
            self._put(result)

    def _cancelled(self, running: _Running, when: str) -> ProcessResult:
        reason = self._reason or "the daemon is stopping"
        running.note = f"cancelled{', ' + when if when else ''}: {reason}"
        return running.result(CANCELLED_EXIT)

    # -- inside --------------------------------------------------------------------------------------

    async def _stop(self, box: Box) -> None:
        if not await freeze(box.sandbox.init_pid):
            await box.sandbox.kill()

    async def _watch_folder(self) -> None:
        """The folder's quota, by looking: a fast writer may exceed it by what it writes in a second."""
        limit = self._limits.folder_bytes
        while True:
            await trio.sleep(WATCH_FOLDER_S)
            if await trio.to_thread.run_sync(self.folder.size, limit) > limit and not self._frozen:
                self.end(f"the working folder is over {limit} bytes, or has too many files")

    def _tell(self, chunk: ProcessChunk) -> None:
        self._send.send_nowait(chunk)

    def _put(self, result: ProcessResult) -> None:
        """Results leave in the order of the commands, whatever the order of their ends."""
        self._results[result.command] = result
        while self._next in self._results:
            self._send.send_nowait(self._results[self._next])
            self._next += 1

    def _fail(self, error: BodydError) -> None:
        """No result can be given: whoever reads the output gets the error in its place."""
        self.error = self.error or error
        self.end(error.message)


def _some(fd: int) -> bytes | None:
    """What is there: b"" at the end, None if there is nothing yet."""
    try:
        return os.read(fd, READ_BYTES)
    except BlockingIOError:
        return None


def _drain(fd: int, name: str, running: _Running) -> None:
    """What is left in a pipe whose writers are dead: bounded by the pipe's size."""
    while data := _some(fd):
        running.take(name, data)
