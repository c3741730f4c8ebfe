"""The one door: every batch of input passes here, in this order and no other.

lease → journal → screenshot → policy → durable intent → dispatch → settle → durable receipt → next
screenshot → events. The counterpart that sends is dispatcher.py; the lease's drains come back here
as `quiesce`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

from bodyd.clock import Clock
from bodyd.contract import actions as a
from bodyd.contract.events import Event
from bodyd.contract.geometry import Bounds, Point, Size
from bodyd.contract.inventory import Window
from bodyd.contract.ports import AccessibilityPort, Caller, Permit, Verdict
from bodyd.contract.receipts import Outcome, Receipt, greatest
from bodyd.contract.screenshots import Screenshot, ScreenshotRequest
from bodyd.display.display import Display, Mark
from bodyd.errors import (
    BodydError,
    DisplayUnavailable,
    InvalidRequest,
    JournalUnavailable,
    LeaseError,
    OutOfBounds,
    PolicyRefused,
    RequestConflict,
)
from bodyd.journal.journal import Journal, New, Replay
from bodyd.lease.manager import LeaseManager
from bodyd.lease.permit import Admission
from bodyd.policy.rules import Rules, judge

from . import dispatcher, verifier
from .admission import Reach, Sight, check_sight, plan_batch
from .health import Health
from .live import LiveDisplay
from .pixels import same_neighbourhood
from .screens import Screens
from .witness import FIELDS

FINISH_SECONDS = 5.0
MIN_RENEWAL_SECONDS, MAX_RENEWAL_SECONDS = 0.02, 5.0


@dataclass(slots=True)
class _BatchPermit:
    """The lease's permit, and the requester still being there."""

    lease: Permit
    abandoned: bool = False

    @property
    def valid(self) -> bool:
        return not self.abandoned and self.lease.valid


@dataclass(slots=True)
class _Turn:
    """One request in the door's own nursery, so that its receipt outlives its requester."""

    request: a.InputRequest
    admission: Admission
    caller: Caller
    permit: _BatchPermit
    minted: bool
    interrupted: trio.Event = field(default_factory=trio.Event)
    done: trio.Event = field(default_factory=trio.Event)
    receipt: Receipt | None = None
    error: BodydError | None = None


