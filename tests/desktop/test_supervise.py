"""Supervision: how soon again, and what is counted."""

from __future__ import annotations

import trio

from bodyd.desktop.supervise import DELAYS, HEALTHY_S, Backoff, Component
from bodyd.desktop.xauth import authority


def test_the_delay_grows_to_its_bound_and_is_forgiven():
    """Short lives wait ever longer, never over the bound; a long one starts afresh."""
    backoff = Backoff()
    assert [backoff.after(0.1) for _ in range(7)] == [*DELAYS, DELAYS[-1], DELAYS[-1]]
    assert backoff.after(HEALTHY_S) == DELAYS[0]


async def test_a_component_is_started_again_and_again(autojump_clock, nursery):
    """Each end is counted; a program that fails at once is not started in a loop."""
    starts = []

    async def run():
        starts.append(trio.current_time())
        await trio.lowlevel.checkpoint()
        return 1

    component = Component("browser")
    with trio.move_on_after(20):
        await component.supervise(run)
    assert component.restarts == len(starts)
    assert component.state == "restarting"
    assert component.to_json()["detail"] == "ended with status 1"
    assert 5 <= len(starts) <= 10


def test_the_authority_file_names_a_host_and_any():
    """Two records: the sandbox's own name (python-xlib wants it) and the wildcard."""
    cookie = bytes(range(16))
    tail = b"\0\x010\0\x12MIT-MAGIC-COOKIE-1\0\x10" + cookie
    assert authority(cookie, hostname="body") == b"\x01\0\0\x04body" + tail + b"\xff\xff\0\0" + tail
