"""The shell's sandbox: what a command sees of the world, and the start of one.

No X, no profile, no nested user namespaces, nothing of the host's environment; /usr to execute from, the
conversation's folder and the configured paths to work on. With an egress list of its own it has a way out
through the proxy; without one it has no network but its own loopback.
"""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import trio

from bodyd.config import Config
from bodyd.contract.shell import WORKSPACE, ShellLimits
from bodyd.desktop import inner_etc, netinit, seccomp
from bodyd.desktop.egress import EgressProxy
from bodyd.desktop.egress_lists import shell_rules
from bodyd.desktop.layout import Layout
from bodyd.desktop.process import Sandbox, sandbox
from bodyd.desktop.session import SessionLost, receive_network
from bodyd.desktop.spec import OURS, Bind, GroupLimits, SandboxSpec, Tmpfs
from bodyd.errors import ConfigError, IsolationUnavailable

from .workspace import Folder

SHELL = "/usr/bin/bash"
_PYTHON = "/usr/bin/python3"
_ETC = ("passwd", "group", "hosts", "nsswitch.conf", "resolv.conf")
_SHM_BYTES = 64 * 1024 * 1024


@dataclass
class Box:
    """A command that runs: its sandbox, and the reading ends of its two streams."""

    sandbox: Sandbox
    stdout: int
    stderr: int


class Boxes:
    """Makes them. *machine_id* is the body's."""

    def __init__(self, config: Config, layout: Layout, *, machine_id: str) -> None:
        shell = config.shell
        check_paths((*shell.read_only, *shell.read_write), config)
        self.egress = EgressProxy(shell_rules(config))
        self._ledger = layout.ledger
        self._cgroups = layout.cgroups
        self._limits = shell.limits
        self._paths = (
            *(Bind(path, path) for path in shell.read_only),
            *(Bind(path, path, writable=True) for path in shell.read_write),
        )
        self._bounds = _bounds(shell.limits)
        self._specs = {way: self._base(config, layout, machine_id, networked=way) for way in (False, True)}

    @asynccontextmanager
    async def open(self, command: str, folder: Folder, cwd: str) -> AsyncIterator[Box]:
        """*command* running; on leaving, all that it started is dead. The streams can be read to their end.

        Raises:
            IsolationUnavailable: the sandbox could not be built.
        """
        binds = (
            Bind(str(folder.work), WORKSPACE, writable=True),
            Bind(str(folder.tmp), "/tmp", writable=True),
            *self._paths,
        )
        networked = len(self.egress.rules) > 0  # as they are now: a reload may have changed them
        spec = replace(self._specs[networked], argv=self._argv(command), binds=binds, chdir=cwd)
        if not networked:
            async with self._started(spec) as box:
                yield box
            return
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        async with AsyncExitStack() as stack:
            control = stack.enter_context(trio.socket.from_stdlib_socket(ours))
            with theirs:
                entry = self._entry(theirs.fileno())
                spec = replace(spec, argv=(*entry, *spec.argv), pass_fds=(theirs.fileno(),))
                box = await stack.enter_async_context(self._started(spec))
            try:
                _, listener = await receive_network(control)
            except SessionLost as exc:
                raise IsolationUnavailable(
                    "the shell's sandbox did not hand out its way to the proxy"
                ) from exc
            way_out = trio.SocketListener(trio.socket.from_stdlib_socket(listener))
            await stack.enter_async_context(way_out)
            nursery = await stack.enter_async_context(trio.open_nursery())
            nursery.start_soon(self.egress.serve, way_out)
            yield box
            nursery.cancel_scope.cancel(reason="the command has ended")

    @asynccontextmanager
    async def _started(self, spec: SandboxSpec) -> AsyncIterator[Box]:
        out_r, out_w = os.pipe2(os.O_CLOEXEC)
        err_r, err_w = os.pipe2(os.O_CLOEXEC)
        writers = [out_w, err_w]
        try:
            for fd in (out_r, err_r):
                os.set_blocking(fd, False)
            async with sandbox(
                spec, ledger=self._ledger, cgroups=self._cgroups, stdout=out_w, stderr=err_w
            ) as inside:
                while writers:
                    os.close(writers.pop())
                yield Box(inside, out_r, err_r)
        finally:
            for fd in (out_r, err_r, *writers):
                os.close(fd)

    def _argv(self, command: str) -> tuple[str, ...]:
        """The shell limits itself first: inside, processes are counted for this sandbox alone.

        On the command's own line, so that errors name lines as they are; and before it, whatever it is.
        """
        return (SHELL, "-c", "--", f"{self._bounds}; {command}")

    def _entry(self, control: int) -> tuple[str, ...]:
        limit = str(self._limits.processes)
        return (_PYTHON, "-I", "-S", "-B", f"{OURS}/netinit.py", str(control), limit, "0", "/", "--")

    def _base(self, config: Config, layout: Layout, machine_id: str, *, networked: bool) -> SandboxSpec:
        zone, limits = config.desktop.timezone, config.shell.limits
        etc = inner_etc.files(machine_id, zone)
        files = {f"/etc/{name}": etc[f"/etc/{name}"].replace(b"/home/user", b"/workspace") for name in _ETC}
        if networked:
            files[f"{OURS}/netinit.py"] = Path(netinit.__file__).read_bytes()
        return SandboxSpec(
            name="shell",
            argv=(),
            uid=layout.uids.shell if layout.uids.drop else None,
            seccomp=seccomp.strict_filter(),
            scratch=(Tmpfs("/dev/shm", _SHM_BYTES, 0o1777),),
            files=files,
            links=inner_etc.links(zone),
            env=_environment(config, networked=networked),
            etc=("alternatives", "ld.so.cache", *(("ssl/certs",) if networked else ())),
            limits=None,
            # Not the processes: a limit inside holds as well, and each hierarchy costs 6 ms to enter.
            group=GroupLimits(limits.memory_bytes, 0, config.limits.cpus),
        )


