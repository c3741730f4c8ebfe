"""An X client that sees what arrives: a window over the whole screen, in a process of its own.

`python -m bench.witness` prints a line per event, "KIND DETAIL STAMP" (CLOCK_MONOTONIC as it was read),
and on the command "sync" everything up to now and then "synced". "show" raises the window and gives it
the focus, "hide" takes it away; changes of the keymap are seen in either state. `Witness` is the
counterpart in the benchmark's process. `python -m bench.witness flicker` paints the screen in two
colours, turn by turn, with one request each, until its stdin ends.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from Xlib import X, display

from bodyd.display.connection import XObject
from tests.display.world import XServer

_KINDS = {X.KeyPress: "key", X.ButtonPress: "press", X.MappingNotify: "mapping"}
FLICKER = (0x204060, 0xD0B090)


class Seen(NamedTuple):
    kind: str
    detail: int
    stamp: float


class Witness:
    """The client's process, driven from here. All calls block for a round trip."""

    def __init__(self, server: XServer) -> None:
        pipe = subprocess.PIPE
        self._process = server.run(sys.executable, "-m", "bench.witness", stdin=pipe, stdout=pipe)
        self.seen()

    def show(self) -> None:
        self._say("show")
        self.seen()

    def hide(self) -> None:
        self._say("hide")
        self.seen()

    def seen(self) -> list[Seen]:
        """What has arrived since the last call."""
        self._say("sync")
        assert self._process.stdout is not None
        found: list[Seen] = []
        for line in self._process.stdout:
            if line == b"synced\n":
                return found
            kind, detail, stamp = line.decode().split()
            found.append(Seen(kind, int(detail), float(stamp)))
        raise RuntimeError("the witness has ended")

    def _say(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(command.encode() + b"\n")
        self._process.stdin.flush()


@contextmanager
def flickering(server: XServer) -> Iterator[None]:
    """Another client repaints the screen all the time."""
    pipe = subprocess.PIPE
    process = server.run(sys.executable, "-m", "bench.witness", "flicker", stdin=pipe, stdout=pipe)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield
    finally:
        process.stdin.close()
        process.wait()


def main() -> None:
    x = display.Display()
    screen = x.screen()
    window: XObject = screen.root.create_window(
        0,
        0,
        screen.width_in_pixels,
        screen.height_in_pixels,
        0,
        X.CopyFromParent,
        override_redirect=1,
        background_pixel=0x406080,
        event_mask=X.KeyPressMask | X.ButtonPressMask,
    )
    if sys.argv[1:] == ["flicker"]:
        flicker(x, window)
        return
    while True:
        readable, _, _ = select.select([x, sys.stdin], [], [])
        note(x)
        if sys.stdin in readable:
            for command in os.read(sys.stdin.fileno(), 4096).decode().splitlines() or ["end"]:
                if command == "end":
                    return
                obey(x, window, command)


def obey(x: display.Display, window: XObject, command: str) -> None:
    if command == "show":
        window.map()
        window.configure(stack_mode=X.Above)
        window.set_input_focus(X.RevertToParent, X.CurrentTime)
    elif command == "hide":
        window.unmap()
    x.sync()
    note(x)
    if command == "sync":
        print("synced", flush=True)


def note(x: display.Display) -> None:
    while x.pending_events():
        event: XObject = x.next_event()
        if event.type in _KINDS:
            detail = event.request if event.type == X.MappingNotify else event.detail
            print(_KINDS[event.type], detail, time.perf_counter(), flush=True)


def flicker(x: display.Display, window: XObject) -> None:
    window.map()
    pens = [window.create_gc(foreground=colour) for colour in FLICKER]
    size = window.get_geometry()
    print("painting", flush=True)
    while not select.select([sys.stdin], [], [], 0)[0]:
        for pen in pens:
            window.fill_rectangle(pen, 0, 0, size.width, size.height)
            x.sync()


if __name__ == "__main__":
    main()
