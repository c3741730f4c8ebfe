"""The daemon: one body, composed from its rooms, from the first file lock to the last kill.

Entry order is the reverse of exit order: HTTP stops first, then the door and the lease, then the
display, then the desktop, the journal last.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import structlog
import trio

from bodyd.client import BodyClient
from bodyd.clock import Clock
from bodyd.config import Config
from bodyd.contract.adapters import Adapter, AdapterContext
from bodyd.contract.ends import End
from bodyd.contract.lease import LeaseState, Scope
from bodyd.contract.ports import ApprovalPort, BodyPort, ProcessPort
from bodyd.desktop.desktop import open_desktop
from bodyd.desktop.egress_lists import EgressLists, apps_rules, shell_rules
from bodyd.desktop.layout import Layout
from bodyd.desktop.session import machine_id
from bodyd.desktop.snapshots import Snapshots
from bodyd.driver.body import Body, open_body
from bodyd.driver.homes import Homes
from bodyd.errors import BodydError, BodyStopped
from bodyd.execution.board import Board
from bodyd.http.adapters import find_upstream, open_adapters
from bodyd.http.app import create_app
from bodyd.http.asgi import App
from bodyd.http.listener import listen
from bodyd.http.services import Services
from bodyd.http.tokens import Tokens
from bodyd.http.upgrades import Upgrades
from bodyd.journal.chain import Checkpoint
from bodyd.journal.documents import open_documents
from bodyd.journal.journal import Journal, open_journal
from bodyd.policy.approvals import Approvals
from bodyd.stream.stream import open_stream

if TYPE_CHECKING:
    from bodyd.execution.code import Code
    from bodyd.execution.shell import Shell

Report = Callable[[str], None]
Load = Callable[[], Config]

SWITCH_SECONDS = 0.001
"""A thread that types must not keep a revocation waiting for the interpreter (5 ms a turn by default)."""

log = structlog.get_logger("bodyd")


@dataclass(frozen=True, slots=True)
class Running:
    """A daemon that serves: where, and its parts."""

    config: Config
    port: int
    body: Body
    tokens: Tokens

    @property
    def url(self) -> str:
        return f"http://{self.config.http.host}:{self.port}"

    def client(self, scope: Scope = Scope.OWNER) -> BodyClient:
        """A client of the public API, over the unix socket."""
        return BodyClient(socket_path=self.config.api_socket, token=self.tokens.token(scope))


async def serve(
    config: Config,
    *,
    report: Report,
    load: Load | None = None,
    task_status: trio.TaskStatus[Running] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run one body until cancelled; started once it serves.

    Args:
        load: Reads the configuration again, for the allowlists; None: they stay as they are.
    Raises:
        IsolationUnavailable: the wall can't be built here; nothing was started.
        ConfigError: another daemon owns the body, or a setting can't be used.
        JournalUnavailable: the state directory can't be written, or what is in it is damaged.
    Cancellation:
        The browser is asked to end first, then every process is killed; nothing is left.
    """
    clock = Clock()
    async with open_desktop(config, report=report) as desktop:
        private = config.state / "private"
        key = secret(private / "audit.key").encode()
        body_id = f"body_{secret(private / 'body.id')[:20]}"
        async with (
            open_journal(private, clock=clock, settings=config.journal, key=key) as journal,
            open_body(config, body_id=body_id, desktop=desktop, journal=journal, clock=clock) as body,
            trio.open_nursery() as house,
        ):
            house.start_soon(journal.keep_house, _log_checkpoint)
            for receipt in journal.recovered:
                report(f"request {receipt.request_id} was cut off by the last stop: {receipt.outcome}")
            tokens = Tokens.load_or_create(private)
            board = Board(lease=body.lease, now_ms=clock.wall_ms, announce=body.events.publish)
            approvals = None
            if config.policy.approvals == "console":
                approvals = Approvals(now_ms=clock.wall_ms, announce=body.events.publish)
            async with (
                open_stream(body) as stream,
                _shell(config, desktop.layout, body, journal, clock, approvals) as shell,
                _code(config, desktop.layout, body, journal) as code,
                _adapters(
                    config, body, None if shell is None else board.shell(shell), private, clock
                ) as adapters,
            ):
                egress = EgressLists(load, journal.audit)
                egress.add("apps", desktop.egress, apps_rules)
                if shell is not None:
                    egress.add("shell", shell.egress, shell_rules)
                house.start_soon(_reload_on_hangup, egress)
                homes = Homes(Snapshots(desktop.layout, now_ms=clock.wall_ms), desktop, body.leases, journal)
                await house.start(homes.keep_house)
                services = Services(
                    body=body,
                    tokens=tokens,
                    config=config,
                    clock=clock,
                    events=body.events,
                    adapters=adapters,
                    processes=None if shell is None else board.shell(shell),
                    jobs=None if shell is None else board.jobs(shell.jobs),
                    code=None if code is None else board.code(code),
                    egress=egress,
                    homes=homes,
                    history=journal,
                    board=board,
                    approvals=approvals,
                )
                async with listen(
                    cast(App, create_app(services)),
                    upgrade=Upgrades(services, [stream.route]),
                    host=config.http.host,
                    port=config.http.port,
                    unix_path=config.api_socket,
                ) as bound:
                    task_status.started(Running(config, bound.port or 0, body, tokens))
                    await trio.sleep_forever()


