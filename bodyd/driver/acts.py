"""Acts beside the keyboard and pointer: each a short turn at the door, audited before it is done.

An act takes its turn among the batches, so none falls into the middle of one, and no hand-over is
proved quiet before it is over. It has no request id and no receipt: asked for twice, it is done
twice, and all but a launch are the same done twice. The audit has what was asked, texts by their
length. Counterparts: door.py has the turns, contract/acts.py the wire.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

import trio

from bodyd.clock import Clock
from bodyd.contract.acts import MAX_CLIPBOARD_BYTES, Act, ActType, ResizeRequest
from bodyd.contract.events import Event
from bodyd.contract.geometry import Size
from bodyd.contract.inventory import Window
from bodyd.contract.lease import Scope
from bodyd.contract.ports import Caller, Verdict
from bodyd.contract.receipts import Effect, Outcome
from bodyd.display.display import Display
from bodyd.errors import (
    DisplayUnavailable,
    Forbidden,
    InvalidRequest,
    LeaseRequired,
    PolicyRefused,
    TooLarge,
    Unavailable,
)
from bodyd.journal.journal import Journal
from bodyd.lease.manager import LeaseManager
from bodyd.lease.permit import Admission
from bodyd.policy.rules import Rules, judge_type

from .door import Door
from .live import LiveDisplay

LOOK_SECONDS = 0.05
WINDOW_SECONDS = 1.5
"""How long a window is watched for what was asked of it."""

LAUNCH_SECONDS = 3.0
RESTART_SECONDS = 60.0

_UNCERTAIN = Effect(outcome=Outcome.UNCERTAIN)
Work = Callable[[Display], Awaitable[Effect]]


class Launcher(Protocol):
    """What acts need of desktop/."""

    @property
    def generation(self) -> int: ...

    async def launch(self, name: str) -> None: ...

    async def restart_display(self, screen: tuple[int, int] | None = None) -> None: ...


class Acts:
    """One body's acts."""

    def __init__(
        self,
        *,
        leases: Callable[[], LeaseManager],
        door: Door,
        live: LiveDisplay,
        desktop: Launcher,
        journal: Journal,
        rules: Rules,
        clock: Clock,
        announce: Callable[[Event], None],
    ) -> None:
        self._leases = leases
        self._door = door
        self._live = live
        self._desktop = desktop
        self._journal = journal
        self._rules = rules
        self._clock = clock
        self._announce = announce

    async def resize(self, request: ResizeRequest, *, caller: Caller, lease_token: str | None) -> Act:
        """Resize the screen, under the lease or as the owner; every screenshot id is void afterwards.

        Raises:
            LeaseError, LeaseRequired, PolicyRefused: nothing was done.
            InvalidRequest: this X server can't become that large, and `restart` was not asked for.
            Forbidden: `restart` is the owner's.
            DisplayUnavailable, JournalUnavailable, Unavailable.
        Cancellation:
            A restart that was begun goes on.
        """
        if request.restart and caller.scope is not Scope.OWNER:
            raise Forbidden("restarting the display ends every app: it needs a token of scope owner")
        size = Size(width=request.width, height=request.height)
        restarted = False

        async def work(display: Display) -> Effect:
            nonlocal restarted
            try:
                await display.resize(size)
            except InvalidRequest as exc:
                if not request.restart:
                    raise InvalidRequest(
                        f"{exc.message}; `restart` does that, and ends every app", param="width"
                    ) from exc
                restarted = True
                await self._restart(size)
            return _seen(self._live.current.size == size, "screen_resized")

        facts = {"width": size.width, "height": size.height, "restart": request.restart}
        act = await self._act(
            "resize", work, facts, caller=caller, lease_token=lease_token, epoch=request.epoch, owners=True
        )
        return act.model_copy(update={"restarted": restarted})

    async def write_clipboard(
        self, text: str, *, caller: Caller, lease_token: str, epoch: int | None = None
    ) -> Act:
        """Own the clipboard with *text*.

        Raises:
            TooLarge: over MAX_CLIPBOARD_BYTES of UTF-8.
            Unavailable: another client keeps taking the clipboard.
            As `resize`.
        """
        length = len(text.encode())
        if length > MAX_CLIPBOARD_BYTES:
            raise TooLarge(f"the clipboard takes {MAX_CLIPBOARD_BYTES} bytes of UTF-8", param="text")

        async def work(display: Display) -> Effect:
            await display.write_clipboard(text)
            return _seen(await display.read_clipboard() == text, "clipboard")

        return await self._act(
            "clipboard_write", work, {"length": length}, caller=caller, lease_token=lease_token, epoch=epoch
        )

    async def read_clipboard(self, *, caller: Caller, lease_token: str | None) -> str:
        """The clipboard's text, under the lease or as the owner; "" if it has none.

        Raises:
            LeaseError: also where the body was taken while the owner of the clipboard was asked.
            TooLarge, Unavailable, DisplayUnavailable, JournalUnavailable.
        """
        admission = self._admit(caller, lease_token, None, owners=True)
        text = await self._live.current.read_clipboard()
        if admission is not None and not admission.permit.valid:
            self._leases().admit_again(admission)  # whose text this is now, nobody knows
            raise LeaseRequired("the claim was interrupted while the clipboard was read; read it again")
        length = len(text.encode("utf-8", "replace"))
        if length > MAX_CLIPBOARD_BYTES:
            raise TooLarge(f"the clipboard holds {length} bytes; {MAX_CLIPBOARD_BYTES} can be read")
        await self._journal.audit("clipboard.read", {"length": length, "caller": caller.id})
        return text

    async def launch(self, name: str, *, caller: Caller, lease_token: str, epoch: int | None = None) -> Act:
        """Start a configured app, and wait a little for a window of it.

        Raises:
            NotFound: no such app is configured. As `resize`.
        """

        async def work(display: Display) -> Effect:
            before = {w.id for w in await display.windows()}
            await self._desktop.launch(name)
            opened = await _until(
                display, lambda now: any(w.id not in before for w in now), within=LAUNCH_SECONDS
            )
            return _seen(opened, "window_opened")

        return await self._act(
            "launch", work, {"name": name}, caller=caller, lease_token=lease_token, epoch=epoch
        )

    async def activate(
        self, window_id: int, *, caller: Caller, lease_token: str, epoch: int | None = None
    ) -> Act:
        """Raise and focus a window.

        Raises:
            NotFound: there is no such window. As `resize`.
        """

        async def work(display: Display) -> Effect:
            await display.activate(window_id)
            active = await _until(display, lambda now: any(w.id == window_id and w.active for w in now))
            return _seen(active, "window_activated")

        return await self._act(
            "activate", work, {"window": window_id}, caller=caller, lease_token=lease_token, epoch=epoch
        )

    async def close(
        self, window_id: int, *, caller: Caller, lease_token: str, epoch: int | None = None
    ) -> Act:
        """Ask a window to close, as by its close button; its app may have a question first.

        Raises:
            NotFound: there is no such window. As `resize`.
        """

        async def work(display: Display) -> Effect:
            await display.close(window_id)
            gone = await _until(display, lambda now: all(w.id != window_id for w in now))
            return _seen(gone, "window_closed")

        return await self._act(
            "close", work, {"window": window_id}, caller=caller, lease_token=lease_token, epoch=epoch
        )

    # -- below -----------------------------------------------------------------------------------

    def _admit(
        self, caller: Caller, lease_token: str | None, epoch: int | None, *, owners: bool
    ) -> Admission | None:
        """The lease's leave; None for an owner who acts without the lease where that is allowed."""
        if lease_token is not None:
            return self._leases().admit(lease_token, epoch)
        if owners and caller.scope is Scope.OWNER:
            return None
        raise LeaseRequired("acquire the lease, and send its token in the header bodyd-lease")

    async def _act(
        self,
        kind: ActType,
        work: Work,
        facts: Mapping[str, object],
        *,
        caller: Caller,
        lease_token: str | None,
        epoch: int | None,
        owners: bool = False,
    ) -> Act:
        """lease → turn → lease again → policy → audit → done while the permit lives → event."""
        admission = self._admit(caller, lease_token, epoch, owners=owners)
        async with self._door.turn(admission) as admission:
            self._judge(kind)
            display = self._live.current
            now = admission.epoch if admission is not None else self._leases().view().epoch
            await self._journal.audit("act.asked", {"type": kind, "epoch": now, "caller": caller.id, **facts})
            if admission is not None and not admission.permit.valid:
                self._leases().admit_again(admission)
            effect = await _while_permitted(admission, work, display)
        act = Act(type=kind, epoch=now, at=self._clock.wall_ms(), effect=effect)
        told = {"type": kind, "epoch": now, "effect": effect.outcome}
        self._announce(Event(type="act.done", at=act.at, data=dict(told)))
        return act

    def _judge(self, kind: ActType) -> None:
        judgement = judge_type(self._rules, kind)
        if judgement.verdict is not Verdict.ALLOW:
            raise PolicyRefused(
                f"{kind} is not allowed here (rule {judgement.rule}); nothing was done", rule=judgement.rule
            )

    async def _restart(self, size: Size) -> None:
        generation = self._desktop.generation
        with trio.move_on_after(RESTART_SECONDS) as patience:
            await self._desktop.restart_display((size.width, size.height))
            await self._live.opened_after(generation)
        if patience.cancelled_caught:
            raise Unavailable("the display is still restarting; GET /readyz says when it is there")


