"""`/v1/egress`: what the body reached and was denied, and the allowlists read again."""

from __future__ import annotations

from quart import Response

from bodyd.contract.lease import Scope
from bodyd.errors import Unavailable

from .routing import Api
from .services import EgressPort, reply, services


def add(api: Api) -> None:
    @api.get("/v1/egress", Scope.OWNER)
    async def show() -> Response:
        """Counts by sandbox and host; status has them without the hosts."""
        return reply(_egress().snapshot(hosts=True))

    @api.post("/v1/egress/reload", Scope.OWNER)
    async def reload() -> Response:
        """Read the lists again; a fault in the file leaves all as it was."""
        return reply({"rules": await _egress().reload()})


def _egress() -> EgressPort:
    egress = services().egress
    if egress is None:
        raise Unavailable("nothing of this daemon's has a way out to speak of")
    return egress
