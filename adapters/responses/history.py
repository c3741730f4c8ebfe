"""What is remembered: responses, their items, conversations; and who may read them.

Items are documents of their own, and each response lists the keys of everything before it, so that a
long chain is read with two queries. A model's item is known by its id for its caller; a replayed copy of
it gives way to the stored one, which brings along what was hidden beside it: a client that replays a whole
history by itself loses no call that the gateway carried out.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bodyd.contract.lease import Scope
from bodyd.contract.ports import Caller, Document, StorePort
from bodyd.errors import InvalidRequest, NotFound, PreviousResponseNotFound

from . import pairs, pictures
from .notes import with_note
from .wire import PREFIXES

Json = dict[str, Any]

RESPONSE, CONVERSATION, ITEM = "response", "conversation", "item"
EVENTS = "events"
COMPACTION, COMPACTION_MARK = "compaction", "bodyd:"
MODEL, CLIENT, GATEWAY = "model", "client", "gateway"
BEFORE, AFTER = "before", "after"
"""Fields of a stored item: the keys of what stands hidden beside it."""


@dataclass(frozen=True, slots=True)
class Kept:
    """An item with its key in the store, who made it, and whether it has yet to be stored."""

    key: str
    item: Json
    by: str = CLIENT
    new: bool = True


def new_token() -> str:
    return secrets.token_hex(12)


def may_read(caller: Caller, document: Json) -> bool:
    return caller.scope is Scope.OWNER or document["caller"] == caller.id


class History:
    """Reads and writes the store in the gateway's terms."""

    def __init__(self, store: StorePort) -> None:
        self.store = store

    async def response(self, id: str, caller: Caller) -> Json:
        """The document of a stored response.

        Raises:
            NotFound: none of that id is kept for this caller.
        """
        found = await self.store.get(RESPONSE, id)
        if found is None or not may_read(caller, found):
            raise NotFound(f"no response {id!r:.80} is kept for this token", param="response_id")
        return found

    async def conversation(self, id: str, caller: Caller) -> Json:
        """The document of a conversation.

        Raises:
            NotFound: none of that id is kept for this caller.
        """
        found = await self.store.get(CONVERSATION, id)
        if found is None or not may_read(caller, found):
            raise NotFound(f"no conversation {id!r:.80} is kept for this token", param="conversation")
        return found

    async def previous(self, id: str, caller: Caller) -> Json:
        """As `response`, for `previous_response_id`.

        Raises:
            PreviousResponseNotFound.
        """
        try:
            return await self.response(id, caller)
        except NotFound:
            raise PreviousResponseNotFound(
                f"Previous response with id {id!r:.80} not found.", param="previous_response_id"
            ) from None

    async def kept(self, keys: Sequence[str]) -> list[Kept]:
        """The items of *keys*, in order; those past their retention are missing."""
        found = await self.store.get_all(ITEM, keys) if keys else {}
        return [Kept(key, found[key]["item"], found[key]["by"], new=False) for key in keys if key in found]

    async def resolve(
        self, items: Iterable[Json], caller: Caller, *, known: Collection[str] = ()
    ) -> list[Kept]:
        """New input with references and replayed copies replaced by what is stored.

        Args:
            known: Keys of what stands before this input already: it is not brought along again.
        Raises:
            InvalidRequest: a reference that leads nowhere.
        """
        listed = list(items)
        ids = [item["id"] for item in listed if isinstance(item.get("id"), str)]
        found = await self.store.get_all(ITEM, [f"{caller.id}/{id}" for id in ids]) if ids else {}
        hidden = await self._hidden(found.values(), known)
        made: list[Kept] = []
        for index, item in enumerate(listed):
            id = item.get("id")
            key = f"{caller.id}/{id}"
            stored = found.get(key)
            if item["type"] == "item_reference" and stored is None:
                raise InvalidRequest(f"Item with id {id!r:.80} not found.", param=f"input[{index}].id")
            if stored is not None and _stands_for(stored, item):
                made += [hidden.pop(one) for one in stored.get(BEFORE, ()) if one in hidden]
                made.append(Kept(key, stored["item"], stored["by"], new=False))
                made += [hidden.pop(one) for one in stored.get(AFTER, ()) if one in hidden]
            else:
                read = await self._uncompacted(item, caller, f"input[{index}]")
                made.append(_fresh(read, caller, taken=stored is not None))
        return made

    async def _hidden(self, found: Iterable[Json], known: Collection[str]) -> dict[str, Kept]:
        """What stands hidden beside the items of *found*, in whole pairs."""
        keys = [key for one in found for name in (BEFORE, AFTER) for key in one.get(name, ())]
        kept = await self.kept([key for key in keys if key not in known])
        whole = pairs.whole([one.item for one in kept])
        return {one.key: one for one in kept if one.item["id"] in whole}

    async def _uncompacted(self, item: Json, caller: Caller, param: str) -> Json:
        """A compaction item of ours with the summary that it stands for; others as they are."""
        content = item.get("encrypted_content")
        if item["type"] != "compaction" or not str(content).startswith(COMPACTION_MARK):
            return item
        found = await self.store.get(COMPACTION, str(content).removeprefix(COMPACTION_MARK))
        if found is None or not may_read(caller, found):
            raise InvalidRequest(
                f"{param}: this compaction is not kept for this token", param=f"{param}.encrypted_content"
            )
        return with_note(item, found["summary"])

    async def with_pictures(self, items: Sequence[Json]) -> list[Json]:
        """*items* with every picture that is kept, as data URLs."""
        wanted = [digest for item in items for digest in pictures.hashes(item)]
        images = await self.store.images(wanted) if wanted else {}
        return [pictures.put_back(item, images) for item in items]


