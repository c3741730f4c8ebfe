"""What the owner's console asks for beside the rest: the timeline, running calls, open approvals."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from quart import Response, request

from bodyd.contract.lease import Scope
from bodyd.errors import InvalidRequest, NotFound

from .routing import Api
from .services import caller, path_id, read_model, reply, services

MOST_RECEIPTS = 100
RECEIPTS = 30


class Answer(BaseModel):
    """Body of `POST /v1/approvals/{id}`: approve it, this once, or refuse it."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    approve: Annotated[bool, Field(strict=True)]


def add(api: Api) -> None:
    @api.get("/v1/receipts", Scope.OWNER)
    async def receipts() -> Response:
        """What was done, newest first; typed text is a length."""
        before, limit = _number("before", None), _number("limit", RECEIPTS)
        history = services().history
        if history is None:
            return reply({"receipts": []})
        assert limit is not None
        found = await history.history(before=before, limit=max(1, min(limit, MOST_RECEIPTS)))
        return reply({"receipts": found})

    @api.get("/v1/calls", Scope.OWNER)
    async def calls() -> Response:
        """Commands and code that run, and the last that ended; without their output."""
        board = services().board
        return reply({"calls": [] if board is None else board.calls(caller=caller())})

    @api.get("/v1/calls/<call_id>", Scope.OWNER)
    async def call(call_id: str) -> Response:
        board, wanted = services().board, path_id(call_id, "call")
        if board is None:
            raise NotFound("no call has such an id")
        return reply(board.call(wanted, caller=caller()))

    @api.get("/v1/approvals", Scope.OWNER)
    async def approvals() -> Response:
        """What waits for the owner's word; nothing where no hook is configured."""
        port = services().approvals
        return reply({"configured": port is not None, "approvals": [] if port is None else port.pending()})

    @api.post("/v1/approvals/<approval_id>", Scope.OWNER)
    async def answer(approval_id: str) -> Response:
        port, wanted = services().approvals, path_id(approval_id, "approval")
        given = await read_model(Answer)
        if port is None:
            raise NotFound("no approval has such an id")
        port.answer(wanted, approve=given.approve)
        return reply({"approval_id": wanted, "approved": given.approve})


def _number(name: str, default: int | None) -> int | None:
    """A whole number of the query."""
    given = request.args.get(name)
    if given is None:
        return default
    if not given.isascii() or not given.isdigit() or len(given) > 15:
        raise InvalidRequest(f"{name} must be a whole number", param=name)
    return int(given)
