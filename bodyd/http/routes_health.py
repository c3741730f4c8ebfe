"""`/healthz` and `/readyz`: for whoever runs the daemon; no token, and no secrets."""

from __future__ import annotations

from quart import Response

from bodyd.errors import BodydError

from .routing import PUBLIC, Api
from .services import body, reply

READY = "ready"
OPTIONAL = frozenset({"accessibility"})
"""The body can be driven without."""


def add(api: Api) -> None:
    @api.get("/healthz", PUBLIC)
    async def healthz() -> Response:
        """The daemon's loop turns; says nothing of the body."""
        return reply({"status": "ok"})

    @api.get("/readyz", PUBLIC)
    async def readyz() -> Response:
        """Every component by name; 503 while one of them that is needed is not ready."""
        try:
            parts = (await body().status())["components"]
        except BodydError as exc:
            return reply({"ready": False, "components": {"body": exc.code}}, 503)
        components = {name: str(part["state"]) for name, part in parts.items()}  # details may name files
        ready = all(state == READY or name in OPTIONAL for name, state in components.items())
        return reply({"ready": ready, "components": components}, 200 if ready else 503)
