"""`/v1/screenshots`: the facts of a capture, and its pixels by id."""

from __future__ import annotations

from quart import Response

from bodyd.contract.lease import Scope
from bodyd.contract.screenshots import ScreenshotRequest

from .routing import Api
from .services import body, caller, optional_lease_token, path_id, read_model, reply

IMAGE_HEADERS = {
    "content-type": "image/png",
    # Body-made bytes: never rendered as a page of this origin, whatever they turn out to be.
    "content-security-policy": "default-src 'none'; sandbox",
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def add(api: Api) -> None:
    @api.post("/v1/screenshots", Scope.VIEWER)
    async def take() -> Response:
        """Capture; with the lease's token, the result is what the driver's next input is bound to."""
        wanted = await read_model(ScreenshotRequest)
        return reply(await body().screenshot(wanted, caller=caller(), lease_token=optional_lease_token()))

    @api.get("/v1/screenshots/<screenshot_id>/image", Scope.VIEWER)
    async def image(screenshot_id: str) -> Response:
        png = await body().image(path_id(screenshot_id, "screenshot"), caller=caller())
        disposition = f'attachment; filename="{screenshot_id}.png"'
        return Response(png, headers={**IMAGE_HEADERS, "content-disposition": disposition})
