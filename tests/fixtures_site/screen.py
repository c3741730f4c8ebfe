"""An X server of a test's own, to see a whole browser window as the body shows it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
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
    """Xvfb without a window manager, on a display numbered for this process.

    Free numbers, as Xvfb itself looks for them from 0, are raced for by everything else that runs.
    """
    name = f":{1000 + os.getpid()}"
    ours, theirs = os.pipe()
    geometry = f"{size[0]}x{size[1]}x24"
    process = await trio.lowlevel.open_process(
        ["Xvfb", name, "-displayfd", str(theirs), "-screen", "0", geometry, "-nolisten", "tcp", "-noreset"],
        pass_fds=(theirs,),
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs)
    try:
        async with trio.lowlevel.FdStream(ours) as ready:
            with trio.fail_after(60):
                told = b""
                while not told.endswith(b"\n"):  # closed earlier, the pipe would kill Xvfb
                    chunk = await ready.receive_some(16)
                    assert chunk, "Xvfb did not start"
                    told += chunk
        with closing(Screen(name, size)) as shown:
            yield shown
    finally:
        process.terminate()
        with trio.move_on_after(10, shield=True):
            await process.wait()
