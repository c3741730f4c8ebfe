"""The calls that the gateway carries out itself: through the body's door, and in its shell.

Request ids at the door are (response, round, index), never the model's call_id, so that a batch which
was cut off by a client that left is asked for again under its id: what was sent is not sent twice.
A failure that the model can do something about is its output; others end the response.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from bodyd.contract import computer_call as cc
from bodyd.contract.computer_run import ComputerRunner
from bodyd.contract.ports import (
    BodyPort,
    Caller,
    ProcessChunk,
    ProcessPort,
    ProcessResult,
)
from bodyd.contract.screenshots import ScreenshotRequest
from bodyd.errors import (
    ApprovalRequired,
    BodydError,
    InvalidRequest,
    LeaseError,
    PolicyRefused,
    StaleEpoch,
    StaleScreenshot,
    Unavailable,
)

from . import notes
from .claims import Claim, Claims
from .consent import MOST_POSTED, Consent, withheld
from .pictures import PLACEHOLDER
from .presence import Presence
from .printing import Printing

Json = dict[str, Any]

CANCELLED_EXIT = 137
TOLD_TO_THE_MODEL = (InvalidRequest, StaleScreenshot)
"""Refusals after which the model can go on: nothing was sent, and it is told why."""
NOT_APPROVED = "a person was asked and did not approve. Do not try it another way: end your turn"
LIMIT = "the limit of tool calls of this response is reached. End your turn with what you have"


@dataclass
class Hands:
    """What one response executes. `refused` is set once a person has refused: the turn must end."""

    body: BodyPort
    runner: ComputerRunner
    process: ProcessPort | None
    consent: Consent
    claims: Claims
    presence: Presence
    response_id: str
    conversation: str
    caller: Caller
    refused: bool = False
    _stack: AsyncExitStack | None = None
    _claim: Claim | None = None

    @asynccontextmanager
    async def ready(self) -> AsyncIterator[Hands]:
        """The body is only taken at the first call; it is given back when this is left."""
        async with AsyncExitStack() as self._stack:
            yield self

    # -- the computer ------------------------------------------------------------------------------

    async def computer(self, call: Json, number: int, index: int) -> Json:
        """Carry out a computer_call; its output item, with a note where not all of it was executed."""
        claim = await self._held()
        try:
            checks = call.get("pending_safety_checks")
            if checks and not await self.consent.of_checks(call, self.conversation, claim.epoch):
                return await self._not_approved(call)
        except InvalidRequest as exc:
            return await self.look(call, exc.message)
        return await self._through(call, f"{self.response_id}/{number}/{index}", claim)

    async def _through(self, call: Json, request_id: str, claim: Claim) -> Json:
        """Post *call* to the door until it has been answered, under one request id."""
        for _ in range(MOST_POSTED):
            parked = None
            while parked is None:
                await self.presence.wait()
                with self.presence.needed():
                    try:
                        return await self._run(call, request_id, claim)
                    except ApprovalRequired as exc:
                        parked = exc
                # cut off by a client that left: the same id is answered with what was sent by then
            if not await self.consent.of_door(parked):
                break
        return await self._not_approved(call)

    async def _not_approved(self, call: Json) -> Json:
        self.refused = True
        return await self.look(call, NOT_APPROVED)

    async def look(self, call: Json, why: str) -> Json:
        """The output of a call of which nothing ran: the screen as it is, and why."""
        png = await self._screen(await self._held())
        return notes.with_note(_screenshot(call, png), notes.about_refusal(why))

    async def _run(self, call: Json, request_id: str, claim: Claim) -> Json:
        acknowledged = {"acknowledged_safety_checks": call.get("pending_safety_checks") or []}
        item = {**call, **acknowledged, "status": "completed"}
        request = cc.ComputerCallRequest(request_id=request_id, epoch=claim.epoch, item=item)
        try:
            result = await self.runner.run(request, caller=self.caller, lease_token=claim.token)
        except StaleEpoch as exc:
            claim.epoch = int(str(exc.details.get("epoch", claim.epoch)))
            return await self.look(call, "a person had the desktop in between")
        except PolicyRefused as exc:
            self.refused = self.refused or withheld(exc)
            return await self.look(call, exc.message)
        except TOLD_TO_THE_MODEL as exc:
            return await self.look(call, exc.message)
        output = dict(result.item)
        if not call.get("pending_safety_checks"):
            output.pop("acknowledged_safety_checks", None)
        return notes.with_note(output, notes.about_receipts(result.receipts))

    async def _screen(self, claim: Claim) -> bytes:
        shot = await self.body.screenshot(ScreenshotRequest(), caller=self.caller, lease_token=claim.token)
        return await self.body.image(shot.screenshot_id, caller=self.caller)

    # -- the shell ---------------------------------------------------------------------------------

    async def shell(self, call: Json, output: Printing) -> None:
        """Carry out a shell_call; *output* is told what comes.

        Cancellation:
            The commands die; *output* has what came until then.
        """
        if self.process is None:
            raise Unavailable("no shell is configured here")
        claim = await self._held()
        await self.presence.wait()
        with self.presence.needed() as needed:
            try:
                await self._commands(self.process, claim, call["action"], output)
            except StaleEpoch as exc:
                claim.epoch = int(str(exc.details.get("epoch", claim.epoch)))
                output.cut("Not executed: a person had the desktop in between\n", CANCELLED_EXIT)
                return
            except (LeaseError, MalformedResult):
                raise  # the response can't go on
            except BodydError as exc:
                self.refused = self.refused or (isinstance(exc, PolicyRefused) and withheld(exc))
                output.cut(exc.message, 1)
                return
        if needed.cancelled_caught:
            output.cut("cancelled: the client left\n", CANCELLED_EXIT)
        elif not output.whole:
            raise MalformedResult(f"the shell answered {len(output.chunks)} commands, and not all")

    async def _commands(self, process: ProcessPort, claim: Claim, action: Json, output: Printing) -> None:
        async with process.run(
            action["commands"],
            lease_token=claim.token,
            epoch=claim.epoch,
            timeout_ms=action.get("timeout_ms"),
            max_output_length=action.get("max_output_length"),
        ) as happenings:
            async for one in happenings:
                if output.whole:
                    raise MalformedResult("the shell answered more commands than there were")
                if isinstance(one, ProcessChunk):
                    output.told(one.stream, one.text)
                elif isinstance(one, ProcessResult):
                    output.ended(_chunk(one))
                else:
                    raise MalformedResult("the shell answered with something that is no result")

    # -- inside ------------------------------------------------------------------------------------

    async def _held(self) -> Claim:
        if self._claim is None:
            assert self._stack is not None, "used outside of ready()"
            self._claim = await self._stack.enter_async_context(
                self.claims.held(self.conversation, self.caller)
            )
        return self._claim


class MalformedResult(BodydError):
    """An executor's answer makes no sense: the response fails, and says so."""

    code, status = "executor_failed", 502


