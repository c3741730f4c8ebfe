"""The desktop: an X server and the apps on it, each in its sandbox, kept alive, gone when left.

Two levels of life. A *generation* is an X server with everything on it: when the server ends, all of it
does, and the next generation begins. Within one, the apps' sandbox and the programs in it are restarted
alone. Nothing here talks X: that is display/'s, which is told of each generation before any app starts.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import Any

import structlog
import trio

from bodyd.config import Config
from bodyd.contract.ports import XEndpoint
from bodyd.errors import BodydError, DisplayUnavailable, HomeFull, IsolationUnavailable, NotFound, Unavailable

from . import accessibility, browser, window_manager
from .egress import EgressProxy
from .egress_lists import apps_rules
from .isolation import describe, explained, require_isolation
from .layout import Layout, open_layout
from .ledger import descendants
from .quota import HomeWatch, State
from .session import Session, SessionLost, machine_id, open_session
from .supervise import Backoff, Component
from .xserver import XServer, x_server

_STOP_SIGNALS = ((signal.SIGINT, 4.0), (signal.SIGTERM, 2.0))
STOP_S = 6.5
LAUNCH_LIMIT = 32

Prepare = Callable[[XEndpoint], Awaitable[None]]
Report = Callable[[str], None]

log = structlog.get_logger("bodyd.desktop")


class Desktop:
    """One body's desktop; made by `open_desktop`."""

    def __init__(self, config: Config, layout: Layout, prepare: Prepare | None, report: Report) -> None:
        self.egress = EgressProxy(apps_rules(config))
        self.home = HomeWatch(layout.home, config.limits.home_bytes, self._home_changed)
        self._isolation = describe(layout.uids)
        self.screen = (config.display.width, config.display.height)
        self._config = config
        self._layout = layout
        self._prepare = prepare
        self._report = report
        self._machine_id = machine_id(layout.private)
        self._x = Component("x")
        self._window_manager = Component("window_manager")
        self._browser = Component("browser")
        self._bus = Component("accessibility")
        self._endpoint: XEndpoint | None = None
        self._generation = 0
        self._changed = trio.Event()
        self._started = trio.Event()  # the first apps' sandbox is there: from now on failures are mended
        self._session: Session | None = None
        self._apps: trio.Nursery | None = None
        self._display_scope: trio.CancelScope | None = None
        self._apps_scope: trio.CancelScope | None = None
        self._url = _first_url(config, layout)
        self._launched = 0
        self._holds = 0
        self._at_rest, self._let_go = trio.Event(), trio.Event()

    @property
    def x(self) -> XEndpoint:
        """Where the X server of this generation listens.

        Raises:
            DisplayUnavailable: there is none just now; `wait_generation` waits for the next.
        """
        if self._endpoint is None:
            raise DisplayUnavailable("the X server is being restarted")
        return self._endpoint

    @property
    def isolation(self) -> dict[str, Any]:
        """The walls and limits in force, for status."""
        limits = {**self._layout.cgroups.describe(), "home": self.home.snapshot()}
        return {**self._isolation, "limits": limits}

    @property
    def layout(self) -> Layout:
        """The body's directories and uids, for the other sandboxes of it."""
        return self._layout

    @property
    def generation(self) -> int:
        """Counts the X servers that became ready; 1 is the first."""
        return self._generation

    @property
    def bus_path(self) -> str | None:
        """The accessibility bus's socket, as the daemon reaches it; None where there is none just now."""
        bus = self._session.bus if self._session is not None else None
        return None if bus is None else str(bus.path)

    async def wait_generation(self, after: int) -> int:
        """Wait until the generation is greater than *after*, and `x` is its server."""
        while self._generation <= after or self._endpoint is None:
            await self._changed.wait()
        await trio.lowlevel.checkpoint()
        return self._generation

    @property
    def x_runs(self) -> bool:
        """Whether the X server's process runs; whether it answers is another question."""
        return self._x.state == "running"

    def components(self) -> dict[str, dict[str, object]]:
        """Each part's state, pid on the host, and restarts."""
        parts = [self._x, self._window_manager]
        if self._config.desktop.browser:
            parts.append(self._browser)
        if self._config.accessibility.enabled:
            parts.append(self._bus)
        if self._session is not None:
            for part in parts[1:]:
                part.pid = self._session.host_pid(part.name)
                part.state = "running" if part.pid else part.state
        return {part.name: part.to_json() for part in parts}

    def apps_running(self, name: str) -> bool:
        """Whether a program launched as *name* still runs."""
        running = self._session.running if self._session else {}
        return any(key.partition("#")[0] == f"app:{name}" for key in running)

    async def launch(self, name: str) -> None:
        """Start one of the configured apps, beside those that run.

        Raises:
            NotFound: no such app is configured.
            Unavailable: the apps' sandbox is being restarted, or LAUNCH_LIMIT programs run already.
            HomeFull: the home folder is over its limit.
        """
        argv = self._config.desktop.apps.get(name)
        if not argv:
            raise NotFound(f"no app {name!r} is configured (desktop.apps)", param="name")
        if self.home.state != "ok":
            raise HomeFull(f"{self.home.why}: remove files from it, or raise the limit")
        session, apps = self._session, self._apps
        if session is None or apps is None:
            raise Unavailable("the desktop is being restarted")
        if sum(key.startswith("app:") for key in session.running) >= LAUNCH_LIMIT:
            raise Unavailable(f"{LAUNCH_LIMIT} apps run already")
        self._launched += 1
        apps.start_soon(_unsupervised, session, f"app:{name}#{self._launched}", argv)
        await trio.lowlevel.checkpoint()

    async def restart_window_manager(self) -> None:
        """End the window manager for good, though it may hang; it is started again. Windows stay."""
        if self._session is None:
            raise Unavailable("the desktop is being restarted")
        await self._session.signal("window_manager", signal.SIGKILL)

    async def restart_apps(self) -> None:
        """End the apps' sandbox, browser first and gently, and begin a new one on the same X server."""
        scope = self._apps_scope
        if scope is None:
            raise Unavailable("the desktop is being restarted")
        session = self._session
        scope.cancel(reason="the apps are to be restarted")
        while self._session is session or self._session is None:
            await self._changed.wait()

    @asynccontextmanager
    async def without_apps(self) -> AsyncIterator[None]:
        """End the apps, browser first and gently, and let none begin until the context is left.

        For what replaces their home under them. Unsaved work is lost.
        """
        self._holds += 1
        try:
            if self._apps_scope is not None:
                self._apps_scope.cancel(reason="the apps are ended for a while")
            await self._at_rest.wait()
            yield
            if self.home.state != "ok":
                await self.home.look()  # it may be another home now
        finally:
            self._holds -= 1
            if not self._holds:
                self._let_go.set()
                self._let_go = trio.Event()

    async def restart_display(self, screen: tuple[int, int] | None = None) -> None:
        """End everything and begin a new generation, with *screen* as its size if given.

        Every app's unsaved work is lost.
        """
        self.screen = screen or self.screen
        before = self._generation
        if self._display_scope is not None:
            self._display_scope.cancel(reason="the display is to be restarted")
        await self.wait_generation(before)

    # -- one generation after another --------------------------------------------------------------

    async def _run(self) -> None:
        """Generations, until cancelled. The first has to succeed; later ones are tried again for ever."""
        backoff = Backoff()
        while True:
            began = trio.current_time()
            with trio.CancelScope() as self._display_scope:
                try:
                    await self._generation_life()
                except* (BodydError, OSError) as group:
                    if not self._started.is_set():
                        raise
                    log.error("display_lost", error=str(leaf(group)))
            self._x.state, self._x.pid, self._endpoint = "restarting", None, None
            self._x.restarts += not self._display_scope.cancel_called
            self._announce()
            await trio.sleep(backoff.after(trio.current_time() - began))

    async def _generation_life(self) -> None:
        number = self._generation + 1
        async with x_server(self._layout, number, self.screen) as server, trio.open_nursery() as nursery:
            nursery.start_soon(server.box.drain)
            nursery.start_soon(_ended, server)
            if self._prepare is not None:
                await self._prepare(server.endpoint)
            self._endpoint, self._generation = server.endpoint, number
            self._x.state, self._x.pid = "running", server.box.init_pid
            self._announce()
            self._report("the X server is ready")
            await self._sessions(server)

    async def _sessions(self, server: XServer) -> None:
        backoff = Backoff()
        while True:
            self._at_rest.set()
            while self._holds or self.home.state == "over":
                await (self._let_go.wait() if self._holds else self.home.may_run())
            self._at_rest = trio.Event()
            began = trio.current_time()
            with trio.CancelScope() as self._apps_scope:
                try:
                    await self._session_life(server)
                except* (BodydError, OSError) as group:
                    if not self._started.is_set():
                        raise
                    log.error("apps_lost", error=str(leaf(group)))
            await trio.sleep(backoff.after(trio.current_time() - began))

    async def _session_life(self, server: XServer) -> None:
        async with (
            open_session(self._config, self._layout, server, machine_id=self._machine_id) as (
                session,
                way_out,
            ),
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(session.box.drain)
            nursery.start_soon(self.egress.serve, way_out)
            if session.facts.get("userns") is not True and self._config.desktop.browser:
                raise IsolationUnavailable(
                    "user namespaces can't be nested here, so the browser's own sandbox can't run; "
                    "'bodyd doctor' says the fix"
                )
            self._isolation["landlock_abi"] = session.facts.get("landlock")
            try:
                self._session, self._apps = session, nursery
                self._started.set()
                self._announce()
                nursery.start_soon(_serve, session)
                await self._programs(session)
            finally:
                self._session = self._apps = None
                self._announce()
                with trio.move_on_after(STOP_S, shield=True):
                    await self._stop_browser(session)
                nursery.cancel_scope.cancel(reason="the apps' sandbox ends")

    async def _programs(self, session: Session) -> None:
        config = self._config
        async with trio.open_nursery() as nursery:
            if session.bus is not None:
                nursery.start_soon(self._bus.supervise, lambda: _run_bus(session))
            argv = window_manager.command(config.desktop.window_manager)
            nursery.start_soon(self._window_manager.supervise, lambda: session.run("window_manager", argv))
            if config.desktop.browser:
                nursery.start_soon(self._browser.supervise, lambda: self._run_browser(session))

    async def _run_browser(self, session: Session) -> int:
        more = () if session.bus is None else (accessibility.BROWSER_FLAG,)
        argv = browser.command(self._config.desktop.browser, size=self.screen, url=self._url, more=more)
        self._url = None  # a restarted browser restores its session instead
        return await session.run("browser", argv, unlink=browser.LOCKS)

    async def _stop_browser(self, session: Session) -> None:
        """Ask the browser to end, and wait for the end of all its processes.

        SIGINT first: to it Chromium quits as if asked by its user and writes cookies, while SIGTERM is
        "the session is ending" to it and loses those of the last half minute. The writer is another
        process than its first, so all are waited for.
        """
        pid = session.host_pid("browser")
        if pid is None:
            return
        with ExitStack() as opened:
            fds = []
            for each in (pid, *descendants(pid)):
                with suppress(OSError):
                    fds.append(os.pidfd_open(each))
                    opened.callback(os.close, fds[-1])
            for number, grace in _STOP_SIGNALS:
                await session.signal("browser", number)
                with trio.move_on_after(grace):
                    for fd in fds:
                        await trio.lowlevel.wait_readable(fd)
                    return

    def _home_changed(self, state: State) -> None:
        """Full: nothing more comes in over the network. Far over: the apps are ended, and wait."""
        self.egress.shut("" if state == "ok" else "the home folder is full")
        if state == "over" and self._apps_scope is not None:
            self._apps_scope.cancel(reason="the home folder is far over its limit")

    def _announce(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


@asynccontextmanager
async def open_desktop(
    config: Config, *, report: Report, prepare: Prepare | None = None
) -> AsyncIterator[Desktop]:
    """The desktop, its X server ready and its apps starting; when left, nothing of it remains.

    Args:
        report: Told in a few words of each step.
        prepare: Awaited with each new X server before any app starts on it (screen size, keymap).
    Raises:
        IsolationUnavailable: the wall can't be built here; with the fix.
        ConfigError: another daemon owns this body, or a setting is wrong.
    Cancellation: the browser gets STOP_S to write its profile, then everything is killed.
    """
    require_isolation(config)
    with open_layout(config) as layout:
        desktop = Desktop(config, layout, prepare, report)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(desktop.home.run)
                nursery.start_soon(desktop._run)
                await desktop._started.wait()
                report("the apps are starting")
                yield desktop
                nursery.cancel_scope.cancel(reason="the desktop is closed")
        except BaseExceptionGroup as group:
            if len(group.exceptions) > 1:
                raise
            failure = leaf(group)
            raise explained(failure) if isinstance(failure, IsolationUnavailable) else failure from None


def leaf(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first exception in *group* that is not itself a group."""
    first = group.exceptions[0]
    return leaf(first) if isinstance(first, BaseExceptionGroup) else first


def _first_url(config: Config, layout: Layout) -> str | None:
    """The start page, unless the profile has had it opened already: then its session is restored."""
    url = config.desktop.start_url
    note = layout.private / "start-url"
    fresh = not os.path.lexists(layout.home / "chromium" / "Default" / "Preferences")
    if not fresh and note.exists() and note.read_text() == url:
        return None
    note.write_text(url)
    return url


async def _serve(session: Session) -> None:
    await session.serve()
    raise SessionLost("the apps' sandbox has ended")


async def _ended(server: XServer) -> None:
    status = await server.box.wait()
    raise DisplayUnavailable(f"the X server ended with status {status}: {server.box.tail()[-500:]}")


async def _run_bus(session: Session) -> int:
    assert session.bus is not None
    return await session.run("accessibility", accessibility.COMMAND, passing=session.bus.listener)


async def _unsupervised(session: Session, name: str, argv: tuple[str, ...]) -> None:
    try:
        await session.run(name, argv)
    except SessionLost as exc:
        log.warning("app_failed", app=name, error=exc.message)
