"""The apps' sandbox, seen from the daemon: what is mounted in it, and the agent that starts programs there.

All that arrives from inside is hostile: messages are bounded, malformed ones end the session, and a
status is what the inside claims. The one right that comes out is the listening socket that netinit
sends before any app runs. Its counterparts inside are netinit.py and agent.py.
"""

from __future__ import annotations

import array
import json
import os
import secrets
import signal
import socket
import stat
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import structlog
import trio

from bodyd.config import Config
from bodyd.errors import DisplayUnavailable, IsolationUnavailable

from . import accessibility, browser, inner_etc, seccomp, window_manager
from .accessibility import BusSocket
from .agent import MAX_MESSAGE
from .layout import Layout
from .ledger import children
from .process import Sandbox, held, start
from .spec import HOSTNAME, INNER_UID, OURS, Bind, GroupLimits, Limits, SandboxSpec, Tmpfs
from .xauth import authority
from .xserver import XServer

READY_S = 15.0
NOT_STARTED = 127  # as a shell says it
_XAUTH = f"{OURS}/xauth"
_PYTHON = "/usr/bin/python3"
_INSIDE = ("netinit.py", "agent.py")


log = structlog.get_logger("bodyd.desktop")


class SessionLost(DisplayUnavailable):
    """The apps' sandbox, or the agent in it, has ended."""


class Session:
    """A live apps' sandbox. `serve` must run for anything to be heard from it."""

    def __init__(self, box: Sandbox, control: trio.socket.SocketType) -> None:
        self.box = box
        self.facts: dict[str, Any] = {}
        self.bus: BusSocket | None = None
        self._control = control
        self._pids: dict[str, int] = {}
        self._host_pids: dict[int, int] = {}  # by the pid inside
        self._waiting: dict[str, trio.MemorySendChannel[dict[str, Any]]] = {}

    @property
    def running(self) -> Mapping[str, int]:
        """Programs by name, with their pid inside."""
        return self._pids

    async def serve(self) -> None:
        """Hear the agent until the sandbox ends; then every `run` raises SessionLost, and this returns."""
        try:
            while True:
                event = await self._hear()
                self._note(event)
        except SessionLost:
            self._pids.clear()
            for channel in self._waiting.values():
                channel.close()

    async def run(
        self,
        name: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        unlink: Sequence[str] = (),
        passing: socket.socket | None = None,
    ) -> int:
        """Start a program under *name* and wait for its end; returns its exit status, or NOT_STARTED.

        Args:
            env: Added to the sandbox's own.
            passing: A socket that the program finds as descriptor 3.
            unlink: Paths inside that are removed first: locks of an earlier life of the same program.
        Raises:
            SessionLost: the sandbox ended.
        Cancellation: the program goes on; only the wait ends.
        """
        send, events = trio.open_memory_channel[dict[str, Any]](4)
        self._waiting[name] = send
        try:
            order = {"name": name, "argv": list(argv), "env": dict(env or {}), "unlink": list(unlink)}
            await self._order({"op": "start", **order}, passing)
            async for event in events:
                if event["event"] == "exited":
                    return int(event["status"])
                if event["event"] == "failed":
                    log.error("program_not_started", program=name, error=str(event["error"])[:200])
                    return NOT_STARTED
            raise SessionLost(f"{name} ended with its sandbox")
        finally:
            self._waiting.pop(name, None)
            send.close()
            events.close()

    async def signal(self, name: str, number: signal.Signals) -> None:
        """Signal a program by name; nothing happens if it does not run."""
        with suppress(SessionLost):
            await self._order({"op": "signal", "name": name, "signal": int(number)})

    def host_pid(self, name: str) -> int | None:
        """The host's pid of a running program, for diagnostics."""
        inner = self._pids.get(name)
        if inner is None:
            return None
        known = self._host_pids.get(inner)
        if known is None or _pid_inside(known) != inner:
            known = self._find(inner)
            self._host_pids = {k: v for k, v in self._host_pids.items() if k in self._pids.values()}
            if known is not None:
                self._host_pids[inner] = known
        return known

    def _find(self, inner: int) -> int | None:
        todo = children(self.box.init_pid)
        while todo:
            pid = todo.pop()
            if _pid_inside(pid) == inner:
                return pid
            todo += children(pid)
        return None

    async def hello(self) -> socket.socket:
        """The first two messages: netinit's, with the proxy's socket, and that the agent is ready."""
        self.facts, listener = await receive_network(self._control)
        try:
            if (await self._hear())["event"] != "ready":
                raise SessionLost("the agent in the apps' sandbox did not start")
        except BaseException:
            listener.close()
            raise
        return listener

    def _note(self, event: dict[str, Any]) -> None:
        name = str(event.get("name"))
        if event["event"] == "started" and isinstance(event.get("pid"), int):
            self._pids[name] = event["pid"]
        elif event["event"] == "exited":
            self._pids.pop(name, None)
            if not isinstance(event.get("status"), int):
                raise SessionLost("a malformed message from inside the apps' sandbox")
        channel = self._waiting.get(name)
        if channel is not None:
            with suppress(trio.WouldBlock, trio.BrokenResourceError):
                channel.send_nowait({"error": "", **event})

    async def _hear(self) -> dict[str, Any]:
        try:
            data = await self._control.recv(MAX_MESSAGE)
        except OSError as exc:
            raise SessionLost(f"the apps' sandbox is gone: {exc.strerror}") from exc
        return _decode(data)

    async def _order(self, order: Mapping[str, object], passing: socket.socket | None = None) -> None:
        rights = array.array("i", [] if passing is None else [passing.fileno()])
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if rights else []
        try:
            await self._control.sendmsg([json.dumps(order).encode()], ancillary)
        except (OSError, trio.ClosedResourceError) as exc:
            raise SessionLost("the apps' sandbox is gone") from exc


