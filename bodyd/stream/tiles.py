"""Tiles: which pixels differ, and rectangles of them as PNG or JPEG. Pure: pixels in, bytes out.

A tile is exact (PNG under the Sub filter, isal's level 1) where that is cheap: where it is small, or
turns out to compress well; else JPEG, to be repainted exactly once the screen is still. Pixels are 32
bits, blue first; the fourth byte means nothing and is masked out.
"""

from __future__ import annotations

import io
import struct

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray
from PIL import Image

from .protocol import Codec, Part, pack_palette
from .regions import Rect, Rects, add

Pixels = NDArray[np.uint32]

CELL = 64
EXACT_PIXELS = 16_384
"""Tiles up to this many pixels are always exact."""

PALETTE_PIXELS = 4096
PALETTE_BYTES = 1024
"""Tiles that fit are sent as palette and indices: browsers draw them without waiting for a decoder."""

EXACT_BYTES_A_PIXEL = 0.28
"""Larger ones, if a sample says that they compress at least as well as this."""

JPEG_QUALITY = 80
_COLOUR = np.uint32(0x00FFFFFF)
_SUB = 1
_SAMPLE_ROWS = 8


def differing(old: Pixels, new: Pixels, left: int, top: int) -> Rects:
    """Where two pictures of one size differ, as rectangles of the screen; *left*, *top* is their place."""
    delta = np.bitwise_xor(old, new)
    height, width = delta.shape
    if height <= CELL and width <= CELL:
        found = _trimmed(delta, left, top)
        return (found,) if found else ()
    columns = range(0, width, CELL)
    bands = (np.bitwise_or.reduce(delta[row : row + CELL], axis=0) for row in range(0, height, CELL))
    cells = [np.bitwise_or.reduceat(np.bitwise_and(band, _COLOUR), columns) != 0 for band in bands]
    joined: list[tuple[int, int, int, int]] = []  # columns from..to, rows from..to, of cells
    for row, line in enumerate(cells):
        for first, last in _runs(line):
            for index, (a, b, c, d) in enumerate(joined):
                if (a, b, d) == (first, last, row):
                    joined[index] = (a, b, c, row + 1)
                    break
            else:
                joined.append((first, last, row, row + 1))
    exact = (
        _trimmed(delta[c * CELL : d * CELL, a * CELL : b * CELL], left + a * CELL, top + c * CELL)
        for a, b, c, d in joined
    )
    return add((), (rect for rect in exact if rect is not None))


def png(pixels: Pixels) -> bytes:
    """The exact picture of *pixels*, RGB."""
    height, width = pixels.shape
    source = np.ascontiguousarray(pixels).view(np.uint8).reshape(height, width * 4)
    difference = np.empty_like(source)
    difference[:, :4] = source[:, :4]
    np.subtract(source[:, 4:], source[:, :-4], out=difference[:, 4:])
    filtered = np.empty((height, 1 + width * 3), np.uint8)
    filtered[:, 0] = _SUB
    for channel in range(3):  # all four are subtracted, contiguously, before three are picked out
        filtered[:, 1 + channel :: 3] = difference[:, 2 - channel :: 4]
    return _png(width, height, 2, filtered)


def png_rgba(pixels: Pixels) -> bytes:
    """The picture of a cursor: 0xAARRGGBB premultiplied in, straight RGBA out."""
    height, width = pixels.shape
    bgra = np.ascontiguousarray(pixels).view(np.uint8).reshape(height, width, 4).astype(np.uint16)
    alpha = np.maximum(bgra[:, :, 3:], 1)
    filtered = np.zeros((height, 1 + width * 4), np.uint8)
    body = filtered[:, 1:].reshape(height, width, 4)
    body[:, :, :3] = np.minimum((bgra[:, :, 2::-1] * 255 + alpha // 2) // alpha, 255)
    body[:, :, 3] = bgra[:, :, 3]
    return _png(width, height, 6, filtered)


def jpeg(pixels: Pixels, quality: int = JPEG_QUALITY) -> bytes:
    """*pixels* as JPEG, colours at half the resolution."""
    height, width = pixels.shape
    image = Image.frombuffer("RGB", (width, height), np.ascontiguousarray(pixels), "raw", "BGRX", 0, 1)
    out = io.BytesIO()
    image.save(out, "JPEG", quality=quality, subsampling=2)
    return out.getvalue()


def encode(screen: Pixels, rect: Rect, *, exact: bool) -> Part:
    """The tile of *rect*; exact also where that is cheap."""
    pixels = screen[rect.top : rect.bottom, rect.left : rect.right]
    if rect.area <= PALETTE_PIXELS and (data := palette(pixels)) is not None:
        return Part(Codec.PALETTE, rect.left, rect.top, rect.width, rect.height, data)
    if exact or rect.area <= EXACT_PIXELS or _compresses(pixels):
        return Part(Codec.PNG, rect.left, rect.top, rect.width, rect.height, png(pixels))
    return Part(Codec.JPEG, rect.left, rect.top, rect.width, rect.height, jpeg(pixels))


def palette(pixels: Pixels) -> bytes | None:
    """The data of a PALETTE part; None where that is no small one."""
    colours, indices = np.unique(np.bitwise_and(pixels, _COLOUR), return_inverse=True)
    count = len(colours)
    if count > 256 or 1 + 3 * count + (pixels.size if count > 1 else 0) > PALETTE_BYTES:
        return None
    rgb = colours.view(np.uint8).reshape(count, 4)[:, 2::-1]
    return pack_palette(rgb.tobytes(), indices.astype(np.uint8).tobytes())


def _compresses(pixels: Pixels) -> bool:
    """Whether a few rows, evenly spread, are small as PNG."""
    sample = pixels[:: max(1, len(pixels) // _SAMPLE_ROWS)]
    return len(png(sample)) <= EXACT_BYTES_A_PIXEL * sample.size


def _png(width: int, height: int, colours: int, filtered: NDArray[np.uint8]) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, colours, 0, 0, 0)
    data = isal_zlib.compress(filtered, 1)
    return b"".join(
        (b"\x89PNG\r\n\x1a\n", _chunk(b"IHDR", header), _chunk(b"IDAT", data), _chunk(b"IEND", b""))
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    checksum = isal_zlib.crc32(data, isal_zlib.crc32(kind))
    return b"".join((struct.pack(">I", len(data)), kind, data, struct.pack(">I", checksum)))


def _trimmed(delta: Pixels, left: int, top: int) -> Rect | None:
    """The smallest rectangle around what is not zero, but for the fourth byte."""
    rows = np.flatnonzero(np.bitwise_and(np.bitwise_or.reduce(delta, axis=1), _COLOUR))
    if not rows.size:
        return None
    columns = np.flatnonzero(np.bitwise_and(np.bitwise_or.reduce(delta, axis=0), _COLOUR))
    return Rect(
        left + int(columns[0]), top + int(rows[0]), left + int(columns[-1]) + 1, top + int(rows[-1]) + 1
    )


def _runs(line: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Where a line of cells is set: from, to."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], line, [False])).astype(np.int8)))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]
