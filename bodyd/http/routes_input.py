"""`/v1/input` and `/v1/receipts`: the door, and what it remembers."""

from __future__ import annotations

from quart import Response

from bodyd.contract.actions import parse_input_request
from bodyd.contract.lease import Scope

from .routing import Api
from .services import body, caller, lease_token, read_json, reply


def add(api: Api) -> None:
    @api.post("/v1/input", Scope.DRIVER)
    async def send() -> Response:
        """Run one batch of 1 to 64 inputs. The lease token may also be missing: that is said last."""
        wanted = parse_input_request(await read_json())
        return reply(await body().input(wanted, caller=caller(), lease_token=lease_token()))

    @api.get("/v1/receipts/<path:request_id>", Scope.DRIVER)
    async def receipt(request_id: str) -> Response:
        return reply(await body().receipt(request_id, caller=caller()))
