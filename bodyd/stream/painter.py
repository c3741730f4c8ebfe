"""The painter: the screen as it was last seen, what has changed of it, and messages that paint it.

Runs in the lens's thread, a step at a time, so that a change costs one hop. A step looks once and then
encodes once for each group of watchers that miss the same: those who keep up are all in one. The
counterpart that knows watchers is hub.py.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from bodyd.contract.geometry import Bounds, Point, Size
from bodyd.display.lens import CursorImage, Lens

from . import tiles
from .h264 import Encoder, OpenEncoder
from .motion import Motion
from .protocol import EXACT, KEY, Codec, Part
from .regions import Rect, Rects, add, area, inside, split, without
from .tiles import Pixels

STILL_SECONDS = 0.2
"""After so long without a change, what was sent roughly is sent exactly."""

REPAINT_PIXELS = 160_000
"""What one step repaints at the most: new changes must not wait behind more."""

TILE_PIXELS = 262_144
POINTER_SECONDS = 0.2
"""How old the pointer's place may be while things change: an app may move it without an event."""

KEY_SECONDS = 1.0
"""Between two frames that decoders can start at, for those who have dropped out."""


@dataclass(frozen=True, slots=True)
class Group:
    """What some watchers miss, alike.

    Attributes:
        missing: What they have not been sent.
        rough: What they have been sent, but not exactly.
        video: They decode H.264.
        chained: They have had every frame of the video that runs; False: they need one to start at.
        thin: Their link is slow.
    """

    missing: Rects
    rough: Rects
    video: bool
    chained: bool
    thin: bool = False


@dataclass(frozen=True, slots=True)
class Painted:
    """What a group is to be sent, and what it misses afterwards."""

    parts: tuple[Part, ...]
    missing: Rects
    rough: Rects
    chained: bool


@dataclass(frozen=True, slots=True)
class Step:
    """What a step saw and made.

    Attributes:
        changed: What has changed; groups' `missing` counts it in.
        size: Of the screen; `resized`: it is another than at the last step, and everything is missing.
        video: A frame of the video was made: who has not been sent it is no longer chained.
        rough: Somebody has been sent something that is not exact.
        pending: There is more to look at already.
    """

    changed: Rects
    size: Size
    resized: bool
    pointer: Point | None
    cursor: CursorImage | None
    painted: tuple[Painted, ...]
    video: bool
    rough: bool
    pending: bool


@dataclass(slots=True)
class _Video:
    """The part of the screen that is sent as video."""

    region: Rect
    encoder: Encoder
    key_at: float = float("-inf")
    frame: tuple[bytes, bool] | None = field(default=None)


