"""The code tool: `exec_py`, one Python process a conversation, that can do nothing but ask the door.

lease → audit → the conversation's worker, in a sandbox without network, screen or programs. A worker is
heard only while a call of its runs; what it says outside of one, or that is no frame, ends it. It outlives
a release if its conversation is the next to come back, and nothing else that happens to the lease.
Counterparts: code_worker.py runs inside, code_ui.py does what its code asks of the desktop.
"""

from __future__ import annotations

import base64
import secrets
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import trio

from bodyd.config import Config
from bodyd.contract.code import (
    MAX_IMAGE_BYTES,
    MAX_ITEMS,
    MAX_TEXT_BYTES,
    CodeRequest,
)
from bodyd.contract.events import Event
from bodyd.contract.ports import Caller
from bodyd.desktop.layout import Layout
from bodyd.journal.journal import Journal
from bodyd.lease.manager import LeaseManager
from bodyd.lease.permit import Admission

from .code_box import Worker, WorkerBoxes, WorkerBroken
from .code_ui import Desk, Hands

LAST_WORD_S = 0.1
"""For code whose lease has ended to come to its end by itself: its next `ui` call raises."""

END_S = 5.0
MIN_RENEWAL_S, MAX_RENEWAL_S = 0.02, 5.0
_MORE_FRAMES = 20_000
"""So many frames of one call are a flood."""

_FATAL = frozenset(
    "lease.revoked lease.taken lease.suspended lease.recovery_required lease.recovered lease.ended".split()
)
_PNG = b"\x89PNG\r\n\x1a\n"


@dataclass
class Outcome:
    """What came of one call.

    Attributes:
        call_id: Its receipts are `{call_id}.N`, N counting the `ui` calls from 1.
        output: Texts and pictures in order, as the content of a function call's output.
        error: {type, message} where it did not run to its end: exception, timeout, revoked, worker.
        state_lost: Names that earlier calls had made are gone.
        omitted_bytes: Of text that was too much; its head was kept.
        omitted_images: Pictures that were too much, or none.
    """

    call_id: str
    output: list[dict[str, str]] = field(default_factory=list)
    error: dict[str, str] | None = None
    ui_calls: int = 0
    state_lost: bool = False
    omitted_bytes: int = 0
    omitted_images: int = 0
    _text: int = 0
    _image: int = 0

    def say(self, text: str) -> None:
        """Keep *text*, as far as there is room."""
        data = text.encode("utf-8", "replace")
        room = MAX_TEXT_BYTES - self._text
        kept = data[:room].decode("utf-8", "ignore") if room > 0 else ""
        self._text += len(kept.encode())
        self.omitted_bytes += len(data) - len(kept.encode())
        if not kept:
            return
        if self.output and self.output[-1]["type"] == "input_text":
            self.output[-1]["text"] += kept
        elif len(self.output) < MAX_ITEMS:
            self.output.append({"type": "input_text", "text": kept})
        else:
            self.omitted_bytes += len(kept.encode())

    def show(self, png: bytes) -> None:
        """Keep a picture, by its header alone."""
        self._image += len(png)
        if not _is_png(png) or self._image > MAX_IMAGE_BYTES or len(self.output) >= MAX_ITEMS:
            self._image -= len(png)
            self.omitted_images += 1
            return
        url = f"data:image/png;base64,{base64.b64encode(png).decode()}"
        self.output.append({"type": "input_image", "image_url": url})

    def to_json(self) -> dict[str, Any]:
        return {
            "call_id": self.call_id,
            "output": self.output,
            "error": self.error,
            "ui_calls": self.ui_calls,
            "state_lost": self.state_lost,
            "omitted_bytes": self.omitted_bytes,
            "omitted_images": self.omitted_images,
        }


