"""The body as everyone else sees it: BodyPort over lease, door, screens and desktop.

Composes the rooms below it; holds no rules of its own but who may ask for what.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

import trio

from bodyd import __version__
from bodyd.clock import Clock
from bodyd.config import Config
from bodyd.contract.actions import InputRequest
from bodyd.contract.acts import (
    Act,
    ActRequest,
    ClipboardRequest,
    ClipboardText,
    LaunchRequest,
    ResizeRequest,
)
from bodyd.contract.events import Event
from bodyd.contract.inventory import App, Inventory
from bodyd.contract.lease import AcquireRequest, Grant, HolderKind, LeaseState, LeaseView, Scope
from bodyd.contract.ports import AccessibilityPort, Caller, XEndpoint
from bodyd.contract.receipts import Receipt
from bodyd.contract.screenshots import Screenshot, ScreenshotRequest
from bodyd.errors import DisplayUnavailable, JournalUnavailable, NotFound, PersonDriving, Unavailable
from bodyd.journal.journal import Journal
from bodyd.lease.manager import LeaseManager
from bodyd.policy.rules import Rules

from .acts import Acts
from .chronicle import Chronicle
from .door import Door
from .events import Events
from .eyes import open_elements
from .hands import Hands
from .health import Health
from .live import LiveDisplay
from .screens import Screens
from .vitals import Vitals


class DesktopPort(Protocol):
    """What the body needs of desktop/: the X server that runs, what runs in it, and restarts."""

    @property
    def x(self) -> XEndpoint: ...

    @property
    def generation(self) -> int: ...

    @property
    def isolation(self) -> dict[str, Any]: ...

    @property
    def x_runs(self) -> bool: ...

    @property
    def bus_path(self) -> str | None: ...

    def components(self) -> dict[str, dict[str, Any]]: ...

    def apps_running(self, name: str) -> bool: ...

    async def wait_generation(self, after: int) -> int: ...

    async def launch(self, name: str) -> None: ...

    async def restart_window_manager(self) -> None: ...

    async def restart_apps(self) -> None: ...

    async def restart_display(self, screen: tuple[int, int] | None = None) -> None: ...


BLANK_SECONDS = 5.0
"""How long the journal may take to be told that an epoch is a person's."""


@asynccontextmanager
async def open_body(
    config: Config, *, body_id: str, desktop: DesktopPort, journal: Journal, clock: Clock
) -> AsyncIterator[Body]:
    """The body, ready: display open, lease loaded, unfinished requests reconciled.

    Raises:
        DisplayUnavailable, JournalUnavailable: it is not to be had.
    """
    body = Body(config, body_id=body_id, desktop=desktop, journal=journal, clock=clock)
    async with trio.open_nursery() as nursery:
        await nursery.start(body.run)
        try:
            yield body
        finally:
            nursery.cancel_scope.cancel(reason="the body closes")


