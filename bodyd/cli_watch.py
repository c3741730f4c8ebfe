"""`bodyd watch`: the live view in figures, and as a recording."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from bodyd.client_record import record
from bodyd.errors import BodydError

if TYPE_CHECKING:
    from bodyd.client import BodyClient
    from bodyd.client_view import View


async def follow(client: BodyClient, path: Path | None, seconds: float | None) -> None:
    """Watch until Ctrl-C, for *seconds*, or until the daemon ends; record to *path* if there is one."""
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(_cancel_on_signal, nursery.cancel_scope)
            async with client.stream() as view:
                with trio.move_on_after(float("inf") if seconds is None else seconds):
                    if path is not None:
                        await record(view, path, report=_say)
                    else:
                        await _figures(view)
            nursery.cancel_scope.cancel(reason="enough was seen")
    except ExceptionGroup as group:
        if len(group.exceptions) == 1 and isinstance(group.exceptions[0], BodydError):
            raise group.exceptions[0] from None
        raise
    finally:
        print()


async def _cancel_on_signal(scope: trio.CancelScope, *, task_status: trio.TaskStatus[None]) -> None:
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for _number in signals:
            scope.cancel(reason="a signal")


async def _figures(view: View) -> None:
    while not view.closed:
        frames, size = view.frames, view.received_bytes
        await trio.sleep(1)
        height, width = view.screen.shape[:2]
        rate = (view.received_bytes - size) / 1000
        driver = view.state.get("driver")
        _say(f"{width}x{height}  {view.frames - frames} fps  {rate:.1f} KB/s  {driver} drives")


def _say(text: str) -> None:
    """A line of its own; at a terminal, one that replaces the last."""
    if sys.stdout.isatty():
        print(f"\r\033[K{text}", end="", flush=True)
    else:
        print(text, flush=True)
