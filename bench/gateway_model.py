"""A model's server that costs next to nothing: it reads a request and answers with one message.

`python -m bench.gateway_model` prints its port. Streams if the body asks for it. Item ids are never used
twice: there are gateways that keep them as a primary key.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from itertools import count

import trio

PART = {"type": "output_text", "text": "done", "annotations": [], "logprobs": []}
ID = "msg_000000000"
ITEM = {"type": "message", "id": ID, "role": "assistant", "status": "completed", "content": [PART]}
WHOLE = {"id": "r", "object": "response", "status": "completed", "output": [ITEM], "usage": None}
PLACE = {"output_index": 0, "item_id": ID, "content_index": 0}
EVENTS = [
    {"type": "response.created", "response": {**WHOLE, "output": []}},
    {"type": "response.output_item.added", "output_index": 0, "item": {**ITEM, "content": []}},
    {"type": "response.content_part.added", **PLACE, "part": {**PART, "text": ""}},
    *({"type": "response.output_text.delta", **PLACE, "delta": "d"} for _ in range(20)),
    {"type": "response.output_text.done", **PLACE, "text": "done"},
    {"type": "response.content_part.done", **PLACE, "part": PART},
    {"type": "response.output_item.done", "output_index": 0, "item": ITEM},
    {"type": "response.completed", "response": WHOLE},
]
STREAM = b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in EVENTS) + b"data: [DONE]\n\n"
ANSWER = json.dumps(WHOLE).encode()


_numbers = count(1)


def reply(kind: bytes, body: bytes) -> bytes:
    body = body.replace(ID.encode(), b"msg_%09d" % next(_numbers))
    return b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n" % (kind, len(body)) + body


async def serve(stream: trio.SocketStream) -> None:
    buffer = bytearray()
    while chunk := await stream.receive_some(1 << 20):
        buffer += chunk
        head, found, rest = bytes(buffer[:8192]).partition(b"\r\n\r\n")
        if not found:
            continue
        length = int(
            next(x for x in head.lower().split(b"\r\n") if x.startswith(b"content-length")).split(b":")[1]
        )
        if len(buffer) < len(head) + 4 + length:
            continue
        streams = b'"stream":true' in bytes(buffer[-4096:]) or b'"stream":true' in rest[:4096]
        buffer.clear()
        await stream.send_all(
            reply(b"text/event-stream", STREAM) if streams else reply(b"application/json", ANSWER)
        )


async def main() -> None:
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        print(listeners[0].socket.getsockname()[1], flush=True)
        with trio.CancelScope() as scope:
            await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)
            scope.cancel()
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
