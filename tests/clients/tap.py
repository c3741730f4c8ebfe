"""A wire tap: a proxy that passes every byte on, and tells afterwards what a client sent and was answered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import trio
from websockets.client import ClientProtocol
from websockets.frames import Opcode
from websockets.uri import parse_uri
from websockets.utils import apply_mask

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
        """All that went over it since, in the order of their connections, WebSockets' requests included."""
        return [
            one for sent, received in self._connections for one in _exchanges(bytes(sent), bytes(received))
        ]

    async def _pass(self, client: trio.SocketStream) -> None:
        sent, received = bytearray(), bytearray()
        self._connections.append((sent, received))
        async with (
            client,
            await trio.open_tcp_stream("127.0.0.1", self._to) as server,
            trio.open_nursery() as nursery,
        ):
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
    whole = received
    while sent:
        (method, path, _), headers, body, sent = _message(sent)
        (_, status, *_), fields, raw, received = _message(received)
        if status == "101":
            yield from _socket(path, headers, sent, whole)
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


def _socket(path: str, headers: dict[str, str], sent: bytes, received: bytes) -> Iterator[Exchange]:
    """The requests of a WebSocket, each with the events up to the next one's first."""
    client = ClientProtocol(parse_uri(f"ws://{headers['host']}{path}"), max_size=None)
    client.key = headers["sec-websocket-key"]
    client.receive_data(received)
    _handshake, *frames = client.events_received()
    events = [json.loads(frame.data) for frame in frames if frame.opcode is Opcode.TEXT]
    firsts = [index for index, event in enumerate(events) if event["type"] == "response.created"]
    for request, first, last in zip(_masked(sent), firsts, [*firsts[1:], len(events)], strict=True):
        yield Exchange("GET", path, headers, request, 200, None, events[first:last])


def _masked(sent: bytes) -> list[Json]:
    """The JSON of a client's text frames; nothing here is compressed, or cut into several frames."""
    found = []
    while sent:
        opcode, size, sent = sent[0] & 15, sent[1] & 127, sent[2:]
        if size > 125:
            wide = 2 if size == 126 else 8
            size, sent = int.from_bytes(sent[:wide]), sent[wide:]
        mask, data, sent = sent[:4], sent[4 : 4 + size], sent[4 + size :]
        if opcode == Opcode.TEXT:
            found.append(json.loads(apply_mask(data, mask)))
    return found


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
