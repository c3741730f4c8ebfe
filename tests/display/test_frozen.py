"""A stopped server, and callers who give up: nothing blocks, and all works again afterwards."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable

import pytest
import trio

from bodyd.contract.atoms import MoveTo, Pause
from bodyd.contract.geometry import Bounds
from bodyd.display.display import Display
from bodyd.errors import DisplayUnavailable

from .conftest import AnyTime
from .world import XServer

CALLS: dict[str, Callable[[Display], Awaitable[object]]] = {
    "capture": lambda d: d.capture(),
    "pixels": lambda d: d.pixels(Bounds(x=0, y=0, width=9, height=9)),
    "windows": lambda d: d.windows(),
    "popups": lambda d: d.popups(),
    "pointer": lambda d: d.pointer(),
    "ping": lambda d: d.ping(),
    "settle": lambda d: d.settle(d.activity()),
    "release_all": lambda d: d.release_all(),
    "prove_quiescent": lambda d: d.prove_quiescent(),
    "normalise": lambda d: d.normalise(),
    "read_clipboard": lambda d: d.read_clipboard(),
    "write_clipboard": lambda d: d.write_clipboard("x"),
}


async def heartbeat(longest: list[float]) -> None:
    """How long the event loop was ever held up."""
    last = trio.current_time()
    while True:
        await trio.sleep(0.01)
        now = trio.current_time()
        longest[0] = max(longest[0], now - last)
        last = now


async def test_every_call_gives_up_on_a_stopped_server(
    server: XServer, display: Display, nursery: trio.Nursery
) -> None:
    """One of each connection, at once: each raises within its patience, Trio runs on, and all is well
    after a thaw."""
    names = ["capture", "windows", "settle", "release_all", "write_clipboard"]
    longest = [0.0]
    nursery.start_soon(heartbeat, longest)
    outcomes: dict[str, object] = {}

    async def attempt(name: str) -> None:
        try:
            outcomes[name] = await CALLS[name](display)
        except DisplayUnavailable as exc:
            outcomes[name] = exc

    with server.frozen(), trio.fail_after(60):
        async with trio.open_nursery() as calls:
            for name in names:
                calls.start_soon(attempt, name)
    assert {name: type(outcome) for name, outcome in outcomes.items()} == dict.fromkeys(
        names, DisplayUnavailable
    )
    assert longest[0] < 1.5
    with trio.fail_after(30):
        for name in CALLS:
            await CALLS[name](display)
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("name", CALLS)
async def test_callers_can_leave_at_once(server: XServer, display: Display, name: str) -> None:
    """A cancelled call ends long before the server's patience is over, and the next one works."""
    with server.frozen():
        start = trio.current_time()
        with trio.move_on_after(0.05) as scope:
            await CALLS[name](display)
        assert scope.cancelled_caught
        assert trio.current_time() - start < 1.5
    await CALLS[name](display)


async def test_a_send_into_a_stopped_server_is_uncertain(
    server: XServer, display: Display, permit: AnyTime
) -> None:
    """The atom in flight may or may not arrive once the server goes on: the report says so."""

    def stop(sent: int) -> None:
        if sent == 2:
            server.process.send_signal(signal.SIGSTOP)

    report = await display.send([MoveTo(1, 1), MoveTo(2, 2), MoveTo(3, 3), MoveTo(4, 4)], permit, stop)
    server.process.send_signal(signal.SIGCONT)
    assert (report.failure, report.sent, report.certain) == ("display_lost", 2, False)


async def test_a_server_stopped_before_the_last_look_is_uncertain(
    server: XServer, display: Display, permit: AnyTime
) -> None:
    """Every atom was acknowledged; whether anybody else had a hand in it was not to be learnt."""

    def stop(sent: int) -> None:
        if sent == 2:
            server.process.send_signal(signal.SIGSTOP)

    report = await display.send([MoveTo(1, 1), MoveTo(2, 2)], permit, stop)
    server.process.send_signal(signal.SIGCONT)
    assert (report.failure, report.sent, report.certain) == ("display_lost", 2, False)


async def test_a_send_to_a_stopped_server_was_not_sent(
    server: XServer, display: Display, permit: AnyTime
) -> None:
    """The first question is asked before the first atom: nothing was in flight."""
    with server.frozen():
        report = await display.send([MoveTo(2, 2), MoveTo(3, 3)], permit)
    assert (report.failure, report.sent, report.certain) == ("display_lost", 0, True)


async def test_a_send_to_a_dead_server_was_not_sent(
    server: XServer, display: Display, permit: AnyTime
) -> None:
    """No connection, no units, and no doubt about it."""
    server.process.kill()
    server.process.wait()
    report = await display.send([MoveTo(2, 2)], permit)
    assert report.failure == "display_lost"
    report = await display.send([MoveTo(2, 2)], permit)
    assert (report.failure, report.sent, report.certain) == ("display_lost", 0, True)
    with pytest.raises(DisplayUnavailable):
        await display.capture()


async def test_a_cancelled_send_stops_at_the_next_atom(
    server: XServer, display: Display, permit: AnyTime
) -> None:
    """The thread has ended when the caller goes on: nothing moves the pointer afterwards."""
    with trio.CancelScope() as scope:
        await display.send(
            [MoveTo(5, 5), Pause(30), MoveTo(9, 9)],
            permit,
            lambda sent: trio.from_thread.run_sync(scope.cancel),
        )
    assert scope.cancelled_caught
    assert await display.pointer() == await display.pointer()
    assert (await display.pointer()).x == 5


async def test_a_lost_server_is_a_new_geometry(server: XServer, display: Display) -> None:
    """After a freeze the connections are new, and older screenshots are void."""
    before = display.geometry
    with server.frozen(), pytest.raises(DisplayUnavailable):
        await display.settle(display.activity())
    await display.settle(display.activity())
    assert display.geometry > before
