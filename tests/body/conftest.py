"""A whole daemon with its body: the real X server, window manager, browser, sandbox and journal.

One is kept for a module's tests by running it in a thread of its own; each test gets a clean lease.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
import trio

from bodyd.client import BodyClient
from bodyd.config import Config, parse
from bodyd.contract.lease import LeaseState, Scope
from bodyd.daemon import Running, serve

from .page import Page


@dataclass
class World:
    """A running daemon in another thread, and the page that its browser shows."""

    config: Config
    running: Running
    page: Page
    reports: list[str] = field(default_factory=list)

    def client(self, scope: Scope = Scope.OWNER) -> BodyClient:
        return self.running.client(scope)


@contextmanager
def folder() -> Iterator[Path]:
    """A directory that the body's own users can pass through."""
    path = Path(tempfile.mkdtemp(prefix="bodyd-test-"))
    path.chmod(0o711)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def configuration(root: Path, **sections: object) -> Config:
    """A body with its own directories and ports, whose browser opens the event page."""
    raw: dict[str, object] = {
        "name": "test",
        "state_dir": str(root / "state"),
        "run_dir": str(root / "run"),
        "http": {"port": 0},
        "desktop": {"start_url": "http://page.bodyd.test/"},
        "egress": {"local": {"page.bodyd.test:80": str(root / "page.sock")}},
    }
    for name, values in sections.items():
        raw[name] = {**raw.get(name, {}), **values}  # type: ignore[dict-item]
    return parse(raw)


@contextmanager
def running_world(root: Path, **sections: object) -> Iterator[World]:
    """Start a daemon in a thread with its own Trio loop; leave it to stop it."""
    config = configuration(root, **sections)
    page = Page(root / "page.sock")
    ready, outcome = threading.Event(), {}
    reports: list[str] = []

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            outcome["token"] = trio.lowlevel.current_trio_token()
            outcome["scope"] = nursery.cancel_scope
            await nursery.start(page.serve)
            outcome["running"] = await nursery.start(partial(serve, config, report=reports.append))
            ready.set()
            await trio.sleep_forever()

    def run() -> None:
        try:
            trio.run(main)
        except BaseException as exc:
            outcome["error"] = exc
        finally:
            ready.set()

    thread = threading.Thread(target=run, name="daemon")
    thread.start()
    ready.wait(60)
    if "running" not in outcome:
        thread.join(10)
        raise RuntimeError(f"the daemon did not start: {reports}") from outcome.get("error")
    try:
        yield World(config, outcome["running"], page, reports)
    finally:
        outcome["token"].run_sync_soon(partial(outcome["scope"].cancel, reason="the test is over"))
        thread.join(30)
        assert not thread.is_alive(), "the daemon did not stop"
        if "error" in outcome:
            raise outcome["error"]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with folder() as root, running_world(root) as running:
        yield running


@pytest.fixture
async def client(world: World) -> AsyncIterator[BodyClient]:
    """The owner's client; afterwards the lease is vacant again, whatever the test did."""
    async with world.client() as client:
        yield client
        status = await client.status()
        if status["lease"]["state"] == LeaseState.STOPPED:
            await client.resume()
        if status["lease"]["state"] == LeaseState.RECOVERY_REQUIRED:
            await client.recover(step=1)
        elif status["lease"]["state"] != LeaseState.VACANT:
            await client.revoke(reason="the test is over")
