"""The first request head of a new connection, read with a bound on size (and, by callers, on time).

It is parsed by h11, as Hypercorn will parse it again: one parser, so no two opinions on whether a
request is an Upgrade.
"""

from __future__ import annotations

from dataclasses import dataclass

import h11
import trio

MAX_HEAD = 32 * 1024
_RECEIVE = 64 * 1024


@dataclass(frozen=True, slots=True)
class Head:
    """A request head, and every byte received so far: itself first. `rest` are those behind it."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    received: bytes
    rest: bytes = b""

    @property
    def is_upgrade(self) -> bool:
        return self.header("upgrade") is not None

    def header(self, name: str) -> str | None:
        """The first value of a header, by its lower-case name."""
        return next((value for key, value in self.headers if key == name), None)


class BadHead(Exception):
    """What came is no HTTP/1.1 request head. `status` is what to answer."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


async def read_head(stream: trio.abc.ReceiveStream) -> Head | None:
    """Read until the head is whole; None if the peer closed before sending anything of use.

    Raises:
        BadHead: malformed, or over MAX_HEAD.
        trio.BrokenResourceError: the connection broke.
    Cancellation:
        What was received is lost; close the stream.
    """
    parser = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
    received = bytearray()
    while True:
        chunk = await stream.receive_some(_RECEIVE)
        if not chunk:
            return None
        received += chunk
        try:
            parser.receive_data(bytes(chunk))
            event = parser.next_event()
        except h11.RemoteProtocolError as exc:
            raise BadHead(exc.error_status_hint) from exc
        if isinstance(event, h11.Request):
            headers = tuple((n.decode("latin-1"), v.decode("latin-1")) for n, v in event.headers)
            return Head(
                event.method.decode("ascii"),
                event.target.decode("latin-1"),
                headers,
                bytes(received),
                parser.trailing_data[0],
            )
