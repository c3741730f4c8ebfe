"""Running a `computer_call` through the door of a BodyPort, for the HTTP route and the gateway.

The protocol has no screenshot ids: pointer input is bound by the body to the last image that this
lease was given. Knows the port alone; no clock, no transport.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from bodyd.errors import BodydError, LeaseError, NotFound, RequestConflict, StaleScreenshot

from . import computer_call as cc
from .actions import MAX_INPUTS, InputRequest
from .ports import BodyPort, Caller
from .receipts import Outcome, Receipt
from .screenshots import ScreenshotRequest

REMEMBERED = 256

LOOK_FIRST = "screenshot_first"
"""Reason of receipts where the client had no image of this epoch to aim at."""


@dataclass(frozen=True, slots=True)
class ComputerResult:
    """The output item, and a receipt for each batch that the call was sent as."""

    item: dict[str, Any]
    receipts: tuple[Receipt, ...]


class ComputerRunner:
    """Runs calls, and remembers those answered with a picture instead of an act.

    The latter never reach the journal. Without the memory, a retry whose first answer was lost
    would act on an image that nobody saw.
    """

    def __init__(self, body: BodyPort) -> None:
        self._body = body
        self._unexecuted: OrderedDict[tuple[str, int, str], tuple[str, str]] = OrderedDict()

    async def run(
        self, request: cc.ComputerCallRequest, *, caller: Caller, lease_token: str
    ) -> ComputerResult:
        """Run every action in order and answer with one full screenshot taken after the last.

        Nothing runs unless all of the item is well-formed. The same request id again is answered
        with the stored receipts and a valid image. If the body refuses to aim (no image of this
        epoch, or the screen is not the one seen), the answer is a fresh image and receipts that
        say so.

        Raises:
            InvalidRequest, UnknownAction, UnknownKey, ApprovalRequired: nothing was done.
            BodydError: as BodyPort.input; `receipts` in its details are those of earlier chunks.
        Cancellation:
            As BodyPort.input: the running batch drains, the rest are not sent.
        """
        call = cc.parse_item(request.item)
        cc.require_acknowledged(call)
        requests = cc.batches(request, call)
        key = (caller.id, request.epoch, request.request_id)
        fingerprint = _fingerprint(requests)
        if (known := self._unexecuted.get(key)) is not None:
            if known[0] != fingerprint:
                raise RequestConflict(
                    "this request_id was already used for another call; use a new one", param="request_id"
                )
            return await self._look(call, requests, known[1], caller, lease_token, replayed=True)
        try:
            receipts = await self._send(requests, caller, lease_token)
        except StaleScreenshot as exc:
            if exc.details.get("receipts"):
                raise
            reason = LOOK_FIRST if exc.param == "screenshot_id" else exc.code
            self._remember(key, (fingerprint, reason))
            return await self._look(call, requests, reason, caller, lease_token)
        try:
            png = await self._image(receipts[-1], caller, lease_token)
        except BodydError as exc:
            _attach(exc, receipts)
            raise
        return ComputerResult(cc.output_item(call, png), tuple(receipts))

    async def _send(
        self, requests: tuple[InputRequest, ...], caller: Caller, lease_token: str
    ) -> list[Receipt]:
        receipts: list[Receipt] = []
        for number, request in enumerate(requests):
            if receipts and not _may_go_on(receipts[-1]):
                receipts.append(cc.unsent(request, reason="not_attempted", at=receipts[-1].completed_at))
                continue
            try:
                receipts.append(await self._body.input(request, caller=caller, lease_token=lease_token))
            except BodydError as exc:
                exc.param = _in_item(exc.param, first=number * MAX_INPUTS)
                _attach(exc, receipts)
                raise
        return receipts

    async def _image(self, receipt: Receipt, caller: Caller, lease_token: str) -> bytes:
        """The picture that the last batch took; a fresh one where it took none or it is gone."""
        if receipt.screenshot is not None:
            try:
                return await self._body.image(receipt.screenshot.screenshot_id, caller=caller)
            except NotFound:
                pass  # past its retention: a replay still owes an image
        return (await self._fresh(caller, lease_token))[1]

    async def _fresh(self, caller: Caller, lease_token: str) -> tuple[int, bytes]:
        everything = ScreenshotRequest()
        try:
            shot = await self._body.screenshot(everything, caller=caller, lease_token=lease_token)
        except LeaseError:  # lost, or in recovery, since the input: it may still be looked at
            shot = await self._body.screenshot(everything, caller=caller)
        return shot.captured_at, await self._body.image(shot.screenshot_id, caller=caller)

    async def _look(
        self,
        call: cc.ComputerCall,
        requests: tuple[InputRequest, ...],
        reason: str,
        caller: Caller,
        lease_token: str,
        *,
        replayed: bool = False,
    ) -> ComputerResult:
        at, png = await self._fresh(caller, lease_token)
        receipts = tuple(cc.unsent(r, reason=reason, at=at, replayed=replayed) for r in requests)
        return ComputerResult(cc.output_item(call, png), receipts)

    def _remember(self, key: tuple[str, int, str], answer: tuple[str, str]) -> None:
        self._unexecuted[key] = answer
        while len(self._unexecuted) > REMEMBERED:
            self._unexecuted.popitem(last=False)


def _may_go_on(receipt: Receipt) -> bool:
    """A batch goes on while delivery is confirmed and no stated expectation failed."""
    return receipt.delivery is Outcome.CONFIRMED and not any(
        i.effect.outcome is Outcome.FAILED for i in receipt.inputs
    )


def _attach(exc: BodydError, receipts: list[Receipt]) -> None:
    if receipts:
        exc.details["receipts"] = [receipt.model_dump(mode="json") for receipt in receipts]


def _in_item(param: str | None, *, first: int) -> str | None:
    """The name that the client knows a batch's input by: inputs[3] of the second chunk is actions[67]."""
    if param is None or not param.startswith("inputs["):
        return param
    index, _, rest = param.removeprefix("inputs[").partition("]")
    return f"item.actions[{first + int(index)}]{rest}"


def _fingerprint(requests: tuple[InputRequest, ...]) -> str:
    digest = hashlib.sha256()
    for request in requests:
        digest.update(request.model_dump_json().encode())
    return digest.hexdigest()