def _environment(config: Config, *, networked: bool) -> dict[str, str]:
    """All of it; programs that would ask or page are told that nobody is there."""
    env = {
        "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME": WORKSPACE,
        "USER": "user",
        "LOGNAME": "user",
        "TMPDIR": "/tmp",
        "LANG": config.desktop.locale,
        "TZ": config.desktop.timezone,
        "TERM": "dumb",
        "PAGER": "cat",
        "GIT_PAGER": "cat",
        "GIT_TERMINAL_PROMPT": "0",
        "DEBIAN_FRONTEND": "noninteractive",
    }
    if networked:
        proxy = f"http://{netinit.PROXY[0]}:{netinit.PROXY[1]}"
        env |= dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), proxy)
    return env | config.shell.environment


def _bounds(limits: ShellLimits) -> str:
    """bash's `ulimit` for *limits*, none above what the daemon itself was given."""
    wanted = {
        "c": (resource.RLIMIT_CORE, 0, 1024),
        "d": (resource.RLIMIT_DATA, limits.memory_bytes, 1024),
        "f": (resource.RLIMIT_FSIZE, limits.file_bytes, 1024),
        "n": (resource.RLIMIT_NOFILE, limits.open_files, 1),
        "t": (resource.RLIMIT_CPU, -(-limits.cpu_ms // 1000), 1),
        "u": (resource.RLIMIT_NPROC, limits.processes, 1),
    }
    given = {}
    for flag, (kind, value, unit) in wanted.items():
        hard = resource.getrlimit(kind)[1]
        given[flag] = (value if hard == resource.RLIM_INFINITY else min(value, hard)) // unit
    return "ulimit " + " ".join(f"-{flag} {value}" for flag, value in given.items())


def check_paths(paths: tuple[str, ...], config: Config) -> None:
    """Paths of the host that commands are to see must be there, as they are named, and not be the body's.

    Raises:
        ConfigError: which is not, and why.
    """
    own = [config.state.resolve(), config.run.resolve()]
    for path in map(Path, paths):
        where = "shell.read_only, shell.read_write"
        if not path.exists() or path.resolve() != path:
            raise ConfigError(
                f"{where}: {path} is missing, or a link is in it; name the real path", param="shell"
            )
        if any(path.is_relative_to(mine) or mine.is_relative_to(path) for mine in own):
            raise ConfigError(f"{where}: {path} has to do with the body's own folders", param="shell")
