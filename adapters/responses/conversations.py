"""Conversations: named, growing lists of items that responses continue.

Source: OpenAI Conversations API. `POST /v1/conversations` takes at most 20 items at once.
"""

from __future__ import annotations

import json
from typing import Any

from bodyd.contract.adapters import HttpReply, HttpRequest, Route
from bodyd.contract.lease import Scope
from bodyd.errors import ConversationBusy, InvalidRequest, NotFound

from . import notes, pictures, wire
from .gateway import Gateway
from .history import CONVERSATION, Kept, conversation_document, item_documents, new_token
from .listing import included
from .requests import FULL_PICTURES, read_json

Json = dict[str, Any]

MOST_ITEMS = 20


def routes(gateway: Gateway) -> list[Route]:
    api = _Api(gateway)
    one, items = "/v1/conversations/{conversation_id}", "/v1/conversations/{conversation_id}/items"
    return [
        Route("POST", "/v1/conversations", Scope.DRIVER, api.create),
        Route("GET", one, Scope.DRIVER, api.get),
        Route("POST", one, Scope.DRIVER, api.update),
        Route("DELETE", one, Scope.DRIVER, api.delete),
        Route("GET", items, Scope.DRIVER, api.list_items),
        Route("POST", items, Scope.DRIVER, api.add_items),
        Route("GET", items + "/{item_id}", Scope.DRIVER, api.get_item),
        Route("DELETE", items + "/{item_id}", Scope.DRIVER, api.delete_item),
    ]


class _Api:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._history = gateway.history

    async def create(self, request: HttpRequest) -> HttpReply:
        given = read_json(request.body)
        body: Json = {
            "id": f"conv_{new_token()}",
            "caller": request.caller.id,
            "created_at": self._gateway.keeper.now(),
            "metadata": _metadata(given),
            "items": [],
        }
        await self._append(request, body, given.get("items"))
        return _json(_shown(body))

    async def get(self, request: HttpRequest) -> HttpReply:
        return _json(_shown(await self._found(request)))

    async def update(self, request: HttpRequest) -> HttpReply:
        body = await self._changeable(request)
        body["metadata"] = _metadata(read_json(request.body))
        await self._history.store.put([conversation_document(body)])
        return _json(_shown(body))

    async def delete(self, request: HttpRequest) -> HttpReply:
        body = await self._changeable(request)
        await self._history.store.delete(CONVERSATION, body["id"])
        return _json({"id": body["id"], "object": "conversation.deleted", "deleted": True})

    async def list_items(self, request: HttpRequest) -> HttpReply:
        kept = await self._history.kept((await self._found(request))["items"])
        return _json(await self._gateway.page(kept, request.query))

    async def add_items(self, request: HttpRequest) -> HttpReply:
        body = await self._changeable(request)
        added = await self._append(request, body, read_json(request.body).get("items"))
        shown = [notes.public(pictures.by_reference(kept.item)) for kept in added]
        ends = {"first_id": shown[0]["id"], "last_id": shown[-1]["id"]} if shown else {}
        return _json({"object": "list", "data": shown, "has_more": False, **ends})

    async def get_item(self, request: HttpRequest) -> HttpReply:
        body = await self._found(request)
        kept = self._one(await self._history.kept(body["items"]), request)
        item = kept.item
        if FULL_PICTURES in included(request.query):
            item = (await self._history.with_pictures([item]))[0]
        return _json(notes.public(pictures.by_reference(item)))

    async def delete_item(self, request: HttpRequest) -> HttpReply:
        body = await self._changeable(request)
        kept = self._one(await self._history.kept(body["items"]), request)
        body["items"] = [key for key in body["items"] if key != kept.key]
        await self._history.store.put([conversation_document(body)])
        return _json(_shown(body))

    # -- inside ------------------------------------------------------------------------------------

    async def _found(self, request: HttpRequest) -> Json:
        return await self._history.conversation(request.params["conversation_id"], request.caller)

    async def _changeable(self, request: HttpRequest) -> Json:
        body = await self._found(request)
        if self._gateway.runs.busy(body["id"]):
            raise ConversationBusy("a response of this conversation is being made")
        return body

    async def _append(self, request: HttpRequest, body: Json, raw: object) -> list[Kept]:
        if raw is not None and (not isinstance(raw, list) or len(raw) > MOST_ITEMS):
            raise InvalidRequest(f"items must be a list of at most {MOST_ITEMS}", param="items")
        images: dict[str, bytes] = {}
        passthrough = self._gateway.settings.unknown == "passthrough"
        items = [
            pictures.take(
                wire.item(value, param=f"items[{index}]", passthrough=passthrough),
                images,
                param=f"items[{index}]",
            )
            for index, value in enumerate(raw or ())
        ]
        kept = await self._history.resolve(items, request.caller)
        body["items"] += [one.key for one in kept if one.key not in body["items"]]
        await self._history.store.put([*item_documents(kept), conversation_document(body)], images)
        return kept

    def _one(self, kept: list[Kept], request: HttpRequest) -> Kept:
        for one in kept:
            if one.item["id"] == request.params["item_id"]:
                return one
        raise NotFound("this conversation has no item of that id", param="item_id")


def _metadata(given: Json) -> Json:
    metadata = given.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise InvalidRequest("metadata must be an object", param="metadata")
    return metadata or {}


def _shown(body: Json) -> Json:
    return {
        "id": body["id"],
        "object": "conversation",
        "created_at": body["created_at"],
        "metadata": body["metadata"],
    }


def _json(value: Json) -> HttpReply:
    return HttpReply(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
