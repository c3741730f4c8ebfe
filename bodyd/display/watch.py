"""The watch: damage and size changes, read from the server as they happen.

One damage object on the root, at level NonEmpty: an event says that there is something, Subtract
fetches and rearms. Events are drained *before* each Subtract; the other way round loses a wake-up
and freezes the watch. The first Subtract comes before any event, since a new damage object starts
non-empty and would never report. A still screen costs nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import trio
import xcffib.damage
import xcffib.xfixes
import xcffib.xproto

from bodyd.contract.geometry import Bounds, Size
from bodyd.contract.ports import XEndpoint
from bodyd.errors import DisplayUnavailable

from .connection import PATIENCE
from .damage import Activity, Mark, Settled
from .lane import Lane
from .xcb import XcbConnection

LULL = 0.05
"""Seconds between two looks while nobody waits for the screen: a video costs 20 looks a second."""

_PULSE = 0.005  # the same while somebody does
_RETRY = 0.5
_ROUNDS = 8


class DamageConnection(XcbConnection):
    """A connection that collects damage. All methods block; lane.py runs them."""

    def ready(self) -> None:
        self.size = Size(width=self.screen.width_in_pixels, height=self.screen.height_in_pixels)
        self._damage = self.xcb(xcffib.damage.key)
        self._fixes = self.xcb(xcffib.xfixes.key)
        self._damage.QueryVersion(1, 1).reply()
        self._fixes.QueryVersion(5, 0).reply()
        mask = xcffib.xproto.EventMask.StructureNotify
        self.core.ChangeWindowAttributes(self.screen.root, xcffib.xproto.CW.EventMask, [mask])
        self._id, self._region = self.xcb.generate_id(), self.xcb.generate_id()
        self._fixes.CreateRegion(self._region, 0, [])
        self._damage.Create(self._id, self.screen.root, xcffib.damage.ReportLevel.NonEmpty)
        geometry = self.core.GetGeometry(self.screen.root).reply()
        self.size = Size(width=geometry.width, height=geometry.height)
        self.damaged = True
        self.collect()

    def collect(self) -> list[Bounds]:
        """Everything that has changed since the last time, as of a round trip now."""
        changed: list[Bounds] = []
        self._read_events()
        for _ in range(_ROUNDS):
            self.damaged = False
            self._damage.Subtract(self._id, 0, self._region)
            region = self._fixes.FetchRegion(self._region).reply()
            changed += (
                Bounds(x=r.x, y=r.y, width=r.width, height=r.height) for r in region.rectangles if r.width
            )
            self._read_events()
            if not self.damaged:
                break
        return changed

    def _read_events(self) -> None:
        resized = False
        for event in self.events():
            self._take_in(event)
            resized |= isinstance(event, xcffib.xproto.ConfigureNotifyEvent)
        if resized:  # any app can send such an event, with any size in it
            geometry = self.core.GetGeometry(self.screen.root).reply()
            self.size = Size(width=geometry.width, height=geometry.height)

    def _take_in(self, event: object) -> None:
        self.damaged |= isinstance(event, xcffib.damage.NotifyEvent)


class Watch:
    """Feeds the activity record; lets callers wait for the screen to settle."""

    def __init__(self, endpoint: XEndpoint, on_size: Callable[[Size, bool], None]) -> None:
        """
        Args:
            on_size: Told the size after each look, and whether the connection is a new one.
        """
        self._lane: Lane[DamageConnection] = Lane(endpoint, DamageConnection, patience=PATIENCE)
        self._on_size = on_size
        self._generation = 0
        self._activity = Activity()
        self._changed = trio.Event()
        self._urgent = trio.Event()
        self._waiting = 0
        self._more = False  # damage whose event is read already: no descriptor will tell of it
        self._idle = trio.CancelScope()

    async def run(self) -> None:
        """Watch until cancelled, over new connections where old ones are lost."""
        while True:
            try:
                await self._watch()
            except DisplayUnavailable:
                await trio.sleep(_RETRY)  # nothing can say when a dead server is back

    async def aclose(self) -> None:
        await self._lane.aclose()

    def mark(self) -> Mark:
        return self._activity.mark(trio.current_time())

    async def look(self) -> None:
        """Take in everything that has changed up to now.

        Raises:
            DisplayUnavailable: the server doesn't answer.
        """
        changed, size, self._more = await self._lane.run(lambda c: (c.collect(), c.size, c.damaged))
        if self._more:
            self._idle.cancel(reason="more damage")
        self._on_size(size, self._lane.generation != self._generation)
        self._generation = self._lane.generation
        if changed:
            self._activity.note(trio.current_time(), changed)
            self._changed.set()
            self._changed = trio.Event()

    async def drawn(self, mark: Mark, since: float) -> None:
        """Wait until something that matters to *mark* has changed after *since*.

        Raises:
            DisplayUnavailable: the server doesn't answer.
        """
        self._waiting += 1
        self._urgent.set()
        try:
            while True:
                changed = self._changed
                await self.look()
                if mark.last is not None and mark.last > since:
                    return
                await changed.wait()
        finally:
            self._waiting -= 1

    async def still(self, seconds: float, since: float) -> None:
        """Wait until no app has drawn for *seconds*, or for as long as one has been at work *since*.

        Carets don't count. The second condition measures how slow the apps are just now.

        Raises:
            DisplayUnavailable: the server doesn't answer.
        """
        while True:
            await self.look()
            at_work = self._activity.at_work
            left = at_work + max(seconds, at_work - since) - trio.current_time()
            if left <= 0:
                return
            await trio.sleep(left)

    async def settle(self, mark: Mark, *, quiet: float, cap: float) -> Settled:
        """Wait until nothing that matters to *mark* has changed for *quiet* seconds, at most *cap*.

        A first change is waited for longer where apps have lately been slower than that.

        Raises:
            DisplayUnavailable: the server doesn't answer.
        """
        start = trio.current_time()
        patience = max(quiet, self._activity.await_reaction(mark, start))
        self._waiting += 1
        self._urgent.set()
        try:
            while True:
                await self.look()
                now = trio.current_time()
                changed_at = mark.last or start
                due = changed_at + quiet if changed_at > start else start + patience
                if now >= due:
                    return self._activity.settle(mark, quiet=True)
                if now >= start + cap:
                    return self._activity.settle(mark, quiet=False)
                changed = self._changed
                with trio.move_on_at(min(due, start + cap)):
                    await changed.wait()
        finally:
            self._waiting -= 1

    async def _watch(self) -> None:
        await self.look()
        watched = await self._lane.run(lambda c: os.dup(c.wire.fileno()))
        try:
            while True:
                with trio.CancelScope() as self._idle:
                    if not self._more:
                        await trio.lowlevel.wait_readable(watched)
                await self.look()
                await self._rest()
        finally:
            os.close(watched)

    async def _rest(self) -> None:
        if self._waiting:
            await trio.sleep(_PULSE)
            return
        self._urgent = trio.Event()
        with trio.move_on_after(LULL):
            await self._urgent.wait()