class Body:
    """One body (implements contract.ports.BodyPort, method for method)."""

    def __init__(
        self, config: Config, *, body_id: str, desktop: DesktopPort, journal: Journal, clock: Clock
    ) -> None:
        self.body_id = body_id
        self._config = config
        self._desktop = desktop
        self._journal = journal
        self._clock = clock
        self.events = Events(private=lambda: self._leases.person_driving)
        self._chronicle = Chronicle(journal)
        self.events.listen(self._chronicle.note)
        self._also: list[Callable[[], Awaitable[bool]]] = []
        self._forgetful: list[Callable[[], None]] = []
        self._live = LiveDisplay(self._endpoint, self._moved)
        self._elements = open_elements(self._live, desktop) if config.accessibility.enabled else None
        self._screens = Screens(
            live=self._live,
            journal=journal,
            clock=clock,
            private=lambda: self._leases.person_driving,
            accessibility=self._elements,
        )
        self._forgetful.append(self._screens.forget_private)
        rules = Rules(deny=frozenset(config.policy.deny), approve=frozenset(config.policy.approve))
        self._door = Door(
            leases=lambda: self._leases,
            journal=journal,
            live=self._live,
            screens=self._screens,
            rules=rules,
            clock=clock,
            announce=self.events.publish,
            health=lambda: self._health,
            accessibility=self._elements,
        )
        self._acts = Acts(
            leases=lambda: self._leases,
            door=self._door,
            live=self._live,
            desktop=desktop,
            journal=journal,
            rules=rules,
            clock=clock,
            announce=self.events.publish,
        )
        self.hands = Hands(
            take_over=self.takeover,
            leases=lambda: self._leases,
            door=self._door,
            acts=self._acts,
            live=self._live,
            journal=journal,
        )
        self._health = Health(self._live, desktop, in_use=self._in_use, tell=self._tell_of_mending)
        self._leases = LeaseManager(
            body_id=body_id,
            store=journal,
            clock=clock,
            quiesce=self._quiesce,
            announce=self.events.publish,
            queue=config.lease.queue,
            recover_steps={1: self._quiesce, 2: self._recover_connections, 3: self._recover_display},
        )

    @property
    def leases(self) -> LeaseManager:
        """The lease, for what else runs under it (execution/)."""
        return self._leases

    @property
    def live(self) -> LiveDisplay:
        """The display that is there now, for the live view (stream/)."""
        return self._live

    @property
    def accessibility(self) -> AccessibilityPort | None:
        """What the apps tell of their structure; None where it is off."""
        return self._elements

    @property
    def person_driving(self) -> bool:
        """A person has the body: what it shows is for owners alone."""
        return self._leases.person_driving

    def forget_at_hand_over(self, forget: Callable[[], None]) -> None:
        """Call *forget* before anyone is granted the body: what was seen under the last claim is over."""
        self._forgetful.append(forget)

    def also_quiesce(self, halted: Callable[[], Awaitable[bool]]) -> None:
        """Let no hand-over be proved quiet before *halted* says so, too; it ends within the lease's bound."""
        self._also.append(halted)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Own the display, the lease and the door; started once all three are ready."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self._live.run)
            await nursery.start(self._door.run)
            await nursery.start(self._chronicle.run)
            await nursery.start(self._leases.run)
            nursery.start_soon(self._health.run)
            if self._elements is not None:
                nursery.start_soon(self._elements.run)
            task_status.started()

    # -- looking ---------------------------------------------------------------------------------

    async def status(self) -> dict[str, Any]:
        try:
            size = self._live.current.size.model_dump()
        except DisplayUnavailable:
            size = None
        return {
            "body_id": self.body_id,
            "name": self._config.name,
            "version": __version__,
            "lease": self._leases.view().model_dump(mode="json"),
            "display": size,
            "isolation": self._desktop.isolation,
            "components": await self.health(),
        }

    async def health(self) -> dict[str, dict[str, Any]]:
        """Each component: `state` "ready" or what is wrong; for /readyz and status.

        Programs are as desktop/ knows them; those that run are as they answer, or don't.
        """
        vitals = await self._health.fresh()
        parts = {name: _ready(part) for name, part in self._desktop.components().items()}
        for name, state in vitals.states().items():
            part = parts.setdefault(name, {"state": "ready"})
            if part["state"] == "ready":
                part["state"] = state
        if self._elements is not None and parts["accessibility"]["state"] == "ready":
            parts["accessibility"]["state"] = self._elements.state.value
        return {**parts, "display": _display_health(vitals), "journal": await self._journal_health()}

    async def screenshot(
        self, request: ScreenshotRequest, *, caller: Caller, lease_token: str | None = None
    ) -> Screenshot:
        if lease_token is not None:
            admission = self._leases.admit(lease_token, None)
            return await self._screens.take(
                request,
                epoch=admission.epoch,
                bind=True,
                still_allowed=lambda: self._leases.admit_again(admission),
            )
        self._private_while_driven(caller)
        return await self._screens.take(
            request,
            epoch=self._leases.view().epoch,
            bind=False,
            still_allowed=lambda: self._private_while_driven(caller),
        )

    async def image(self, screenshot_id: str, *, caller: Caller) -> bytes:
        self._private_while_driven(caller)
        return await self._screens.image(screenshot_id)

    async def inventory(self, *, caller: Caller) -> Inventory:
        self._private_while_driven(caller)
        apps = tuple(
            App(name=name, running=self._desktop.apps_running(name)) for name in self._config.desktop.apps
        )
        windows = await self._live.current.windows()
        self._private_while_driven(caller)  # a take-over in between: the titles may be the person's
        return Inventory(apps=apps, windows=windows)

    async def settle(self) -> None:
        """Wait until the screen is quiet, at most a second.

        Raises:
            DisplayUnavailable.
        """
        display = self._live.current
        await display.settle(display.activity())

    # -- acting ----------------------------------------------------------------------------------

    async def input(
        self, request: InputRequest, *, caller: Caller, lease_token: str, minted: bool = False
    ) -> Receipt:
        """As ports.BodyPort; *minted* as Door.input."""
        return await self._door.input(request, caller=caller, lease_token=lease_token, minted=minted)

    async def receipt(self, request_id: str, *, caller: Caller) -> Receipt:
        receipt = await self._journal.receipt(request_id)
        if receipt is None:
            raise NotFound(f"no receipt for {request_id!r:.200}", param="request_id")
        return receipt

    async def resize(self, request: ResizeRequest, *, caller: Caller, lease_token: str | None = None) -> Act:
        return await self._acts.resize(request, caller=caller, lease_token=lease_token)

    async def clipboard(self, *, caller: Caller, lease_token: str | None = None) -> ClipboardText:
        return ClipboardText(text=await self._acts.read_clipboard(caller=caller, lease_token=lease_token))

    async def write_clipboard(self, request: ClipboardRequest, *, caller: Caller, lease_token: str) -> Act:
        return await self._acts.write_clipboard(
            request.text, caller=caller, lease_token=lease_token, epoch=request.epoch
        )

    async def launch(self, request: LaunchRequest, *, caller: Caller, lease_token: str) -> Act:
        return await self._acts.launch(
            request.name, caller=caller, lease_token=lease_token, epoch=request.epoch
        )

    async def activate(self, window_id: int, request: ActRequest, *, caller: Caller, lease_token: str) -> Act:
        return await self._acts.activate(
            window_id, caller=caller, lease_token=lease_token, epoch=request.epoch
        )

    async def close_window(
        self, window_id: int, request: ActRequest, *, caller: Caller, lease_token: str
    ) -> Act:
        return await self._acts.close(window_id, caller=caller, lease_token=lease_token, epoch=request.epoch)

    # -- the lease -------------------------------------------------------------------------------

    async def acquire(
        self, request: AcquireRequest, *, caller: Caller, kind: HolderKind = HolderKind.AGENT
    ) -> Grant:
        grant = await self._leases.acquire(request, caller=caller, kind=kind)
        return await self._blank(grant) if kind is HolderKind.PERSON else grant

    def lease(self) -> LeaseView:
        """The lease as it is now."""
        return self._leases.view()

    async def renew(self, lease_token: str, ttl_ms: int | None = None) -> LeaseView:
        return await self._leases.renew(lease_token, ttl_ms)

    async def release(self, lease_token: str) -> LeaseView:
        return await self._leases.release(lease_token)

    async def revoke(self, *, caller: Caller, reason: str) -> LeaseView:
        return await self._leases.revoke(caller=caller, reason=reason)

    async def pause(self, *, caller: Caller, reason: str) -> LeaseView:
        return await self._leases.pause(caller=caller, reason=reason)

    async def resume(self, *, caller: Caller, lease_token: str | None = None) -> LeaseView:
        return await self._leases.resume(caller=caller, lease_token=lease_token)

    async def stop(self, *, caller: Caller, reason: str) -> LeaseView:
        return await self._leases.stop(caller=caller, reason=reason)

    async def takeover(self, *, caller: Caller, reason: str) -> Grant:
        return await self._blank(await self._leases.takeover(caller=caller, reason=reason))

    async def handback(self, *, caller: Caller, lease_token: str) -> LeaseView:
        return await self._leases.handback(caller=caller, lease_token=lease_token)

    async def recover(self, *, caller: Caller, step: int = 1) -> LeaseView:
        return await self._leases.recover(caller=caller, step=step)

    # -- inside ----------------------------------------------------------------------------------

    def _endpoint(self) -> tuple[XEndpoint, int]:
        return self._desktop.x, self._desktop.generation

    async def _moved(self, generation: int) -> None:
        await self._desktop.wait_generation(generation)

    async def _quiesce(self) -> bool:
        """The door's proof first, for keys are held there; then everyone else's.

        After a person, the clipboard is cleared before it counts as quiet: it may hold what they copied.
        """
        if not await self._door.quiesce() or not all([await halted() for halted in self._also]):
            return False
        if self._leases.person_driving:
            try:
                await self._live.current.clear_clipboard()
            except Unavailable:
                return False
        for forget in self._forgetful:
            forget()
        return True

    async def _recover_connections(self) -> bool:
        await self._live.reconnect()
        return await self._quiesce()

    async def _recover_display(self) -> bool:
        generation = self._desktop.generation
        await self._desktop.restart_display()
        await self._live.opened_after(generation)
        return await self._quiesce()

    async def _blank(self, grant: Grant) -> Grant:
        """A person has the body: nothing of what it shows in their epoch is kept.

        Raises:
            JournalUnavailable: that can't be made sure; the body is given back.
        """
        try:
            with trio.move_on_after(BLANK_SECONDS, shield=True) as patience:
                await self._journal.forget_epoch(grant.epoch)
            if patience.cancelled_caught:
                raise JournalUnavailable("the journal does not answer; the body was given back")
        except JournalUnavailable:
            with trio.move_on_after(BLANK_SECONDS, shield=True):
                await self._leases.release(grant.lease_token)
            raise
        return grant

    def _in_use(self) -> bool:
        return self._leases.view().state is not LeaseState.VACANT

    async def _tell_of_mending(self, wrong: str, restart: str) -> None:
        facts: dict[str, object] = {"wrong": wrong, "restart": restart}
        self.events.publish(Event(type="body.mending", at=self._clock.wall_ms(), data=facts))
        await self._journal.audit("body.mending", facts)

    async def _journal_health(self) -> dict[str, Any]:
        error = self._leases.store_error
        try:
            await self._journal.check()
        except JournalUnavailable as exc:
            error = exc
        return {"state": "ready"} if error is None else {"state": "down", "detail": error.message}

    def _private_while_driven(self, caller: Caller) -> None:
        """While a person drives, nobody but the owner sees anything."""
        if self._leases.person_driving and caller.scope is not Scope.OWNER:
            raise PersonDriving(
                "a person is driving; what they see and type is theirs until it is handed back"
            )


def _ready(part: dict[str, Any]) -> dict[str, Any]:
    """A running program is a ready component; any other state is named as it is."""
    return {**part, "state": "ready"} if part["state"] == "running" else part


def _display_health(vitals: Vitals) -> dict[str, Any]:
    if vitals.round_trip is None:
        return {"state": "down", "detail": "the display server does not answer"}
    return {"state": "ready", "round_trip_ms": round(1000 * vitals.round_trip, 2)}
