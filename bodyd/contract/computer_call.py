"""OpenAI's `computer_call` item, translated: in to batches of input, out to `computer_call_output`.

Both forms are read: `actions[]` of the current tool and the single `action` of the preview tool.
Unknown *fields* are ignored, as the protocol grows; unknown action *types* are refused, since acting
on half a call is worse than not acting. Pure; the counterpart that runs a call is computer_run.py.
Source: OpenAI Responses API, items `computer_call` and `computer_call_output`.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bodyd.errors import ApprovalRequired, InvalidRequest, UnknownKey

from . import actions as a
from .atoms import units
from .receipts import Receipt, greatest, not_attempted

MAX_ACTIONS = 256
MAX_ID = 200
MAX_CHECKS = 64

_RUNNABLE = ("in_progress", "completed")

_FIELDS: dict[str, frozenset[str]] = {
    cls.model_fields["type"].default: frozenset(cls.model_fields)
    for cls in (*a.POINTER_TYPES, *a.KEYBOARD_TYPES, a.Wait, a.TakeScreenshot)
}


class ComputerCallRequest(BaseModel):
    """Body of `POST /v1/computer_call`; `item` is checked by `parse_item`, field by field."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    request_id: Annotated[str, Field(min_length=1, max_length=MAX_ID - 4, pattern=r"^[\x21-\x7e]+$")]
    epoch: Annotated[int, Field(strict=True, ge=0)]
    item: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ComputerCall:
    """A checked item. `acknowledged` is None where the client sent no such field."""

    id: str
    call_id: str
    actions: tuple[a.Action, ...]
    pending: tuple[dict[str, Any], ...] = ()
    acknowledged: tuple[dict[str, Any], ...] | None = None

    @property
    def unacknowledged(self) -> tuple[dict[str, Any], ...]:
        known = {check["id"] for check in self.acknowledged or ()}
        return tuple(check for check in self.pending if check["id"] not in known)


def parse_request(raw: object) -> ComputerCallRequest:
    """Validate the envelope.

    Raises:
        InvalidRequest: with the field at fault.
    """
    if not isinstance(raw, dict):
        raise InvalidRequest("the body must be a JSON object")
    try:
        return ComputerCallRequest.model_validate(raw)
    except ValidationError as exc:
        raise a.invalid(exc) from None


def parse_item(raw: dict[str, Any]) -> ComputerCall:
    """Validate the whole item before anything of it runs.

    Raises:
        UnknownAction, UnknownKey, InvalidRequest: `param` names the field, such as item.actions[2].x.
    """
    if raw.get("type") != "computer_call":
        raise InvalidRequest('item.type must be "computer_call"', param="item.type")
    status = raw.get("status")
    if status is not None and status not in _RUNNABLE:
        raise InvalidRequest(
            "item.status must be completed: a call that was cut off is not carried out", param="item.status"
        )
    return ComputerCall(
        id=_identifier(raw, "id"),
        call_id=_identifier(raw, "call_id"),
        actions=_actions(raw),
        pending=_checks(raw, "pending_safety_checks") or (),
        acknowledged=_checks(raw, "acknowledged_safety_checks"),
    )


def require_acknowledged(call: ComputerCall) -> None:
    """Refuse a call whose safety checks nobody answered for.

    Raises:
        ApprovalRequired: names the open checks.
    """
    if open_checks := call.unacknowledged:
        raise ApprovalRequired(
            f"{len(open_checks)} safety check(s) of this call are open and no approval hook is "
            "configured; a person must look, then send the item with acknowledged_safety_checks",
            param="item.pending_safety_checks",
            pending_safety_checks=[dict(check) for check in open_checks],
        )


def batches(request: ComputerCallRequest, call: ComputerCall) -> tuple[a.InputRequest, ...]:
    """The call as requests to the door: one, or chunks of 64 named request_id/0, request_id/1, …

    Only the last asks for a screenshot: one in between would become the image that the next chunk's
    coordinates are read in, and the client never saw it.
    """
    size = a.MAX_INPUTS
    chunks = [call.actions[start : start + size] for start in range(0, len(call.actions), size)]
    return tuple(
        a.InputRequest(
            request_id=request.request_id if len(chunks) == 1 else f"{request.request_id}/{index}",
            continues=f"{request.request_id}/{index - 1}" if index else None,
            epoch=request.epoch,
            inputs=chunk,
            screenshot=index == len(chunks) - 1,
        )
        for index, chunk in enumerate(chunks)
    )


