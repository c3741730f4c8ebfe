"""Capture: frames by MIT-SHM into memory of ours, through xcffib.

One request a frame, so none is torn. The memory is a sealed memfd that is passed to the server as a
descriptor: it crosses IPC namespaces, and nobody can truncate it under us. xcffib has no call that
passes descriptors: libxcb's xcb_send_fd is reached through ctypes, on the same connection.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import mmap
import os
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np
import xcffib
import xcffib.shm
import xcffib.xfixes
import xcffib.xproto
from PIL import Image

from bodyd.contract.geometry import Bounds, Size
from bodyd.errors import DisplayUnavailable, OutOfBounds

from . import cursor as pointer
from .connection import XObject
from .png import BandedPng, Bytes, rgb
from .xcb import XcbConnection

_ZPIXMAP = 2
_ALL_PLANES = 0xFFFFFFFF
_KEPT_ENCODERS = 3
_BLANK_PNG = 16_384
"""Bytes: a full screen of one colour is far smaller; only such pictures are looked at again."""

_send_fd = ctypes.CDLL(xcffib.soname).xcb_send_fd
_send_fd.argtypes = (ctypes.c_void_p, ctypes.c_int)
_send_fd.restype = None


@dataclass(frozen=True, slots=True)
class Capture:
    """One picture of the screen.

    Attributes:
        png: RGB, 8 bits.
        sha256: Of `png`, in hex.
        bounds: What part of the screen it shows.
        size: Of the picture, after scaling.
        blank: Every pixel has one colour.
    """

    png: bytes
    sha256: str
    bounds: Bounds
    size: Size
    blank: bool


class Camera(XcbConnection):
    """A connection that captures. All methods block; lane.py runs them."""

    def ready(self) -> None:
        """Check what the recipe needs.

        Raises:
            DisplayUnavailable: no MIT-SHM 1.2, or pixels that are not 32 bits, blue first.
        """
        self._shm = self.xcb(xcffib.shm.key)
        self._fixes = self.xcb(xcffib.xfixes.key)
        version = self._shm.QueryVersion().reply()
        if (version.major_version, version.minor_version) < (1, 2):
            raise DisplayUnavailable("the X server's MIT-SHM can't take descriptors (1.2 is needed)")
        self._fixes.QueryVersion(5, 0).reply()
        depth = next(
            (f for f in self.xcb.setup.pixmap_formats if f.depth == self.screen.root_depth),
            None,
        )
        if depth is None or depth.bits_per_pixel != 32 or self.xcb.setup.image_byte_order != 0:
            raise DisplayUnavailable("the X server's pixels are not 32 bits, little-endian")
        self._size = self.screen_size()
        self._memory = _Memory(self, self._size.width * self._size.height * 4)

    def close(self) -> None:
        super().close()
        if hasattr(self, "_memory"):
            self._memory.close()

    def grab(self, wanted: Bounds | None, *, cursor: bool = False) -> tuple[Bytes, Bounds]:
        """The pixels of *wanted* (default: all), clipped to the screen; valid until the next grab.

        Raises:
            OutOfBounds: *wanted* is wholly off-screen.
        """
        for _ in range(3):  # the screen may have been resized since the last grab
            whole = Bounds(x=0, y=0, width=self._size.width, height=self._size.height)
            bounds = whole if wanted is None else wanted.intersection(whole)
            pixels = self._grab(bounds)
            if pixels is None:
                continue
            if bounds is None:
                raise OutOfBounds("the region is wholly outside the screen")
            if cursor:
                self._draw_cursor(pixels, bounds)
            return pixels, bounds
        raise DisplayUnavailable("the screen is being resized over and over")

    def screen_size(self) -> Size:
        return _size(self.core.GetGeometry(self.screen.root).reply())

    def _grab(self, bounds: Bounds | None) -> Bytes | None:
        """The pixels of *bounds*; None if the screen turned out to be of another size than believed.

        Both questions travel together: the size costs no round trip of its own.
        """
        count = bounds.width * bounds.height * 4 if bounds else 0
        if count > self._memory.size:
            self.detach(self._memory.segment)
            self._memory.close()
            self._memory = _Memory(self, count)
        asked = self.core.GetGeometry(self.screen.root)
        picture = self._ask_for(bounds) if bounds else None
        believed, self._size = self._size, _size(asked.reply())
        try:
            if picture is not None:
                picture.reply()
        except xcffib.xproto.MatchError:
            return None
        return self._memory.pixels[:count] if self._size == believed else None

    def _ask_for(self, bounds: Bounds) -> XObject:
        return self._shm.GetImage(
            self.screen.root,
            bounds.x,
            bounds.y,
            bounds.width,
            bounds.height,
            _ALL_PLANES,
            _ZPIXMAP,
            self._memory.segment,
            0,
        )

    def attach(self, fd: int) -> int:
        """Give the server the memory behind *fd*; returns the segment's id.

        xcb_send_fd queues the descriptor for the next request and closes it: the request follows at
        once, on this thread.
        """
        segment = int(self.xcb.generate_id())
        _send_fd(self.xcb.address, os.dup(fd))
        self._shm.AttachFdChecked(segment, False).check()
        return segment

    def detach(self, segment: int) -> None:
        self._shm.Detach(segment)

    def _draw_cursor(self, pixels: Bytes, bounds: Bounds) -> None:
        image = self._fixes.GetCursorImage().reply()
        pointer.draw(
            pixels.reshape(bounds.height, bounds.width, 4),
            np.array(image.cursor_image.list, np.uint32).reshape(image.height, image.width),
            left=image.x - image.xhot - bounds.x,
            top=image.y - image.yhot - bounds.y,
        )


def _size(geometry: XObject) -> Size:
    return Size(width=geometry.width, height=geometry.height)


class _Memory:
    """A sealed memfd, mapped here and attached there."""

    def __init__(self, camera: Camera, size: int) -> None:
        self.size = size
        fd = os.memfd_create("frame", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(fd, size)
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
            self._map = mmap.mmap(fd, size)
            self.pixels = np.frombuffer(self._map, np.uint8)
            self.segment = camera.attach(fd)
        finally:
            os.close(fd)

    def close(self) -> None:
        """Unmap, at the latest when the last view of it is gone; the server's mapping is its own."""
        self.pixels = np.empty(0, np.uint8)
        with contextlib.suppress(BufferError):
            self._map.close()


