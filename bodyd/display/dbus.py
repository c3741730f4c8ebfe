"""A connection to the body's accessibility bus, on which everyone is hostile.

Calls are answered by serial, within the caller's cancel scope; signals go to one listener. What comes in
faster than a desktop has reason to is read later, so that a flood costs a fraction of a core and no more.
jeepney makes the messages and sends them; dbus_wire.py reads. Knows nothing of accessibility.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio
from jeepney import DBusAddress, new_method_call
from jeepney.io.trio import DBusConnection
from jeepney.low_level import BufferPipe

from bodyd.errors import AccessibilityUnavailable

from .dbus_wire import ERROR, RETURN, SIGNAL, Incoming, Malformed, read_message, size_of

GREETING_SECONDS = 5.0
MAX_LINE = 512
MAX_PENDING = 4096
"""Calls whose answers are outstanding."""

SLICE_SECONDS = 0.1
SLICE_MESSAGES = 1500
SLICE_BYTES = 2 * 1024 * 1024
READ_BYTES = 64 * 1024

BUS = DBusAddress("/org/freedesktop/DBus", "org.freedesktop.DBus", "org.freedesktop.DBus")


class CallFailed(Exception):
    """The one who was called answered with an error, or does not exist: its name, as D-Bus has it."""


class Bus:
    """A connection; `connect` makes it. Lost, every call raises AccessibilityUnavailable."""

    def __init__(self, connection: DBusConnection, hear: Callable[[Incoming], None]) -> None:
        self._connection = connection
        self._hear = hear
        self._waiting: dict[int, _Answer] = {}
        self.name = ""
        self.lost = trio.Event()

    async def hello(self) -> None:
        """The first call, without which the bus answers no other.

        Raises:
            AccessibilityUnavailable: it does not answer this one either.
        """
        with trio.move_on_after(GREETING_SECONDS):
            try:
                (name,) = await self.call(BUS, "Hello")
            except (CallFailed, ValueError):
                name = ""
            self.name = name if isinstance(name, str) else ""
        if not self.name:
            raise AccessibilityUnavailable("the accessibility bus does not greet")

    def close(self) -> None:
        """Hang up; `serve` ends."""
        self._connection.socket.close()

    async def call(
        self, to: DBusAddress, member: str, signature: str | None = None, body: tuple[Any, ...] = ()
    ) -> tuple[Any, ...]:
        """Call a method and wait for its answer's body.

        Raises:
            CallFailed: the answer is an error.
            AccessibilityUnavailable: the bus is lost, or too much is outstanding.
        Cancellation:
            The answer is dropped when it comes.
        """
        if len(self._waiting) >= MAX_PENDING or self.lost.is_set():
            raise AccessibilityUnavailable("the accessibility bus is lost or overrun")
        serial = next(self._connection.outgoing_serial)
        answer = self._waiting[serial] = _Answer(to.bus_name)
        try:
            message = new_method_call(to, member, signature, body)
            try:
                await self._connection.send(message, serial=serial)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                raise AccessibilityUnavailable("the accessibility bus is lost") from None
            await answer.came.wait()
        finally:
            del self._waiting[serial]
        if answer.message is None:
            raise AccessibilityUnavailable("the accessibility bus is lost")
        if answer.message.kind == ERROR:
            raise CallFailed(answer.message.error[:100])
        return answer.message.body

    async def serve(self) -> None:
        """Read until the bus is lost or sends what no bus does."""
        try:
            await self._read()
        except (Malformed, OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            self.lost.set()
            for answer in self._waiting.values():
                answer.came.set()

    async def _read(self) -> None:
        pipe, wanted = BufferPipe(), 0
        while data := await self._connection.socket.recv(READ_BYTES):
            began, messages, received = trio.current_time(), 0, len(data)
            pipe.write(data)
            while True:
                if not wanted and pipe.bytes_buffered >= 16:
                    wanted = size_of(pipe.peek(16))
                if not wanted or pipe.bytes_buffered < wanted:
                    break
                self._take(read_message(pipe.read(wanted)))
                wanted, messages = 0, messages + 1
            pause = SLICE_SECONDS * max(messages / SLICE_MESSAGES, received / SLICE_BYTES)
            await trio.sleep_until(began + pause)

    def _take(self, message: Incoming) -> None:
        if message.kind == SIGNAL:
            self._hear(message)
        elif message.kind in (RETURN, ERROR):
            answer = self._waiting.get(message.reply_to)
            if answer is not None and answer.from_asked(message.sender) and not answer.came.is_set():
                answer.message = message
                answer.came.set()


class _Answer:
    __slots__ = ("asked", "came", "message")

    def __init__(self, asked: str | None) -> None:
        self.asked = asked
        self.came = trio.Event()
        self.message: Incoming | None = None

    def from_asked(self, sender: str) -> bool:
        """Whoever is called by a name that can change hands answers under its own."""
        return self.asked is None or not self.asked.startswith(":") or self.asked == sender


async def connect(path: str, hear: Callable[[Incoming], None]) -> Bus:
    """Connect to the bus at the unix socket *path*; `serve` it, then say `hello`.

    Args:
        hear: Told of every signal that was asked for; must not block or raise.
    Raises:
        AccessibilityUnavailable: nobody listens, or who does is no bus.
    """
    socket = trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_STREAM)
    try:
        with trio.move_on_after(GREETING_SECONDS) as scope:
            await socket.connect(path)
            await _authenticate(socket)
        if scope.cancelled_caught:
            raise AccessibilityUnavailable("the accessibility bus does not greet")
    except OSError as exc:
        socket.close()
        raise AccessibilityUnavailable(f"the accessibility bus: {exc.strerror}") from None
    except BaseException:
        socket.close()
        raise
    return Bus(DBusConnection(socket), hear)


async def _authenticate(socket: trio.socket.SocketType) -> None:
    """EXTERNAL without claiming a uid: seen from the sandbox, the daemon's own has no name there.

    Source: D-Bus specification 0.43, "Authentication Protocol".
    """
    for said, expected in ((b"\0AUTH EXTERNAL\r\n", b"DATA"), (b"DATA\r\n", b"OK ")):
        await _send(socket, said)
        line = b""
        while not line.endswith(b"\r\n"):
            more = await socket.recv(MAX_LINE)
            line += more
            if not more or len(line) > MAX_LINE:
                raise AccessibilityUnavailable("the accessibility bus refuses the daemon")
        if not line.startswith(expected):
            raise AccessibilityUnavailable("the accessibility bus refuses the daemon")
    await _send(socket, b"BEGIN\r\n")


async def _send(socket: trio.socket.SocketType, data: bytes) -> None:
    while data:
        data = data[await socket.send(data) :]
