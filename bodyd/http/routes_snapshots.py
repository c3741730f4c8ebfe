"""`/v1/snapshots`: the home folder's copies, and the home put back to one of them or to nothing."""

from __future__ import annotations

from quart import Response

from bodyd.contract.lease import Scope
from bodyd.contract.snapshots import SnapshotRequest
from bodyd.errors import Unavailable

from .routing import Api
from .services import HomesPort, caller, optional_lease_token, read_model, reply, services


def add(api: Api) -> None:
    @api.get("/v1/snapshots", Scope.OWNER)
    async def index() -> Response:
        return reply({"snapshots": await _homes().list(), "doing": _homes().doing})

    @api.post("/v1/snapshots", Scope.OWNER)
    async def create() -> Response:
        wanted = await read_model(SnapshotRequest)
        made = await _homes().create(wanted.name, caller=caller(), lease_token=optional_lease_token())
        return reply(made, 201)

    @api.post("/v1/snapshots/reset", Scope.OWNER)
    async def reset() -> Response:
        """An empty home."""
        await _homes().reset(caller=caller(), lease_token=optional_lease_token())
        return reply({})

    @api.post("/v1/snapshots/<name>/restore", Scope.OWNER)
    async def restore(name: str) -> Response:
        put_back = await _homes().restore(name, caller=caller(), lease_token=optional_lease_token())
        return reply(put_back)

    @api.add("DELETE", "/v1/snapshots/<name>", Scope.OWNER)
    async def delete(name: str) -> Response:
        await _homes().delete(name, caller=caller())
        return reply({})


def _homes() -> HomesPort:
    homes = services().homes
    if homes is None:
        raise Unavailable("the home of this body is another daemon's")
    return homes
