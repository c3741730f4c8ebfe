"""A model's server on a real socket: it answers each POST with the next of the given answers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import trio

Json = dict[str, Any]


@dataclass
class Answer:
    """`body` is JSON, or a list of events to stream; `cut` ends the connection in the middle of it."""

    body: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    hang: bool = False


@dataclass
class ModelServer:
    answers: list[Answer]
    port: int = 0
    seen: list[tuple[str, dict[str, str], Json]] = field(default_factory=list)
    left: trio.Event = field(default_factory=trio.Event)
    more: trio.Event = field(default_factory=trio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def handle(self, stream: trio.SocketStream) -> None:
        buffer = b""
        async with stream:
            while True:
                while b"\r\n\r\n" not in buffer:
                    chunk = await stream.receive_some()
                    if not chunk:
                        return
                    buffer += chunk
                head, _, buffer = buffer.partition(b"\r\n\r\n")
                first, *lines = head.decode().split("\r\n")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
                length = int(headers.get("content-length", "0"))
                while len(buffer) < length:
                    buffer += await stream.receive_some()
                body, buffer = buffer[:length], buffer[length:]
                self.seen.append((first.split(" ")[1], headers, json.loads(body or b"{}")))
                self.more.set()
                if not await self._answer(stream, await self.answer_to(self.seen[-1][2])):
                    return

    async def until_seen(self, many: int) -> None:
        """Until so many requests have come."""
        while len(self.seen) < many:
            self.more = trio.Event()
            await self.more.wait()

    async def answer_to(self, request: Json) -> Answer:
        return self.answers.pop(0)

    async def _answer(self, stream: trio.SocketStream, answer: Answer) -> bool:
        if isinstance(answer.body, list):
            raw = b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in answer.body)
            raw += b"" if answer.cut or answer.hang else b"data: [DONE]\n\n"
            kind = "text/event-stream"
        else:
            raw, kind = json.dumps(answer.body).encode(), "application/json"
        length = len(raw) + (10 if answer.cut or answer.hang else 0)
        fields = {"content-type": kind, "content-length": str(length), **answer.headers}
        head = f"HTTP/1.1 {answer.status} X\r\n" + "".join(f"{k}: {v}\r\n" for k, v in fields.items())
        await stream.send_all(head.encode() + b"\r\n" + raw)
        if answer.hang:
            with suppress(trio.BrokenResourceError):  # a client that was killed resets the connection
                await stream.receive_some()
            self.left.set()
            return False
        return not answer.cut


@asynccontextmanager
async def model_server(*answers: Answer) -> AsyncIterator[ModelServer]:
    server = ModelServer(list(answers))
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, server.handle, 0, host="127.0.0.1"))
        server.port = listeners[0].socket.getsockname()[1]
        yield server
        nursery.cancel_scope.cancel(reason="the test is over")
