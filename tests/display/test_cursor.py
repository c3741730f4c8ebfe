"""The pointer's picture, blended in."""

from __future__ import annotations

import numpy as np

from bodyd.display.cursor import draw


def frame() -> np.ndarray:
    return np.full((10, 10, 4), 100, np.uint8)


def test_an_opaque_pixel_replaces() -> None:
    """0xAARRGGBB goes to blue, green, red."""
    pixels = frame()
    draw(pixels, np.array([[0xFF112233]], np.uint32), left=3, top=4)
    assert pixels[4, 3, :3].tolist() == [0x33, 0x22, 0x11]
    assert pixels[4, 4, :3].tolist() == [100, 100, 100]


def test_a_half_transparent_pixel_is_blended() -> None:
    """The picture is premultiplied: source plus what shows through."""
    pixels = frame()
    draw(pixels, np.array([[0x80400000]], np.uint32), left=0, top=0)
    assert pixels[0, 0, :3].tolist() == [50, 50, 0x40 + 50]


def test_what_is_outside_is_cut() -> None:
    """A pointer at any edge, or off-screen, draws what is visible of it."""
    image = np.full((4, 4), 0xFFFFFFFF, np.uint32)
    for left, top, count in ((-2, -2, 4), (8, 8, 4), (-9, 0, 0), (0, 12, 0), (3, 3, 16)):
        pixels = frame()
        draw(pixels, image, left=left, top=top)
        assert int((pixels[..., 0] == 255).sum()) == count
