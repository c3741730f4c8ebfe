"""Requests, receipts and captures for the journal's tests."""

from __future__ import annotations

import hashlib
from typing import Any

from bodyd.clock import Clock
from bodyd.contract.actions import InputRequest, parse_input_request
from bodyd.contract.atoms import units
from bodyd.contract.geometry import Bounds
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
from bodyd.contract.screenshots import Cursor, Screenshot, ScreenTarget

KEY = b"a key of the tests, 32 bytes lon"
NOW = 1_800_000_000_000
CLICK: dict[str, Any] = {"type": "click", "x": 3, "y": 4}


def fixed_clock(at: int = NOW) -> Clock:
    return Clock(wall=lambda: at)


def request(request_id: str = "req-1", *inputs: dict[str, Any], epoch: int = 1) -> InputRequest:
    raw = {
        "request_id": request_id,
        "epoch": epoch,
        "screenshot_id": "shot-1",
        "inputs": list(inputs or [CLICK]),
    }
    return parse_input_request(raw)


def receipt(of: InputRequest, outcome: Outcome = Outcome.CONFIRMED, *, at: int = NOW) -> Receipt:
    inputs = tuple(
        _input(index, action.type, units(action), outcome) for index, action in enumerate(of.inputs)
    )
    return Receipt(
        request_id=of.request_id,
        epoch=of.epoch,
        screenshot_id=of.screenshot_id,
        started_at=at,
        completed_at=at,
        outcome=greatest(i.outcome for i in inputs),
        inputs=inputs,
        settled=True,
    )


def _input(index: int, kind: str, of: int, outcome: Outcome) -> InputReceipt:
    delivery = Delivery(outcome=outcome, sent=Sent(units=of, of=of))
    return input_receipt(index, kind, delivery, Effect(outcome=outcome, evidence="pointer"))


def capture(
    number: int, png: bytes | None = None, *, epoch: int = 1, at: int = NOW
) -> tuple[Screenshot, bytes]:
    png = png if png is not None else f"png {number}".encode()
    shot = Screenshot(
        screenshot_id=f"shot-{number}",
        sequence=number,
        captured_at=at,
        epoch=epoch,
        width=1280,
        height=800,
        bounds=Bounds(x=0, y=0, width=1280, height=800),
        target=ScreenTarget(),
        cursor=Cursor(x=0, y=0),
        windows=(),
        sha256=hashlib.sha256(png).hexdigest(),
        input_ready=True,
    )
    return shot, png
