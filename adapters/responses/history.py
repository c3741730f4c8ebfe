"""What is remembered: responses, their items, conversations; and who may read them.

Items are documents of their own, and each response lists the keys of everything before it, so that a
long chain is read with two queries. A model's item is known by its id for its caller; a replayed copy of
it gives way to the stored one.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bodyd.contract.lease import Scope
from bodyd.contract.ports import Caller, Document, StorePort
from bodyd.errors import InvalidRequest, NotFound, PreviousResponseNotFound

from . import pictures
from .notes import with_note
from .wire import PREFIXES

Json = dict[str, Any]

RESPONSE, CONVERSATION, ITEM = "response", "conversation", "item"
COMPACTION, COMPACTION_MARK = "compaction", "bodyd:"
MODEL, CLIENT, GATEWAY = "model", "client", "gateway"


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
        found = await self.store.get_all(ITEM, keys)
        return [Kept(key, found[key]["item"], found[key]["by"], new=False) for key in keys if key in found]

    async def resolve(self, items: Iterable[Json], caller: Caller) -> list[Kept]:
        """New input with references and replayed copies replaced by what is stored.

        Raises:
            InvalidRequest: a reference that leads nowhere.
        """
        listed = list(items)
        ids = [item["id"] for item in listed if isinstance(item.get("id"), str)]
        found = await self.store.get_all(ITEM, [f"{caller.id}/{id}" for id in ids]) if ids else {}
        made: list[Kept] = []
        for index, item in enumerate(listed):
            id = item.get("id")
            key = f"{caller.id}/{id}"
            known = found.get(key)
            if item["type"] == "item_reference":
                if known is None:
                    raise InvalidRequest(f"Item with id {id!r:.80} not found.", param=f"input[{index}].id")
                made.append(Kept(key, known["item"], known["by"], new=False))
            elif known is not None and known["by"] != CLIENT and known["item"]["type"] == item["type"]:
                made.append(Kept(key, known["item"], known["by"], new=False))
            else:
                read = await self._uncompacted(item, caller, f"input[{index}]")
                made.append(_fresh(read, caller, taken=known is not None))
        return made

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


def item_document(kept: Kept) -> Document:
    return Document(
        ITEM, kept.key, {"item": kept.item, "by": kept.by}, images=tuple(pictures.hashes(kept.item))
    )


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