def _fresh(item: Json, caller: Caller, *, taken: bool) -> Kept:
    id = item.get("id")
    if not isinstance(id, str) or not id:
        id = f"{PREFIXES.get(item['type'], 'item')}_{new_token()}"
    key = f"{caller.id}/{id}" + (f"/{new_token()}" if taken else "")
    return Kept(key, {**item, "id": id})


def _stands_for(stored: Json, item: Json) -> bool:
    """Whether *stored* takes the place of *item*: a reference, or a copy of what the model made."""
    if item["type"] == "item_reference":
        return True
    return bool(stored["by"] != CLIENT and stored["item"]["type"] == item["type"])


def item_documents(
    items: Iterable[Kept], made: Sequence[Kept] = (), shown: Collection[str] = ()
) -> list[Document]:
    """Those of *items* that are new; of *made*, only the ids in *shown* were seen by the client."""
    beside: dict[str, dict[str, list[str]]] = {}
    waiting: list[str] = []
    last: str | None = None
    for kept in made:
        if kept.item["id"] in shown:
            last, beside[kept.key], waiting = kept.key, {BEFORE: waiting} if waiting else {}, []
        else:
            waiting.append(kept.key)
    if last is not None and waiting:
        beside[last][AFTER] = waiting
    new = [_document(kept, beside.get(kept.key, {})) for kept in items if kept.new]
    return sorted(new, key=lambda document: bool(document.parts))  # parts are there before their wholes


def _document(kept: Kept, beside: dict[str, list[str]]) -> Document:
    body = {"item": kept.item, "by": kept.by, **beside}
    parts = tuple(key for keys in beside.values() for key in keys)
    return Document(ITEM, kept.key, body, images=tuple(pictures.hashes(kept.item)), parts=parts)


def response_document(
    response: Json,
    *,
    caller: Caller,
    root: str,
    before: Sequence[Kept],
    fed: Sequence[Kept],
    made: Sequence[Kept],
) -> Document:
    """A response with the keys of what came before, what it was fed and what it made."""
    keys = [[kept.key for kept in group] for group in (before, fed, made)]
    body = {
        "response": response,
        "caller": caller.id,
        "root": root,
        "history": keys[0],
        "input": keys[1],
        "made": keys[2],
    }
    return Document(RESPONSE, response["id"], body, parts=tuple(key for group in keys for key in group))


def conversation_document(body: Json) -> Document:
    return Document(CONVERSATION, body["id"], body, parts=tuple(body["items"]))
