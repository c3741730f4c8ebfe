"""The clipboard: read, written, and kept alive for as long as the daemon owns it.

Counterpart of selection.py, which speaks the protocol in a thread; this waits for the other clients'
answers under Trio, bounded, since an owner may hang.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

import trio

from bodyd.contract.ports import XEndpoint
from bodyd.errors import DisplayUnavailable, TooLarge, Unavailable

from .lane import Lane
from .selection import (
    MOST_BYTES,
    Content,
    Happening,
    Lost,
    Progressed,
    Received,
    SelectionConnection,
    Served,
    TooLong,
    text_content,
)

CLIPBOARD = "CLIPBOARD"
PRIMARY = "PRIMARY"
ANSWER_SECONDS = 1.0
"""How long an owner may keep a reader waiting for its answer, or for the next piece of it."""

READ_SECONDS = 10.0
"""How long for the whole answer, however steadily its pieces come."""

SNAPSHOT_SECONDS = 2.0
"""How long for everything that a paste will put back."""

_TEXTS = ("UTF8_STRING", "text/plain;charset=utf-8", "STRING", "TEXT", "text/plain")

_RETRY = 0.5
_KEPT_TARGETS = 12
_NOT_CONTENT = frozenset(
    "TARGETS MULTIPLE TIMESTAMP SAVE_TARGETS DELETE INSERT_SELECTION INSERT_PROPERTY".split()
)

T = TypeVar("T")


class Clipboard:
    """Owner and reader of selections, on a lane of its own."""

    def __init__(self, endpoint: XEndpoint) -> None:
        self._lane: Lane[SelectionConnection] = Lane(endpoint, SelectionConnection, patience=None)
        self._reading = trio.Lock()
        self._answer: Received | TooLong | Progressed | None = None
        self._news = trio.Event()
        self.served = 0  # how often anything of ours was taken

    async def run(self) -> None:
        """Serve other clients until cancelled, over new connections where old ones are lost."""
        while True:
            try:
                await self._serve()
            except DisplayUnavailable:
                await trio.sleep(_RETRY)  # nothing can say when a dead server is back

    async def aclose(self) -> None:
        await self._lane.aclose()

    async def read(self, selection: str = CLIPBOARD) -> str:
        """The text of *selection*; "" if it has none.

        Raises:
            Unavailable: its owner doesn't answer.
            TooLarge: it is longer than 16 MiB.
            DisplayUnavailable.
        """
        async with self._reading:
            held = await self._do(lambda x: x.held(selection))
            if held is not None:
                return held.get("UTF8_STRING", b"").decode("utf-8", "replace")
            data = await self._fetch(selection, "UTF8_STRING")
            if data is not None:
                return data.decode("utf-8", "replace")
            data = await self._fetch(selection, "STRING")
            return data.decode("latin-1") if data is not None else ""

    async def write(self, text: str, selection: str = CLIPBOARD) -> None:
        """Own *selection* with *text*.

        Raises:
            TooLarge, Unavailable, DisplayUnavailable.
        """
        if len(text.encode()) > MOST_BYTES:
            raise TooLarge(f"a clipboard text may have {MOST_BYTES} bytes of UTF-8")
        await self._own(selection, text_content(text))

    async def snapshot(self, selection: str) -> Content | None:
        """All that the selection holds, to be put back, texts first; None if there is nothing to be had.

        What an owner has not given within SNAPSHOT_SECONDS, or holds more of than fits, is lost.

        Raises:
            DisplayUnavailable.
        """
        content: dict[str, bytes] = {}
        with trio.move_on_after(SNAPSHOT_SECONDS):
            async with self._reading:
                held = await self._do(lambda x: x.held(selection))
                if held is not None:
                    return held
                try:
                    await self._collect(selection, content)
                except DisplayUnavailable:
                    raise
                except Unavailable:
                    pass  # it is silent: with what it has given so far
        return content or None

    async def restore(self, selection: str, content: Content | None) -> None:
        """Put a snapshot back, unless another client has taken the selection since: that is newer."""
        if await self._do(lambda x: x.taken(selection)):
            return
        if content:
            await self._own(selection, content)
        else:
            await self._do(lambda x: x.disown(selection))

    async def taken(self, since: int) -> None:
        """Wait until something of ours was taken after the count *since* of `served`."""
        while self.served <= since:
            await self._news.wait()

    # -- below -----------------------------------------------------------------------------------

    async def _own(self, selection: str, content: Content) -> None:
        for _ in range(3):
            if await self._do(lambda x: x.own(selection, content)):
                return
        raise Unavailable(f"another client keeps taking {selection}")

    async def _collect(self, selection: str, content: dict[str, bytes]) -> None:
        """Fill *content* with what the owner has, as far as it comes."""
        raw = await self._fetch(selection, "TARGETS")
        if raw is None:
            return
        atoms = [int.from_bytes(raw[i : i + 4], "little") for i in range(0, len(raw), 4)]
        names = await self._do(lambda x: [x.atom_name(atom) for atom in atoms[:64]])
        offered = [n for n in dict.fromkeys(names) if n and n not in _NOT_CONTENT]
        for name in sorted(offered, key=lambda n: n not in _TEXTS)[:_KEPT_TARGETS]:
            try:
                data = await self._fetch(selection, name)
            except TooLarge:
                continue
            if data is not None and sum(map(len, content.values())) + len(data) <= MOST_BYTES:
                content[name] = data

    async def _fetch(self, selection: str, target: str) -> bytes | None:
        """Ask the owner for one target, and wait as long as it makes progress, at most READ_SECONDS."""
        self._answer = None
        await self._do(lambda x: x.ask(selection, target))
        with trio.move_on_after(READ_SECONDS):
            while await self._heard():
                if (answer := self._take_answer()) is not None:
                    if isinstance(answer, TooLong):
                        raise TooLarge(f"{selection} holds more than {MOST_BYTES} bytes")
                    return answer.data
        await self._do(lambda x: x.give_up())
        raise Unavailable(f"the owner of {selection} does not answer")

    async def _heard(self) -> bool:
        """Wait for the owner to say something; False if it is silent for ANSWER_SECONDS."""
        with trio.move_on_after(ANSWER_SECONDS):
            while self._answer is None:
                await self._news.wait()
        return self._answer is not None

    def _take_answer(self) -> Received | TooLong | None:
        """The answer, if it is whole; mere progress is forgotten."""
        answer, self._answer = self._answer, None
        return None if isinstance(answer, Progressed) else answer

    async def _do(self, work: Callable[[SelectionConnection], T]) -> T:
        """Run *work*, then handle whatever events python-xlib has read on the way."""
        result, happenings = await self._lane.run(lambda x: (work(x), x.pump()))
        self._note(happenings)
        return result

    def _note(self, happenings: list[Happening]) -> None:
        for happening in happenings:
            match happening:
                case Served():
                    self.served += 1
                case Received() | TooLong() | Progressed():
                    if not isinstance(self._answer, Received | TooLong):
                        self._answer = happening
                case Lost():
                    pass
        if happenings:
            self._news.set()
            self._news = trio.Event()

    async def _serve(self) -> None:
        watched = await self._do(lambda x: os.dup(x.wire.fileno()))
        try:
            while True:
                await trio.lowlevel.wait_readable(watched)
                await self._do(lambda x: None)
        finally:
            os.close(watched)
