"""A response as server-sent events: one that is being made, or a stored one told again.

Source: WHATWG HTML, 9.2. There are comments and `data` with an `event` alone: some SDKs choke on more.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import trio
from pydantic_core import to_json

from .log import Reader
from .runs import Run

Json = dict[str, Any]

DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": still here\n\n"


class RunStream:
    """The events of a response after number *after*, a comment where nothing happens, `[DONE]`.

    From its first chunk until it is closed it is a client of the response.
    """

    def __init__(self, run: Run, after: int, *, keep_alive: float) -> None:
        self._run = run
        self._after = after
        self._keep_alive = keep_alive
        self._reading = ExitStack()
        self._reader: Reader | None = None
        self._ended = False

    def __aiter__(self) -> RunStream:
        return self

    async def __anext__(self) -> bytes:
        if self._ended:
            raise StopAsyncIteration
        if self._reader is None:
            self._run.presence.joined()
            self._reading.callback(self._run.presence.left)
            self._reader = self._reading.enter_context(self._run.log.reader(self._after))
        with trio.move_on_after(self._keep_alive):
            if found := await self._reader.next():
                return b"".join(map(frame, found))
            self._ended = True
            return DONE
        return KEEP_ALIVE

    async def aclose(self) -> None:
        self._reading.close()


class RetoldStream:
    """The events of a response that has ended, those after number *after*, and `[DONE]`."""

    def __init__(self, events: Sequence[Json], after: int) -> None:
        self._frames = iter([*(frame(event) for event in events if event["sequence_number"] > after), DONE])

    def __aiter__(self) -> RetoldStream:
        return self

    async def __anext__(self) -> bytes:
        await trio.lowlevel.checkpoint()
        found = next(self._frames, None)
        if found is None:
            raise StopAsyncIteration
        return found

    async def aclose(self) -> None:
        self._frames = iter(())


def frame(event: Json) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (event["type"].encode(), to_json(event, inf_nan_mode="null"))
