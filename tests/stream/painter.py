"""An X client that draws rectangles and noise, at once and exactly."""

from __future__ import annotations

import random
from contextlib import suppress

from Xlib import X

from bodyd.display.connection import LOST, XConnection


class Paint:
    """One window over the whole screen, unmanaged."""

    def __init__(self, x: XConnection) -> None:
        self.x = x
        size = x.root.get_geometry()
        self.width, self.height = size.width, size.height
        self.window = x.root.create_window(
            0,
            0,
            size.width,
            size.height,
            0,
            X.CopyFromParent,
            override_redirect=True,
            background_pixel=0x203040,
        )
        self.window.map()
        self.context = self.window.create_gc()
        self.random = random.Random(7)
        x.display.sync()

    def rectangle(self, x: int, y: int, width: int, height: int, colour: int) -> None:
        self.context.change(foreground=colour)
        self.window.fill_rectangle(self.context, x, y, width, height)
        self.x.display.sync()

    def noise(self, x: int, y: int, width: int, height: int) -> None:
        """What no codec can make small."""
        rows = max(1, 60_000 // width)  # what one request may carry
        for top in range(0, height, rows):
            count = min(rows, height - top)
            data = self.random.randbytes(width * count * 4)
            self.window.put_image(self.context, x, y + top, width, count, X.ZPixmap, 24, 0, data)
        self.x.display.sync()

    def close(self) -> None:
        with suppress(*LOST):
            self.x.close()
