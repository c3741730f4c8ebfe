"""A whole daemon with its body: `bodyd up` as a user starts it, and the page that its browser shows.

Used by the tests here, and by bench/.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import trio

from bodyd.client import BodyClient
from bodyd.config import Config, load
from bodyd.contract.lease import Scope
from bodyd.http.tokens import read_token

from .page import Page

START_SECONDS = 60
STOP_SECONDS = 30


@dataclass
class World:
    """A daemon's process, its configuration, and the event page."""

    root: Path
    page: Page
    config: Config
    process: subprocess.Popen[str] | None = None
    reports: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Where the API listens on TCP."""
        line = next(line for line in self.reports if line.startswith("serving on "))
        return line.split()[2]

    def client(self, scope: Scope = Scope.OWNER) -> BodyClient:
        token = read_token(self.config.state / "private", scope)
        return BodyClient(socket_path=self.config.api_socket, token=token)

    def start(self) -> None:
        """Start the daemon; returns once it serves."""
        self.reports = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bodyd", "--config", str(self.root / "bodyd.toml"), "up"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        serving = threading.Event()
        threading.Thread(target=self._read, args=(self.process, self.reports, serving), daemon=True).start()
        serving.wait(START_SECONDS)
        if not any(line.startswith("console ") for line in self.reports):
            self.stop()
            raise RuntimeError("the daemon did not start:\n" + "\n".join(self.reports))

    def stop(self) -> int:
        """End it as Ctrl-C does; returns its exit status."""
        process = self.process
        assert process is not None
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            return process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError("the daemon did not stop:\n" + "\n".join(self.reports)) from None

    def kill(self) -> None:
        """kill -9."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(STOP_SECONDS)

    @staticmethod
    def _read(process: subprocess.Popen[str], reports: list[str], serving: threading.Event) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            reports.append(line.rstrip("\n"))
            if line.startswith("console "):
                serving.set()
        process.stdout.close()
        serving.set()


@contextmanager
def folder() -> Iterator[Path]:
    """A directory that the body's own users can pass through."""
    path = Path(tempfile.mkdtemp(prefix="bodyd-test-"))
    path.chmod(0o711)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def configure(root: Path, **sections: dict[str, object]) -> Config:
    """A body with its own directories and a free port, whose browser opens the event page."""
    raw: dict[str, dict[str, object]] = {
        "http": {"port": 0},
        "desktop": {"start_url": "http://page.bodyd.test/"},
        "egress": {},
    }
    for name, values in sections.items():
        raw[name] = {**raw.get(name, {}), **values}
    raw["egress"].setdefault("local", {"page.bodyd.test:80": str(root / "page.sock")})
    lines = ['name = "test"', f'state_dir = "{root}/state"', f'run_dir = "{root}/run"']
    for name, values in raw.items():
        lines.append(f"[{name}]")
        lines += [f"{key} = {_toml(value)}" for key, value in values.items()]
    path = root / "bodyd.toml"
    path.write_text("\n".join(lines) + "\n")
    return load(path)


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {_toml(v)}" for k, v in value.items()) + "}"
    return json.dumps(value)


@contextmanager
def running_page(path: Path) -> Iterator[Page]:
    """The event page, served from a thread of its own."""
    page, ready, handles = Page(path), threading.Event(), {}

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            handles["token"] = trio.lowlevel.current_trio_token()
            await nursery.start(page.serve)
            handles["stop"] = partial(nursery.cancel_scope.cancel, reason="the page is not needed any more")
            ready.set()

    thread = threading.Thread(target=trio.run, args=(main,), name="page")
    thread.start()
    assert ready.wait(START_SECONDS)
    try:
        yield page
    finally:
        handles["token"].run_sync_soon(handles["stop"])
        thread.join(STOP_SECONDS)


@contextmanager
def running_world(root: Path, **sections: dict[str, object]) -> Iterator[World]:
    """A daemon that serves, until the context is left."""
    with running_page(root / "page.sock") as page:
        world = World(root, page, configure(root, **sections))
        world.start()
        try:
            yield world
        finally:
            if world.process is not None and world.process.poll() is None:
                assert world.stop() == 0, "\n".join(world.reports)
            elif world.process is not None and world.process.returncode not in (0, -signal.SIGKILL):
                raise AssertionError("the daemon ended by itself:\n" + "\n".join(world.reports))


@contextmanager
def bare_world(root: Path, **sections: dict[str, object]) -> Iterator[World]:
    """The same without a browser: starts in half the time, for tests that bring an app of their own."""
    with running_world(root, **{"desktop": {"browser": "", "start_url": "about:blank"}, **sections}) as world:
        yield world


def processes_of(root: Path) -> list[int]:
    """Processes whose command line or environment names *root*: what a daemon may have left behind."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            except OSError:
                continue
            if str(root).encode() in text:
                found.append(int(entry.name))
    return found
