"""The lease's story in the audit: in order, nothing lost to a disk that refuses for a while."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import trio

from bodyd.contract.events import Event
from bodyd.driver import chronicle
from bodyd.driver.chronicle import Chronicle
from bodyd.errors import JournalUnavailable


class Disk:
    """Keeps rows; refuses while it is full."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, dict[str, Any]]] = []
        self.full = False

    async def audit(self, kind: str, data: Mapping[str, Any]) -> int:
        await trio.lowlevel.checkpoint()
        if self.full:
            raise JournalUnavailable("the disk is full")
        self.rows.append((kind, dict(data)))
        return len(self.rows)


def told(kind: str, **data: object) -> Event:
    return Event(type=kind, at=7, data=data)


async def test_what_becomes_of_the_lease_is_written_in_order(autojump_clock):
    """With who and why; what is no lease's is left to others."""
    disk = Disk()
    story = Chronicle(disk)
    async with trio.open_nursery() as nursery:
        await nursery.start(story.run)
        for event in (told("lease.granted", epoch=3), told("action.completed"), told("body.stopped", by="o")):
            story.note(event)
        await trio.sleep(0.1)
        assert disk.rows == [
            ("lease.granted", {"told_at": 7, "epoch": 3}),
            ("body.stopped", {"told_at": 7, "by": "o"}),
        ]
        nursery.cancel_scope.cancel(reason="done")


async def test_a_full_disk_delays_and_loses_nothing(autojump_clock):
    """Tried again; and at the end, once more."""
    disk = Disk()
    disk.full = True
    story = Chronicle(disk)
    async with trio.open_nursery() as nursery:
        await nursery.start(story.run)
        story.note(told("lease.granted"))
        await trio.sleep(5)
        disk.full = False
        await trio.sleep(2)
        assert [kind for kind, _ in disk.rows] == ["lease.granted"]
        story.note(told("lease.released"))
        nursery.cancel_scope.cancel(reason="the daemon ends")
    assert [kind for kind, _ in disk.rows] == ["lease.granted", "lease.released"]


async def test_what_is_too_much_is_counted(autojump_clock, monkeypatch: pytest.MonkeyPatch):
    """A row says how many are missing."""
    monkeypatch.setattr(chronicle, "MOST_WAITING", 2)
    disk = Disk()
    story = Chronicle(disk)
    for _ in range(5):
        story.note(told("lease.paused"))
    async with trio.open_nursery() as nursery:
        await nursery.start(story.run)
        await trio.sleep(0.1)
        nursery.cancel_scope.cancel(reason="done")
    assert disk.rows[2] == ("lease.rows_missed", {"count": 3})
