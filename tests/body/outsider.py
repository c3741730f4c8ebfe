"""Another client of the body's X server, from outside the daemon: what it reads, the daemon can't colour.

Any app in the body may do what this does; the cookie is read out of the server's own sandbox.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import trio
from Xlib import X

from bodyd.client import BodyClient
from bodyd.contract.ports import XEndpoint
from bodyd.desktop.ledger import descendants
from bodyd.display import xkb
from bodyd.display.connection import XConnection, connect
from bodyd.display.input import codes_down
from bodyd.display.probes import ManagerProbe
from tests.display.recorder import Recorder

from .world import World


@dataclass(frozen=True, slots=True)
class XServer:
    """The X server that runs now: its process on this host, and how it is reached."""

    pid: int
    endpoint: XEndpoint

    def connect(self) -> XConnection:
        x = XConnection(connect(self.endpoint))
        xkb.announce(x)
        return x

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """SIGSTOP; it goes on afterwards, if it is still there."""
        fd = os.pidfd_open(self.pid)
        try:
            signal.pidfd_send_signal(fd, signal.SIGSTOP)
            yield
        finally:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(fd, signal.SIGCONT)
            os.close(fd)


async def x_server(world: World, client: BodyClient) -> XServer:
    """Find it by what the status says and the run directory holds."""
    return _found(world, (await client.status())["components"]["x"]["pid"])


def _found(world: World, init: int) -> XServer:
    pid = next(p for p in descendants(init) if Path(f"/proc/{p}/comm").read_text() == "Xvfb\n")
    cookie = Path(f"/proc/{pid}/root/bodyd/auth").read_bytes()[-16:]  # the last field of the last record
    (path,) = (world.config.run / "x").glob("*/X0")
    return XServer(pid, XEndpoint(str(path), cookie, path.stat().st_uid))


@asynccontextmanager
async def recording(world: World, client: BodyClient) -> AsyncIterator[Recorder]:
    """An app of the body's, over its whole screen, that keeps a log of all input it gets.

    It comes after the window manager, which takes the keyboard as it starts.
    """
    x = (await x_server(world, client)).connect()
    try:
        probe = ManagerProbe(x)  # never closed: python-xlib would give its window's id to the next
        with trio.fail_after(30):
            while not probe.answered():
                probe.ask()  # what is asked before its event loop runs is lost
                await trio.sleep(0.02)
        yield Recorder(x)
    finally:
        x.close()


@dataclass(frozen=True, slots=True)
class InputState:
    """What is down, latched or locked in the server; `clear` if nothing is."""

    keys: tuple[int, ...]
    buttons: int
    modifiers: bool

    @property
    def clear(self) -> bool:
        return not self.keys and not self.buttons and not self.modifiers


def input_state(x: XConnection) -> InputState:
    """Read it anew: everything sent before by anyone has been processed."""
    keys = tuple(codes_down(x.display.query_keymap()))
    mask = x.root.query_pointer().mask & sum(X.Button1Mask << n for n in range(5))
    return InputState(keys, mask, not xkb.read(x).clear)
