"""What draws on a screen, as a process of its own: `python -m bench.stream_painter`.

Reads {display} or {socket_path, cookie, uid}, then names of work, one a line; "stop" ends a work and is
answered with when each frame was drawn. (python-xlib can't serve two kinds of server in one process.)
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from Xlib import X
from Xlib import display as xlib_display

from bench.stream_viewers import AREA, BITS, BLOCK, SPOT
from bodyd.contract.ports import XEndpoint
from bodyd.display.connection import XConnection, connect


class Painter:
    """A client that draws on one screen: a block at each key, frames with their number, a page of text."""

    def __init__(self, display: Any, root: Any) -> None:  # noqa: ANN401  python-xlib has no types
        self._x = display
        self.window = root.create_window(
            0,
            0,
            1280,
            800,
            0,
            X.CopyFromParent,
            override_redirect=1,
            background_pixel=0xF0F0F0,
            event_mask=X.KeyPressMask,
        )
        self.window.map()
        self.window.set_input_focus(X.RevertToParent, X.CurrentTime)
        self._pen = self.window.create_gc()
        self._frames = self._pixmaps()
        self._x.sync()
        self.drawn: dict[int, float] = {}

    def keys(self, stop: threading.Event) -> None:
        """Draw a glyph's worth of pixels in another colour at each key press."""
        colour = 0
        while not stop.is_set():
            if not self._x.pending_events():
                time.sleep(0.0005)
                continue
            if self._x.next_event().type == X.KeyPress:
                colour = (colour + 0x335577) & 0xFFFFFF
                self._fill(SPOT[0] - 4, SPOT[1] - 8, 8, 16, colour)

    def video(self, stop: threading.Event, fps: float = 30) -> None:
        """Frames of a moving picture, in the middle of the screen."""
        self._play(stop, fps, lambda n: self._show(n, AREA))

    def scroll(self, stop: threading.Event, fps: float = 15) -> None:
        """A window full of text that scrolls."""
        self._play(stop, fps, self._scrolled)

    def close(self) -> None:
        self._x.close()

    def _play(self, stop: threading.Event, fps: float, show: Callable[[int], None]) -> None:
        self.drawn.clear()
        number, due = 0, time.monotonic()
        while not stop.is_set():
            number += 1
            show(number)
            self._number(number)
            self._x.sync()
            self.drawn[number] = 1000 * time.time()
            due += 1 / fps
            time.sleep(max(0.0, due - time.monotonic()))

    def _show(self, number: int, area: tuple[int, int, int, int]) -> None:
        x, y, width, height = area
        shift = 8 * number % 256
        self.window.copy_area(self._pen, self._frames, shift, 0, width, height, x, y)

    def _scrolled(self, number: int) -> None:
        top = 24 * number % 800
        self.window.copy_area(self._pen, self._text, 0, top, 1280, 736, 0, 0)

    def _number(self, number: int) -> None:
        for bit in range(BITS):
            self._fill(AREA[0] + BLOCK * bit, AREA[1], BLOCK, BLOCK, 0xFFFFFF if number >> bit & 1 else 0)

    def _fill(self, x: int, y: int, width: int, height: int, colour: int) -> None:
        self._pen.change(foreground=colour)
        self.window.fill_rectangle(self._pen, x, y, width, height)
        self._x.flush()

    def _pixmaps(self) -> Any:  # noqa: ANN401
        choose = random.Random(3)
        width, height = AREA[2] + 256, AREA[3]
        ys, xs = np.mgrid[0:height, 0:width]
        waves = (np.sin(xs / 37) * 60 + np.cos(ys / 23) * 60 + 120).astype(np.uint32)
        grain = np.random.default_rng(3).integers(0, 12, (height, width), dtype=np.uint32)
        frame = (waves + grain) << 16 | (255 - waves) << 8 | (waves // 2 + grain)
        picture = self._pixmap(frame)
        text = np.full((1600, 1280), 0xFFFFFF, np.uint32)
        for line in range(0, 1600, 20):
            at = 20
            while at < 1200:
                word = choose.randrange(20, 80)
                text[line + 4 : line + 14 : 2, at : at + word : 3] = 0x202020
                text[line + 5 : line + 13 : 3, at : at + word : 2] = 0x404040
                at += word + 10
        self._text = self._pixmap(text)
        return picture

    def _pixmap(self, pixels: Any) -> Any:  # noqa: ANN401
        height, width = pixels.shape
        pixmap = self.window.create_pixmap(width, height, 24)
        rows = 60_000 // width
        for top in range(0, height, rows):
            data = pixels[top : top + rows].astype("<u4").tobytes()
            pixmap.put_image(self._pen, 0, top, width, len(data) // width // 4, X.ZPixmap, 24, 0, data)
        return pixmap


def main(given: dict[str, Any]) -> None:
    if "display" in given:
        display = xlib_display.Display(given["display"])
        painter = Painter(display, display.screen().root)
    else:
        endpoint = XEndpoint(given["socket_path"], bytes.fromhex(given["cookie"]), given["uid"])
        x = XConnection(connect(endpoint))
        painter = Painter(x.display, x.root)
    print("ready", flush=True)
    for line in sys.stdin:
        stop = threading.Event()
        work = threading.Thread(target=getattr(painter, line.strip()), args=(stop,))
        work.start()
        sys.stdin.readline()
        stop.set()
        work.join()
        print(json.dumps(painter.drawn), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.stdin.readline()))
