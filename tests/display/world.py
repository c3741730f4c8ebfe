"""A real X server and real apps for the display's tests, out of the way of every other server.

The server's socket lies in a directory of the test: a mount namespace puts it where Xlib looks for it.
"""

from __future__ import annotations

import inspect
import os
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import trio

from bodyd.contract.inventory import Window
from bodyd.contract.ports import XEndpoint
from bodyd.display.connection import XConnection, connect
from bodyd.display.display import Display
from bodyd.display.probes import ManagerProbe

T = TypeVar("T")
APPS = Path(__file__).parent / "apps"
SYSTEM_PYTHON = "/usr/bin/python3"
_ENTER = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
_MOUNT = 'mount --bind "$0" /tmp/.X11-unix && exec "$@"'


class XServer:
    """A running Xvfb.

    Attributes:
        endpoint: What the display connects to.
        env: For apps that are started by `run`.
        process: Its own; `unshare` and `sh` replace themselves.
    """

    def __init__(self, place: Path, size: str = "1280x800") -> None:
        self.place = place
        self.sockets = place / "x11"
        self.sockets.mkdir()
        Path("/tmp/.X11-unix").mkdir(mode=0o1777, exist_ok=True)  # a mount point, wherever tests run
        self.cookie = os.urandom(15) + b":"  # a colon has broken authentication before
        authority = place / "authority"
        authority.write_bytes(_authority(self.cookie))
        options = f"-screen 0 {size}x24 -nolisten tcp -nolisten local -noreset -auth {authority}".split()
        ready, told = os.pipe()
        log = (place / "xvfb.log").open("wb")
        self.process = subprocess.Popen(
            self._inside(["Xvfb", "-displayfd", str(told), *options]), pass_fds=[told], stderr=log
        )
        os.close(told)
        log.close()
        number = _read_line(ready, 30)
        os.close(ready)
        if not number:
            self.stop()
            raise RuntimeError((place / "xvfb.log").read_text())
        self.endpoint = XEndpoint(str(self.sockets / f"X{number}"), self.cookie, os.geteuid())
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(place),
            "DISPLAY": f":{number}",
            "XAUTHORITY": str(authority),
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "NO_AT_BRIDGE": "1",
            "DBUS_SESSION_BUS_ADDRESS": "disabled:",
        }
        self._apps: list[subprocess.Popen[bytes]] = []

    def run(self, *command: str, **kwargs: object) -> subprocess.Popen[bytes]:
        """Start an app on this server; it dies with it."""
        options: dict = {"stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **kwargs}
        app = subprocess.Popen(self._inside(list(command)), env=self.env, start_new_session=True, **options)
        self._apps.append(app)
        return app

    def call(self, *command: str) -> str:
        """Run a program to its end and return its output. Not while it needs this process's answer."""
        app = self.run(*command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        output, _ = app.communicate(timeout=60)
        assert app.returncode == 0, output
        return output.decode()

    def connect(self) -> XConnection:
        """Another X client, such as any app in the body is."""
        return XConnection(connect(self.endpoint))

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """The server is stopped; it goes on afterwards."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        for app in reversed(getattr(self, "_apps", [])):
            with suppress(ProcessLookupError):
                os.killpg(app.pid, signal.SIGKILL)
            app.wait()
            if app.stdout is not None:
                app.stdout.close()
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
        self.process.wait(timeout=30)

    def _inside(self, command: list[str]) -> list[str]:
        return [*_ENTER, "sh", "-c", _MOUNT, str(self.sockets), *command]


def _authority(cookie: bytes) -> bytes:
    """One Xauthority entry, for any host (family wild) and display 0..n by having no number."""
    fields = (b"", b"", b"MIT-MAGIC-COOKIE-1", cookie)
    return struct.pack(">H", 0xFFFF) + b"".join(struct.pack(">H", len(f)) + f for f in fields)


def _read_line(fd: int, seconds: float) -> str:
    end, data = time.monotonic() + seconds, b""
    while not data.endswith(b"\n") and (left := end - time.monotonic()) > 0:
        if not select.select([fd], [], [], left)[0]:
            break
        piece = os.read(fd, 64)
        if not piece:
            break
        data += piece
    return data.decode().strip()


def start_window_manager(server: XServer) -> subprocess.Popen[bytes]:
    """openbox, once it manages."""
    openbox = server.run("openbox", "--sm-disable", stdout=subprocess.DEVNULL)
    x = server.connect()
    try:
        probe = ManagerProbe(x)
        end = time.monotonic() + 30
        while not probe.answered():  # what is asked before its event loop runs is lost
            assert time.monotonic() < end, "openbox does not start"
            probe.ask()
            time.sleep(0.02)
        probe.close()
    finally:
        x.close()
    return openbox


async def until(look: Callable[[], T | Awaitable[T]], seconds: float = 20) -> T:
    """Look again and again until there is something, for what nothing can notify of."""
    with trio.fail_after(seconds):
        while True:
            found = look()
            if inspect.isawaitable(found):
                found = await found
            if found:
                return found
            await trio.sleep(0.01)


async def window_titled(display: Display, title: str, *, active: bool = True) -> Window:
    """The window whose title contains *title*, once it is there (and active)."""

    async def look() -> Window | None:
        windows = await display.windows()
        return next((w for w in windows if title in w.title and (w.active or not active)), None)

    return await until(look)


def python(*arguments: str) -> list[str]:
    return [sys.executable, *arguments]
