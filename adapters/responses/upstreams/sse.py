"""Server-sent events of a model's server: bytes in, JSON objects out.

Pure. Source: WHATWG HTML, 9.2. Only `data` matters here; the types are inside. `[DONE]` ends it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic_core import from_json

from bodyd.errors import UpstreamFailed

Json = dict[str, Any]

LONGEST = 64 * 1024 * 1024
"""Bytes of one event; a server that sends more is not read on."""


class Parser:
    """Feed it bytes as they come; `done` once the server has said so."""

    def __init__(self) -> None:
        self.done = False
        self._rest = b""
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[Json]:
        """The objects that *data* completes.

        Raises:
            UpstreamFailed: an event is no JSON object, or has no end.
        """
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._size += len(data)
        if self._size > LONGEST:
            raise UpstreamFailed("the model's server sent an event without an end")
        for line in lines:
            line = line.removesuffix(b"\r")
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line:
                yield from self._event()

    def finish(self) -> Iterator[Json]:
        """The last event, if its blank line is missing."""
        yield from self.feed(b"\n\n")

    def _event(self) -> Iterator[Json]:
        raw, self._data = b"\n".join(self._data), []
        self._size = len(self._rest)
        if raw == b"[DONE]":
            self.done = True
        elif raw and not self.done:
            value = read(raw)
            if isinstance(value, dict):
                yield value


def read(raw: bytes) -> object:
    """JSON of a model's server. Halves of characters, which some send one by one, are put as U+FFFD.

    Raises:
        UpstreamFailed: it is none.
    """
    try:
        return from_json(raw)
    except ValueError:  # lone surrogates among others
        pass
    try:
        return _mended(json.loads(raw.decode("utf-8", "replace")))
    except (ValueError, RecursionError):
        raise UpstreamFailed("the model's server sent something that is not JSON") from None


def _mended(value: Any) -> Any:  # noqa: ANN401 (JSON)
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_mended(part) for part in value]
    return {_mended(key): _mended(part) for key, part in value.items()} if isinstance(value, dict) else value
