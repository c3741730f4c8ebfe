"""What the demo is put together from: a model and a site with a task, each found by name."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol

import trio

from bodyd.config import Config
from bodyd.contract.ports import UpstreamPort
from bodyd.errors import ConfigError

JUDGED_WITHIN = 3.0  # seconds for the page's last report to reach the grader


class Verdict(Protocol):
    """A grader's judgement; `reasons` says what is wrong, one sentence each."""

    @property
    def success(self) -> bool: ...

    @property
    def reasons(self) -> Sequence[str]: ...


class RunningSite(Protocol):
    """The host's side of a site that is served: what it started with."""

    def verdict(self) -> Verdict: ...

    def reset(self, *, seed: int | None, panel_open: bool | None) -> None: ...

    async def until_shown(self) -> None: ...

    async def until_success(self) -> None: ...


class SiteModule(Protocol):
    """What an entry point of `bodyd.sites` names: a module with a site to serve and a task in it."""

    URL: str
    EGRESS: str
    TASK: str

    async def serve(
        self,
        socket_path: Path,
        *,
        seed: int,
        panel_open: bool,
        task_status: trio.TaskStatus[RunningSite],
    ) -> None: ...


def load_upstream(name: str = "scripted") -> UpstreamPort:
    """The model behind an entry point of `bodyd.upstreams`.

    Raises:
        ConfigError: there is none of that name.
    """
    upstream: UpstreamPort = _entry("bodyd.upstreams", name)()
    return upstream


class Site:
    """The site of one demo: where it is served, how a body reaches it, what its grader says."""

    def __init__(self, module: SiteModule, *, seed: int, panel_open: bool) -> None:
        self._module = module
        self._seed = seed
        self._panel_open = panel_open
        # not in the run directory: that is made, and guarded, by the daemon that starts later
        self._folder = Path(tempfile.gettempdir()) / f"bodyd-site-{secrets.token_hex(8)}"
        self._running: RunningSite | None = None

    @classmethod
    def load(cls, name: str = "filters", *, seed: int, panel_open: bool = False) -> Site:
        """The site behind an entry point of `bodyd.sites`.

        Raises:
            ConfigError: there is none of that name.
        """
        return cls(_entry("bodyd.sites", name), seed=seed, panel_open=panel_open)

    @property
    def task(self) -> str:
        """What a model is asked to do there."""
        return self._module.TASK

    def configure(self, config: Config) -> Config:
        """*config*, with the browser starting at the site and nothing else local reachable for it."""
        local = {**config.egress.local, self._module.EGRESS: str(self._folder / "site.sock")}
        return config.model_copy(
            update={
                "egress": config.egress.model_copy(update={"local": local}),
                "desktop": config.desktop.model_copy(update={"start_url": self._module.URL}),
            }
        )

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; started once the body could reach it."""
        with _private(self._folder):
            async with trio.open_nursery() as nursery:
                self._running = await nursery.start(
                    partial(
                        self._module.serve,
                        self._folder / "site.sock",
                        seed=self._seed,
                        panel_open=self._panel_open,
                    )
                )
                task_status.started()

    def reset(self, *, seed: int, panel_open: bool) -> None:
        """Begin a new run; a page that is open must be loaded anew to be of it."""
        self._site().reset(seed=seed, panel_open=panel_open)

    async def until_shown(self) -> None:
        """Return once a page of this run has been painted; the caller bounds the wait."""
        await self._site().until_shown()

    async def grade(self) -> Verdict:
        """The grader's judgement, waiting a moment for what the page still has to report."""
        site = self._site()
        with trio.move_on_after(JUDGED_WITHIN):
            await site.until_success()
        return site.verdict()

    def _site(self) -> RunningSite:
        if self._running is None:
            raise RuntimeError("the site is not being served")
        return self._running


@contextmanager
def _private(folder: Path) -> Iterator[None]:
    folder.mkdir(mode=0o700)
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _entry(group: str, name: str) -> Any:  # noqa: ANN401 (whatever the entry point names)
    found = entry_points(group=group)
    if name not in found.names:
        known = ", ".join(sorted(found.names)) or "none"
        raise ConfigError(f"no {group} entry point is called {name!r}; installed: {known}")
    return found[name].load()
