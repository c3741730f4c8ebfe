"""Raw HTTP for tests: bytes in, one parsed answer out, over a real socket."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from bodyd.http.listener import Bound

SOON = 10.0
"""Bound on anything that should happen at once, on a busy machine."""


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return self.json["error"]["code"]


class Wire:
    """One connection. Reading is bounded by SOON; so is waiting for the server to close."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._buffer = b""

    async def send(self, data: bytes) -> None:
        with trio.fail_after(SOON):
            await self.stream.send_all(data)

    async def reply(self) -> Reply:
        """The next whole answer (with a content-length)."""
        with trio.fail_after(SOON):
            while b"\r\n\r\n" not in self._buffer:
                await self._more()
            head, _, rest = self._buffer.partition(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            self._buffer = rest
            length = int(headers.get("content-length", "0"))
            while len(self._buffer) < length:
                await self._more()
            body, self._buffer = self._buffer[:length], self._buffer[length:]
            return Reply(int(first.split(" ")[1]), headers, body)

    async def closed(self) -> bytes:
        """Wait until the server closes; returns what it still sent."""
        with trio.fail_after(SOON):
            try:
                while chunk := await self.stream.receive_some(65536):
                    self._buffer += chunk
            except trio.BrokenResourceError:
                pass  # a reset is closed, too
        return self._buffer

    async def _more(self) -> None:
        chunk = await self.stream.receive_some(65536)
        if not chunk:
            raise EOFError(f"the server closed after {self._buffer!r}")
        self._buffer += chunk


@asynccontextmanager
async def tcp(bound: Bound) -> AsyncIterator[Wire]:
    assert bound.port is not None
    async with await trio.open_tcp_stream("127.0.0.1", bound.port) as stream:
        yield Wire(stream)


@asynccontextmanager
async def unix(path: Path | None) -> AsyncIterator[Wire]:
    assert path is not None
    async with await trio.open_unix_socket(path) as stream:
        yield Wire(stream)


def head(method: str, path: str, /, **headers: str | None) -> bytes:
    """A request head; `host` is localhost unless given (None leaves it out)."""
    lines = [f"{method} {path} HTTP/1.1"]
    fields = {"host": "localhost", **{name.replace("_", "-"): value for name, value in headers.items()}}
    lines += [f"{name}: {value}" for name, value in fields.items() if value is not None]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def post(path: str, body: bytes, /, **headers: str | None) -> bytes:
    return head("POST", path, content_length=str(len(body)), **headers) + body


HEALTH = head("GET", "/healthz")


async def still_answers(bound: Bound) -> None:
    """The server is alive on both sockets."""
    async with tcp(bound) as wire:
        await wire.send(HEALTH)
        assert (await wire.reply()).status == 200
    async with unix(bound.unix_path) as wire:
        await wire.send(HEALTH)
        assert (await wire.reply()).status == 200
