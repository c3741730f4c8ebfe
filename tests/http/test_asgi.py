"""The wrapper that hides a disconnect which follows the answer: http/asgi.py."""

from __future__ import annotations

import trio
from trio.testing import wait_all_tasks_blocked

from bodyd.http.asgi import hide_late_disconnect

START = {"type": "http.response.start", "status": 200, "headers": []}
MORE = {"type": "http.response.body", "body": b"x", "more_body": True}
END = {"type": "http.response.body", "body": b""}
GONE = {"type": "http.disconnect"}
LONG = [(b"content-length", b"100000")]  # not waited for by the end of the answer


class Server:
    """Feeds messages to an app and keeps what it sent, as Hypercorn would."""

    def __init__(self) -> None:
        self.feed, self.receive = trio.open_memory_channel[dict](10)
        self.sent: list[dict] = []

    async def send(self, message) -> None:
        self.sent.append(message)
        if message == END:
            await self.feed.send(GONE)  # what Hypercorn does, inside the app's last send


async def run(app, server: Server, kind: str = "http") -> None:
    await hide_late_disconnect(app)({"type": kind, "headers": LONG}, server.receive.receive, server.send)


async def test_a_disconnect_after_the_last_word_is_not_told():
    """The app that still listens hears nothing, and ends by itself."""
    server, heard = Server(), []

    async def app(scope, receive, send):
        async def listen():
            heard.append(await receive())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen)
            for message in (START, MORE, END):
                await send(message)
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    await run(app, server)
    assert heard == []
    assert server.sent == [START, MORE, END]


async def test_a_client_that_leaves_in_the_middle_is_told():
    """Before the answer, and between two parts of it."""
    for said in ([], [START], [START, MORE]):
        server, heard = Server(), []

        async def app(scope, receive, send, said=said, heard=heard):
            for message in said:
                await send(message)
            heard.append(await receive())

        await server.feed.send(GONE)
        await run(app, server)
        assert heard == [GONE]


async def test_other_messages_pass_after_the_answer():
    """A body that goes on after an early answer still arrives."""
    server, heard = Server(), []
    part = {"type": "http.request", "body": b"late", "more_body": True}

    async def app(scope, receive, send):
        await server.feed.send(part)
        await send(END)
        heard.append(await receive())

    await run(app, server)
    assert heard == [part]


async def test_a_lifespan_is_left_alone():
    """Only requests are wrapped."""
    server, heard = Server(), []

    async def app(scope, receive, send):
        heard.append((await receive(), scope["type"]))

    await server.feed.send(GONE)
    await run(app, server, kind="lifespan")
    assert heard == [(GONE, "lifespan")]
