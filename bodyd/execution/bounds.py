"""Bounds on output: the head and the tail of a stream are kept, what lay between is counted. Pure.

Lengths are characters, as OpenAI's `max_output_length` counts them; omissions are bytes, as the program
wrote them. A sequence is never split: text is cut between characters, and bytes that are no UTF-8 stand as
U+FFFD, each.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

_WIDEST = 4
_SURROGATE = re.compile("[\udc80-\udcff]")


class Stream:
    """One stream of one command, in bounded memory: about 4 * *limit* bytes at each end.

    Attributes:
        total: Bytes fed so far.
    """

    def __init__(self, limit: int) -> None:
        self.total = 0
        self._room = _WIDEST * (limit + 1)
        self._head = bytearray()
        self._tail = bytearray()

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        if len(self._head) < self._room:
            taken = self._room - len(self._head)
            self._head += data[:taken]
            data = data[taken:]
        if data:
            self._tail += data[-self._room :]
            if len(self._tail) > self._room:
                del self._tail[: -self._room]

    @property
    def length(self) -> int:
        """Characters, where all of it is kept; otherwise more than the limit."""
        return len(_text(self._head)) + len(self._tail)

    def cut(self, limit: int) -> Kept:
        """At most *limit* characters of it: the first and the last, with a line between that says how many
        bytes are not there. A limit too small for that line leaves it out.
        """
        whole = _text(bytes(self._head) + bytes(self._tail))
        complete = self.total == len(self._head) + len(self._tail)
        if complete and len(whole) <= limit:
            return Kept(_shown(whole), 0)
        note = _note(self.total)  # as long as any that may stand here in the end
        room = limit - len(note) if len(note) <= limit // 2 else limit
        first = whole[: room - room // 2]
        last = whole[len(whole) - room // 2 :] if complete else _end(self._tail, room // 2)
        omitted = self.total - _size(first) - _size(last)
        between = _note(omitted) if room < limit else ""
        return Kept(_shown(first) + between + _shown(last), omitted)


@dataclass(frozen=True, slots=True)
class Kept:
    """What is shown of a stream, and the bytes that are not."""

    text: str
    omitted: int


def shares(out: int, err: int, limit: int) -> tuple[int, int]:
    """How many characters of *limit* two streams of these lengths get: half each, or what one leaves."""
    half = limit // 2
    if err <= half:
        return limit - err, err
    if out <= half:
        return out, limit - out
    return limit - half, half


class Live:
    """A stream's text as it comes, until *limit* characters were given out; split sequences are joined."""

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes, *, final: bool = False) -> str:
        """The text of *data*, with what was held back before; "" once the limit is reached."""
        if self._left <= 0:
            return ""
        text = self._decoder.decode(data[: _WIDEST * self._left + _WIDEST], final)[: self._left]
        self._left -= len(text)
        return text


def _note(omitted: int) -> str:
    return f"\n[... {omitted} bytes omitted ...]\n"


def _end(tail: bytearray, count: int) -> str:
    text = _text(tail)
    return text[len(text) - count :]


def _text(raw: bytes | bytearray) -> str:
    """One character for each that is there, and one for each byte that is none: sizes can be told back."""
    return raw.decode("utf-8", "surrogateescape")


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))


def _shown(text: str) -> str:
    return _SURROGATE.sub("�", text)
