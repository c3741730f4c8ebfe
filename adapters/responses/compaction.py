"""A long history as one item, and how long a history is.

The summary is the model's own. `encrypted_content` names it in the store and carries nothing: what the
client hands back can't be forged, and is read by the token that made it alone.
"""

from __future__ import annotations

import json
from typing import Any

from bodyd.contract.adapters import HttpRequest
from bodyd.contract.ports import Document
from bodyd.errors import InvalidRequest, UpstreamFailed

from . import lowering, pairs, pictures, public
from .gateway import Gateway
from .history import COMPACTION, COMPACTION_MARK, Kept, new_token
from .requests import read_json, take_pictures

Json = dict[str, Any]

PROMPT = (
    "Summarise this conversation for yourself: what was asked, what was done and seen, what is decided and "
    "what is left to do, with every name, number and path that will be needed. Answer with the summary alone."
)
BYTES_PER_TOKEN = 4
TOKENS_PER_PICTURE = 1105
"""What OpenAI's documents count for a picture of a screen's size at high detail."""


async def compact(gateway: Gateway, request: HttpRequest) -> Json:
    """`POST /v1/responses/compact`: the user's messages, and a compaction item for all the rest.

    Raises:
        BodydError: the request can't be read, or the model's server failed.
    """
    body = read_json(request.body)
    if not body.get("model"):
        raise InvalidRequest("model is missing", param="model")
    prepared = await gateway.prepared(request, body, take_pictures(body, gateway.recent))
    history = [kept.item for kept in (*prepared.before, *prepared.fed)]
    items = [pictures.by_reference(item) for item in pairs.answerable(history)]
    asked = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": PROMPT}]}
    sent = lowering.items([_blind(item) for item in items] + [asked], prepared.registry, native=frozenset())
    answer = await gateway.upstream.port.respond(
        {
            "model": gateway.upstream.model(body.get("model")),
            "input": sent,
            "store": False,
            "stream": False,
        }
    )
    summary = _text(answer)
    key = new_token()
    document = {"caller": request.caller.id, "summary": summary}
    said = [kept.item for kept in (*prepared.before, *prepared.fed) if kept.item.get("role") == "user"]
    shown = tuple(digest for one in said for digest in pictures.hashes(one))
    given = {digest: prepared.images[digest] for digest in shown if digest in prepared.images}
    await gateway.history.store.put([Document(COMPACTION, key, document, images=shown)], given)
    item = {"type": "compaction", "id": f"cmp_{new_token()}", "encrypted_content": COMPACTION_MARK + key}
    return {
        "id": f"resp_{new_token()}",
        "object": "response.compaction",
        "created_at": gateway.keeper.now(),
        "output": [*(_whole(one) for one in said), item],
        "usage": public.total([answer["usage"]] if answer.get("usage") else [])
        or public.total([{"input_tokens": 0, "output_tokens": 0}]),
    }


async def input_tokens(gateway: Gateway, request: HttpRequest) -> Json:
    """`POST /v1/responses/input_tokens`: an estimate, as only the model's server could count."""
    body = read_json(request.body)
    prepared = await gateway.prepared(request, body, take_pictures(body, gateway.recent))
    kept: list[Kept] = [*prepared.before, *prepared.fed]
    shown = sum(len(pictures.hashes(one.item)) for one in kept)
    text = json.dumps([one.item for one in kept], ensure_ascii=False)
    text += json.dumps(list(prepared.tools), ensure_ascii=False)
    text += str(prepared.body.get("instructions") or "")
    count = len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN + shown * TOKENS_PER_PICTURE
    return {"object": "response.input_tokens", "input_tokens": count}


def _whole(message: Json) -> Json:
    """A user's message with every field of an output item; its pictures by reference."""
    shown = pictures.by_reference(message)
    parts = [
        {"image_url": None, "detail": "auto", **part} if part["type"] == "input_image" else part
        for part in shown["content"]
    ]
    return {"status": "completed", **shown, "content": parts}


def _blind(item: Json) -> Json:
    """*item* without its pictures: a summary is of what was said and done."""
    if item["type"] == "computer_call_output":
        return {**item, "output": {"type": "computer_screenshot"}}
    if isinstance(item.get("content"), list):
        kept = [part for part in item["content"] if part["type"] not in ("input_image", "input_file")]
        return {**item, "content": kept}
    return item


def _text(answer: Json) -> str:
    texts = [
        part.get("text", "")
        for item in answer.get("output") or ()
        if item.get("type") == "message"
        for part in item.get("content") or ()
    ]
    summary = "\n".join(text for text in texts if text)
    if not summary:
        raise UpstreamFailed("the model's server gave no summary")
    return summary
