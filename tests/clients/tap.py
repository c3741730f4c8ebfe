"""A wire tap: a proxy that passes every byte on, and afterwards tells what a client sent and was answered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import trio

Json = dict[str, Any]


@dataclass
class Exchange:
    """One request and its answer. `events` is of a stream that ended well, `answer` of a JSON one."""

    method: str
    path: str
    headers: dict[str, str]
    request: Json
    status: int
    answer: Json | None
    events: list[Json] | None


class Tap:
    """Listens on a port of its own, and passes on to another."""

    def __init__(self, port: int) -> None:
        self._to = port
        self.port = 0
        self._connections: list[tuple[bytearray, bytearray]] = []

    async def serve(self, *, task_status: trio.TaskStatus[Tap] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            listeners = await nursery.start(partial(trio.serve_tcp, self._pass, 0, host="127.0.0.1"))
            self.port = listeners[0].socket.getsockname()[1]
            task_status.started(self)

    def forget(self) -> None:
        self._connections.clear()

    def exchanges(self) -> list[Exchange]:
        """All that went over it since, in the order of their connections; sockets that were upgraded are left out."""
        return [
            one for sent, received in self._connections for one in _exchanges(bytes(sent), bytes(received))
        ]

    async def _pass(self, client: trio.SocketStream) -> None:
        sent, received = bytearray(), bytearray()
        self._connections.append((sent, received))
        async with client, await trio.open_tcp_stream("127.0.0.1", self._to) as server:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_copy, client, server, sent, nursery.cancel_scope)
                nursery.start_soon(_copy, server, client, received, nursery.cancel_scope)


async def _copy(
    source: trio.SocketStream, sink: trio.SocketStream, kept: bytearray, scope: trio.CancelScope
) -> None:
    """Copy until either side is gone: then so is the other, at once, as without a proxy."""
    try:
        async for chunk in source:
            kept += chunk
            await sink.send_all(chunk)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
    scope.cancel(reason="one side is gone")


def _exchanges(sent: bytes, received: bytes) -> Iterator[Exchange]:
    while sent:
        (method, path, _), headers, body, sent = _message(sent)
        (_, status, *_), fields, raw, received = _message(received)
        if status == "101":
            return
        streamed = fields.get("content-type", "").startswith("text/event-stream")
        yield Exchange(
            method=method,
            path=path,
            headers=headers,
            request=json.loads(body or b"{}"),
            status=int(status),
            answer=None if streamed or not raw else json.loads(raw),
            events=list(_frames(raw)) if streamed else None,
        )


def _message(raw: bytes) -> tuple[list[str], dict[str, str], bytes, bytes]:
    """The first line, headers and body of the first HTTP message, and the rest."""
    head, _, rest = raw.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    if headers.get("transfer-encoding") == "chunked":
        body = b""
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            length = int(size, 16)
            body, rest = body + rest[:length], rest[length + 2 :]
            if not length:
                break
    else:
        length = int(headers.get("content-length", "0"))
        body, rest = rest[:length], rest[length:]
    return first.split(" ", 2), headers, body, rest


def _frames(raw: bytes) -> Iterator[Json]:
    for frame in raw.decode().split("\n\n"):
        data = [line.removeprefix("data: ") for line in frame.split("\n") if line.startswith("data: ")]
        if data and data != ["[DONE]"]:
            yield json.loads("\n".join(data))
