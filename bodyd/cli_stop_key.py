"""`bodyd stop-key`: a key on the owner's own desktop that stops the body, whatever window has the focus.

It runs on the owner's machine, beside their X server, and knows of the body what BodyClient tells. The
key is heard, not grabbed: the window that has the focus gets it too.
"""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import trio

from bodyd.errors import BodydError, ConfigError, Unavailable

if TYPE_CHECKING:
    from bodyd.client import BodyClient

STOP_SECONDS = 5.0
INSTALL = "pip install 'bodyd[owner]'"


def notation(key: str) -> str:
    """`ctrl+alt+esc` as pynput writes it: names of more than one character in angle brackets."""
    parts = [part.strip().lower() for part in key.split("+")]
    if not all(parts):
        raise ConfigError(f"--key {key!r}: name keys joined by +, such as ctrl+alt+esc")
    return "+".join(part if len(part) == 1 else f"<{part}>" for part in parts)


async def listen(client: BodyClient, key: str, reason: str, report: Callable[[str], None]) -> None:
    """Stop the body at each press of *key*, until cancelled. Ready once it has reported `listening`.

    Raises:
        ConfigError: *key* is not a key, or pynput is missing.
        Unavailable: no X display can be reached, or the one that was heard has gone.
        BodydError: the body does not answer, or not to this token. Only at the start: later, a stop
            that fails is reported, and the key is heard on.
    """
    combination = notation(key)
    keyboard = _keyboard()
    await client.status()
    presses, pressed = trio.open_memory_channel[None](1)
    token = trio.lowlevel.current_trio_token()

    def note() -> None:
        with suppress(trio.WouldBlock):  # one that waits is as good as two
            presses.send_nowait(None)

    def heard() -> None:
        """Called in the listener's thread."""
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(note)

    try:
        listener = keyboard.GlobalHotKeys({combination: heard})
    except ValueError as exc:
        raise ConfigError(f"--key {key!r}: {exc} is no key; such as ctrl+alt+esc or ctrl+alt+f12") from exc
    listener.start()
    gone: ExceptionGroup[Unavailable] | None = None
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_watch_over, listener)
            await trio.to_thread.run_sync(listener.wait, abandon_on_cancel=True)
            report(f"listening for {key}; Ctrl-C ends it")
            async for _ in pressed:
                await _stop(client, reason, report)
    except* Unavailable as group:
        gone = group
    finally:
        if listener.is_alive():
            listener.stop()
    if gone is not None:
        raise Unavailable("the display has gone, the key is not heard any more") from gone


def _keyboard() -> Any:  # noqa: ANN401
    """pynput's keyboard, which connects to the display as it is imported."""
    if not os.environ.get("DISPLAY"):
        raise Unavailable("DISPLAY is not set: run this in a terminal of the desktop whose key is meant")
    if importlib.util.find_spec("pynput") is None:
        raise ConfigError(f"the stop key needs pynput: {INSTALL}")
    try:
        from pynput import keyboard
    except ImportError as exc:
        raise Unavailable(f"the X display {os.environ['DISPLAY']} can't be reached: {exc}") from exc
    return keyboard


async def _watch_over(listener: Any) -> None:  # noqa: ANN401
    """Raise when the listener ends, which it does by itself only when its display has gone.

    Its own join would wait for a word that it does not always leave: the thread's is asked.
    """
    await trio.to_thread.run_sync(threading.Thread.join, listener, abandon_on_cancel=True)
    raise Unavailable("the display has gone")


async def _stop(client: BodyClient, reason: str, report: Callable[[str], None]) -> None:
    try:
        with trio.fail_after(STOP_SECONDS):
            view = await client.stop(reason=reason)
    except BodydError as exc:
        report(f"NOT STOPPED: {exc.message}")
    except trio.TooSlowError:
        report(f"NOT STOPPED: the body did not answer within {STOP_SECONDS:.0f} s")
    else:
        report(f"lease {view.state}, epoch {view.epoch}; `bodyd resume` lets drivers in again")
