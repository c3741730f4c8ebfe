"""A recording of the live view as an MP4: what the view shows as it shows it; black while a person drives.

Needs PyAV (the extra `video`). Counterpart: client_view.py, which keeps the picture up to date.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import trio
from numpy.typing import NDArray

from .client_view import View
from .errors import ConfigError

FASTEST = 1 / 15
"""Seconds between two frames of a recording."""

SLOWEST = 1.0
"""A still screen has a frame all the same, so that players can seek."""

_MS = Fraction(1, 1000)


async def record(view: View, path: Path, *, report: Callable[[str], None] = lambda line: None) -> None:
    """Write what *view* shows to *path*, until cancelled or the view ends.

    The picture has the size of the first one; later sizes are cut or padded.

    Raises:
        ConfigError: PyAV is missing, or *path* can't be written.
    Cancellation:
        The recording is complete up to then.
    """
    await view.until(lambda v: v.screen.size > 0 and (v.frames > 0 or bool(v.state.get("hidden"))))
    try:
        film = _Film(path, view.screen.shape[1] & ~1, view.screen.shape[0] & ~1)
    except ImportError:
        raise ConfigError("recording needs the extra `video`: pip install 'bodyd[video]'") from None
    except OSError as exc:
        raise ConfigError(f"{path}: {exc.strerror}; name a file that can be written") from exc
    start = trio.current_time()
    try:
        while not view.closed:
            driven = view.state.get("driver") == "person" or bool(view.state.get("hidden"))
            picture = np.zeros_like(view.screen) if driven else view.screen.copy()
            at = int(1000 * (trio.current_time() - start))
            await trio.to_thread.run_sync(film.add, picture, at)
            report(
                f"{film.frames} frames, {at / 1000:.0f} s" + (", blank: a person drives" if driven else "")
            )
            frames, state = view.frames, view.state
            await trio.sleep(FASTEST)
            with trio.move_on_after(SLOWEST - FASTEST):
                await view.until(lambda v, f=frames, s=state: v.frames != f or v.state is not s)  # type: ignore[misc]
    finally:
        film.close()


class _Film:
    """An MP4 being written."""

    def __init__(self, path: Path, width: int, height: int) -> None:
        self._av: Any = importlib.import_module("av")
        self.frames = 0
        self._shape = (height, width)
        self._last = -1
        self._file = self._av.open(str(path), "w", format="mp4")
        self._stream = self._file.add_stream("libx264", rate=15)
        self._stream.width, self._stream.height, self._stream.pix_fmt = width, height, "yuv420p"
        self._stream.time_base = self._stream.codec_context.time_base = _MS
        self._stream.options = {"preset": "veryfast", "crf": "23"}
        self._file.start_encoding()  # opens the file: it must be known now if it can't be written

    def add(self, picture: NDArray[np.uint8], at_ms: int) -> None:
        """A frame, shown from *at_ms* on. Blocks."""
        height, width = self._shape
        canvas = np.zeros((height, width, 3), np.uint8)
        part = picture[:height, :width]
        canvas[: part.shape[0], : part.shape[1]] = part
        frame = self._av.VideoFrame.from_ndarray(canvas, format="rgb24")
        frame.pts = self._last = max(at_ms, self._last + 1)
        frame.time_base = _MS
        self._file.mux(self._stream.encode(frame))
        self.frames += 1

    def close(self) -> None:
        """Write what the file needs at its end."""
        self._file.mux(self._stream.encode(None))
        self._file.close()
