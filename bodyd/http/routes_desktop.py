"""`/v1/display`, `/v1/clipboard`, `/v1/apps`, `/v1/windows`: acts beside the keyboard and pointer."""

from __future__ import annotations

from quart import Response

from bodyd.contract.acts import ActRequest, ClipboardRequest, LaunchRequest, ResizeRequest
from bodyd.contract.lease import Scope

from .routing import Api
from .services import body, caller, lease_token, optional_lease_token, read_model, reply


def add(api: Api) -> None:
    @api.post("/v1/display", Scope.DRIVER)
    async def resize() -> Response:
        """Resize the screen: the driver's under the lease, the owner's always."""
        wanted = await read_model(ResizeRequest)
        return reply(await body().resize(wanted, caller=caller(), lease_token=optional_lease_token()))

    @api.get("/v1/clipboard", Scope.DRIVER)
    async def clipboard() -> Response:
        return reply(await body().clipboard(caller=caller(), lease_token=optional_lease_token()))

    @api.post("/v1/clipboard", Scope.DRIVER)
    async def write_clipboard() -> Response:
        wanted = await read_model(ClipboardRequest)
        return reply(await body().write_clipboard(wanted, caller=caller(), lease_token=lease_token()))

    @api.post("/v1/apps/launch", Scope.DRIVER)
    async def launch() -> Response:
        wanted = await read_model(LaunchRequest)
        return reply(await body().launch(wanted, caller=caller(), lease_token=lease_token()))

    @api.post("/v1/windows/<int:window_id>/activate", Scope.DRIVER)
    async def activate(window_id: int) -> Response:
        wanted = await read_model(ActRequest)
        return reply(await body().activate(window_id, wanted, caller=caller(), lease_token=lease_token()))

    @api.post("/v1/windows/<int:window_id>/close", Scope.DRIVER)
    async def close(window_id: int) -> Response:
        wanted = await read_model(ActRequest)
        return reply(await body().close_window(window_id, wanted, caller=caller(), lease_token=lease_token()))
