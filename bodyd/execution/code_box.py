"""A worker: its sandbox, the wire to it, and frames that are believed nothing.

Counterpart of inside/, which is the program in it.
"""

from __future__ import annotations

import itertools
import json
import socket
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import trio

from bodyd.config import Config
from bodyd.contract.code import MAX_IMAGE_BYTES
from bodyd.desktop import inner_etc, seccomp
from bodyd.desktop.layout import Layout
from bodyd.desktop.process import Sandbox, sandbox
from bodyd.desktop.spec import OURS, GroupLimits, SandboxSpec, Tmpfs

HEAD = struct.Struct(">II")
MAX_HEAD = 2 * 1024 * 1024
"""Bytes of JSON: a text that is typed or pasted may have a million characters, escaped."""

MAX_CALL_BYTES = 64 * 1024 * 1024
"""Of all frames of a call: far beyond what one needs that keeps to its bounds, and no burden yet."""

MAX_NUMBER = 2**53
FOLDER = "/tmp"
_PYTHON = "/usr/bin/python3"
_INSIDE = Path(__file__).with_name("inside")
_START = (
    f"import sys; sys.path.insert(0, {OURS!r}); from inside.main import main; del sys.path[0]; main(sys.argv)"
)
_ETC = ("passwd", "group", "hosts", "nsswitch.conf", "resolv.conf")
_SEND_SECONDS = 10.0


class WorkerBroken(Exception):
    """The process is gone, or it sent what is no frame of its call."""


def word(head: dict[str, Any], name: str) -> str:
    """A text of a frame's, and nothing that would have to be made one: what is nested deep enough can't be.

    Raises:
        WorkerBroken: it is none.
    """
    value = head.get(name)
    if not isinstance(value, str):
        raise WorkerBroken(f"a frame's {name} is no text")
    return value


def number(head: dict[str, Any], name: str) -> int:
    """As `word`, for what counts."""
    value = head.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < MAX_NUMBER:
        raise WorkerBroken(f"a frame's {name} is no number")
    return value


class Worker:
    """One process, as long as it lives.

    Attributes:
        gone: Set once nothing of it is left.
        doomed: It is to die; no call goes to it any more.
    """

    def __init__(self, box: Sandbox, wire: socket.socket) -> None:
        self.gone = trio.Event()
        self.doomed = False
        self._box = box
        self._wire = wire
        self._stream = trio.SocketStream(trio.socket.from_stdlib_socket(wire))
        self._scope = trio.CancelScope()
        self._calls = itertools.count(1)
        self._buffer = bytearray()
        self._budget = 0

    def doom(self) -> None:
        """Kill it: synchronous, safe to repeat; `gone` tells when it is."""
        self.doomed = True
        self._scope.cancel(reason="the worker is to die")

    def sound(self) -> bool:
        """Whether it has kept silent since its last call, and still runs."""
        if self._buffer or not self._box.alive:
            return False
        try:
            self._wire.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    async def begin(self, code: str) -> int:
        """Hand a call over; returns its number."""
        call = next(self._calls)
        self._budget = MAX_CALL_BYTES
        await self._send({"call": call, "code": code})
        return call

    async def receive(self, call: int) -> tuple[dict[str, Any], bytes]:
        """The next frame of *call*.

        Raises:
            WorkerBroken: it is none.
        """
        await trio.lowlevel.checkpoint()  # many small frames come at once: everybody else has a turn
        size, tail = HEAD.unpack(await self._exactly(HEAD.size))
        self._budget -= size + tail
        if size > MAX_HEAD or tail > MAX_IMAGE_BYTES or self._budget < 0:
            raise WorkerBroken("a frame is too large, or all of them are")
        try:
            head = json.loads(await self._exactly(size))
        except (ValueError, RecursionError):
            raise WorkerBroken("a frame is not JSON") from None
        if not isinstance(head, dict) or head.get("call") != call:
            raise WorkerBroken("a frame is not of this call")
        return head, await self._exactly(tail)

    async def answer(self, value: dict[str, object], tail: bytes) -> None:
        await self._send(value, tail)

    async def live(self, task_status: trio.TaskStatus[Worker]) -> None:
        """Until it is doomed or ends by itself."""
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._box.drain)
                task_status.started(self)
                await self._box.wait()
                nursery.cancel_scope.cancel(reason="the process has ended")
        self.doomed = True

    async def _send(self, head: dict[str, object], tail: bytes = b"") -> None:
        text = json.dumps(head).encode()
        try:
            with trio.fail_after(_SEND_SECONDS):
                await self._stream.send_all(HEAD.pack(len(text), len(tail)) + text + tail)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise WorkerBroken("it hung up") from None
        except trio.TooSlowError:
            raise WorkerBroken("it does not read") from None

    async def _exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            try:
                part = await self._stream.receive_some(256 * 1024)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                part = b""
            if not part:
                raise WorkerBroken(self._box.tail().strip()[-500:] or "it hung up")
            self._buffer += part
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data


class WorkerBoxes:
    """Makes workers. *machine_id* is the body's."""

    def __init__(self, config: Config, layout: Layout, *, machine_id: str) -> None:
        self._layout = layout
        self._settings = config.code
        self._living: set[Worker] = set()
        zone = config.desktop.timezone
        etc = inner_etc.files(machine_id, zone)
        self._spec = SandboxSpec(
            name="code",
            argv=(),
            uid=layout.uids.code if layout.uids.drop else None,
            seccomp=seccomp.strict_filter((socket.AF_UNIX,)),
            scratch=(
                Tmpfs(FOLDER, config.code.scratch_bytes, 0o1777),
                Tmpfs("/dev/shm", config.code.scratch_bytes, 0o1777),
            ),
            files={
                **{f"/etc/{name}": etc[f"/etc/{name}"] for name in _ETC},
                **{f"{OURS}/inside/{path.name}": path.read_bytes() for path in _INSIDE.glob("*.py")},
                f"{OURS}/filter": seccomp.no_programs_filter(),
            },
            links=inner_etc.links(zone),
            env={
                "PATH": "/usr/bin:/bin",
                "HOME": FOLDER,
                "LANG": config.desktop.locale,
                "TZ": zone,
                "OPENBLAS_NUM_THREADS": "1",
                "OMP_NUM_THREADS": "1",
            },
            etc=("alternatives", "ld.so.cache"),
            group=GroupLimits(config.code.memory_bytes, 0, config.limits.cpus),
        )

    def dying(self) -> list[Worker]:
        """Those that are to die and are not gone yet."""
        return [worker for worker in self._living if worker.doomed]

    async def live(self, *, task_status: trio.TaskStatus[Worker]) -> None:
        """A worker's whole life; started once its process runs.

        Raises:
            IsolationUnavailable: the sandbox could not be built.
        """
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        worker: Worker | None = None
        try:
            with ours, theirs:
                argv = (_PYTHON, "-I", "-B", "-c", _START, str(theirs.fileno()))
                limits = (str(self._settings.memory_bytes), FOLDER, f"{OURS}/filter")
                spec = replace(self._spec, argv=(*argv, *limits), pass_fds=(theirs.fileno(),))
                async with sandbox(spec, ledger=self._layout.ledger, cgroups=self._layout.cgroups) as box:
                    theirs.close()
                    worker = Worker(box, ours)
                    self._living.add(worker)
                    await worker.live(task_status)
        finally:
            if worker is not None:
                worker.doomed = True
                self._living.discard(worker)
                worker.gone.set()