@asynccontextmanager
async def _shell(
    config: Config,
    layout: Layout,
    body: Body,
    journal: Journal,
    clock: Clock,
    approvals: ApprovalPort | None,
) -> AsyncIterator[Shell | None]:
    """The shell, if it is enabled; no hand-over is proved before its commands have halted."""
    if not config.shell.enabled:
        yield None
        return
    from bodyd.execution.shell import open_shell

    inner_id = machine_id(layout.private)
    async with open_shell(
        config,
        layout=layout,
        machine_id=inner_id,
        leases=body.leases,
        journal=journal,
        clock=clock,
        approvals=approvals,
    ) as shell:
        body.also_quiesce(shell.quiesce)
        yield shell


@asynccontextmanager
async def _code(config: Config, layout: Layout, body: Body, journal: Journal) -> AsyncIterator[Code | None]:
    """The code tool, unless it is off; no hand-over is proved before its code has ended."""
    if not config.code.enabled:
        yield None
        return
    from bodyd.execution.code import open_code

    inner_id = machine_id(layout.private)
    async with open_code(
        config, layout=layout, machine_id=inner_id, desk=body, leases=body.leases, journal=journal
    ) as code:
        body.events.listen(code.hear)
        body.also_quiesce(code.quiesce)
        yield code


@asynccontextmanager
async def _adapters(
    config: Config, body: BodyPort, shell: ProcessPort | None, private: Path, clock: Clock
) -> AsyncIterator[tuple[Adapter, ...]]:
    """The adapters that are configured, open; with none, none of their files is made or imported."""
    if config.gateway.upstream.kind == "none":
        yield ()
        return
    async with open_documents(private, now_ms=clock.wall_ms) as store:
        context = AdapterContext(
            body=body,
            store=store,
            settings=config.gateway,
            now_ms=clock.wall_ms,
            process=shell,
            upstreams=find_upstream,
        )
        async with open_adapters({"gateway": context}) as adapters:
            yield adapters


def _log_checkpoint(checkpoint: Checkpoint) -> None:
    """The audit's head leaves the process by the log; what came after the last one can't be proved."""
    log.info("audit.checkpoint", checkpoint=str(checkpoint))