class Painter:
    """One screen, as one lens sees it."""

    def __init__(self, open_encoder: OpenEncoder | None = None) -> None:
        self.open_encoder = open_encoder
        self._screen: Pixels = np.zeros((1, 1), np.uint32)
        self._size = Size(width=1, height=1)
        self._seen = False
        self._changed_at = np.zeros((1, 1))
        self._pointed_at = float("-inf")
        self._motion = Motion()
        self._video: _Video | None = None

    def step(self, lens: Lens, groups: Sequence[Group]) -> Step:
        """Look, and paint for each of *groups*.

        Raises:
            What a lost connection raises.
        """
        changed, resized = self._look(lens)
        now = time.monotonic()
        if changed:
            self._note(changed, now)
        self._choose_video(groups, now)
        painted = self._paint(groups, changed, resized, now)
        rough = any(p.rough for p in painted)
        made = self._video is not None and self._video.frame is not None
        if self._video is not None:
            self._video.frame = None
        warped = changed and now - self._pointed_at > POINTER_SECONDS  # of that, no event tells
        pointer = lens.pointer() if lens.moved or warped else None
        if pointer is not None:
            self._pointed_at = now
        cursor = lens.cursor() if lens.restyled else None
        return Step(
            changed,
            self._size,
            resized,
            pointer,
            cursor,
            painted,
            made,
            rough,
            lens.pending,
        )

    # -- looking ---------------------------------------------------------------------------------

    def _look(self, lens: Lens) -> tuple[Rects, bool]:
        damage = lens.collect()
        if not self._seen or lens.size != self._size:
            return self._look_anew(lens), True
        screen = Rect(0, 0, self._size.width, self._size.height)
        spots = inside((Rect(d.x, d.y, d.right, d.bottom) for d in damage), screen)
        if not spots:
            return (), False
        box = spots[0]
        for spot in spots[1:]:
            box = box.join(spot)
        pixels, bounds = lens.grab(Bounds(x=box.left, y=box.top, width=box.width, height=box.height))
        if (bounds.width, bounds.height) != (box.width, box.height):  # resized in between
            return self._look_anew(lens), True
        fresh = pixels.view(np.uint32).reshape(box.height, box.width)
        changed: Rects = ()
        for spot in add((), spots):
            there = self._screen[spot.top : spot.bottom, spot.left : spot.right]
            here = fresh[
                spot.top - box.top : spot.bottom - box.top, spot.left - box.left : spot.right - box.left
            ]
            changed = add(changed, tiles.differing(there, here, spot.left, spot.top))
        self._screen[box.top : box.bottom, box.left : box.right] = fresh
        return changed, False

    def _look_anew(self, lens: Lens) -> Rects:
        pixels, bounds = lens.grab(None)
        self._seen = True
        self._size = lens.size = Size(width=bounds.width, height=bounds.height)
        self._screen = pixels.view(np.uint32).reshape(bounds.height, bounds.width).copy()
        cells = (-(-bounds.height // tiles.CELL), -(-bounds.width // tiles.CELL))
        self._changed_at = np.full(cells, float("-inf"))
        self._motion = Motion()
        self._stop_video()
        return (Rect(0, 0, bounds.width, bounds.height),)

    def _note(self, changed: Rects, now: float) -> None:
        for rect in changed:
            self._cells(rect)[...] = now
        self._motion.note(now, changed, self._changed_at.shape)

    def _cells(self, rect: Rect) -> np.ndarray:
        return self._changed_at[
            rect.top // tiles.CELL : -(-rect.bottom // tiles.CELL),
            rect.left // tiles.CELL : -(-rect.right // tiles.CELL),
        ]

    # -- painting --------------------------------------------------------------------------------

    def _paint(
        self, groups: Sequence[Group], changed: Rects, resized: bool, now: float
    ) -> tuple[Painted, ...]:
        made: dict[tuple[Rect, bool], Part] = {}
        screen = Rect(0, 0, self._size.width, self._size.height)
        missing = {g: changed if resized else inside(add(g.missing, changed), screen) for g in groups}
        if self._video is not None:
            region = self._video.region
            waiting = [g for g in groups if g.video and inside(missing[g], region)]
            key = any(not g.chained for g in waiting) and now - self._video.key_at >= KEY_SECONDS
            if key or any(g.chained for g in waiting):
                self._shoot(key, now)
        painted = tuple(
            self._paint_group(g, missing[g], () if resized else g.rough, made, now) for g in groups
        )
        self._motion.cost(now, sum(len(part.data) for part in made.values()))
        return painted

    def _paint_group(
        self, group: Group, missing: Rects, rough: Rects, made: dict[tuple[Rect, bool], Part], now: float
    ) -> Painted:
        parts: list[Part] = []
        left: Rects = ()
        chained = group.chained
        if group.video and self._video is not None:
            region, shot = self._video.region, self._video.frame
            moving, missing = inside(missing, region), without(missing, region)
            if moving:
                if shot is not None and (group.chained or shot[1]):
                    place = (region.left, region.top, region.width, region.height)
                    parts.append(Part(Codec.H264, *place, shot[0], KEY if shot[1] else 0))
                    rough, chained = add(rough, (region,)), True
                else:
                    left, chained = moving, False
        for rect in missing:
            for tile in split(rect, TILE_PIXELS):
                part = self._tile(tile, False, made)
                parts.append(part)
                rough = add(rough, (tile,)) if part.codec is Codec.JPEG else without(rough, tile)
        if not parts:
            rough = self._repaint(rough, parts, made, now, group.video)
        return Painted(tuple(parts), left, rough, chained)

    def _repaint(
        self, rough: Rects, parts: list[Part], made: dict[tuple[Rect, bool], Part], now: float, video: bool
    ) -> Rects:
        """Send exactly, a little at a time, what is still; returns what stays rough."""
        candidates = rough
        if video and self._video is not None:  # the next frame would spoil it
            candidates = without(rough, self._video.region)
        for rect in candidates:
            for tile in split(rect, REPAINT_PIXELS):
                if area(parts_of(parts)) + tile.area > REPAINT_PIXELS + tile.width * 8:
                    return rough
                if self._cells(tile).max() <= now - STILL_SECONDS:
                    parts.append(self._tile(tile, True, made))
                    rough = without(rough, tile)
        return rough

    def _tile(self, rect: Rect, exact: bool, made: dict[tuple[Rect, bool], Part]) -> Part:
        part = made.get((rect, exact))
        if part is None:
            part = made[rect, exact] = tiles.encode(self._screen, rect, exact=exact)
        return part

    # -- video -----------------------------------------------------------------------------------

    def _choose_video(self, groups: Sequence[Group], now: float) -> None:
        """Send as video what keeps moving and is dear as tiles; stop when it rests."""
        if self._video is not None and self._motion.rests(now, self._video.region):
            self._stop_video()
        if self.open_encoder is None or not any(g.video for g in groups):
            return
        thin = any(g.thin for g in groups)
        hot = self._motion.hot(now, thin=thin)
        if hot is None:
            return
        screen = Rect(0, 0, self._size.width & ~1, self._size.height & ~1)
        if self._video is not None:
            if self._video.region.holds(hot):
                return
            hot = hot.join(self._video.region)
        region = hot.meets(screen)
        if region is None:
            return
        self._stop_video()
        self._video = _Video(region, self.open_encoder(region.width, region.height, thin))
        self._motion.forget_cost()

    def _shoot(self, key: bool, now: float) -> None:
        assert self._video is not None
        region = self._video.region
        pixels = self._screen[region.top : region.bottom, region.left : region.right]
        data, is_key = self._video.encoder.encode(pixels, key=key)
        if is_key:
            self._video.key_at = now
        self._video.frame = (data, is_key)

    def _stop_video(self) -> None:
        if self._video is not None:
            self._video.encoder.close()
            self._video = None


def parts_of(parts: Sequence[Part]) -> Rects:
    """Where they are."""
    return tuple(Rect(p.x, p.y, p.x + p.width, p.y + p.height) for p in parts)


def flags(painted: Painted) -> int:
    """Of the frame that carries it."""
    return 0 if painted.missing or painted.rough else EXACT