class Door:
    """Runs batches one at a time, each under the lease that admitted it.

    Args:
        announce: Told of every action requested, completed or refused; must not block.
    """

    def __init__(
        self,
        *,
        leases: Callable[[], LeaseManager],
        journal: Journal,
        live: LiveDisplay,
        screens: Screens,
        rules: Rules,
        clock: Clock,
        announce: Callable[[Event], None],
        health: Callable[[], Health],
        accessibility: AccessibilityPort | None = None,
    ) -> None:
        self._health = health
        self._accessibility = accessibility
        self._leases = leases
        self._journal = journal
        self._live = live
        self._screens = screens
        self._rules = rules
        self._clock = clock
        self._announce = announce
        self._turns = trio.Lock()
        self._sending = trio.Lock()
        self._restless = verifier.Restless()
        self._last_windows: tuple[Window, ...] = ()
        self._last: tuple[str, Sight | None, Reach] = ("", None, Reach())
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Own the batches; cancelled, each stops at its next atom and writes its receipt."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            await trio.sleep_forever()

    async def input(
        self, request: a.InputRequest, *, caller: Caller, lease_token: str, minted: bool = False
    ) -> Receipt:
        """Run one batch, or return the receipt that its request id already has.

        Args:
            minted: The id was made for this call: it is not looked up first, and is no less unique.
        Raises:
            LeaseError: the lease does not admit it.
            RequestConflict: the id was used for another body.
            StaleScreenshot, OutOfBounds, PolicyRefused: nothing was sent.
            DisplayUnavailable, JournalUnavailable: nothing was sent, unless said otherwise.
        Cancellation:
            The batch stops at its next atom; its receipt is durable all the same.
        """
        assert self._nursery is not None, "run() owns the batches"
        admission = self._leases().admit(lease_token, request.epoch)
        turn = _Turn(request, admission, caller, _BatchPermit(admission.permit), minted)
        self._nursery.start_soon(self._take_turn, turn)
        try:
            await turn.done.wait()
        except trio.Cancelled:
            turn.permit.abandoned = True
            turn.interrupted.set()
            raise
        if turn.error is not None:
            raise turn.error
        assert turn.receipt is not None
        return turn.receipt

    @asynccontextmanager
    async def turn(self, admission: Admission | None) -> AsyncIterator[Admission | None]:
        """A turn between batches for a short act: the lease is asked anew, and no drain is proved meanwhile.

        Raises:
            LeaseError: the wait has outlived the claim.
        """
        async with self._turns, self._sending:
            yield None if admission is None else self._leases().admit_again(admission)

    @asynccontextmanager
    async def between_batches(self, admission: Admission) -> AsyncIterator[tuple[Display, Admission]]:
        """The display, for input that is not a batch; no batch is dispatched and no drain proved meanwhile.

        Raises:
            LeaseError: the claim does not admit it any more.
            DisplayUnavailable.
        """
        async with self._sending:
            yield self._live.current, self._leases().admit_again(admission)

    async def quiesce(self) -> bool:
        """Prove that nothing is in flight and nothing is held: the lease's drains wait for this.

        The batch in hand has seen its permit die and stops at its next atom; then keys and buttons
        go up, read back over another connection than the sender's.
        """
        async with self._sending:
            try:
                display = self._live.current
                await display.release_all()
                return (await display.prove_quiescent()).quiet
            except DisplayUnavailable:
                return False

    async def _take_turn(self, turn: _Turn) -> None:
        try:
            async with self._turns:
                # The wait for a turn may have outlived the permit: the lease is asked anew.
                turn.admission = self._leases().admit_again(turn.admission)
                turn.permit.lease = turn.admission.permit
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._pass_on_interruption, turn)
                    nursery.start_soon(_keep_renewed, turn.admission)
                    try:
                        turn.receipt = await self._pass(turn)
                    except BodydError as exc:
                        turn.error = exc
                    nursery.cancel_scope.cancel(reason="the batch is done")
        except BodydError as exc:
            turn.error = exc
        finally:
            turn.done.set()
        if turn.error is not None:
            self._tell("action.refused", turn, code=turn.error.code)

    async def _pass_on_interruption(self, turn: _Turn) -> None:
        await turn.admission.interrupted.wait()
        turn.interrupted.set()

    async def _pass(self, turn: _Turn) -> Receipt:
        request, claim = turn.request, turn.admission.claim
        intent = self._journal.intent(request, conversation_id=claim.conversation_id, lease_id=claim.lease_id)
        if not turn.minted:
            stored = await self._journal.lookup(request.request_id, intent.fingerprint)
            if stored is not None:
                return stored
        batch, display = await self._admit(turn)
        async with self._sending:
            if not turn.permit.valid:  # the checks took time: raise what has become of the lease
                self._leases().admit_again(turn.admission)
            mended = await display.normalise()
            begun = await self._journal.begin(intent)
            if isinstance(begun, Replay):
                return begun.receipt
            if not isinstance(begun, New):
                raise RequestConflict(f"request id {request.request_id!r} is in use; use a new id")
            started = self._clock.wall_ms()
            marks = begun.dispatching()
            batch.note, batch.reached = marks.note, marks.reached
            mark = display.activity()
            done = await dispatcher.dispatch(batch, display)
        return await self._conclude(turn, batch, display, done, mark, started, mended)

    async def _admit(self, turn: _Turn) -> tuple[dispatcher.Batch, Display]:
        """All checks that come before the durable intent; raises, with nothing sent."""
        request = turn.request
        display = self._live.current
        _refuse_unreadable(request, display.size, readable=self._accessibility is not None)
        sight = check_sight(
            request, self._screens.sight, epoch=turn.admission.epoch, screen=self._live.screen
        )
        atoms = plan_batch(request.inputs, sight, display.size)
        place, top = dispatcher.place_bound(request, sight, atoms[0]), None
        if place is None:
            scene = await display.scene()
        else:
            scene, top = await display.scene_at(place)
        now = self._clock.monotonic()
        self._restless.note(self._last_windows, scene.windows, now)
        untouched = sight is not None and self._last[1] is not sight  # nothing was sent since it was taken
        if sight is not None and untouched:
            self._restless.note(sight.shot.windows, scene.windows, now)
        batch = dispatcher.Batch(
            request=request,
            atoms=atoms,
            sight=sight,
            permit=turn.permit,
            interrupted=turn.interrupted,
            scene=scene,
            reach=self._carried_on(request, sight),
            same_pixels=self._same_pixels,
            restless=self._restless.at(now),
            untouched=untouched,
            accessibility=self._accessibility,
        )
        await dispatcher.check_binding(batch, display, 0, top=top)
        await self._judge(turn)
        return batch, display

    def _carried_on(self, request: a.InputRequest, sight: Sight | None) -> Reach:
        """What the batch that this one continues has brought about, if nothing came in between."""
        before, seen, reach = self._last
        return reach if request.continues == before and sight is seen else Reach()

    async def _judge(self, turn: _Turn) -> None:
        """Policy's place in the path: nothing that needs an approval passes without a hook.

        Raises:
            PolicyRefused: with the rule that fired.
        """
        judgement = judge(self._rules, turn.request.inputs)
        if judgement.verdict is Verdict.ALLOW:
            return
        await self._journal.audit(
            "action.refused",
            {"request_id": turn.request.request_id, "rule": judgement.rule, "index": judgement.index},
        )
        why = (
            "it needs an approval and no approval hook is configured"
            if judgement.verdict is Verdict.APPROVE
            else "it is not for agents to do"
        )
        raise PolicyRefused(
            f"inputs[{judgement.index}]: {why} (rule {judgement.rule}); nothing was sent",
            param=f"inputs[{judgement.index}]",
            rule=judgement.rule,
        )

    async def _conclude(
        self,
        turn: _Turn,
        batch: dispatcher.Batch,
        display: Display,
        done: dispatcher.Dispatched,
        mark: Mark,
        started: int,
        mended: list[str],
    ) -> Receipt:
        """Settle, read back, make the receipt durable, take the next screenshot."""
        settled, changed = await self._settle(turn, display, done, mark)
        after = await dispatcher.look(display, batch.scene)
        self._last_windows = after.windows
        if turn.permit.valid:  # what comes after may be another's to see
            await dispatcher.bear_witness(batch, done.last)
        inputs = dispatcher.conclude(batch, done, after, changed)
        self._last = (turn.request.request_id, batch.sight, batch.reach)
        outcome = greatest(i.outcome for i in inputs)
        doubt = next((i.delivery for i in inputs if i.delivery.outcome is Outcome.UNCERTAIN), None)
        shot = None
        if turn.request.screenshot and turn.permit.valid:
            shot = await self._next_screenshot(turn)
        with trio.move_on_after(FINISH_SECONDS, shield=True):
            if doubt is not None:
                await self._leases().delivery_uncertain(doubt.reason or "uncertain")
            missing = turn.request.screenshot and turn.permit.valid and shot is None
            receipt = Receipt(
                request_id=turn.request.request_id,
                epoch=turn.request.epoch,
                screenshot_id=batch.sight.shot.screenshot_id if batch.sight else None,
                started_at=started,
                completed_at=self._clock.wall_ms(),
                outcome=outcome,
                inputs=inputs,
                settled=settled,
                reason=await self._reason(mended, in_doubt=doubt is not None or missing),
                screenshot=shot,
            )
            await self._journal.finish(receipt.request_id, receipt)
        self._tell("action.completed", turn, outcome=receipt.outcome.value)
        return receipt

    async def _reason(self, mended: list[str], *, in_doubt: bool) -> str | None:
        """What was straightened before the batch, and what is not well in the body; asked anew in doubt."""
        health = self._health()
        trouble = (await health.fresh() if in_doubt else health.vitals()).trouble()
        said = [f"mended before: {', '.join(mended)}"] if mended else []
        return "; ".join([*said, *([trouble] if trouble else [])]) or None

    async def _settle(
        self, turn: _Turn, display: Display, done: dispatcher.Dispatched, mark: Mark
    ) -> tuple[bool, bool | None]:
        """Wait for the screen to be quiet, at most its cap; at once over when the batch drains."""
        if done.last is None:
            return True, None
        if not turn.request.settle:
            return False, None
        settled = False
        changed: bool | None = None
        try:
            async with trio.open_nursery() as nursery:

                async def cut_short() -> None:
                    await turn.interrupted.wait()
                    nursery.cancel_scope.cancel(reason="the batch drains")

                nursery.start_soon(cut_short)
                seen = await display.settle(mark)
                settled, changed = seen.quiet, bool(seen.changed)
                nursery.cancel_scope.cancel(reason="settled")
        except* DisplayUnavailable:
            settled, changed = False, None
        return settled, changed

    async def _next_screenshot(self, turn: _Turn) -> Screenshot | None:
        """The capture that the same request asked for; without one, the receipt stands all the same."""
        try:
            return await self._screens.take(
                ScreenshotRequest(),
                epoch=turn.admission.epoch,
                bind=True,
                still_allowed=lambda: self._leases().admit_again(turn.admission),
            )
        except (DisplayUnavailable, JournalUnavailable, LeaseError):
            return None

    async def _same_pixels(self, display: Display, sight: Sight, point: Point) -> bool:
        """Whether the neighbourhood of *point* looks as it did in the screenshot."""
        png = await self._screens.image(sight.shot.screenshot_id)
        now = await display.capture(sight.shot.bounds, sight.shot.size)
        return await trio.to_thread.run_sync(same_neighbourhood, png, now.png, sight.shot, point)

    def _tell(self, kind: str, turn: _Turn, **data: object) -> None:
        facts = {"request_id": turn.request.request_id, "epoch": turn.request.epoch, **data}
        self._announce(Event(type=kind, at=self._clock.wall_ms(), data=facts))


