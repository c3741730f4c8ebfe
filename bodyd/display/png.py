"""PNG in bands: exact RGB, and only the bands that changed are compressed again.

A band is 64 rows under the Sub filter (which needs no row above), as raw deflate ended by a full
flush, so bands stand alone, in two threads if there are many, and any mixture of old and new ones is
one valid stream: RFC 1950, RFC 1951, PNG 1.2. A band is kept under its own pixels, compared byte by
byte: no damage report has to be believed. Knows nothing of X; source pixels are 32 bits, blue first,
the fourth byte undefined.
"""

from __future__ import annotations

import ctypes
import hashlib
import struct
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

BAND_ROWS = 64
LEVEL = 1
_WORTH_TWO = 4
"""Bands to compress from which on a second thread is worth waking."""

_SUB = 1  # PNG filter type
_RAW_DEFLATE = -15
_ADLER_BASE = 65521

Bytes = NDArray[np.uint8]

_memcmp = ctypes.CDLL(None).memcmp
_memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_memcmp.restype = ctypes.c_int


@dataclass(frozen=True, slots=True)
class Encoded:
    png: bytes
    sha256: str


_second = ThreadPoolExecutor(1, thread_name_prefix="png")  # every encoder's: all of its work is short


@dataclass(slots=True)
class _Band:
    deflated: bytes
    adler: int
    filtered_size: int


class _Bench:
    """Room for one thread to work on bands of one width."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._difference: Bytes = np.empty((BAND_ROWS, width * 4), np.uint8)
        self._filtered: Bytes = np.empty((BAND_ROWS, 1 + width * 3), np.uint8)
        self._filtered[:, 0] = _SUB

    def deflate(self, band: Bytes) -> _Band:
        """Filter and compress one band.

        Sub works byte by byte, so it runs over all four channels at once, contiguously, before the
        channels are picked apart: twice as fast as the other way round.
        """
        source = band.reshape(-1, self._width * 4)
        rows = len(source)
        difference, filtered = self._difference[:rows], self._filtered[:rows]
        difference[:, :4] = source[:, :4]
        np.subtract(source[:, 4:], source[:, :-4], out=difference[:, 4:])
        filtered[:, 1::3] = difference[:, 2::4]
        filtered[:, 2::3] = difference[:, 1::4]
        filtered[:, 3::3] = difference[:, 0::4]
        squeeze = isal_zlib.compressobj(LEVEL, wbits=_RAW_DEFLATE)
        deflated = squeeze.compress(filtered) + squeeze.flush(isal_zlib.Z_FULL_FLUSH)
        return _Band(deflated, isal_zlib.adler32(filtered), filtered.size)


class BandedPng:
    """The encoder of one picture size, remembering its last picture. Not for two threads at once."""

    def __init__(self, width: int, height: int) -> None:
        self._width, self._height = width, height
        self._last: Bytes = np.empty(width * height * 4, np.uint8)
        self._benches = (_Bench(width), _Bench(width))
        self._bands: dict[int, _Band] = {}
        self._encoded: Encoded | None = None

    def encode(self, pixels: Bytes) -> Encoded:
        """The PNG of *pixels*: width * height * 4 bytes, contiguous. They may change afterwards."""
        if self._encoded is not None and _same(pixels, self._last):
            return self._encoded
        self._encoded = None  # an exception below leaves no picture that its bands don't match
        step = BAND_ROWS * self._width * 4
        stale: list[int] = []
        for start in range(0, pixels.size, step):
            band, last = pixels[start : start + step], self._last[start : start + step]
            if start in self._bands and _same(band, last):
                continue
            self._bands.pop(start, None)
            np.copyto(last, band)
            stale.append(start)
        mine, yours = self._benches
        if len(stale) >= _WORTH_TWO:
            rest = _second.submit(self._deflate, stale[1::2], step, yours)
            try:
                self._bands |= self._deflate(stale[::2], step, mine)
            finally:
                others = rest.result()
            self._bands |= others
        else:
            self._bands |= self._deflate(stale, step, mine)
        self._encoded = self._join()
        return self._encoded

    def _deflate(self, starts: Sequence[int], step: int, bench: _Bench) -> dict[int, _Band]:
        return {start: bench.deflate(self._last[start : start + step]) for start in starts}

    def _join(self) -> Encoded:
        bands = [self._bands[start] for start in sorted(self._bands)]
        adler = 1
        for band in bands:
            adler = adler32_combine(adler, band.adler, band.filtered_size)
        # zlib's header, the bands, an empty last block, the checksum of all filtered bytes
        deflated = (band.deflated for band in bands)
        data = b"".join((b"\x78\x01", *deflated, b"\x03\x00", struct.pack(">I", adler)))
        header = struct.pack(">IIBBBBB", self._width, self._height, 8, 2, 0, 0, 0)
        png = b"".join(
            (b"\x89PNG\r\n\x1a\n", *_chunk(b"IHDR", header), *_chunk(b"IDAT", data), *_chunk(b"IEND", b""))
        )
        return Encoded(png, hashlib.sha256(png).hexdigest())


def rgb(pixels: Bytes) -> bytes:
    """The pixels as tight RGB rows."""
    return pixels.reshape(-1, 4)[:, 2::-1].tobytes()


def adler32_combine(first: int, second: int, second_size: int) -> int:
    """Adler-32 of two pieces together from that of each (zlib's adler32_combine)."""
    low = (first & 0xFFFF) + (second & 0xFFFF) - 1
    high = (first >> 16) + (second >> 16) + second_size * ((first & 0xFFFF) - 1)
    return (high % _ADLER_BASE) << 16 | low % _ADLER_BASE


def _same(one: Bytes, other: Bytes) -> bool:
    same: bool = _memcmp(one.ctypes.data, other.ctypes.data, one.size) == 0
    return same


def _chunk(kind: bytes, data: bytes) -> tuple[bytes, bytes, bytes, bytes]:
    checksum = isal_zlib.crc32(data, isal_zlib.crc32(kind))
    return struct.pack(">I", len(data)), kind, data, struct.pack(">I", checksum)
