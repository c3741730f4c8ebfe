"""A shell with all that is real below it: layout, journal, lease and sandboxes; no desktop is needed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio

from bodyd.clock import Clock
from bodyd.config import Config, parse
from bodyd.contract.events import Event
from bodyd.contract.lease import AcquireRequest, Scope
from bodyd.contract.ports import ApprovalPort, Caller, ProcessChunk, ProcessResult
from bodyd.desktop.layout import Layout, open_layout
from bodyd.execution.shell import Shell, open_shell
from bodyd.journal.journal import Journal, open_journal
from bodyd.lease.manager import LeaseManager
from tests.desktop.conftest import descendants

OWNER = Caller(id="owner", scope=Scope.OWNER)
BASE_UID = 90000 + (os.getpid() % 5000) * 4
SOON = 20.0


@dataclass
class World:
    config: Config
    layout: Layout
    journal: Journal
    leases: LeaseManager
    shell: Shell
    token: str = ""

    async def acquire(self, conversation: str = "talk") -> str:
        request = AcquireRequest(conversation_id=conversation)
        self.token = (await self.leases.acquire(request, caller=OWNER)).lease_token
        return self.token

    async def release(self) -> None:
        await self.leases.release(self.token)

    def call(self, *commands: str, **more: Any) -> Any:
        more = {"lease_token": self.token, "timeout_ms": None, "max_output_length": None, **more}
        return self.shell.run(commands, **more)

    async def run(self, *commands: str, **more: Any) -> list[ProcessResult]:
        """Run to the end; the results."""
        async with self.call(*commands, **more) as output:
            return [one async for one in output if isinstance(one, ProcessResult)]

    async def out(self, command: str, **more: Any) -> str:
        """The stdout of one command that has to succeed."""
        (result,) = await self.run(command, **more)
        assert result.exit_code == 0, result
        return result.stdout

    async def audited(self, kind: str) -> list[dict[str, Any]]:
        return [dict(entry.data) for entry in await self.journal.tail(500) if entry.kind == kind]

    def work(self) -> Path:
        """The working folder, if there is one conversation."""
        (folder,) = (path for path in self.layout.workspace.iterdir() if path.is_dir())
        return folder / "work"


@asynccontextmanager
async def world(
    *,
    approvals: ApprovalPort | None = None,
    policy: dict[str, Any] | None = None,
    egress: Any = None,
    **shell: Any,
) -> AsyncIterator[World]:
    """A running shell that allows everything unless told otherwise, its lease acquired."""
    root = _place()
    section = {"enabled": True, "policy": policy or {"default": "allow", "unparsed": "allow"}, **shell}
    if egress is not None:
        section["egress"] = egress
    desktop = {"browser": "", "base_uid": BASE_UID}
    config = parse(
        {"state_dir": root / "state", "run_dir": root / "run", "desktop": desktop, "shell": section}
    )
    clock, events = Clock(), []
    made: list[Shell] = []

    async def quiesce() -> bool:
        return not made or await made[0].quiesce()

    def announce(event: Event) -> None:
        events.append(event)

    try:
        with open_layout(config) as layout:
            async with (
                open_journal(layout.private, clock=clock, settings=config.journal, key=b"k" * 32) as journal,
                trio.open_nursery() as nursery,
            ):
                leases = LeaseManager(
                    body_id="body_x", store=journal, clock=clock, quiesce=quiesce, announce=announce
                )
                await nursery.start(leases.run)
                async with open_shell(
                    config,
                    layout=layout,
                    machine_id="0" * 32,
                    leases=leases,
                    journal=journal,
                    clock=clock,
                    approvals=approvals,
                ) as opened:
                    made.append(opened)
                    here = World(config, layout, journal, leases, opened)
                    await here.acquire()
                    yield here
                nursery.cancel_scope.cancel(reason="the test is over")
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _place() -> Path:
    """A directory that other uids can pass through, as a body's roots must be."""
    path = Path(tempfile.mkdtemp(prefix="bodyd-test-"))
    path.chmod(0o755)
    return path


async def chunks_until(output: AsyncIterator[Any], text: str, stream: str = "stdout") -> list[ProcessChunk]:
    """Read chunks until *text* has come."""
    seen: list[ProcessChunk] = []
    with trio.fail_after(SOON):
        async for one in output:
            assert isinstance(one, ProcessChunk), one
            seen.append(one)
            if text in "".join(c.text for c in seen if c.stream == stream):
                return seen
    raise AssertionError(f"{text!r} never came: {seen}")


async def until(met: Callable[[], bool]) -> None:
    """Wait for something that nothing tells of, for SOON at the most."""
    with trio.fail_after(SOON):
        while not met():  # noqa: ASYNC110
            await trio.sleep(0.005)


def names_of(pids: Sequence[int] | None = None) -> list[str]:
    """The command names of all descendants (or of *pids*) that are still there."""
    found = []
    for pid in descendants() if pids is None else pids:
        try:
            found.append(Path(f"/proc/{pid}/comm").read_text().strip())
        except OSError:
            continue
    return found


@contextmanager
def revoked_once_written(w: World, kind: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The lease is revoked between the row of *kind* and whatever comes after it."""

    async def revoke() -> None:
        await w.leases.revoke(caller=OWNER, reason="in the middle")

    with _once_written(w, kind, revoke, monkeypatch):
        yield


@contextmanager
def left_once_written(
    w: World, kind: str, client: trio.CancelScope, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """The client leaves there."""

    async def leave() -> None:
        client.cancel(reason="the client has left")

    with _once_written(w, kind, leave, monkeypatch):
        yield


@contextmanager
def _once_written(
    w: World, kind: str, happens: Callable[[], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    kept = w.journal.audit

    async def audit(this: str, data: Any) -> int:
        place = await kept(this, data)
        if this == kind:
            await happens()
        return place

    with monkeypatch.context() as patch:
        patch.setattr(w.journal, "audit", audit)
        yield