def run(config: Config, *, report: Report, load: Load | None = None) -> int:
    """`bodyd up`: serve until SIGINT or SIGTERM; returns the exit status. *load* as for `serve`."""

    async def main(running: Running) -> int:
        lease = running.body.lease()
        await _announce(running, report)
        if lease.state is LeaseState.RECOVERY_REQUIRED:
            report(f"the lease needs recovery ({lease.reason}): run `bodyd recover`")
        if lease.state is LeaseState.STOPPED:
            report(f"the owner stopped the body ({lease.reason}): `bodyd resume` lets drivers in again")
        await trio.sleep_forever()

    return _serving(config, main, report, load=load)


def run_demo(config: Config, *, seed: int, panel_open: bool, stay: bool, out: Path, report: Report) -> int:
    """`bodyd demo`: a body, the fixture site and a scripted model; 0 only if the grader agrees."""
    from bodyd import demo

    site = demo.Site.load(seed=seed, panel_open=panel_open)

    async def main(running: Running) -> int:
        await _recover(running, report)
        async with running.client() as client:
            end = await demo.run(client, site, out=out, report=report)
        if stay:
            await _announce(running, report)
            await trio.sleep_forever()
        return 0 if end is End.COMPLETED else 1

    return _serving(site.configure(config), main, report, beside=site.serve, log_level=logging.WARNING)


def _serving(
    config: Config,
    main: Callable[[Running], Awaitable[int]],
    report: Report,
    *,
    load: Load | None = None,
    beside: Callable[..., Awaitable[None]] | None = None,
    log_level: int = logging.INFO,
) -> int:
    """Run *main* with a daemon until it returns or a signal ends it; errors come out bare."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(log_level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),  # stdout is for people
    )

    async def everything() -> int:
        status = 0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_cancel_on_signal, nursery.cancel_scope, report)
            if beside is not None:
                await nursery.start(beside)
            running = await nursery.start(partial(serve, config, report=report, load=load))
            status = await main(running)
            nursery.cancel_scope.cancel(reason="done")
        return status

    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        return trio.run(everything)
    except BaseExceptionGroup as group:
        raise _only(group) from None


async def _cancel_on_signal(scope: trio.CancelScope, report: Report) -> None:
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for number in signals:
            report(f"{signal.Signals(number).name}: stopping …")
            scope.cancel(reason=f"signal {number}")
            break


async def _reload_on_hangup(egress: EgressLists) -> None:
    """SIGHUP reads the lists again, as service managers ask; at a terminal it goes on ending the body."""
    if os.isatty(0):
        return
    with trio.open_signal_receiver(signal.SIGHUP) as signals:
        async for _number in signals:
            with suppress(BodydError):  # logged, audited and kept for status
                await egress.reload()


async def _announce(running: Running, report: Report) -> None:
    async with running.client() as client:
        link = await client.console_link(running.url)
    report(f"serving on {running.url} and {running.config.api_socket}")
    report(f"console  {link}")
    report("         (the link works once, within five minutes; `bodyd token link` prints another)")
    report("Ctrl-C ends it")


async def _recover(running: Running, report: Report) -> None:
    """After a kill, the lease's claim needs recovery: release all and read back, and say so."""
    lease = running.body.lease()
    if lease.state is LeaseState.STOPPED:
        raise BodyStopped("the owner stopped this body: start it with `bodyd up`, then run `bodyd resume`")
    if lease.state is not LeaseState.RECOVERY_REQUIRED:
        return
    report(f"the last run ended without a release ({lease.reason}): releasing all keys, reading back …")
    async with running.client() as client:
        view = await client.recover(step=1)
    report(f"recovered: the lease is {view.state.value}")


def secret(path: Path) -> str:
    """The hex secret in *path*, made at the first start (0600), never overwritten.

    The caller holds the body's lock, so that nobody else makes it at the same time.
    """
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        text = secrets.token_hex(32)
        fresh = path.with_suffix(".new")
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(path)
        return text


def _only(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one error of a group, bare; a group of several stays as it is."""
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup) and len(found.exceptions) == 1:
        found = found.exceptions[0]
    return found
