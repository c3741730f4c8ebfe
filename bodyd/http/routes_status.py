"""`/v1/status` and `/v1/inventory`: what there is, and who has it."""

from __future__ import annotations

from quart import Response

from bodyd.contract.lease import Scope

from .routing import Api
from .services import body, caller, reply, services


def add(api: Api) -> None:
    @api.get("/v1/status", Scope.VIEWER)
    async def status() -> Response:
        """The body, its lease and its health, what it reached, and the scope of the token that asked."""
        egress = services().egress
        reached = {} if egress is None else {"egress": egress.snapshot(hosts=False)}
        return reply({**await body().status(), **reached, "scope": caller().scope.value})

    @api.get("/v1/inventory", Scope.VIEWER)
    async def inventory() -> Response:
        """Windows and launchable apps; titles are untrusted."""
        return reply(await body().inventory(caller=caller()))
