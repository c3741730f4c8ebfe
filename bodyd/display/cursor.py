"""The pointer's picture, drawn into a frame. Pure: pixels in, pixels changed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def draw(frame: NDArray[np.uint8], image: NDArray[np.uint32], *, left: int, top: int) -> None:
    """Blend *image* over *frame* in place, clipped.

    Args:
        frame: height x width x 4, blue first.
        image: height x width of 0xAARRGGBB, premultiplied (XFixes GetCursorImage).
        left, top: Of the image in the frame; may be outside.
    """
    height, width = image.shape
    x0, y0 = max(left, 0), max(top, 0)
    x1, y1 = min(left + width, frame.shape[1]), min(top + height, frame.shape[0])
    if x0 >= x1 or y0 >= y1:
        return
    part = np.ascontiguousarray(image[y0 - top : y1 - top, x0 - left : x1 - left])
    source = part.view(np.uint8).reshape(*part.shape, 4).astype(np.uint16)
    below = frame[y0:y1, x0:x1, :3]
    seen = below * (255 - source[..., 3:]) + 127
    below[...] = np.minimum(source[..., :3] + seen // 255, 255)