@asynccontextmanager
async def open_session(
    config: Config, layout: Layout, x: XServer, *, machine_id: str
) -> AsyncIterator[tuple[Session, trio.SocketListener]]:
    """The apps' sandbox, its agent ready and no app started yet, and its way out; dead on leaving.

    Raises:
        IsolationUnavailable: it could not be built; with what it said.
        ConfigError: a setting that it needs is wrong.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    control = trio.socket.from_stdlib_socket(ours)
    with control, accessibility.bus_socket(config, layout) as bus:
        with theirs:
            spec = apps_spec(config, layout, x, control=theirs.fileno(), machine_id=machine_id, bus=bus)
            box = await start(spec, ledger=layout.ledger, cgroups=layout.cgroups)
        async with held(box, ledger=layout.ledger):
            session = Session(box, control)
            session.bus = bus
            listener = await _hello(session)
            async with trio.SocketListener(trio.socket.from_stdlib_socket(listener)) as way_out:
                yield session, way_out


async def receive_network(control: trio.socket.SocketType) -> tuple[dict[str, Any], socket.socket]:
    """netinit's message: what it found, and the proxy's listening socket.

    Raises:
        SessionLost: it ended first, or sent something else.
    """
    data, ancillary, _, _ = await control.recvmsg(MAX_MESSAGE, socket.CMSG_SPACE(4 * 4))
    fds = array.array("i")
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
    try:
        facts = _decode(data)
        if len(fds) != 1 or not stat.S_ISSOCK(os.fstat(fds[0]).st_mode):
            raise SessionLost("the sandbox did not hand out its socket")
        listener = socket.socket(fileno=os.dup(fds[0]))
    finally:
        for fd in fds:
            os.close(fd)
    if not _listens(listener):
        listener.close()
        raise SessionLost("the sandbox handed out a socket that does not listen")
    return facts, listener


async def _hello(session: Session) -> socket.socket:
    with trio.move_on_after(READY_S) as scope:
        try:
            return await session.hello()
        except SessionLost as exc:
            raise IsolationUnavailable(f"{exc.message}: {await session.box.last_words()}") from exc
    assert scope.cancelled_caught
    raise IsolationUnavailable(
        f"the apps' sandbox was not ready within {READY_S:.0f} s: {await session.box.last_words()}"
    )


def apps_spec(
    config: Config,
    layout: Layout,
    x: XServer,
    *,
    control: int,
    machine_id: str,
    bus: BusSocket | None = None,
) -> SandboxSpec:
    """What the apps see of the world."""
    desktop = config.desktop
    more = browser.roots(desktop.browser) if desktop.browser else ()
    inside = Path(__file__).parent
    files = {f"{OURS}/{name}": (inside / name).read_bytes() for name in _INSIDE}
    files[_XAUTH] = authority(x.cookie, hostname=HOSTNAME)
    files |= inner_etc.files(machine_id, desktop.timezone) | window_manager.files()
    files |= browser.policy_files(desktop.start_url)
    env = inner_etc.environment(desktop.timezone, desktop.locale)
    if bus is not None:
        files |= accessibility.files(separate=layout.uids.drop)
        env = accessibility.environment(env)
    runtime = f"/run/user/{INNER_UID}"
    limits = Limits(processes=config.limits.processes)
    return SandboxSpec(
        name="apps",
        argv=(
            *(_PYTHON, "-I", "-S", "-B", f"{OURS}/netinit.py", str(control), str(limits.processes)),
            *(str(config.limits.memory_bytes), "/usr", *more, "--", "agent"),
        ),
        uid=layout.uids.apps if layout.uids.drop else None,
        seccomp=seccomp.browser_filter(),
        nested_userns=True,
        scratch=(
            Tmpfs("/dev/shm", desktop.shm_bytes, 0o1777),
            Tmpfs("/tmp", desktop.tmp_bytes, 0o1777),
            Tmpfs("/tmp/.X11-unix", 4096, sealed=True),
            Tmpfs(runtime, 16 * 1024 * 1024, 0o700),
            Tmpfs("/var/tmp", 64 * 1024 * 1024, 0o1777),
        ),
        binds=(
            Bind(str(layout.home), "/home/user", writable=True),
            Bind(str(x.socket), "/tmp/.X11-unix/X0"),
            *(Bind(root, root) for root in more),
            *(() if bus is None else (bus.bind,)),
        ),
        files=files,
        limits=limits,
        group=GroupLimits(config.limits.memory_bytes, config.limits.processes, config.limits.cpus),
        links=inner_etc.links(desktop.timezone),
        env={
            **env,
            "DISPLAY": ":0",
            "XAUTHORITY": _XAUTH,
        },
        chdir="/home/user",
        pass_fds=(control,),
    )


def machine_id(private: Path) -> str:
    """The body's own machine id: made once, then kept."""
    path = private / "machine-id"
    with suppress(FileNotFoundError):
        kept = path.read_text().strip()
        if len(kept) == 32:
            return kept
    made = secrets.token_hex(16)
    path.write_text(made + "\n")
    os.chmod(path, 0o600)
    return made


def _decode(data: bytes) -> dict[str, Any]:
    if not data:
        raise SessionLost("the apps' sandbox has ended")
    try:
        event = json.loads(data)
    except ValueError as exc:
        raise SessionLost("a malformed message from inside the apps' sandbox") from exc
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        raise SessionLost("a malformed message from inside the apps' sandbox")
    return event


def _listens(sock: socket.socket) -> bool:
    """What was sent must be a listening TCP socket, whatever else it could be."""
    return (
        sock.family == socket.AF_INET
        and sock.type == socket.SOCK_STREAM
        and sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
    )


def _pid_inside(pid: int) -> int | None:
    """Its pid one namespace further in; None if it is gone, or not inside."""
    with suppress(OSError, ValueError, IndexError):
        status = Path(f"/proc/{pid}/status").read_text()
        return int(status.partition("NSpid:")[2].split("\n")[0].split()[1])
    return None
