"""A body in memory: it keeps the promises of BodyPort that HTTP relies on, and shows nothing on any screen.

One lease with tokens and epochs, screenshots that are tiny PNGs, receipts by request id, and the
input that "reached the desktop" in `acted`.
"""

from __future__ import annotations

import secrets
from io import BytesIO
from typing import Any

import trio
from PIL import Image

from bodyd import errors
from bodyd.contract import actions as a
from bodyd.contract import acts
from bodyd.contract.atoms import units
from bodyd.contract.geometry import Bounds
from bodyd.contract.inventory import Inventory, Window
from bodyd.contract.lease import AcquireRequest, Claim, Grant, HolderKind, LeaseState, LeaseView
from bodyd.contract.ports import Caller
from bodyd.contract.receipts import (
    Delivery,
    Effect,
    InputReceipt,
    Outcome,
    Receipt,
    Sent,
    greatest,
    input_receipt,
)
from bodyd.contract.screenshots import Cursor, Screenshot, ScreenshotRequest

NOW = 1_700_000_000_000
WIDTH, HEIGHT = 64, 48


class FakeBody:
    """Set `failing` to a type of input to have it delivered only in part; `slow` to hold up input."""

    def __init__(self) -> None:
        self.state = LeaseState.VACANT
        self.epoch = 0
        self.token: str | None = None
        self.claim: Claim | None = None
        self.reason: str | None = None
        self.components: dict[str, dict[str, Any]] = {"display": {"state": "ready"}}
        self.acted: list[a.Action] = []
        self.captures = 0
        self.text = ""
        self.calls: list[tuple[str, Caller | None]] = []
        self.failing: str | None = None
        self.raising: Exception | None = None
        self.slow: trio.Event | None = None
        self.waiting = trio.Event()
        self.cancelled = trio.Event()
        self._images: dict[str, bytes] = {}
        self._latest: Screenshot | None = None
        self._receipts: dict[str, tuple[a.InputRequest, Receipt]] = {}

    # -- looking -----------------------------------------------------------------------------------

    async def status(self) -> dict[str, Any]:
        await self._enter("status", None)
        return {
            "body_id": "body_fake",
            "lease": self.view().model_dump(mode="json"),
            "display": {"width": WIDTH, "height": HEIGHT},
            "isolation": {"enforced": True},
            "components": self.components,
        }

    async def screenshot(
        self, request: ScreenshotRequest, *, caller: Caller, lease_token: str | None = None
    ) -> Screenshot:
        await self._enter("screenshot", caller)
        if lease_token is not None:
            self._admit(lease_token)
        return self._capture(request, bound=lease_token is not None)

    async def image(self, screenshot_id: str, *, caller: Caller) -> bytes:
        await self._enter("image", caller)
        if screenshot_id not in self._images:
            raise errors.NotFound(f"no screenshot {screenshot_id!r} is kept")
        return self._images[screenshot_id]

    async def inventory(self, *, caller: Caller) -> Inventory:
        await self._enter("inventory", caller)
        return Inventory(apps=(), windows=(self._window(),))

    # -- acting ------------------------------------------------------------------------------------

    async def input(self, request: a.InputRequest, *, caller: Caller, lease_token: str) -> Receipt:
        await self._enter("input", caller)
        self._admit(lease_token, request.epoch)
        if (known := self._receipts.get(request.request_id)) is not None:
            if known[0] != request:
                raise errors.RequestConflict("the request id was used already", param="request_id")
            return known[1].model_copy(update={"replayed": True})
        self._aim(request)
        if self.slow is not None:
            self.waiting.set()
            try:
                await self.slow.wait()
            except trio.Cancelled:
                self.cancelled.set()
                raise
        receipt = self._run(request)
        self._receipts[request.request_id] = (request, receipt)
        return receipt

    async def receipt(self, request_id: str, *, caller: Caller) -> Receipt:
        await self._enter("receipt", caller)
        if request_id not in self._receipts:
            raise errors.NotFound("no receipt has this request id", param="request_id")
        return self._receipts[request_id][1]

    async def resize(
        self, request: acts.ResizeRequest, *, caller: Caller, lease_token: str | None = None
    ) -> acts.Act:
        await self._enter(f"resize {request.width}x{request.height}", caller)
        if lease_token is not None:
            self._admit(lease_token, request.epoch)
        return self._done("resize")

    async def clipboard(self, *, caller: Caller, lease_token: str | None = None) -> acts.ClipboardText:
        await self._enter("clipboard", caller)
        return acts.ClipboardText(text=self.text)

    async def write_clipboard(
        self, request: acts.ClipboardRequest, *, caller: Caller, lease_token: str
    ) -> acts.Act:
        await self._enter("write_clipboard", caller)
        self._admit(lease_token, request.epoch)
        self.text = request.text
        return self._done("clipboard_write")

    async def launch(self, request: acts.LaunchRequest, *, caller: Caller, lease_token: str) -> acts.Act:
        await self._enter(f"launch {request.name}", caller)
        self._admit(lease_token, request.epoch)
        return self._done("launch")

    async def activate(
        self, window_id: int, request: acts.ActRequest, *, caller: Caller, lease_token: str
    ) -> acts.Act:
        await self._enter(f"activate {window_id}", caller)
        self._admit(lease_token, request.epoch)
        return self._done("activate")

    async def close_window(
        self, window_id: int, request: acts.ActRequest, *, caller: Caller, lease_token: str
    ) -> acts.Act:
        await self._enter(f"close {window_id}", caller)
        self._admit(lease_token, request.epoch)
        return self._done("close")

    def _done(self, kind: acts.ActType) -> acts.Act:
        return acts.Act(type=kind, epoch=self.epoch, at=NOW, effect=Effect(outcome=Outcome.CONFIRMED))

    # -- the lease ---------------------------------------------------------------------------------

    async def acquire(
        self, request: AcquireRequest, *, caller: Caller, kind: HolderKind = HolderKind.AGENT
    ) -> Grant:
        await self._enter("acquire", caller)
        if self.state is LeaseState.HELD:
            raise errors.Busy("another driver holds the body; wait with wait_ms, or come back")
        return self._grant(request.conversation_id, kind, request.ttl_ms)

    async def renew(self, lease_token: str, ttl_ms: int | None = None) -> LeaseView:
        await self._enter("renew", None)
        self._admit(lease_token)
        return self.view()

    async def release(self, lease_token: str) -> LeaseView:
        await self._enter("release", None)
        self._admit(lease_token)
        return self._become(LeaseState.VACANT, "released")

    async def revoke(self, *, caller: Caller, reason: str) -> LeaseView:
        await self._enter("revoke", caller)
        return self._become(LeaseState.VACANT, reason)

    async def pause(self, *, caller: Caller, reason: str) -> LeaseView:
        await self._enter("pause", caller)
        self.state, self.reason = LeaseState.PAUSED, reason
        return self.view()

    async def resume(self, *, caller: Caller, lease_token: str | None = None) -> LeaseView:
        await self._enter("resume", caller)
        self.state = LeaseState.HELD if self.token else LeaseState.VACANT
        return self.view()

    async def stop(self, *, caller: Caller, reason: str) -> LeaseView:
        await self._enter("stop", caller)
        return self._become(LeaseState.STOPPED, reason)

    async def takeover(self, *, caller: Caller, reason: str) -> Grant:
        await self._enter("takeover", caller)
        return self._grant("owner", HolderKind.PERSON, 60_000)

    async def handback(self, *, caller: Caller, lease_token: str) -> LeaseView:
        await self._enter("handback", caller)
        self._admit(lease_token)
        return self._become(LeaseState.VACANT, "handed back")

    async def recover(self, *, caller: Caller, step: int = 1) -> LeaseView:
        await self._enter(f"recover {step}", caller)
        return self._become(LeaseState.VACANT, f"recovered by step {step}")

    def view(self) -> LeaseView:
        return LeaseView(state=self.state, epoch=self.epoch, claim=self.claim, reason=self.reason)

    def forget_images(self) -> None:
        """As when retention has ended."""
        self._images.clear()

    # -- inside ------------------------------------------------------------------------------------

    async def _enter(self, name: str, caller: Caller | None) -> None:
        await trio.lowlevel.checkpoint()
        self.calls.append((name, caller))
        if self.raising is not None:
            raise self.raising

    def _admit(self, lease_token: str, epoch: int | None = None) -> None:
        if self.state is LeaseState.STOPPED:
            raise errors.BodyStopped("the owner stopped this body")
        if self.token is None or lease_token != self.token:
            raise errors.StaleLease("this lease token is not the current one; acquire again")
        if epoch is not None and epoch != self.epoch:
            raise errors.StaleEpoch("the claim moved to another epoch", epoch=self.epoch)

    def _grant(self, conversation: str, kind: HolderKind, ttl_ms: int) -> Grant:
        self.epoch += 1
        self.token = f"lease_{secrets.token_hex(8)}"
        self.state, self.reason = LeaseState.HELD, None
        self.claim = Claim(
            body_id="body_fake",
            conversation_id=conversation,
            lease_id=f"claim_{self.epoch}",
            kind=kind,
            issued_at=NOW,
            heartbeat_at=NOW,
            expires_at=NOW + ttl_ms,
        )
        return Grant(lease_token=self.token, epoch=self.epoch, lease=self.view())

    def _become(self, state: LeaseState, reason: str) -> LeaseView:
        self.state, self.reason, self.token, self.claim = state, reason, None, None
        return self.view()

    def _capture(self, request: ScreenshotRequest, *, bound: bool) -> Screenshot:
        self.captures += 1
        png = BytesIO()
        Image.new("RGB", (WIDTH, HEIGHT), (self.captures % 256, 80, 120)).save(png, "PNG")
        shot = Screenshot(
            screenshot_id=f"shot_{self.captures}",
            sequence=self.captures,
            captured_at=NOW + self.captures,
            epoch=self.epoch,
            width=WIDTH,
            height=HEIGHT,
            bounds=Bounds(x=0, y=0, width=WIDTH, height=HEIGHT),
            target=request.target,
            cursor=Cursor(x=1, y=2),
            windows=(self._window(),),
            sha256="0" * 64,
            input_ready=bound,
        )
        self._images[shot.screenshot_id] = png.getvalue()
        if bound:
            self._latest = shot
        return shot

    def _aim(self, request: a.InputRequest) -> None:
        aimed = any(isinstance(x, (*a.POINTER_TYPES, *a.KEYBOARD_TYPES)) for x in request.inputs)
        fresh = self._latest is not None and self._latest.epoch == self.epoch
        if aimed and not fresh:
            raise errors.StaleScreenshot("take a fresh screenshot; nothing was sent", param="screenshot_id")
        for index, action in enumerate(request.inputs):
            for x, y in a.points(action):
                if not (0 <= x < WIDTH and 0 <= y < HEIGHT):
                    raise errors.OutOfBounds(f"({x}, {y}) is outside", param=f"inputs[{index}]")

    def _run(self, request: a.InputRequest) -> Receipt:
        inputs: list[InputReceipt] = []
        for index, action in enumerate(request.inputs):
            inputs.append(self._act(index, action, halted=_halted(inputs)))
        shot = self._capture(ScreenshotRequest(), bound=True) if request.screenshot else None
        return Receipt(
            request_id=request.request_id,
            epoch=request.epoch,
            screenshot_id=request.screenshot_id,
            started_at=NOW,
            completed_at=NOW + 1,
            outcome=greatest(i.outcome for i in inputs),
            inputs=tuple(inputs),
            settled=True,
            screenshot=shot,
        )

    def _act(self, index: int, action: a.Action, *, halted: bool) -> InputReceipt:
        of = units(action)
        effect = Effect(outcome=None if action.type in ("wait", "screenshot") else Outcome.UNCERTAIN)
        if halted or action.type == self.failing:
            reason = "not_attempted" if halted else "interrupted"
            delivery = Delivery(outcome=Outcome.FAILED, sent=Sent(units=0, of=of), reason=reason)
            return input_receipt(index, action.type, delivery, effect)
        self.acted.append(action)
        delivery = Delivery(outcome=Outcome.CONFIRMED, sent=Sent(units=of, of=of))
        return input_receipt(index, action.type, delivery, effect)

    def _window(self) -> Window:
        return Window(
            id=7,
            app="chromium",
            title='<img src=x onerror="alert(1)">',
            bounds=Bounds(x=0, y=0, width=WIDTH, height=HEIGHT),
            active=True,
            minimised=False,
            stacking=0,
        )


def _halted(inputs: list[InputReceipt]) -> bool:
    return any(i.delivery.outcome is not Outcome.CONFIRMED for i in inputs)
