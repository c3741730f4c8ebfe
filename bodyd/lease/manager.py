"""The lease, running: feeds machine.py with requests, time and answers, and carries out its effects.

All of the lease's rules are in the machine; here are its clock, its tokens, its record and its
proofs. A step is synchronous: memory changes and permits die in the tick of the request. Writing
the record and proving the body quiet then go side by side, in the manager's own tasks, so that
neither a requester who goes away nor a slow disk keeps a body from being fenced and let go. What
waits for the disk is a grant: no token is handed out, and none already out is admitted, before the
record of it is durable. (Long, because each call of BodyPort that concerns the lease is here, with
its contract; what they share is one private step.)
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial

import trio

from bodyd import errors
from bodyd.clock import Clock
from bodyd.contract.events import Event
from bodyd.contract.lease import (
    DEFAULT_TTL_MS,
    QUEUE_LENGTH,
    AcquireRequest,
    Grant,
    HolderKind,
    LeaseState,
    LeaseView,
    Scope,
)
from bodyd.contract.ports import Caller

from . import events as e
from .grants import Grants
from .keeper import Keeper, LeaseStore
from .machine import step
from .moves import QUIESCE_SECONDS
from .permit import Admission, HeldPermit
from .proof import attempt
from .record import Record, damaged, durable, from_record, to_record, to_view
from .scopes import RECOVER, Call, require
from .state import Applicant, State, next_deadline

RECOVER_SECONDS = {1: 5.0, 2: 15.0, 3: 60.0}
"""How long each step of recovery may take; beyond that it has failed."""


def random_token() -> str:
    """32 random bytes, as URL-safe text."""
    return secrets.token_urlsafe(32)


class LeaseManager:
    """Who may act on the body.

    Args:
        store: Where the record is kept.
        quiesce: Stops dispatch, releases all, and returns whether the body is proved quiet. It is
            cancelled after 2 s; one that does not end then is left behind, and recovery is required.
        recover_steps: What the steps of recovery do; each returns whether the body is proved quiet.
            Step 1 is `quiesce` unless it is given.
        announce: Told of every change; synchronous, and must not call back.
        queue: How many may wait.
    """

    def __init__(
        self,
        *,
        body_id: str,
        store: LeaseStore,
        clock: Clock,
        quiesce: Callable[[], Awaitable[bool]],
        announce: Callable[[Event], None],
        recover_steps: Mapping[int, Callable[[], Awaitable[bool]]] | None = None,
        queue: int = QUEUE_LENGTH,
        random_token: Callable[[], str] = random_token,
    ) -> None:
        self.body_id = body_id
        self._store = store
        self._clock = clock
        self._quiesce = quiesce
        self._announce = announce
        self._recover_steps = {1: quiesce, **(recover_steps or {})}
        self._queue = queue
        self._random_token = random_token
        self._state = State(LeaseState.RECOVERY_REQUIRED, 0, reason="the lease is not loaded yet")
        self._keeper = Keeper(self._write, self._saved, self._unsaved)
        self._loading = trio.Lock()
        self._loaded = False
        self._running = False
        self._nursery: trio.Nursery | None = None
        self._alarm = trio.CancelScope()
        self._changed = trio.Event()
        self._permit: HeldPermit | None = None
        self._grants = Grants()
        self._proving: int | None = None
        self._recovering: int | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Load the record, then own the record, the clock and the proofs; started once loaded.

        A record that can't be read does not keep the daemon down: recovery is required.

        Cancellation:
            Permits die, and whoever waits gets Unavailable. A claim in force is found at the next
            start, which requires recovery.
        """
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                await self._load()
                self._running = True
                nursery.start_soon(self._keeper.run)
                nursery.start_soon(self._watch_clock)
                task_status.started()
        finally:
            self._close()

    # -- looking -----------------------------------------------------------------------------------

    def view(self) -> LeaseView:
        return to_view(self._state, self.body_id, self._clock.to_wall_ms)

    @property
    def person_driving(self) -> bool:
        """A person has the body, or had it last and it is not yet proved quiet."""
        return self._state.person

    @property
    def store_error(self) -> errors.BodydError | None:
        """Why the lease can't be read or is not durable at present; for /readyz."""
        return self._keeper.error

    # -- the holder's calls ------------------------------------------------------------------------

    async def acquire(
        self, request: AcquireRequest, *, caller: Caller, kind: HolderKind = HolderKind.AGENT
    ) -> Grant:
        """Grant the body, waiting up to `wait_ms` for it.

        Raises:
            Busy, QueueFull, RecoveryRequired, BodyStopped: nobody was granted anything.
            StaleLease: revoked while the grant was on its way.
            JournalUnavailable: the grant could not be made durable; it is void.
        Cancellation:
            Atomic: granted and journalled, or nothing happened.
        """
        require(caller.scope, Call.ACQUIRE if kind is HolderKind.AGENT else Call.ACQUIRE_AS_PERSON)
        token, applicant = self._applicant(request.conversation_id, kind, request.ttl_ms)
        event = e.Acquire(applicant, request.wait_ms / 1000, self._queue)
        return await self._be_granted(token, applicant, event)

    async def renew(self, lease_token: str, ttl_ms: int | None = None) -> LeaseView:
        """Renew the claim, be it held, paused, lapsed or suspended; it changes no pause.

        Returns once a call by this token can be admitted, if it can.

        Raises:
            StaleLease, Draining, RecoveryRequired, BodyStopped.
        """
        self._ask(e.Renew(_hash(lease_token), None if ttl_ms is None else ttl_ms / 1000))
        return await self._when_quiet()

    async def release(self, lease_token: str) -> LeaseView:
        """Give the body back; returns once it is proved quiet, or recovery is required.

        Raises:
            StaleLease: it is not this token's to give back.
        Cancellation:
            The body is given back all the same.
        """
        self._ask(e.Release(_hash(lease_token)))
        return await self._when_quiet()

    def admit(self, token: str, epoch: int | None) -> Admission:
        """Let one call act, and renew its claim; synchronous.

        Args:
            epoch: The one that the caller believes in; None if it does not say.
        Raises:
            LeaseRequired, StaleLease, StaleEpoch, LeaseLapsed, LeasePaused, Draining, PersonDriving,
            RecoveryRequired, BodyStopped.
        """
        if not token:
            raise errors.LeaseRequired("acquire the lease, and send its token in the header bodyd-lease")
        return self._admit(_hash(token), epoch)

    def admit_again(self, admission: Admission) -> Admission:
        """The same call, later: judged anew, with a permit that is alive now.

        Raises:
            As `admit`; StaleEpoch also if there was a hand-over in between.
        """
        return self._admit(admission.token_hash, admission.epoch)

    async def regain(self, admission: Admission) -> Admission:
        """Wait until the claim of *admission* is in force again, in whatever epoch, and admit it anew.

        For work that is suspended while its claim is.

        Raises:
            LeaseError: it is over, not only suspended, paused or on its way back.
        """
        while True:
            try:
                return self._admit(admission.token_hash, None)
            except (errors.PersonDriving, errors.LeasePaused, errors.Draining):
                before = self._standing()
                # not at every change: asking is a use, and two that wait would wake each other for ever
                await self._until(lambda before=before: self._standing() != before)  # type: ignore[misc]

    # -- the owner's calls, and anyone's pause and stop ---------------------------------------------

    async def revoke(self, *, caller: Caller, reason: str = "") -> LeaseView:
        """End every claim for good; returns once the body is quiet, or recovery is required.

        Cancellation:
            The claims have ended all the same.
        """
        require(caller.scope, Call.REVOKE)
        self._ask(e.Revoke(caller.id, reason))
        return await self._when_quiet()

    async def pause(self, *, caller: Caller, reason: str = "") -> LeaseView:
        """Fence the claim and keep it, until it is resumed; returns as `revoke` does."""
        require(caller.scope, Call.PAUSE)
        self._ask(e.Pause(caller.id, reason))
        return await self._when_quiet()

    async def resume(self, *, caller: Caller, lease_token: str | None = None) -> LeaseView:
        """End a pause (by the lease token, or by the owner), or, for the owner, a stop.

        Raises:
            StaleLease, WrongState, Draining, RecoveryRequired, BodyStopped.
        """
        if self._state.stopped and caller.scope is Scope.OWNER:
            return await self.resume_body(caller=caller)
        require(caller.scope, Call.RESUME if lease_token else Call.RESUME_WITHOUT_TOKEN)
        self._ask(e.Resume(_hash(lease_token) if lease_token else None, caller.id))
        return await self._when_quiet()

    async def stop(self, *, caller: Caller, reason: str = "") -> LeaseView:
        """End every claim and let nobody in until the owner resumes; returns as `revoke` does."""
        require(caller.scope, Call.STOP)
        self._ask(e.Stop(caller.id, reason))
        return await self._when_quiet()

    async def resume_body(self, *, caller: Caller) -> LeaseView:
        """End a stop.

        Raises:
            WrongState: the body is not stopped.
        """
        require(caller.scope, Call.RESUME_BODY)
        self._ask(e.ResumeBody(caller.id))
        return await self._when_quiet()

    async def takeover(self, *, caller: Caller, reason: str = "") -> Grant:
        """Take the body for a person; an agent's claim is suspended until the hand-back.

        Raises:
            RecoveryRequired, BodyStopped, JournalUnavailable.
        Cancellation:
            The person gets nothing, and the agent its claim back, paused and under a new epoch.
        """
        require(caller.scope, Call.TAKE_OVER)
        token, applicant = self._applicant(f"person:{caller.id}", HolderKind.PERSON, DEFAULT_TTL_MS)
        return await self._be_granted(token, applicant, e.TakeOver(applicant, caller.id, reason))

    async def handback(self, *, caller: Caller, lease_token: str) -> LeaseView:
        """Give the body back to the agent whose claim the take-over suspended.

        Raises:
            StaleLease, WrongState: nothing was handed back.
            JournalUnavailable: the agent's new epoch is not durable; recovery is required.
        Cancellation:
            The body is handed back all the same.
        """
        require(caller.scope, Call.HAND_BACK)
        self._ask(e.HandBack(_hash(lease_token)))
        view = await self._when_quiet()
        if view.state is LeaseState.RECOVERY_REQUIRED and self._keeper.error is not None:
            raise errors.JournalUnavailable("the hand-back could not be made durable; recover the body")
        return view

    async def recover(self, *, caller: Caller, step: int = 1) -> LeaseView:
        """Run one step of recovery; success leaves the body vacant (or stopped), and every claim void.

        In a body that someone holds, only the owner's call does anything. A call that finds a step
        running waits for that one instead.

        Raises:
            JournalUnavailable: the lease could not be read, and still can't.
        Cancellation:
            The step runs to its end all the same.
        """
        require(caller.scope, RECOVER[step])
        if self._recovering is None:
            await self._until(lambda: self._state.drain is None and self._proving is None)
            await self._load()
            if not self._loaded:
                raise errors.JournalUnavailable("the lease can't be read, so the body can't be recovered")
            if self._recovering is None:
                self._ask(e.Recover(step, owner=caller.scope is Scope.OWNER))
        await self._until(lambda: self._recovering is None)
        return await self._when_quiet()

    async def delivery_uncertain(self, reason: str) -> None:
        """An input's fate can't be known: recovery is required, from this tick on.

        Cancellation:
            Fenced all the same; the record may be written later.
        """
        self._feed(e.DeliveryUncertain(reason))
        await self._until(lambda: self._keeper.caught_up)

    # -- inside ------------------------------------------------------------------------------------

    def _applicant(self, conversation_id: str, kind: HolderKind, ttl_ms: int) -> tuple[str, Applicant]:
        token = self._random_token()
        lease_id = f"lease_{secrets.token_hex(8)}"
        return token, Applicant(lease_id, _hash(token), conversation_id, kind, ttl_ms / 1000)

    async def _be_granted(self, token: str, applicant: Applicant, event: e.Event) -> Grant:
        with self._grants.asked(applicant.lease_id) as reply:
            try:
                self._ask(event)
                epoch = await reply.wait()
            except BaseException:
                self._feed(e.WaitEnded(applicant.lease_id))
                raise
        return Grant(lease_token=token, epoch=epoch, lease=self.view())

    def _admit(self, token_hash: bytes, epoch: int | None) -> Admission:
        self._ask(e.Used(token_hash, epoch))
        claim = self.view().claim
        assert claim is not None
        if self._grants.is_pending(claim.lease_id):
            raise errors.Draining("the hand-over is not durable yet; try again at once")
        permit = self._permit = self._permit or HeldPermit()
        return Admission(
            claim, self._state.epoch, permit, partial(self._touch, permit, token_hash), token_hash
        )

    def _standing(self) -> tuple[object, ...]:
        claim = self._state.claim
        pending = claim is not None and self._grants.is_pending(claim.lease_id)
        return self._state.status, self._state.epoch, claim and claim.lease_id, pending

    def _touch(self, permit: HeldPermit, token_hash: bytes) -> None:
        if permit.valid:
            self._feed(e.Renew(token_hash))

    def _ask(self, event: e.Event) -> None:
        """Feed someone's request, and raise if it is refused."""
        self._must_run()
        refusal = self._feed(event)
        if refusal is not None:
            raise _error(refusal)

    def _feed(self, event: e.Event) -> e.Refuse | None:
        """One step of the machine, in one tick; returns the refusal meant for whoever asked."""
        before, refusal = self._state, None
        self._state, effects = step(before, event, self._clock.monotonic())
        for effect in effects:
            if isinstance(effect, e.Refuse) and effect.to is None:
                refusal = effect
            else:
                self._carry_out(effect)
        if self._state is not before:
            self._grants.forget_ended(self._state)
            if self._loaded and durable(before) != durable(self._state):
                self._keeper.offer(self._state)
            self._alarm.deadline = next_deadline(self._state)
            self._poke()
        return refusal

    def _carry_out(self, effect: e.Effect) -> None:
        match effect:
            case e.Fence():
                self._kill_permit()
            case e.StartDrain(drain):
                self._proving = drain
                self._start(self._prove, drain)
            case e.GrantTo(lease_id, epoch):
                self._grants.promise(lease_id, epoch)
            case e.Refuse():
                assert effect.to is not None
                self._grants.refuse(effect.to, _error(effect))
            case e.RunRecovery(number):
                self._recovering = number
                self._start(self._run_step, number)
            case e.Announce(kind, data):
                self._tell(kind, data)

    def _start(self, errand: Callable[[int], Awaitable[None]], number: int) -> None:
        """In the manager's own nursery: it outlives whoever asked. Once closing, nothing is proved."""
        if self._running:
            assert self._nursery is not None
            self._nursery.start_soon(errand, number)

    def _kill_permit(self) -> None:
        if self._permit is not None:
            self._permit.kill()
            self._permit = None

    # -- the record --------------------------------------------------------------------------------

    async def _load(self) -> None:
        """Read the record, unless it was read before; leaves recovery required if it can't be."""
        async with self._loading:
            if self._loaded:
                return
            try:
                floor = await self._store.highest_epoch()
            except errors.JournalUnavailable as exc:
                self._keeper.error = exc
                self._state = replace(self._state, reason=f"the lease can't be read: {exc}")
                return
            state = await self._read(floor)
            stopped, self._state, self._loaded = self._state.stopped, state, True
            self._feed(e.Restarted())
            if stopped:
                self._feed(e.Stop(reason="while the lease could not be read"))
            self._keeper.offer(self._state)

    async def _read(self, floor: int) -> State:
        try:
            record = await self._store.load_lease()
        except errors.JournalUnavailable as exc:
            return damaged(None, floor, str(exc))
        now, wall = self._clock.monotonic(), self._clock.wall_ms()
        return from_record(
            record, body_id=self.body_id, floor=floor, to_monotonic=lambda ms: now + (ms - wall) / 1000
        )

    async def _write(self, state: State) -> None:
        record: Record = to_record(state, self.body_id, self._clock.to_wall_ms)
        await self._store.save_lease(record)

    def _saved(self, state: State) -> None:
        for claim, epoch in self._grants.confirm(state):
            granted = {"lease_id": claim.lease_id, "kind": claim.kind.value, "epoch": epoch}
            self._tell("lease.granted", {"conversation_id": claim.conversation_id, **granted})
        self._poke()

    def _unsaved(self, state: State, error: errors.BodydError) -> None:
        """Nobody is granted what is not durable; whatever was fenced stays fenced."""
        self._tell("lease.not_durable", {"epoch": state.epoch, "reason": error.message})
        refusal = errors.JournalUnavailable(f"the grant could not be made durable: {error.message}")
        for lease_id, fresh in self._grants.lose(state, refusal):
            self._feed(e.GrantLost(lease_id, fresh))
        self._poke()

    # -- proofs, time, and the end -----------------------------------------------------------------

    async def _prove(self, drain: int) -> None:
        def report(failure: str | None) -> None:
            if self._proving == drain:
                self._proving = None
            self._feed(e.Quiesced(drain) if failure is None else e.QuiescenceFailed(drain, failure))
            self._poke()

        await attempt(self._quiesce, QUIESCE_SECONDS, report)

    async def _run_step(self, number: int) -> None:
        def report(failure: str | None) -> None:
            self._recovering = None
            self._feed(e.Recovered(number) if failure is None else e.RecoveryFailed(number, failure))
            self._poke()

        await attempt(self._recover_steps.get(number, _missing), RECOVER_SECONDS[number], report)

    async def _watch_clock(self) -> None:
        while True:
            with trio.CancelScope(deadline=next_deadline(self._state)) as self._alarm:
                await trio.sleep_forever()
            self._feed(e.TimePassed())

    async def _when_quiet(self) -> LeaseView:
        """Wait for the proof under way, if there is one, and for the record; the view after that."""
        drain = self._state.drain
        await self._until(lambda: drain is None or self._state.drain != drain)
        await self._until(lambda: self._keeper.caught_up)
        return self.view()

    async def _until(self, met: Callable[[], bool]) -> None:
        await trio.lowlevel.checkpoint()
        while not met():
            self._must_run()
            await self._changed.wait()

    def _poke(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def _tell(self, kind: str, data: Mapping[str, object]) -> None:
        self._announce(Event(type=kind, at=self._clock.wall_ms(), data={"body_id": self.body_id, **data}))

    def _must_run(self) -> None:
        if not self._running:
            raise errors.Unavailable("the lease is not running: the daemon is starting or stopping")

    def _close(self) -> None:
        self._running = False
        self._kill_permit()
        self._grants.refuse_all(errors.Unavailable("the daemon is stopping"))
        self._poke()


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _error(refusal: e.Refuse) -> errors.BodydError:
    error = refusal.error(refusal.message)
    if refusal.epoch is not None:
        error.details["epoch"] = refusal.epoch
    return error


async def _missing() -> bool:
    await trio.lowlevel.checkpoint()
    return False