async def _keep_renewed(admission: Admission) -> None:
    """Use renews: a batch that runs for longer than the ttl is in use all the while."""
    ttl = (admission.claim.expires_at - admission.claim.heartbeat_at) / 1000
    while True:
        admission.touch()
        await trio.sleep(max(MIN_RENEWAL_SECONDS, min(MAX_RENEWAL_SECONDS, ttl / 3)))


def _refuse_unreadable(request: a.InputRequest, screen: Size, *, readable: bool) -> None:
    """Expectations that nobody could ever find met are refused before anything is sent.

    Raises:
        InvalidRequest: it needs accessibility, which is off.
        OutOfBounds: its pixels are off the screen.
    """
    whole = Bounds(x=0, y=0, width=screen.width, height=screen.height)
    for index, action in enumerate(request.inputs):
        expect = getattr(action, "expect", None)
        if expect is None:
            continue
        if expect.bounds is not None and expect.bounds.intersection(whole) is None:
            raise OutOfBounds(
                f"inputs[{index}].expect.bounds lie off the screen of {screen.width}x{screen.height}; "
                "nothing was sent",
                param=f"inputs[{index}].expect.bounds",
            )
        if expect.field in FIELDS and not readable:
            raise InvalidRequest(
                f"inputs[{index}].expect: {expect.field!r} can't be read in this body, since "
                "accessibility.enabled is off; use window_title, active_window, clipboard or pixels",
                param=f"inputs[{index}].expect.field",
            )