class Album:
    """Grabs and encodes, keeping the encoders (and so the bands) of the sizes last asked for."""

    def __init__(self) -> None:
        self._encoders: OrderedDict[tuple[Bounds, Size], BandedPng] = OrderedDict()

    def take(self, camera: Camera, wanted: Bounds | None, size: Size | None, *, cursor: bool) -> Capture:
        pixels, bounds = camera.grab(wanted, cursor=cursor)
        natural = Size(width=bounds.width, height=bounds.height)
        size = size or natural
        if size != natural:
            pixels = _scaled(pixels, natural, size)
        encoded = self._encoder(bounds, size).encode(pixels)
        blank = len(encoded.png) < _BLANK_PNG and _one_colour(pixels)
        return Capture(encoded.png, encoded.sha256, bounds, size, blank)

    def _encoder(self, bounds: Bounds, size: Size) -> BandedPng:
        key = (bounds, size)
        encoder = self._encoders.pop(key, None) or BandedPng(size.width, size.height)
        self._encoders[key] = encoder
        while len(self._encoders) > _KEPT_ENCODERS:
            self._encoders.popitem(last=False)
        return encoder


def raw(camera: Camera, bounds: Bounds) -> bytes:
    """Tight RGB rows of a region, clipped to the screen."""
    return rgb(camera.grab(bounds)[0])


def _scaled(pixels: Bytes, natural: Size, size: Size) -> Bytes:
    """Scale by area, each channel alone: the order of the channels does not matter to Pillow."""
    shape = (natural.width, natural.height)
    image: Any = Image.frombuffer("RGBX", shape, pixels, "raw", "RGBX", 0, 1)
    small = image.resize((size.width, size.height), Image.Resampling.BILINEAR)
    return np.frombuffer(small.tobytes(), np.uint8)


def _one_colour(pixels: Bytes) -> bool:
    colours = pixels.view("<u4") & 0x00FFFFFF
    return bool((colours == colours[0]).all())
