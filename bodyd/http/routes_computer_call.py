"""`/v1/computer_call`: OpenAI's native item in, its output item out, receipts beside it."""

from __future__ import annotations

import json

from quart import Response

from bodyd.contract.computer_call import parse_request
from bodyd.contract.computer_run import ComputerResult
from bodyd.contract.lease import Scope

from .routing import Api
from .services import caller, lease_token, read_json, services


def add(api: Api) -> None:
    @api.post("/v1/computer_call", Scope.DRIVER)
    async def run() -> Response:
        wanted = parse_request(await read_json())
        result = await services().runner.run(wanted, caller=caller(), lease_token=lease_token())
        return Response(_dump(result), content_type="application/json")


def _dump(result: ComputerResult) -> str:
    """The answer as JSON; each receipt is serialised by its model, once."""
    receipts = ",".join(receipt.model_dump_json() for receipt in result.receipts)
    return f'{{"item":{json.dumps(result.item)},"receipts":[{receipts}]}}'
