"""One X server, Xvfb, in a sandbox of its own: own uid (as root), no network, a cookie, no namespaces.

Its socket lies in a directory that it alone writes to. The apps get the socket file and never the
directory; who connects from outside checks owner and kind of what is at the path, and follows no link.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import trio

from bodyd.contract.ports import XEndpoint
from bodyd.errors import DisplayUnavailable, IsolationUnavailable

from . import seccomp
from .layout import Layout
from .process import Sandbox, held, start
from .spec import HOSTNAME, OURS, Bind, Limits, SandboxSpec, Tmpfs
from .xauth import authority

READY_S = 15.0
XVFB = "/usr/bin/Xvfb"
_DEPTH = 24
_AUTH = f"{OURS}/auth"
_SOCKETS = "/tmp/.X11-unix"
_SCRATCH = 4 * 1024 * 1024
_MEMORY = 4 * 1024**3  # of address space: pixmaps of hostile clients end in BadAlloc


@dataclass(frozen=True, slots=True)
class XServer:
    """A server that answers. `socket` is its host path, for the apps' sandbox to bind."""

    box: Sandbox
    socket: Path
    cookie: bytes
    endpoint: XEndpoint


@asynccontextmanager
async def x_server(layout: Layout, generation: int, screen: tuple[int, int]) -> AsyncIterator[XServer]:
    """An X server with *screen* (width, height) as its size, and RANDR's maximum; dead on leaving.

    The caller drains `box` meanwhile.

    Raises:
        IsolationUnavailable: its sandbox could not be built, or Xvfb ended at once; with its words.
        DisplayUnavailable: it was not ready within READY_S.
    """
    directory = layout.x_dir(generation)
    cookie = secrets.token_bytes(16)
    ready, tell = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(ready, False)
    try:
        with _closing(tell):
            box = await start(x_spec(layout, directory, cookie, screen, tell), ledger=layout.ledger)
        async with held(box, ledger=layout.ledger):
            await _ready(box, ready)
            path = directory / "X0"
            yield XServer(box, path, cookie, XEndpoint(str(path), cookie, layout.uids.x))
    finally:
        os.close(ready)


def x_spec(layout: Layout, sockets: Path, cookie: bytes, screen: tuple[int, int], tell: int) -> SandboxSpec:
    """The server's sandbox: nothing of the host but /usr, and *sockets* to put its socket in."""
    width, height = screen
    argv = (
        *("/usr/bin/prlimit", "--nproc=64", f"--as={_MEMORY}", "--", XVFB, "-displayfd", str(tell)),
        *("-screen", "0", f"{width}x{height}x{_DEPTH}", "-dpi", "96", "-s", "0", "-auth", _AUTH),
        *("-nolisten", "tcp", "-nolisten", "local", "-noreset", "-maxclients", "512"),
        # Software GL inside the server costs 30 MB and half of its start; browsers bring their own.
        *("-extension", "GLX"),
    )
    return SandboxSpec(
        name="x",
        argv=argv,
        uid=layout.uids.x if layout.uids.drop else None,
        seccomp=seccomp.strict_filter((seccomp.AF_UNIX,)),
        scratch=(Tmpfs("/tmp", _SCRATCH, 0o1777), Tmpfs("/var/lib/xkb", _SCRATCH)),
        binds=(Bind(str(sockets), _SOCKETS, writable=True),),
        files={_AUTH: authority(cookie, hostname=HOSTNAME)},
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        limits=Limits(open_files=2048),
        pass_fds=(tell,),
    )


async def _ready(box: Sandbox, ready: int) -> None:
    """Xvfb writes its display number once it accepts connections; end of file means that it died."""
    said = b""
    with trio.move_on_after(READY_S) as scope:
        while not said.endswith(b"\n"):
            await trio.lowlevel.wait_readable(ready)
            piece = os.read(ready, 64)
            if not piece:
                raise IsolationUnavailable(f"the X server did not start: {await box.last_words()}")
            said += piece
    if scope.cancelled_caught:
        raise DisplayUnavailable(f"the X server was not ready within {READY_S:.0f} s: {box.tail()}")


@contextmanager
def _closing(fd: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(fd)
