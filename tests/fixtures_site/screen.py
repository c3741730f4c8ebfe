"""An X server of a test's own, to see a whole browser window as the body shows it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO

import trio
from PIL import Image
from Xlib import X
from Xlib.display import Display


class Screen:
    """One X server; `name` is its display."""

    def __init__(self, name: str, size: tuple[int, int]) -> None:
        self.name, self._size = name, size
        self._display = Display(name)

    def png(self) -> bytes:
        """Everything that it shows."""
        width, height = self._size
        raw = self._display.screen().root.get_image(0, 0, width, height, X.ZPixmap, 0xFFFFFFFF)
        file = BytesIO()
        Image.frombytes("RGB", self._size, raw.data, "raw", "BGRX").save(file, "PNG", compress_level=1)
        return file.getvalue()

    def close(self) -> None:
        self._display.close()


@asynccontextmanager
async def screen(size: tuple[int, int]) -> AsyncIterator[Screen]:
    """Xvfb on a free display, without a window manager."""
    ours, theirs = os.pipe()
    geometry = f"{size[0]}x{size[1]}x24"
    process = await trio.lowlevel.open_process(
        ["Xvfb", "-displayfd", str(theirs), "-screen", "0", geometry, "-nolisten", "tcp", "-noreset"],
        pass_fds=(theirs,),
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs)
    try:
        async with trio.lowlevel.FdStream(ours) as number:
            with trio.fail_after(60):
                name = f":{int((await number.receive_some(16)).decode())}"
        shown = Screen(name, size)
        yield shown
        shown.close()
    finally:
        process.terminate()
        with trio.move_on_after(10, shield=True):
            await process.wait()
