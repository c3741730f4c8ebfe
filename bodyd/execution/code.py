"""The code tool: `exec_py`, one Python process a conversation, that can do nothing but ask the door.

lease → audit → the conversation's worker, in a sandbox without network, screen or programs. A worker is
heard only while a call of its runs; what it says outside of one, or that is no frame, ends it. It outlives
a release or a pause if its conversation is the next to come back, and nothing else that happens to the lease.
Counterparts: inside/ is what runs in there, code_ui.py does what its code asks of the desktop.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import trio

from bodyd.config import Config
from bodyd.contract.code import CodeRequest
from bodyd.contract.events import Event
from bodyd.contract.ports import Caller, CodeItem
from bodyd.desktop.layout import Layout
from bodyd.errors import BodydError, EndNotRecorded, JournalUnavailable, Unavailable
from bodyd.journal.journal import Journal
from bodyd.lease.manager import LeaseManager
from bodyd.lease.permit import Admission

from .code_box import Worker, WorkerBoxes, WorkerBroken, number, word
from .code_output import Outcome
from .code_ui import Desk, Hands

LAST_WORD_S = 0.1
"""For code whose lease has ended to come to its end by itself: its next `ui` call raises."""

END_S = 5.0
MIN_RENEWAL_S, MAX_RENEWAL_S = 0.02, 5.0
MAX_FRAMES = 20_000
"""More of one call are a flood: what is printed comes in few."""

MAX_LOST = 1000
MAX_MESSAGE = 16 * 1024

_FATAL = frozenset(
    "lease.revoked lease.taken lease.suspended lease.recovery_required lease.recovered lease.ended".split()
)


class Code:
    """One body's code tool; made by `open_code`."""

    def __init__(
        self,
        config: Config,
        *,
        layout: Layout,
        machine_id: str,
        desk: Desk,
        leases: LeaseManager,
        journal: Journal,
    ) -> None:
        self._settings = config.code
        self._desk = desk
        self._leases = leases
        self._journal = journal
        self._boxes = WorkerBoxes(config, layout, machine_id=machine_id)
        self._workers: dict[str, Worker] = {}
        self._lost: dict[str, bool] = {}
        self._running: dict[Admission, trio.Event] = {}
        self._busy: set[str] = set()
        self._condemned: set[str] = set()
        self._turns: dict[str, trio.Lock] = {}
        self._nursery: trio.Nursery | None = None

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Own the workers. Cancelled, every one of them is killed."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            await trio.sleep_forever()

    # -- the lease -----------------------------------------------------------------------------------

    def hear(self, event: Event) -> None:
        """What happens to the lease decides who lives on; synchronous."""
        if event.type in _FATAL or (event.type == "lease.vacant" and event.data.get("stopped")):
            over = list(self._workers)
        elif event.type == "lease.granted":
            over = [c for c in self._workers if c != event.data.get("conversation_id")]
        else:
            return
        for conversation in over:
            if conversation in self._busy:  # its code has a last word
                self._condemned.add(conversation)
            else:
                self._doom(conversation)

    async def quiesce(self) -> bool:
        """Wait until no code runs any more whose lease was fenced, and nothing doomed is left."""
        for admission, done in list(self._running.items()):
            if not admission.permit.valid:
                await done.wait()
        for worker in self._boxes.dying():
            await worker.gone.wait()
        return True

    # -- a call --------------------------------------------------------------------------------------

    async def run(self, request: CodeRequest, *, caller: Caller, lease_token: str) -> Outcome:
        """See ports.CodePort. Cancelled, the worker dies; bounded by END_S."""
        return await self._run(request, caller, lease_token, None)

    @asynccontextmanager
    async def stream(
        self, request: CodeRequest, *, caller: Caller, lease_token: str
    ) -> AsyncIterator[AsyncIterator[CodeItem | Outcome]]:
        """See ports.CodePort."""
        # Unbounded, for what is put in is bounded: the pieces of one outcome.
        send, receive = trio.open_memory_channel[CodeItem | Outcome | BodydError | None](math.inf)
        scope, over = trio.CancelScope(), trio.Event()

        async def carry_out() -> None:
            try:
                with scope, send:
                    try:
                        send.send_nowait(await self._run(request, caller, lease_token, send.send_nowait))
                    except BodydError as exc:
                        send.send_nowait(exc)
            finally:
                over.set()

        assert self._nursery is not None, "serve() owns the calls"
        self._nursery.start_soon(carry_out)
        try:
            try:
                begun = await receive.receive()
            except trio.EndOfChannel:
                raise Unavailable("the code tool is closing") from None
            if isinstance(begun, BodydError):
                raise begun
            yield _Happenings(receive)
        finally:
            scope.cancel(reason="whoever asked has left")
            with trio.move_on_after(END_S, shield=True):
                await over.wait()

    async def _run(
        self,
        request: CodeRequest,
        caller: Caller,
        lease_token: str,
        tell: Callable[[CodeItem | None], None] | None,
    ) -> Outcome:
        """*tell* is told None once the call is admitted and on record, and then of each piece of output."""
        admission = self._leases.admit(lease_token, request.epoch)
        conversation = admission.claim.conversation_id
        turn = self._turns.setdefault(conversation, trio.Lock())
        try:
            async with turn:
                admission = self._leases.admit_again(admission)
                outcome = Outcome(f"code_{secrets.token_hex(8)}", tell=tell)
                await self._write_down(request, admission, outcome.call_id)
                try:
                    admission = self._leases.admit_again(admission)
                except BodydError as exc:  # on record as a call, it needs an end there
                    with trio.move_on_after(END_S, shield=True), suppress(EndNotRecorded):
                        await self._write_down_end(exc.code, 0, outcome)
                    raise
                if tell is not None:
                    tell(None)
                hands = Hands(
                    self._desk,
                    admission.permit,
                    judge=lambda: self._leases.admit_again(admission),
                    call_id=outcome.call_id,
                    epoch=admission.epoch,
                    caller=caller,
                    lease_token=lease_token,
                )
                await self._carry_out(request, admission, hands, outcome)
                return outcome
        finally:
            if not turn.locked():
                self._turns.pop(conversation, None)

    async def _write_down(self, request: CodeRequest, admission: Admission, call_id: str) -> None:
        facts = {
            "call_id": call_id,
            "conversation_id": admission.claim.conversation_id,
            "lease_id": admission.claim.lease_id,
            "epoch": admission.epoch,
            "code": self._journal.sealed(request.code, call_id),
            "reset": bool(request.reset),
        }
        await self._journal.audit("code.call", facts)

    async def _carry_out(
        self, request: CodeRequest, admission: Admission, hands: Hands, outcome: Outcome
    ) -> None:
        """Run it, and write down how it ended, whatever the way."""
        conversation = admission.claim.conversation_id
        end, through = "cancelled", False
        try:
            if request.reset:
                self._doom(conversation)
                self._lost.pop(conversation, None)
            if request.code:
                limit = self._settings.timeout_ms
                seconds = min(request.timeout_ms or limit, limit) / 1000
                await self._call(conversation, admission, request.code, seconds, hands, outcome)
            end, through = outcome.error["type"] if outcome.error else "ended", True
        except BodydError as exc:
            end = exc.code
            raise
        except Exception:
            end = "failed"
            raise
        finally:
            try:
                with trio.move_on_after(2 * END_S, shield=True):  # its own bound is the tighter one
                    await self._write_down_end(end, hands.calls, outcome)
            except EndNotRecorded:
                if through:  # else what came first says more, and a cancellation must not be lost
                    raise

    async def _write_down_end(self, end: str, ui_calls: int, outcome: Outcome) -> None:
        facts = {"call_id": outcome.call_id, "end": end, "ui_calls": ui_calls}
        try:
            with trio.fail_after(END_S, shield=True):
                await self._journal.audit("code.ended", facts)
        except (JournalUnavailable, trio.TooSlowError) as exc:
            raise EndNotRecorded(f"the code has run, and its end could not be written down: {exc}") from exc

    async def _call(
        self,
        conversation: str,
        admission: Admission,
        code: str,
        seconds: float,
        hands: Hands,
        outcome: Outcome,
    ) -> None:
        done = self._running[admission] = trio.Event()
        worker: Worker | None = None
        finished = False
        self._busy.add(conversation)
        try:
            worker = await self._worker(conversation)
            outcome.state_lost = self._lost.pop(conversation, False)
            with trio.move_on_after(seconds) as wall:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_keep_renewed, admission)
                    nursery.start_soon(_last_word, admission, nursery.cancel_scope)
                    try:
                        await self._converse(worker, code, hands, outcome)
                        finished = True
                    except WorkerBroken as exc:
                        outcome.fail("worker", f"the process was ended, or ended: {exc}")
                    nursery.cancel_scope.cancel(reason="the code has ended")
            if not finished and outcome.error is None:
                self._cut_off(seconds if wall.cancelled_caught else None, outcome)
        finally:
            outcome.ui_calls = hands.calls
            self._busy.discard(conversation)
            if not finished or conversation in self._condemned:
                self._condemned.discard(conversation)
                self._doom(conversation)
                if worker is not None:
                    with trio.move_on_after(END_S, shield=True):
                        await worker.gone.wait()
            self._running.pop(admission, None)
            done.set()

    def _cut_off(self, seconds: float | None, outcome: Outcome) -> None:
        """Why code was killed: it ran for too long, or the lease ended."""
        if seconds is not None:
            outcome.fail("timeout", f"the code ran for more than {seconds:g} s and was killed")
        else:
            why = self._leases.view().reason or "the lease has ended"
            outcome.fail("revoked", f"the code was killed: {why}")

    async def _converse(self, worker: Worker, code: str, hands: Hands, outcome: Outcome) -> None:
        """Hand *code* over and answer until it has ended."""
        call = await worker.begin(code)
        for _ in range(MAX_FRAMES):
            head, tail = await worker.receive(call)
            match head.get("op"):
                case "text":
                    outcome.say(word(head, "text"))
                    outcome.omit(head.get("omitted"), head.get("omitted_images"))
                case "image":
                    outcome.show(tail)
                case "done":
                    if head.get("error") is not None:
                        outcome.fail("exception", word(head, "error")[:MAX_MESSAGE])
                    return
                case _:
                    ask = number(head, "ask")
                    answer, picture = await hands.do(word(head, "op"), head.get("args"))
                    await worker.answer({"ask": ask, **answer}, picture)
        raise WorkerBroken("it sent frames without end")

    async def _worker(self, conversation: str) -> Worker:
        """The conversation's own, or a new one; the one that was idle for longest makes room."""
        worker = self._workers.pop(conversation, None)
        if worker is not None and (worker.doomed or not worker.sound()):
            self._workers[conversation] = worker
            self._doom(conversation)
            worker = None
        if worker is None:
            for other in list(self._workers)[: max(0, 1 + len(self._workers) - self._settings.workers)]:
                self._doom(other)
            assert self._nursery is not None, "serve() owns the workers"
            worker = await self._nursery.start(self._boxes.live)
        self._workers[conversation] = worker
        return worker

    def _doom(self, conversation: str) -> None:
        worker = self._workers.pop(conversation, None)
        if worker is not None:
            worker.doom()
            self._lost[conversation] = True
            for oldest in list(self._lost)[:-MAX_LOST]:
                del self._lost[oldest]


