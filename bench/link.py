"""A relay before a server: counts bytes both ways, and can be as thin and far as a bad link."""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from contextlib import suppress

CHUNK = 4096
BUFFER = 16 * 1024
"""What each end's socket may hold beyond the pipe: a router's queue."""


class Link:
    """Listens on a port of its own and passes everything on to *port*, until closed.

    Args:
        rate: Bytes a second from the server to the client; None is as fast as it goes.
        delay: Seconds each way.
    """

    def __init__(self, port: int, *, rate: float | None = None, delay: float = 0.0) -> None:
        self.down = self.up = 0
        self._port, self._rate, self._delay = port, rate, delay
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        for sock in self._open:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._port))
                for sock in (client, server):
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    if self._rate:
                        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
                        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
                self._open += (client, server)
                for way in ((server, client, True), (client, server, False)):
                    threading.Thread(target=self._pass, args=way, daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, down: bool) -> None:
        late: deque[tuple[float, bytes]] = deque()
        came = threading.Condition()

        def deliver() -> None:
            with suppress(OSError):
                while True:
                    with came:
                        came.wait_for(lambda: bool(late))
                        due, data = late.popleft()
                        came.notify()
                    if (wait := due - time.monotonic()) > 0:
                        time.sleep(wait)
                    if not data:
                        sink.shutdown(socket.SHUT_WR)
                        return
                    sink.sendall(data)

        threading.Thread(target=deliver, daemon=True).start()
        free = time.monotonic()
        with suppress(OSError):
            while True:
                data = source.recv(CHUNK)
                now = time.monotonic()
                if down and self._rate:
                    free = max(free, now) + len(data) / self._rate
                    if free > now:
                        time.sleep(free - now)
                self.down, self.up = self.down + down * len(data), self.up + (not down) * len(data)
                with came:
                    late.append((time.monotonic() + self._delay, data))
                    came.notify()
                if not data:
                    return
