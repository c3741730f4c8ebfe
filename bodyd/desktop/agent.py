"""The hand of the daemon inside the apps' sandbox: starts programs, signals them, says how they ended.

Runs inside, under the system's Python with the standard library alone, as the apps' own user: it has
no right that an app lacks, so what it says is diagnostics to the daemon, never proof. It makes itself
undumpable, so that no app reads its memory or descriptors. Messages are JSON, one a packet:

    {"op": "start", "name", "argv", "env", "unlink": [paths]}, with at most one descriptor: the program's 3
        -> {"event": "started", "name", "pid"} or {"event": "failed", "name", "error"}
    {"op": "signal", "name", "signal"}
    when a program ends, by itself:
        -> {"event": "exited", "name", "pid", "status"}

It ends when the daemon's end of the socket closes. Its counterpart is session.py.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import socket

MAX_MESSAGE = 64 * 1024
PASSED = 3
"""The number under which a program finds the descriptor that it is started with."""

_PR_SET_DUMPABLE = 4


def main(control: socket.socket) -> None:
    """Serve until the daemon hangs up."""
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    control.set_inheritable(False)
    wake_r, wake_w = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    Agent(control, wake_r).serve()


class Agent:
    """Programs by name; one process each, in a session of its own."""

    def __init__(self, control: socket.socket, wake: int) -> None:
        self._control = control
        self._wake = wake
        self._pids: dict[str, int] = {}

    def serve(self) -> None:
        self._say(event="ready")
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd == self._wake:
                    os.read(self._wake, 4096)
                    self._reap()
                    continue
                message, fds, _, _ = socket.recv_fds(self._control, MAX_MESSAGE, 1, socket.MSG_CMSG_CLOEXEC)
                try:
                    if not message:
                        return
                    self._obey(json.loads(message), fds)
                finally:
                    for passed in fds:
                        os.close(passed)

    def _obey(self, order: dict[str, object], fds: list[int]) -> None:
        if order["op"] == "start":
            self._start(order, fds)
        elif order["op"] == "signal":
            pid = self._pids.get(str(order["name"]))
            if pid is not None:
                os.kill(pid, int(str(order["signal"])))

    def _start(self, order: dict[str, object], fds: list[int]) -> None:
        name = str(order["name"])
        if name in self._pids:
            return
        argv, env, unlink = order["argv"], order["env"], order["unlink"]
        assert isinstance(argv, list)
        assert isinstance(env, dict)
        assert isinstance(unlink, list)
        for path in unlink:  # locks of a program that no longer runs: this is the only one of its name
            with contextlib.suppress(OSError):
                os.unlink(path)
        try:
            pid = os.posix_spawn(
                argv[0],
                argv,
                {**os.environ, **env},
                file_actions=[(os.POSIX_SPAWN_DUP2, fd, PASSED) for fd in fds],
                setsid=True,
                setsigmask=(),
                setsigdef=(signal.SIGCHLD, signal.SIGPIPE),
            )
        except OSError as exc:
            self._say(event="failed", name=name, error=f"{argv[0]}: {exc.strerror}")
            return
        self._pids[name] = pid
        self._say(event="started", name=name, pid=pid)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for name in [n for n, p in self._pids.items() if p == pid]:
                del self._pids[name]
                self._say(event="exited", name=name, pid=pid, status=os.waitstatus_to_exitcode(status))

    def _say(self, **event: object) -> None:
        self._control.send(json.dumps(event).encode())
