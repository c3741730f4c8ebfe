"""`/v1/tickets`: a link that works once, so that no bearer token ever stands in a URL."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from quart import Response

from bodyd.contract.lease import Scope

from .auth import require
from .listener import PORT
from .routing import PUBLIC, Api
from .services import caller, connection_state, read_model, reply, services


class TicketRequest(BaseModel):
    """Body of `POST /v1/tickets`: the scope that whoever opens the link will have."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    scope: Scope = Scope.OWNER


class BoardingRequest(BaseModel):
    """Body of `POST /v1/tickets/stream`: the scope of whoever watches, the caller's own unless said."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    scope: Scope | None = None


class RedeemRequest(BaseModel):
    """Body of `POST /v1/tickets/redeem`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    ticket: Annotated[str, Field(min_length=1, max_length=200)]


def add(api: Api) -> None:
    @api.post("/v1/tickets", Scope.OWNER)
    async def issue() -> Response:
        wanted = await read_model(TicketRequest)
        ticket, expires_at = services().tickets.issue(wanted.scope)
        base = _page()
        return reply(
            {
                "ticket": ticket,
                "scope": wanted.scope.value,
                "expires_at": expires_at,
                "link": base and f"{base}#ticket={ticket}",
            }
        )

    @api.post("/v1/tickets/redeem", PUBLIC)
    async def redeem() -> Response:
        wanted = await read_model(RedeemRequest)
        token, scope, expires_at = services().tickets.redeem(wanted.ticket)
        return reply({"token": token, "scope": scope.value, "expires_at": expires_at})

    @api.post("/v1/tickets/stream", Scope.VIEWER)
    async def board() -> Response:
        scope = (await read_model(BoardingRequest)).scope or caller().scope
        require(caller(), scope)
        ticket, expires_at = services().tickets.issue_boarding(replace(caller(), scope=scope))
        return reply({"ticket": ticket, "scope": scope.value, "expires_at": expires_at})


def _page() -> str | None:
    """Where a browser finds the page; None where nothing listens on TCP and no public_url is set."""
    http = services().config.http
    if http.public_url is not None:
        return http.public_url.rstrip("/") + "/"
    port = connection_state().get(PORT)
    host = f"[{http.host}]" if ":" in http.host else http.host
    return f"http://{host}:{port}/" if port else None
