"""One running site: its record, and the sockets that it is served on."""

from __future__ import annotations

import secrets
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import trio

from . import grader
from .app import grader_app, shop_app
from .record import Record
from .serving import listening, serve_app

HOST = "site.bodyd.test"
URL = f"http://{HOST}/"
EGRESS = f"{HOST}:80"
QUIET = 0.25  # seconds without an event after which the page is taken to have said all


class Site:
    """The host's side of the site; the body only ever sees its pages."""

    host = HOST
    url = URL
    egress = EGRESS
    task = grader.TASK

    def __init__(self, *, seed: int, panel_open: bool = False) -> None:
        self._record = _new_record(seed, panel_open=panel_open)
        self._pages = 0
        self._changed = trio.Event()

    @property
    def record(self) -> Record:
        return self._record

    def state(self) -> dict[str, Any]:
        """The run so far: {run, seed, panel_open, toggles, search, shown, log, …}."""
        return self._record.state()

    def verdict(self) -> grader.Verdict:
        """The grader's judgement of the run so far."""
        return grader.grade(self._record.state())

    def reset(self, *, seed: int | None = None, panel_open: bool | None = None) -> None:
        """Begin a new run, as the last one was begun unless told otherwise; open pages become stale."""
        last = self._record
        self._record = _new_record(
            last.seed if seed is None else seed,
            panel_open=last.panel_open_at_start if panel_open is None else panel_open,
        )
        self._wake()

    def next_page(self) -> str:
        """A name for one load of the page, so that its repeated events can be told."""
        self._pages += 1
        return f"{self._record.run}-{self._pages}"

    def take(self, page: str, events: object) -> int:
        """What a page reports; see `Record.take`."""
        fresh = self._record.take(page, events)
        self._wake()
        return fresh

    async def until_shown(self) -> None:
        """Return once a page of this run has been painted. Wakes by event; the caller bounds the wait."""
        await trio.lowlevel.checkpoint()
        while not self._record.shown:
            await self._changed.wait()

    async def until_success(self) -> None:
        """Return once the grader is content and the page has fallen silent; the caller bounds the wait.

        The page reports a moment after it has changed, so a verdict taken at once may be too early.
        """
        await trio.lowlevel.checkpoint()
        while True:
            changed = self._changed
            if self.verdict().success:
                with trio.move_on_after(QUIET):
                    await changed.wait()
                if changed is self._changed:
                    return
            else:
                await changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


async def serve(
    socket_path: Path,
    *,
    seed: int,
    panel_open: bool = False,
    grader_socket: Path | None = None,
    task_status: trio.TaskStatus[Site] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve the shop on the unix socket *socket_path* until cancelled; started with the `Site`.

    Args:
        socket_path: What `[egress.local]` maps the site's name to.
        grader_socket: Where the grader's face is served, if anywhere; never inside the body.
    Raises:
        OSError: a socket can't be bound.
    """
    site = Site(seed=seed, panel_open=panel_open)
    faces = [(shop_app(site), socket_path)]
    if grader_socket is not None:
        faces.append((grader_app(site), grader_socket))
    async with AsyncExitStack() as stack:
        bound = [(app, await stack.enter_async_context(listening(path))) for app, path in faces]
        async with trio.open_nursery() as nursery:
            for app, listener in bound:
                nursery.start_soon(serve_app, app, listener)
            task_status.started(site)


def _new_record(seed: int, *, panel_open: bool) -> Record:
    return Record(run=secrets.token_hex(6), seed=seed, panel_open_at_start=panel_open)