def _screenshot(call: Json, png: bytes) -> Json:
    picture = {"type": "computer_screenshot", "image_url": cc.data_url(png), "detail": "original"}
    return {"type": "computer_call_output", "call_id": call["call_id"], "output": picture}


def not_run(call: Json, why: str) -> Json:
    """The output of a call that is not carried out, where there is no body to look at."""
    if call["type"] == "shell_call":
        return _shell_output(call, [_ended("", f"Not executed: {why}", CANCELLED_EXIT)])
    picture = {"type": "computer_screenshot", "image_url": PLACEHOLDER}
    output = {"type": "computer_call_output", "call_id": call["call_id"], "output": picture}
    return notes.with_note(output, f"Not executed: {why}.")


def _shell_output(call: Json, chunks: list[Json]) -> Json:
    output: Json = {"type": "shell_call_output", "call_id": call["call_id"], "output": chunks}
    limit = call["action"].get("max_output_length")
    return output if limit is None else {**output, "max_output_length": limit}


def _chunk(result: ProcessResult) -> Json:
    if result.timed_out:
        outcome: Json = {"type": "timeout"}
    elif result.exit_code is None:
        raise MalformedResult("the shell answered with neither an exit code nor a timeout")
    else:
        outcome = {"type": "exit", "exit_code": result.exit_code}
    return {"stdout": result.stdout, "stderr": result.stderr, "outcome": outcome}


def _ended(stdout: str, stderr: str, code: int) -> Json:
    return {"stdout": stdout, "stderr": stderr, "outcome": {"type": "exit", "exit_code": code}}
