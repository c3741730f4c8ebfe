"""The output of a shell call while it is made: told as it comes, and whole however the call ends.

Pure. Source: OpenAI Responses API, shell_call_output and its stream events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from . import lifecycle

Json = dict[str, Any]

Emit = Callable[[Json], None]


class Printing:
    """One shell_call_output. Each command has its deltas, then its result, before the next one's.

    Attributes:
        chunks: The results so far, in the commands' order.
    """

    def __init__(self, call: Mapping[str, Any], *, id: str, index: int, emit: Emit | None) -> None:
        """Open the item; *emit* is told its events, under output *index*, if anybody is."""
        self.chunks: list[Json] = []
        self._wanted = len(call["action"]["commands"])
        self._emit = emit
        self._within = {"output_index": index, "item_id": id}
        self._partial = {"stdout": "", "stderr": ""}
        self._item: Json = {"type": "shell_call_output", "call_id": call["call_id"], "id": id}
        limit = call["action"].get("max_output_length")
        if limit is not None:
            self._item["max_output_length"] = limit
        opened = {**self._item, "status": "in_progress", "output": []}
        self._tell({"type": "response.output_item.added", "output_index": index, "item": opened})

    @property
    def whole(self) -> bool:
        """Whether every command has its result."""
        return len(self.chunks) == self._wanted

    def told(self, stream: str, text: str) -> None:
        """Output of the command that runs."""
        if text:
            self._partial[stream] += text
            self._tell(lifecycle.shell_output_delta(self._within, len(self.chunks), **{stream: text}))

    def ended(self, chunk: Json) -> None:
        """The command that ran has its result, which is what counts: long output was told in part."""
        if not any(self._partial.values()):
            self.told("stdout", chunk["stdout"])
            self.told("stderr", chunk["stderr"])
        self._tell(lifecycle.shell_output_done(self._within, len(self.chunks), chunk))
        self.chunks.append(chunk)
        self._partial = {"stdout": "", "stderr": ""}

    def cut(self, why: str, code: int) -> None:
        """The command that ran, or was to run next, ends here, with what it had printed and *why*."""
        if not self.whole:
            self.told("stderr", why)
            self.ended({**self._partial, "outcome": {"type": "exit", "exit_code": code}})

    def close(self, status: str) -> Json:
        """The item, done."""
        item = {**self._item, "status": status, "output": self.chunks}
        place = self._within["output_index"]
        self._tell({"type": "response.output_item.done", "output_index": place, "item": item})
        return item

    def _tell(self, event: Json) -> None:
        if self._emit is not None:
            self._emit(event)