class _Happenings:
    """What is told of a call; an iterator and not a generator, for whoever drops it has nothing to close."""

    def __init__(self, receive: trio.MemoryReceiveChannel[CodeItem | Outcome | BodydError | None]) -> None:
        self._receive = receive

    def __aiter__(self) -> _Happenings:
        return self

    async def __anext__(self) -> CodeItem | Outcome:
        one = await anext(self._receive)
        if isinstance(one, BodydError):
            raise one
        assert one is not None, "a call begins once"
        return one


async def _last_word(admission: Admission, scope: trio.CancelScope) -> None:
    """Once the lease is fenced, a moment for the code to come to its end; then it is cut off."""
    await admission.interrupted.wait()
    await trio.sleep(LAST_WORD_S)
    scope.cancel(reason="the lease has ended")


async def _keep_renewed(admission: Admission) -> None:
    """Use renews: a claim whose code runs is in use all the while."""
    ttl = (admission.claim.expires_at - admission.claim.heartbeat_at) / 1000
    while True:
        admission.touch()
        await trio.sleep(max(MIN_RENEWAL_S, min(MAX_RENEWAL_S, ttl / 3)))


@asynccontextmanager
async def open_code(
    config: Config,
    *,
    layout: Layout,
    machine_id: str,
    desk: Desk,
    leases: LeaseManager,
    journal: Journal,
) -> AsyncIterator[Code]:
    """The code tool; on leaving, no worker is left. No process is started before the first call."""
    code = Code(config, layout=layout, machine_id=machine_id, desk=desk, leases=leases, journal=journal)
    async with trio.open_nursery() as nursery:
        await nursery.start(code.serve)
        try:
            yield code
        finally:
            nursery.cancel_scope.cancel(reason="the code tool closes")
