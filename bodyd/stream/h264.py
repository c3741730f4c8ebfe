"""H.264 by PyAV, where it is installed (the extra `video`): baseline, no frame held back, no reordering.

Loaded at the first use: a daemon that nobody watches never does. docs/decisions/0401 has why.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from .tiles import Pixels

QUALITY, THIN_QUALITY = 23, 27
"""x264's constant rate factor: less is better, and six more are about half the bytes."""

RATE = 30
_FAST = "FAST_BILINEAR"  # a quarter of the time of libswscale's default, for pictures that are never scaled


class Encoder(Protocol):
    """One video stream of one size."""

    def encode(self, pixels: Pixels, *, key: bool) -> tuple[bytes, bool]:
        """One access unit, and whether a decoder can start at it."""
        ...

    def close(self) -> None: ...


OpenEncoder = Callable[[int, int, bool], Encoder]
"""Of a width and a height, both even; and whether the link is thin."""


def load() -> OpenEncoder | None:
    """The way to open encoders; None where PyAV or its H.264 encoder is missing."""
    try:
        av: Any = importlib.import_module("av")
    except ImportError:
        return None
    if "libx264" not in av.codecs_available:
        return None
    return lambda width, height, thin: _Encoder(av, width, height, thin)


class _Encoder:
    def __init__(self, av: Any, width: int, height: int, thin: bool) -> None:  # noqa: ANN401
        self._av = av
        self._context = av.CodecContext.create("libx264", "w")
        self._context.width, self._context.height = width, height
        self._context.pix_fmt = "yuv420p"
        self._context.framerate = RATE
        self._context.time_base = Fraction(1, RATE)
        self._context.thread_count = 1
        self._context.options = {
            "preset": "superfast" if thin else "ultrafast",  # a third of the bytes less, for twice the work
            "tune": "zerolatency",
            "profile": "baseline",
            "crf": str(THIN_QUALITY if thin else QUALITY),
            "forced-idr": "1",
            "x264-params": "keyint=infinite:scenecut=0:annexb=1:repeat-headers=1:"
            "colormatrix=smpte170m:colorprim=smpte170m:transfer=smpte170m:range=tv",
        }
        self._reformatter = importlib.import_module("av.video.reformatter").VideoReformatter()
        self._made = 0

    def encode(self, pixels: Pixels, *, key: bool) -> tuple[bytes, bool]:
        height, width = pixels.shape
        bgra = np.ascontiguousarray(pixels).view(np.uint8).reshape(height, width, 4)
        frame = self._reformatter.reformat(
            self._av.VideoFrame.from_ndarray(bgra, format="bgra"), format="yuv420p", interpolation=_FAST
        )
        frame.pts = self._made
        if key or self._made == 0:
            frame.pict_type = self._av.video.frame.PictureType.I
        self._made += 1
        packets = self._context.encode(frame)
        return b"".join(bytes(p) for p in packets), any(p.is_keyframe for p in packets)

    def close(self) -> None:
        """The library frees it with the last reference."""
        del self._context
