"""An ASGI wrapper that makes Hypercorn and Quart-Trio agree on when a request is over.

After each response Hypercorn queues `http.disconnect`; Quart-Trio answers that by cancelling the
task that is still inside Hypercorn's own bookkeeping, so that keep-alive timeouts never fire and
idle connections hold up a shutdown. A disconnect *after* the final body message is therefore kept
from the app. One before it is a client that went away, and is passed on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import trio

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

        async def receive_relevant() -> Message:
            message = await receive()
            if finished and message["type"] == "http.disconnect":
                await trio.sleep_forever()  # until the app, which is done, leaves
            return message

        async def send_noting_the_end(message: Message) -> None:
            nonlocal finished
            # Before the send: Hypercorn queues the disconnect while it is inside it.
            finished = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        await app(scope, receive_relevant, send_noting_the_end)

    return wrapped