def unsent(request: a.InputRequest, *, reason: str, at: int, replayed: bool = False) -> Receipt:
    """The receipt of a batch that never reached the door: every input `not_attempted` or *reason*."""
    inputs = tuple(
        not_attempted(index, action.type, units(action), reason)
        for index, action in enumerate(request.inputs)
    )
    return Receipt(
        request_id=request.request_id,
        epoch=request.epoch,
        screenshot_id=None,
        started_at=at,
        completed_at=at,
        outcome=greatest(i.outcome for i in inputs),
        inputs=inputs,
        settled=True,
        reason=reason,
        replayed=replayed,
    )


def output_item(call: ComputerCall, png: bytes) -> dict[str, Any]:
    """The `computer_call_output` that answers *call* with *png*."""
    item: dict[str, Any] = {
        "type": "computer_call_output",
        "call_id": call.call_id,
        "output": {"type": "computer_screenshot", "image_url": data_url(png), "detail": "original"},
    }
    if call.acknowledged is not None:
        item["acknowledged_safety_checks"] = [dict(check) for check in call.acknowledged]
    return item


def data_url(png: bytes) -> str:
    """*png* as a `data:` URL (RFC 2397)."""
    return "data:image/png;base64," + b64encode(png).decode("ascii")


def _identifier(raw: dict[str, Any], name: str) -> str:
    value = raw.get(name)
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_ID:
        raise InvalidRequest(
            f"item.{name} must be a string of 1 to {MAX_ID} characters", param=f"item.{name}"
        )
    return value


def _actions(raw: dict[str, Any]) -> tuple[a.Action, ...]:
    many, single = raw.get("actions"), raw.get("action")
    if (many is None) == (single is None):
        raise InvalidRequest(
            "item must have either `actions` (a list) or, in the preview form, one `action`",
            param="item.actions",
        )
    if many is None:
        return (_action(single, "item.action"),)
    if not isinstance(many, list):
        raise InvalidRequest("item.actions must be a list", param="item.actions")
    if len(many) > MAX_ACTIONS:
        raise InvalidRequest(
            f"item.actions has {len(many)} actions; at most {MAX_ACTIONS}", param="item.actions"
        )
    if not many:  # seen from models that only want to look
        return (a.TakeScreenshot(),)
    return tuple(_action(item, f"item.actions[{index}]") for index, item in enumerate(many))


def _action(raw: object, param: str) -> a.Action:
    try:
        return a.parse_action(_known(raw), param=param)
    except UnknownKey as exc:
        exc.param = f"{param}.keys"
        raise


def _known(raw: object) -> object:
    """*raw* without the fields that its type does not have; a null stands for an absent field."""
    if not isinstance(raw, dict):
        return raw
    kind = raw.get("type")
    fields = _FIELDS.get(kind) if isinstance(kind, str) else None
    if fields is None:
        return raw
    kept = {name: value for name, value in raw.items() if name in fields and value is not None}
    if isinstance(path := kept.get("path"), list):
        kept["path"] = [
            {k: v for k, v in point.items() if k in ("x", "y")} if isinstance(point, dict) else point
            for point in path
        ]
    return kept


def _checks(raw: dict[str, Any], name: str) -> tuple[dict[str, Any], ...] | None:
    value = raw.get(name)
    if value is None:
        return None
    if not isinstance(value, list) or len(value) > MAX_CHECKS:
        raise InvalidRequest(f"item.{name} must be a list of at most {MAX_CHECKS}", param=f"item.{name}")
    for index, check in enumerate(value):
        if not isinstance(check, dict) or not isinstance(check.get("id"), str):
            where = f"item.{name}[{index}]"
            raise InvalidRequest(f"{where} must be an object with an `id`", param=f"{where}.id")
    return tuple(value)
