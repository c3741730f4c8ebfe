"""What a daemon streams, on the client's side: events, and the output of a shell call, line by line.

Iterators and not generators: whoever drops one still closes it. Counterpart: client.py, which opens them.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager
from typing import Any

from bodyd.contract.events import Event
from bodyd.contract.ports import ProcessChunk, ProcessResult
from bodyd.errors import BodydError, Unavailable

Json = dict[str, Any]

Translated = Callable[[], AbstractContextManager[None]]
"""Makes a context that turns what the transport raises into the errors of this project."""


class Lines:
    """The lines of an answer; a break in the connection is an error, an end is an end.

    Over raw bytes: of httpx2's iterators that one alone closes what is below it.
    """

    def __init__(self, raw: AsyncGenerator[bytes], translated: Translated) -> None:
        self._raw = raw
        self._translated = translated
        self._lines: deque[bytes] = deque()
        self._rest = b""

    async def data(self) -> tuple[str, bytes]:
        """The next `event:` (or "") and its `data:`.

        Raises:
            StopAsyncIteration: there are no more.
        """
        name = ""
        while True:
            line = await self._line()
            if line.startswith(b"event: "):
                name = line.removeprefix(b"event: ").decode()
            elif line.startswith(b"data: "):
                return name, line.removeprefix(b"data: ")

    async def _line(self) -> bytes:
        while not self._lines:
            with self._translated():
                chunk = await anext(self._raw)
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            self._lines += lines
        return self._lines.popleft()

    async def drain(self) -> None:
        """Read what is left of an answer that is over, so that its connection can be used again."""
        with self._translated():
            async for _chunk in self._raw:
                pass

    async def aclose(self) -> None:
        await self._raw.aclose()


class Events:
    """`GET /v1/events`."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def __aiter__(self) -> Events:
        return self

    async def __anext__(self) -> Event:
        return Event.model_validate_json((await self._lines.data())[1])


class ShellOutput:
    """A streamed `POST /v1/tools/shell`: chunks as they come, and a result for each command."""

    def __init__(self, lines: Lines, error_of: Callable[[Json], BodydError]) -> None:
        self._lines = lines
        self._error_of = error_of

    def __aiter__(self) -> ShellOutput:
        return self

    async def __anext__(self) -> ProcessChunk | ProcessResult:
        try:
            name, data = await self._lines.data()
        except StopAsyncIteration:
            raise Unavailable("the connection to the shell ended before its call did") from None
        told = json.loads(data)
        match name:
            case "done":
                await self._lines.drain()
                raise StopAsyncIteration
            case "error":
                await self._lines.drain()
                raise self._error_of(told)
            case "chunk":
                return ProcessChunk(told["command"], told["stream"], told["text"])
            case _:
                return _result(told)


def _result(told: Json) -> ProcessResult:
    end = told["outcome"]
    return ProcessResult(
        stdout=told["stdout"],
        stderr=told["stderr"],
        exit_code=end.get("exit_code"),
        timed_out=end["type"] == "timeout",
        omitted_bytes=told["omitted_bytes"],
        command=told["command"],
    )