def _is_png(data: bytes) -> bool:
    if len(data) < 33 or data[:8] != _PNG or data[12:16] != b"IHDR":
        return False
    width, height = struct.unpack(">II", data[16:24])
    return bool(0 < width <= 16384 and 0 < height <= 16384)


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
        self._lost: set[str] = set()
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
        """Run code in the process of the claim's conversation.

        Raises:
            LeaseError: nothing was run.
            JournalUnavailable: nothing was run.
            IsolationUnavailable: no process could be had.
        Cancellation:
            The worker dies; bounded by END_S.
        """
        admission = self._leases.admit(lease_token, request.epoch)
        conversation = admission.claim.conversation_id
        async with self._turns.setdefault(conversation, trio.Lock()):
            admission = self._leases.admit_again(admission)
            call_id = f"code_{secrets.token_hex(8)}"
            facts = {
                "call_id": call_id,
                "conversation_id": conversation,
                "epoch": admission.epoch,
                "code": self._journal.sealed(request.code, call_id),
                "reset": bool(request.reset),
            }
            await self._journal.audit("code.call", facts)
            admission = self._leases.admit_again(admission)
            outcome = Outcome(call_id)
            if request.reset:
                self._doom(conversation)
                self._lost.discard(conversation)
            if request.code:
                limit = self._settings.timeout_ms
                seconds = min(request.timeout_ms or limit, limit) / 1000
                hands = Hands(
                    self._desk,
                    admission.permit,
                    call_id=call_id,
                    epoch=admission.epoch,
                    caller=caller,
                    lease_token=lease_token,
                )
                await self._call(conversation, admission, request.code, seconds, hands, outcome)
            with trio.CancelScope(shield=True), trio.move_on_after(END_S):
                error = outcome.error["type"] if outcome.error else None
                await self._journal.audit(
                    "code.ended", {"call_id": call_id, "error": error, "ui_calls": outcome.ui_calls}
                )
            return outcome

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
            outcome.state_lost = conversation in self._lost
            self._lost.discard(conversation)
            with trio.move_on_after(seconds) as wall:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_keep_renewed, admission)
                    nursery.start_soon(_last_word, admission, nursery.cancel_scope)
                    try:
                        outcome.error = await self._converse(worker, code, hands, outcome)
                        finished = True
                    except WorkerBroken as exc:
                        outcome.error = _error("worker", f"the process was ended, or ended: {exc}")
                    nursery.cancel_scope.cancel(reason="the code has ended")
            if not finished and outcome.error is None:
                outcome.error = self._cut_off(seconds if wall.cancelled_caught else None)
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

    def _cut_off(self, seconds: float | None) -> dict[str, str]:
        """Why code was killed: it ran for too long, or the lease ended."""
        if seconds is not None:
            return _error("timeout", f"the code ran for more than {seconds:g} s and was killed")
        return _error(
            "revoked", f"the code was killed: {self._leases.view().reason or 'the lease has ended'}"
        )

    async def _converse(
        self, worker: Worker, code: str, hands: Hands, outcome: Outcome
    ) -> dict[str, str] | None:
        """Hand *code* over and answer until it has ended; what it ended with, if not well."""
        call = await worker.begin(code)
        for _ in range(_MORE_FRAMES):
            head, tail = await worker.receive(call)
            match head.get("op"):
                case "text":
                    outcome.say(str(head.get("text", "")))
                case "image":
                    outcome.show(tail)
                case "done":
                    error = head.get("error")
                    return None if error is None else _error("exception", str(error)[:MAX_TEXT_BYTES])
                case op:
                    await worker.answer(*await hands.do(str(op), head.get("args")))
        raise WorkerBroken("it sent frames without end")

    async def _worker(self, conversation: str) -> Worker:
        """The conversation's own, or a new one; the one that was idle for longest makes room."""
        worker = self._workers.pop(conversation, None)
        if worker is not None and (worker.doomed or not worker.sound()):
            self._workers[conversation] = worker
            self._doom(conversation)
            worker = None
        if worker is None:
            for other in list(self._workers)[: 1 + len(self._workers) - self._settings.workers]:
                self._doom(other)
            assert self._nursery is not None, "serve() owns the workers"
            worker = await self._nursery.start(self._boxes.live)
        self._workers[conversation] = worker
        return worker

    def _doom(self, conversation: str) -> None:
        worker = self._workers.pop(conversation, None)
        if worker is not None:
            worker.doom()
            self._lost.add(conversation)


def _error(kind: str, message: str) -> dict[str, str]:
    return {"type": kind, "message": message}


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
