"""doctor's look at an X server of this machine: does it start in its walls, ask for the cookie, take input?

Speaks the few bytes that this needs (X11 protocol, 8 and 9): the display's own rooms are not for doctor.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import trio

from bodyd.config import Config
from bodyd.errors import BodydError

from .layout import open_layout
from .remedies import Probe
from .xserver import XServer, x_server

ANSWER_S = 10.0
_COOKIE = b"MIT-MAGIC-COOKIE-1"
_NEEDED = ("XTEST", "MIT-SHM", "DAMAGE", "XFIXES", "RANDR", "XKEYBOARD")
_QUERY_EXTENSION = 98
_REINSTALL = "install the distribution's own Xvfb, whole (Debian: apt-get install --reinstall xvfb xkb-data)"


@dataclass(frozen=True, slots=True)
class Seen:
    """What the server said: its maker, whether it asked for the cookie, and the extensions it lacks."""

    vendor: str
    strict: bool
    lacking: tuple[str, ...]


async def probe(config: Config) -> Probe:
    """Start a server beside any body that runs, in folders of its own, and ask it."""
    with tempfile.TemporaryDirectory(prefix="bodyd-doctor-") as name:
        place = Path(name)
        os.chmod(place, 0o711)  # its own user has to pass through
        failure = ""
        elsewhere = config.model_copy(update={"state_dir": place / "state", "run_dir": place / "run"})
        try:
            with open_layout(elsewhere) as layout, trio.fail_after(ANSWER_S):
                async with x_server(layout, 1, (640, 480)) as server, trio.open_nursery() as nursery:
                    nursery.start_soon(server.box.drain)
                    seen = await _ask(server)
                    nursery.cancel_scope.cancel(reason="the server has answered")
        except* (BodydError, OSError, trio.TooSlowError) as group:
            failure = _first(group)
    if failure:
        return Probe("x server", "fail", f"it does not start, or does not answer: {failure}", _REINSTALL)
    return judge(seen)


def judge(seen: Seen) -> Probe:
    """What was seen, as a probe."""
    if not seen.strict:
        return Probe(
            "x server",
            "fail",
            "it answers a client without the cookie",
            "report this: a wall that leaks is a defect of bodyd",
        )
    if seen.lacking:
        return Probe(
            "x server",
            "fail",
            f"Xvfb of {seen.vendor} lacks {', '.join(seen.lacking)}",
            _REINSTALL,
        )
    return Probe("x server", "ok", f"Xvfb of {seen.vendor}: cookie enforced, no TCP, XTEST for the daemon")


async def _ask(server: XServer) -> Seen:
    path = server.endpoint.socket_path
    strict = await _refused(path, b"") and await _refused(path, bytes(len(server.cookie)))
    async with await trio.open_unix_socket(path) as stream:
        vendor = await _set_up(stream, server.cookie) or b""
        lacking = [name for name in _NEEDED if not await _has(stream, name)]
    return Seen(vendor.decode("latin-1"), strict, tuple(lacking))


async def _refused(path: str, cookie: bytes) -> bool:
    async with await trio.open_unix_socket(path) as stream:
        return await _set_up(stream, cookie) is None


async def _set_up(stream: trio.SocketStream, cookie: bytes) -> bytes | None:
    """Open the connection; the vendor's name, or None if it is refused."""
    name = _COOKIE if cookie else b""
    lengths = len(name).to_bytes(2, "little") + len(cookie).to_bytes(2, "little")
    await stream.send_all(b"l\0" + b"\x0b\0\0\0" + lengths + b"\0\0" + _padded(name) + _padded(cookie))
    head = await _exactly(stream, 8)
    rest = await _exactly(stream, 4 * int.from_bytes(head[6:8], "little"))
    return rest[32 : 32 + int.from_bytes(rest[16:18], "little")] if head[0] == 1 else None


async def _has(stream: trio.SocketStream, extension: str) -> bool:
    name = extension.encode()
    words = 2 + len(_padded(name)) // 4
    length = len(name).to_bytes(2, "little") + b"\0\0"
    await stream.send_all(bytes([_QUERY_EXTENSION, 0]) + words.to_bytes(2, "little") + length + _padded(name))
    return (await _exactly(stream, 32))[8] == 1


async def _exactly(stream: trio.SocketStream, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = await stream.receive_some(count - len(data))
        if not piece:
            raise OSError("the X server hung up")
        data += piece
    return data


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _first(group: BaseExceptionGroup[BaseException]) -> str:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else str(error) or type(error).__name__
