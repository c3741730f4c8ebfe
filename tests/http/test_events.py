"""`GET /v1/events`: a source in memory, the real server, the real client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from bodyd import errors
from bodyd.client import BodyClient
from bodyd.contract.events import Event
from bodyd.contract.lease import Scope
from bodyd.http.app import create_app
from bodyd.http.listener import Limits, listen
from bodyd.http.routes_events import EventStream, frame
from bodyd.http.services import Services

from .fake_body import FakeBody
from .wire import SOON, head


class Source:
    """Publishes to whoever listens."""

    def __init__(self) -> None:
        self.channels: set[trio.MemorySendChannel[Event]] = set()
        self.heard = trio.Event()
        self.left = trio.Event()

    @asynccontextmanager
    async def subscribe(self, *, owner: bool = False) -> AsyncIterator[trio.MemoryReceiveChannel[Event]]:
        send, receive = trio.open_memory_channel[Event](16)
        self.channels.add(send)
        self.heard.set()
        try:
            yield receive
        finally:
            self.channels.discard(send)
            self.left.set()

    def publish(self, event: Event) -> None:
        for channel in self.channels:
            channel.send_nowait(event)

    def end(self) -> None:
        for channel in self.channels:
            channel.close()


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def services(body: FakeBody, services: Services, source: Source) -> Services:
    return Services(body=body, tokens=services.tokens, events=source)


def test_a_frame_is_one_line_of_data():
    """Newlines in what a page chose can't begin a frame of their own."""
    event = Event(type="window.opened", at=1, data={"title": "a\n\nevent: forged\ndata: {}"})
    lines = frame(event).decode().split("\n")
    assert lines[0] == "event: window.opened"
    assert lines[1].startswith("data: {")
    assert lines[2:] == ["", ""]


async def test_events_arrive_in_order(client: BodyClient, source: Source):
    """What is published comes back as it was, until the source ends."""
    sent = [Event(type="lease.granted", at=n, data={"epoch": n}) for n in range(3)]
    with trio.fail_after(SOON):
        async with client.events() as events:
            await source.heard.wait()
            for event in sent:
                source.publish(event)
            source.end()
            assert [event async for event in events] == sent


async def test_a_listener_that_leaves_is_forgotten(client: BodyClient, source: Source):
    """Its subscription ends with its connection."""
    with trio.fail_after(SOON):
        async with client.events():
            await source.heard.wait()
        await source.left.wait()
        assert not source.channels


async def test_an_open_stream_does_not_hold_up_a_shutdown(services: Services, tmp_path: Path, bearer):
    """It ends, whole, as soon as the server starts to drain."""
    with trio.fail_after(SOON):
        async with listen(
            create_app(services), unix_path=tmp_path / "a.sock", limits=Limits(drain=60)
        ) as bound:
            wire = await trio.open_unix_socket(tmp_path / "a.sock")
            await wire.send_all(head("GET", "/v1/events", **bearer(Scope.VIEWER)))
            assert b"text/event-stream" in await wire.receive_some(65536)
        rest = b""
        while chunk := await wire.receive_some(65536):
            rest += chunk
        assert rest.endswith(b"0\r\n\r\n")
        await wire.aclose()
        assert bound.unix_path is not None


async def test_quiet_is_filled_with_comments(source: Source, autojump_clock):
    """A proxy that ends silent connections sees a line now and then."""
    frames = EventStream(source, set())
    assert await anext(frames) == b": bodyd\n\n"
    assert (await anext(frames)).startswith(b":")
    await frames.aclose()


async def test_refusals_of_a_stream_are_typed(client: BodyClient, services: Services, bound):
    """An error in place of a stream is raised as itself."""
    async with BodyClient(socket_path=bound.unix_path, token="bodyd_owner_wrong") as stranger:
        with pytest.raises(errors.Unauthorized):
            async with stranger.events():
                pytest.fail("a stranger listens")
