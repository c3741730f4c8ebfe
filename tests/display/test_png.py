"""Banded PNG: exact, standard, and never stale."""

from __future__ import annotations

import hashlib
import io
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from bodyd.display.png import BAND_ROWS, BandedPng, adler32_combine, rgb


def picture(width: int, height: int, seed: int = 1) -> np.ndarray:
    """Noise with the flat areas of a screen; the fourth byte is garbage, as the server's is."""
    random = np.random.default_rng(seed)
    pixels = random.integers(0, 256, (height, width, 4), dtype=np.uint8)
    pixels[height // 3 : height // 2, :, :3] = 240
    return pixels.reshape(-1)


def decoded(png: bytes) -> bytes:
    image = Image.open(io.BytesIO(png))
    assert image.mode == "RGB"
    return image.tobytes()


@pytest.mark.parametrize(("width", "height"), [(1, 1), (7, 3), (64, 64), (101, 65), (33, 200), (640, 129)])
def test_every_pixel_is_exact(width: int, height: int) -> None:
    """Pillow decodes what was encoded, for sizes around the bands' edges."""
    pixels = picture(width, height)
    encoded = BandedPng(width, height).encode(pixels)
    assert decoded(encoded.png) == rgb(pixels)
    assert encoded.sha256 == hashlib.sha256(encoded.png).hexdigest()


@settings(max_examples=30)
@given(changes=st.lists(st.tuples(st.integers(0, 199), st.integers(0, 99), st.integers(0, 255)), max_size=12))
def test_a_changed_picture_is_exact_too(changes: list[tuple[int, int, int]]) -> None:
    """Whatever pixels change, the next PNG is that of a fresh encoder, byte for byte."""
    pixels = picture(100, 200)
    encoder = BandedPng(100, 200)
    encoder.encode(pixels)
    for row, column, value in changes:
        pixels.reshape(200, 100, 4)[row, column, :3] = value
        encoded = encoder.encode(pixels)
        assert decoded(encoded.png) == rgb(pixels)
        assert encoded == BandedPng(100, 200).encode(pixels)


def test_only_changed_bands_are_compressed_again() -> None:
    """A change in the second band leaves the first band's bytes as the same object."""
    pixels = picture(50, 3 * BAND_ROWS)
    encoder = BandedPng(50, 3 * BAND_ROWS)
    encoder.encode(pixels)
    before = {start: band.deflated for start, band in encoder._bands.items()}
    pixels.reshape(3 * BAND_ROWS, 50, 4)[BAND_ROWS, 0, 0] ^= 1
    encoder.encode(pixels)
    same = [encoder._bands[start].deflated is deflated for start, deflated in before.items()]
    assert same == [True, False, True]


def test_an_unchanged_picture_costs_nothing() -> None:
    """The very same bytes are given again."""
    pixels = picture(50, 100)
    encoder = BandedPng(50, 100)
    assert encoder.encode(pixels) is encoder.encode(pixels.copy())


def test_the_source_may_change_after_encoding() -> None:
    """The encoder keeps its own copy: the shared memory is overwritten by the next grab."""
    pixels = picture(50, 100)
    encoder = BandedPng(50, 100)
    first = encoder.encode(pixels)
    pixels[:] = 0
    assert decoded(encoder.encode(pixels).png) == bytes(50 * 100 * 3)
    assert encoder.encode(picture(50, 100)) == first


@given(st.binary(max_size=500), st.binary(max_size=500))
def test_checksums_combine(one: bytes, other: bytes) -> None:
    """The joined stream's checksum is that of all bytes."""
    combined = adler32_combine(zlib.adler32(one), zlib.adler32(other), len(other))
    assert combined == zlib.adler32(one + other)


def test_size_is_that_of_a_fast_encoder() -> None:
    """On a page of text with a photograph, at most a tenth above Pillow's level 1."""
    random = np.random.default_rng(3)
    image = Image.new("RGB", (640, 400), "white")
    write = ImageDraw.Draw(image)
    letters = "abcdefghijklmnopqrstuvwxyz    ,.ABC"
    for row in range(0, 400, 14):
        write.text((4, row), "".join(random.choice(list(letters), 100)), fill=(20, 20, 60))
    shades = np.linspace(0, 200, 200)[None, :, None] + random.integers(0, 12, (150, 200, 3))
    image.paste(Image.fromarray(shades.astype(np.uint8)), (400, 200))
    peer = io.BytesIO()
    image.save(peer, "png", compress_level=1)
    pixels = np.frombuffer(image.tobytes("raw", "BGRX"), np.uint8)
    assert len(BandedPng(640, 400).encode(pixels).png) <= 1.1 * len(peer.getvalue())
