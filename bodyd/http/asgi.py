"""An ASGI wrapper that makes Hypercorn and Quart-Trio agree on when a request is over.

A route may answer before the body of its request has arrived, if it has no use for one. Hypercorn then
ends the connection without having said so, and the client's next request meets a closed door. The end
of such an answer waits for the end of a short body.

After each response Hypercorn queues `http.disconnect`; Quart-Trio answers that by cancelling the
task that is still inside Hypercorn's own bookkeeping, so that keep-alive timeouts never fire and
idle connections hold up a shutdown. A disconnect *after* the final body message is therefore kept
from the app. One before it is a client that went away, and is passed on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import trio

SHORT_BODY = 64 * 1024
"""Bytes: an unread body that is longer costs the connection."""

BODY_GRACE_SECONDS = 1.0

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]


def hide_late_disconnect(app: App) -> App:
    """*app*, never told of a disconnect that follows its own last word."""

    async def wrapped(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        finished = False
        whole = trio.Event()
        awaited = _is_short(scope)

        async def receive_relevant() -> Message:
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body", False):
                whole.set()
            if finished and message["type"] == "http.disconnect":
                await trio.sleep_forever()  # until the app, which is done, leaves
            return message

        async def send_noting_the_end(message: Message) -> None:
            nonlocal finished
            last = message["type"] == "http.response.body" and not message.get("more_body", False)
            if last and awaited:
                with trio.move_on_after(BODY_GRACE_SECONDS):
                    await whole.wait()
            # Before the send: Hypercorn queues the disconnect while it is inside it.
            finished = last
            await send(message)

        await app(scope, receive_relevant, send_noting_the_end)

    return wrapped


def _is_short(scope: MutableMapping[str, Any]) -> bool:
    """Whether the rest of the request's body can be expected soon. Not if its client waits to be asked."""
    headers = dict(scope["headers"])
    length = headers.get(b"content-length", b"0")
    return b"expect" not in headers and length.isdigit() and int(length) <= SHORT_BODY