async def _while_permitted(admission: Admission | None, work: Work, display: Display) -> Effect:
    """Run *work*; where the permit dies or the display is lost half-way, the effect is uncertain."""
    if admission is None:
        return await work(display)
    effect, failed = _UNCERTAIN, None
    async with trio.open_nursery() as nursery:

        async def cut_short() -> None:
            await admission.interrupted.wait()
            nursery.cancel_scope.cancel(reason="the lease drains")

        nursery.start_soon(cut_short)
        try:
            effect = await work(display)
        except DisplayUnavailable:
            pass
        except Exception as exc:  # kept out of the nursery's exception group: it is the caller's
            failed = exc
        nursery.cancel_scope.cancel(reason="the act is done")
    if failed is not None:
        raise failed
    return effect


async def _until(
    display: Display, met: Callable[[Sequence[Window]], bool], *, within: float = WINDOW_SECONDS
) -> bool:
    """Look at the windows until *met* or *within* seconds have passed: no event of ours announces it."""
    with trio.move_on_after(within):
        while True:
            if met(await display.windows()):
                return True
            await trio.sleep(LOOK_SECONDS)
    return False


def _seen(met: bool, evidence: str) -> Effect:
    return Effect(outcome=Outcome.CONFIRMED, evidence=evidence) if met else _UNCERTAIN
