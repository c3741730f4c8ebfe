"""The lens: one connection that sees what changes, grabs it, and follows the pointer; for the live stream.

Damage, pixels and cursor over the same connection, so that a change costs one hop to one thread. The
stream opens it while someone watches and closes it afterwards. Counterpart: stream/painter.py.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass

import numpy as np
import xcffib.damage
import xcffib.xfixes
import xcffib.xinput
import xcffib.xproto
from numpy.typing import NDArray

from bodyd.contract.geometry import Point
from bodyd.contract.ports import XEndpoint

from .capture import Camera
from .connection import PATIENCE
from .lane import Lane
from .watch import DamageConnection

_ALL_MASTERS = 1  # XIAllMasterDevices: raw events of its pointer, once each
_RAW_MOTION = 17  # XI_RawMotion
_GENERIC = 35  # GenericEvent: of those, raw motion alone is asked for
_MOTION = object()


@dataclass(frozen=True, slots=True)
class CursorImage:
    """The pointer's picture: height x width of 0xAARRGGBB, premultiplied; its hot spot."""

    pixels: NDArray[np.uint32]
    hot_x: int
    hot_y: int


class Lens(DamageConnection, Camera):
    """Damage, pixels and pointer over one connection. All methods block; lane.py runs them.

    Attributes:
        moved: The pointer may have moved since `pointer` was asked.
        restyled: The cursor has another picture since `cursor` was asked.
    """

    def ready(self) -> None:
        self.moved = self.restyled = True
        Camera.ready(self)
        self._follow_pointer()
        DamageConnection.ready(self)

    def descriptor(self) -> int:
        """A duplicate of the wire's: readable when something has happened."""
        return os.dup(self.wire.fileno())

    def pointer(self) -> Point:
        """Where the pointer is."""
        self.moved = False
        seen = self.core.QueryPointer(self.screen.root).reply()
        return Point(x=seen.root_x, y=seen.root_y)

    def cursor(self) -> CursorImage:
        """What the pointer looks like."""
        self.restyled = False
        image = self._fixes.GetCursorImage().reply()
        pixels = np.array(image.cursor_image.list, np.uint32).reshape(image.height, image.width)
        return CursorImage(pixels, image.xhot, image.yhot)

    @property
    def pending(self) -> bool:
        """Something has been read that no descriptor will tell of again."""
        self._read_events()
        return self.damaged or self.moved or self.restyled

    def _follow_pointer(self) -> None:
        self._fixes.SelectCursorInput(self.screen.root, xcffib.xfixes.CursorNotifyMask.DisplayCursor)
        inputs = self.xcb(xcffib.xinput.key)
        inputs.XIQueryVersion(2, 0).reply()
        mask = struct.pack("=HHI", _ALL_MASTERS, 1, 1 << _RAW_MOTION)
        inputs.XISelectEvents(self.screen.root, 1, [mask])
        hoist = self.xcb.hoist_event
        # xcffib counts a raw event's valuators wrongly, and would read past its end
        self.xcb.hoist_event = lambda e: _MOTION if e.response_type & 0x7F == _GENERIC else hoist(e)

    def _take_in(self, event: object) -> None:
        super()._take_in(event)
        self.restyled |= isinstance(event, xcffib.xfixes.CursorNotifyEvent)
        self.moved |= event is _MOTION


def open_lens(endpoint: XEndpoint) -> Lane[Lens]:
    """A lane with a lens on it; it connects at the first use."""
    return Lane(endpoint, Lens, patience=PATIENCE)
