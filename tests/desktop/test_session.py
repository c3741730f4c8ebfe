"""The daemon's side of the apps' sandbox, against an inside that lies."""

from __future__ import annotations

import json
import os
import socket
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import trio

from bodyd.desktop.session import NOT_STARTED, Session, SessionLost, receive_network


@pytest.fixture
async def pair():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs, trio.socket.from_stdlib_socket(ours) as control:
        await trio.lowlevel.checkpoint()
        yield control, theirs


@contextmanager
def closing_fd(fd):
    yield
    os.close(fd)


def session_on(control):
    return Session(SimpleNamespace(init_pid=os.getpid()), control)


def say(theirs, **event):
    theirs.send(json.dumps(event).encode())


async def test_a_program_runs_to_its_end(pair, nursery):
    """The order goes in, the pid and the status come out."""
    control, theirs = pair
    session = session_on(control)
    nursery.start_soon(session.serve)
    statuses = []

    async def run():
        statuses.append(await session.run("a", ["/usr/bin/true"], unlink=["/x"]))

    nursery.start_soon(run)
    await trio.testing.wait_all_tasks_blocked()
    assert json.loads(theirs.recv(4096)) == {
        "op": "start",
        "name": "a",
        "argv": ["/usr/bin/true"],
        "env": {},
        "unlink": ["/x"],
    }
    say(theirs, event="started", name="a", pid=7)
    await trio.testing.wait_all_tasks_blocked()
    assert dict(session.running) == {"a": 7}
    say(theirs, event="exited", name="a", pid=7, status=3)
    await trio.testing.wait_all_tasks_blocked()
    assert statuses == [3]
    assert dict(session.running) == {}
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "packet",
    [
        b"{",
        b"[]",
        b'"x"',
        b"{}",
        b'{"event": 1}',
        b"\xff\xfe",
        b'{"event": "exited", "name": "a", "status": "0"}',
        b'{"event": "exited", "name": "a"}',
    ],
)
async def test_a_malformed_message_ends_the_session(pair, nursery, packet):
    """What is not exactly a message is the end of that session, and of nothing else."""
    control, theirs = pair
    session = session_on(control)
    nursery.start_soon(session.serve)
    lost = []

    async def run():
        try:
            await session.run("a", ["/usr/bin/true"])
        except SessionLost as exc:
            lost.append(exc.code)

    nursery.start_soon(run)
    await trio.testing.wait_all_tasks_blocked()
    theirs.send(packet)
    await trio.testing.wait_all_tasks_blocked()
    assert lost == ["display_unavailable"]
    nursery.cancel_scope.cancel()


async def test_a_flood_of_events_is_bounded(pair, nursery):
    """Events that nobody asked for, and endless ones for a name that runs, take no memory and no harm."""
    control, theirs = pair
    session = session_on(control)
    nursery.start_soon(session.serve)
    nursery.start_soon(session.run, "a", ["/usr/bin/true"])
    await trio.testing.wait_all_tasks_blocked()
    for index in range(200):
        say(theirs, event="failed" if index % 2 else "strange", name=f"n{index}", error="x" * 1000)
        await trio.testing.wait_all_tasks_blocked()
    assert dict(session.running) == {}
    nursery.cancel_scope.cancel()


async def test_a_program_that_can_not_be_started_has_a_status(pair, nursery):
    """As a shell would say it: 127."""
    control, theirs = pair
    session = session_on(control)
    nursery.start_soon(session.serve)
    statuses = []

    async def run():
        statuses.append(await session.run("a", ["/nonexistent"]))

    nursery.start_soon(run)
    await trio.testing.wait_all_tasks_blocked()
    say(theirs, event="failed", name="a", error="No such file")
    await trio.testing.wait_all_tasks_blocked()
    assert statuses == [NOT_STARTED]
    nursery.cancel_scope.cancel()


async def test_only_a_listening_tcp_socket_is_taken(pair):
    """Anything else that comes over the socket is closed: a file, two, none, one that doesn't listen."""
    control, theirs = pair
    hello = [json.dumps({"event": "network"}).encode()]
    idle, first, second = (socket.socket() for _ in range(3))
    for listening in (first, second):
        listening.bind(("127.0.0.1", 0))
        listening.listen()
    null = os.memfd_create("null")
    with closing_fd(null), idle, first, second:
        before = len(os.listdir("/proc/self/fd"))
        for fds in ([], [idle.fileno()], [first.fileno(), second.fileno()], [null]):
            socket.send_fds(theirs, hello, fds)
            with pytest.raises((SessionLost, OSError)):
                await receive_network(control)
            assert len(os.listdir("/proc/self/fd")) == before
        socket.send_fds(theirs, hello, [first.fileno()])
        facts, taken = await receive_network(control)
        taken.close()
    assert facts == {"event": "network"}
