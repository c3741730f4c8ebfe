"""One X server for bodyd and its peers alike: Xvfb 1280x800, openbox, a cookie that every X library finds."""

from __future__ import annotations

import socket
import struct
import subprocess
import time
from pathlib import Path

import trio

from bodyd.display.connection import XObject
from tests.display.world import XServer, start_window_manager

FIRST, LAST = 8, 255  # keycodes
LOOK_SECONDS = 0.1
CALM_LOOKS = 5


class Server(XServer):
    """Xvfb without a sandbox: the peers must reach it."""

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        path = place / "cookies"
        path.write_bytes(
            _entry(256, socket.gethostname().encode(), self.cookie) + _entry(65535, b"", self.cookie)
        )
        self.env["XDG_SESSION_TYPE"] = "x11"  # pyautogui looks at no more than that
        self.env["XAUTHORITY"] = str(path)  # python-xlib overlooks an entry that is good for any host
        self._x = self.connect()
        self._keymap = self._rows()
        self._manager: subprocess.Popen[bytes]
        self.manage()

    def run(self, *command: str, **kwargs: object) -> subprocess.Popen[bytes]:
        return super().run(*command, **{"stdout": subprocess.DEVNULL, **kwargs})

    def manage(self) -> None:
        start_window_manager(self)
        self._manager = self._apps[-1]

    def cpu(self) -> float:
        """Seconds that the X server has used."""
        return cpu_of(self.process.pid)

    def manager_cpu(self) -> float:
        return cpu_of(self._manager.pid)

    async def manager_calm(self, cap: float) -> bool:
        """Wait until the window manager has next to nothing to do, at most *cap* seconds."""
        used, quiet, end = self.manager_cpu(), 0, time.monotonic() + cap
        while quiet < CALM_LOOKS:
            if time.monotonic() > end:
                return False
            await trio.sleep(LOOK_SECONDS)
            now = self.manager_cpu()
            quiet, used = (quiet + 1, now) if now - used < 0.002 else (0, now)
        return True

    async def put_back(self) -> None:
        """For the next: the keymap as it was at first, and a window manager that is not still busy."""
        if self._rows() != self._keymap:
            self._x.display.change_keyboard_mapping(FIRST, self._keymap)
            self._x.display.sync()
        if not await self.manager_calm(2.0):
            self._manager.kill()
            self._manager.wait()
            await trio.to_thread.run_sync(self.manage)

    def stop(self) -> None:
        if hasattr(self, "_x"):
            self._x.close()
        super().stop()

    def _rows(self) -> list[tuple[int, ...]]:
        rows: XObject = self._x.display.get_keyboard_mapping(FIRST, LAST - FIRST + 1)
        return [tuple(row) for row in rows]


def cpu_of(pid: int) -> float:
    """Seconds of CPU that the living threads of a process have used, to the microsecond."""
    used = 0
    for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            used += int(thread.read_text().split()[0])
        except OSError:
            continue  # it has ended meanwhile
    return used / 1e9


def _entry(family: int, address: bytes, cookie: bytes) -> bytes:
    """A record of an Xauthority file that is good for every display number."""
    fields = (address, b"", b"MIT-MAGIC-COOKIE-1", cookie)
    return struct.pack(">H", family) + b"".join(struct.pack(">H", len(f)) + f for f in fields)
