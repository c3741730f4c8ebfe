"""Another client of the body's X server, from outside the daemon: what it reads, the daemon can't colour.

Any app in the body may do what this does; the cookie is read out of the server's own sandbox.
"""

from __future__ import annotations

import os
import signal
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import trio
from Xlib import X
from Xlib.protocol import request

from bodyd.client import BodyClient
from bodyd.contract.ports import XEndpoint
from bodyd.desktop.ledger import descendants
from bodyd.display import xkb
from bodyd.display.connection import COOKIE_NAME, Wire, XConnection, connect
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

    @contextmanager
    def crowded(self) -> Iterator[None]:
        """So many clients that no other is let in, and the one that takes pictures for the daemon thrown out.

        Any app of the body can do that.
        """
        x, crowd = self.connect(), ExitStack()
        with crowd, closing(x):
            while True:
                while _let_in(wire := crowd.enter_context(closing(connect(self.endpoint)))):
                    pass
                wire.close()
                clients = [client.resource_base for client in x.display.res_query_clients().clients]
                cameras = [client for client in clients if "ShmSeg" in _kinds(x, client)]
                if not cameras:
                    break
                for resource in range(cameras[0], cameras[0] + 16):  # any of its resources will do
                    request.KillClient(display=x.core, resource=resource)
                x.display.sync()
            yield


def _kinds(x: XConnection, client: int) -> set[str]:
    """Of the resources that *client* has made."""
    found = x.display.res_query_client_resources(client).types
    return {x.atom_name(kind.resource_type) for kind in found}


def _let_in(wire: Wire) -> bool:
    """Shake hands, and no more; False if the server refuses."""
    wire.settimeout(30)
    name, cookie = COOKIE_NAME, wire.cookie
    wire.sendall(struct.pack("<BxHHHHxx", ord("l"), 11, 0, len(name), len(cookie)) + name + bytes(2) + cookie)
    return wire.recv(1) == b"\1"


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
