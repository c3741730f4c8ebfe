"""`/v1/lease/*`: taking the body, keeping it, giving it back, and the owner's hand on all of it."""

from __future__ import annotations

from quart import Response

from bodyd.contract.lease import AcquireRequest, ReasonRequest, RecoverRequest, RenewRequest, Scope

from .auth import require
from .routing import Api
from .services import body, caller, lease_token, optional_lease_token, read_model, reply


def add(api: Api) -> None:
    _add_driver(api)
    _add_owner(api)


def _add_driver(api: Api) -> None:
    @api.post("/v1/lease/acquire", Scope.DRIVER)
    async def acquire() -> Response:
        """Take the lease, or wait for it; the token is shown this once."""
        return reply(await body().acquire(await read_model(AcquireRequest), caller=caller()))

    @api.post("/v1/lease/renew", Scope.DRIVER)
    async def renew() -> Response:
        wanted = await read_model(RenewRequest)
        return reply(await body().renew(lease_token(), wanted.ttl_ms))

    @api.post("/v1/lease/release", Scope.DRIVER)
    async def release() -> Response:
        return reply(await body().release(lease_token()))

    @api.post("/v1/lease/pause", Scope.DRIVER)
    async def pause() -> Response:
        return reply(await body().pause(caller=caller(), reason=await _reason()))

    @api.post("/v1/lease/resume", Scope.DRIVER)
    async def resume() -> Response:
        """Resuming a pause needs the lease; resuming a stop needs the owner."""
        return reply(await body().resume(caller=caller(), lease_token=optional_lease_token()))

    @api.post("/v1/lease/stop", Scope.DRIVER)
    async def stop() -> Response:
        return reply(await body().stop(caller=caller(), reason=await _reason()))

    @api.post("/v1/lease/recover", Scope.DRIVER)
    async def recover() -> Response:
        """Steps 1 and 2 are a driver's; step 3 costs every open app, and is the owner's."""
        wanted = await read_model(RecoverRequest)
        if wanted.step == 3:
            require(caller(), Scope.OWNER)
        return reply(await body().recover(caller=caller(), step=wanted.step))


def _add_owner(api: Api) -> None:
    @api.post("/v1/lease/revoke", Scope.OWNER)
    async def revoke() -> Response:
        return reply(await body().revoke(caller=caller(), reason=await _reason()))

    @api.post("/v1/lease/takeover", Scope.OWNER)
    async def takeover() -> Response:
        return reply(await body().takeover(caller=caller(), reason=await _reason()))

    @api.post("/v1/lease/handback", Scope.OWNER)
    async def handback() -> Response:
        return reply(await body().handback(caller=caller(), lease_token=lease_token()))


async def _reason() -> str:
    return (await read_model(ReasonRequest)).reason
