"""How much is in a folder that hostile programs write, and the watch over the home folder.

Nothing tells of a folder's growth, so it is looked at: never more than a fiftieth of the time, never
following a link, never deeper or longer than the bounds below. What goes beyond these counts as too much,
whatever its size, for it costs the file system and the watcher all the same. Between two looks more can be
written than the limit: that is why there are two marks.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import structlog
import trio

MAX_FILES = 200_000
MAX_DEPTH = 64
LOOK_S = 5.0
"""Seconds between two looks, at the least."""
_SHARE = 50
_STOP_AT = 2
"""How many times its limit the folder may be before the apps are ended."""

State = Literal["ok", "full", "over"]

log = structlog.get_logger("bodyd.desktop")


@dataclass(frozen=True, slots=True)
class Usage:
    """Bytes on disk as far as they were counted; `beyond` says which bound ended the count, "" for none.

    `files` counts folders, too, and is there only if all was counted.
    """

    bytes: int
    beyond: str = ""
    files: int = 0


def measure(path: Path, enough: int) -> Usage:
    """Count what is below *path*, until it is more than *enough* bytes; can be slow: use a thread."""
    total = files = 0
    opened: list[tuple[int, list[str]]] = []
    try:
        opened.append(_folder(path, None))
        while opened:
            at, names = opened[-1]
            if not names:
                os.close(opened.pop()[0])
                continue
            name = names.pop()
            files += 1
            try:
                info = os.stat(name, dir_fd=at, follow_symlinks=False)
            except OSError:  # gone meanwhile
                continue
            total += info.st_blocks * 512
            if total > enough:
                return Usage(total)
            if files > MAX_FILES:
                return Usage(total, f"over {MAX_FILES} files")
            if stat.S_ISDIR(info.st_mode):
                if len(opened) > MAX_DEPTH:
                    return Usage(total, f"folders over {MAX_DEPTH} deep")
                with suppress(FileNotFoundError, NotADirectoryError):
                    opened.append(_folder(Path(name), at))
    except FileNotFoundError:  # the folder itself is gone
        return Usage(0)
    except OSError as exc:
        return Usage(total, f"a folder that can't be read ({exc.strerror})")
    finally:
        for at, _ in opened:
            os.close(at)
    return Usage(total, files=files)


def _folder(path: Path, at: int | None) -> tuple[int, list[str]]:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        return fd, os.listdir(fd)
    except BaseException:
        os.close(fd)
        raise


class HomeWatch:
    """The home folder against its limit.

    "full" is over the limit, "over" is twice the limit, or beyond a bound of `measure`.

    Args:
        limit: Bytes; 0 is none, and then nothing is ever looked at.
        changed: Called with the state whenever it is another one.
    """

    def __init__(self, home: Path, limit: int, changed: Callable[[State], None]) -> None:
        self.state: State = "ok"
        self.usage = Usage(0)
        self._home = home
        self._limit = limit
        self._changed = changed
        self._looked = trio.Event()

    @property
    def why(self) -> str:
        """What there is too much of, for people."""
        what = self.usage.beyond or f"at least {self.usage.bytes} bytes"
        return f"the home folder has {what}, and may have {self._limit} bytes (limits.home_bytes)"

    def snapshot(self) -> dict[str, object]:
        return {"state": self.state, "bytes": self.usage.bytes, "limit_bytes": self._limit or None}

    async def run(self) -> None:
        """Look until cancelled."""
        if not self._limit:
            await trio.sleep_forever()
        while True:
            began = trio.current_time()
            await self.look()
            await trio.sleep(max(LOOK_S, _SHARE * (trio.current_time() - began)))

    async def look(self) -> State:
        """Measure once, and tell if the state is another one.

        Cancellation: at once; the measurement itself goes on to its end and is forgotten.
        """
        enough = _STOP_AT * self._limit
        self.usage = await trio.to_thread.run_sync(measure, self._home, enough, abandon_on_cancel=True)
        state: State = "ok"
        if self.usage.beyond or self.usage.bytes > _STOP_AT * self._limit:
            state = "over"
        elif self.usage.bytes > self._limit:
            state = "full"
        if state != self.state:
            self.state = state
            if state != "ok":
                log.warning("home_full", state=state, why=self.why)
            self._changed(state)
        self._looked.set()
        self._looked = trio.Event()
        return state

    async def may_run(self) -> None:
        """Wait until the apps may run: the folder is not "over", at the moment this returns."""
        await trio.lowlevel.checkpoint()
        while self.state == "over":
            await self._looked.wait()
