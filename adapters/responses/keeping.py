"""Writing responses down: begun ones that must survive, and ended ones, whole and in one step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import trio

from bodyd.contract.ports import Document, StorePort

from . import notes, pictures
from .failures import RESTARTED
from .history import (
    COMPACTION,
    CONVERSATION,
    EVENTS,
    RESPONSE,
    Kept,
    conversation_document,
    item_documents,
    response_document,
)
from .loop import Loop
from .requests import Prepared
from .transcripts import pack

Json = dict[str, Any]

RUNNING = "running"
DAY_MS = 86_400_000
MANY_EVENTS = 500
"""So many are packed in a thread: it takes milliseconds."""


class Keeper:
    """Puts responses into the store."""

    def __init__(self, store: StorePort, now_ms: Callable[[], int]) -> None:
        self._store = store
        self._now_ms = now_ms

    def now(self) -> int:
        """Unix seconds."""
        return self._now_ms() // 1000

    async def begun(self, prepared: Prepared, response: Json) -> None:
        """Note a background response, so that a restart can say what became of it."""
        if prepared.background:
            documents = self._documents(prepared, response, (), ())
            mark = Document(RUNNING, response["id"], {"response": response["id"]})
            await self._put([*documents, mark], prepared.images)

    async def ended(
        self, prepared: Prepared, response: Json, loop: Loop, events: Sequence[Json] = ()
    ) -> None:
        """Keep a response that has ended, and add it to its conversation (`store: false`: the latter alone).

        Args:
            events: What was told of it, all but its end.

        Cancellation:
            Atomic.
        """
        documents: list[Document] = []
        shown = [item["id"] for item in loop.shown]
        if prepared.store:
            documents = self._documents(prepared, stored(response), loop.made, shown)
            documents.append(Document(EVENTS, response["id"], await _packed(events)))
        elif prepared.conversation is not None:
            documents = item_documents((*prepared.fed, *loop.made), loop.made, shown)
        if prepared.conversation is not None:
            documents += await self._appended(prepared, loop.made)
        if documents:
            await self._put(documents, loop.images)
        if prepared.background:
            await self._store.delete(RUNNING, response["id"])

    async def recover(self) -> None:
        """Close what a restart cut off: background responses that were being made have failed."""
        for id in await self._store.keys(RUNNING):
            found = await self._store.get(RESPONSE, id)
            if found is not None:
                found["response"] |= {"status": "failed", "error": RESTARTED.error}
                parts = (*found["history"], *found["input"], *found["made"])
                await self._store.put([Document(RESPONSE, id, found, parts=parts)])
            await self._store.delete(RUNNING, id)

    async def forget(self, days: int) -> int:
        """Remove what is older than *days*; returns how much."""
        return await self._store.remove_before(
            (RESPONSE, EVENTS, CONVERSATION, COMPACTION), self._now_ms() - days * DAY_MS
        )

    def _documents(
        self, prepared: Prepared, response: Json, made: Sequence[Kept], shown: Sequence[str]
    ) -> list[Document]:
        items = item_documents((*prepared.before, *prepared.fed, *made), made, shown)
        whole = response_document(
            response,
            caller=prepared.caller,
            root=prepared.root or response["id"],
            before=prepared.before,
            fed=prepared.fed,
            made=made,
        )
        return [*items, whole]

    async def _appended(self, prepared: Prepared, made: Sequence[Kept]) -> list[Document]:
        assert prepared.conversation is not None
        body = await self._store.get(CONVERSATION, prepared.conversation)
        if body is None:  # deleted meanwhile
            return []
        keys = [kept.key for kept in (*prepared.fed, *made)]
        body["items"] = list(dict.fromkeys([*body["items"], *keys]))
        return [conversation_document(body)]

    async def _put(self, documents: list[Document], images: dict[str, bytes]) -> None:
        wanted = {digest for document in documents for digest in document.images}
        await self._store.put(documents, {d: images[d] for d in wanted if d in images})


def stored(response: Json) -> Json:
    """*response* with its pictures told by reference."""
    output = [notes.public(pictures.by_reference(pictures.take(item, {}))) for item in response["output"]]
    return {**response, "output": output}


async def _packed(events: Sequence[Json]) -> Json:
    if len(events) < MANY_EVENTS:
        return pack(events)
    return await trio.to_thread.run_sync(pack, tuple(events))
