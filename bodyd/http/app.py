"""The HTTP app: one file of routes a resource, one gate before them, one error shape behind.

Counterparts: listener.py serves it; the body is behind the port in services.py.
"""

from __future__ import annotations

import trio
from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable
from quart import Response, g, request
from quart_trio import QuartTrio
from quart_trio.asgi import TrioASGIHTTPConnection
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from bodyd.errors import BodydError

from . import (
    adapters,
    routes_computer_call,
    routes_console,
    routes_desktop,
    routes_egress,
    routes_events,
    routes_health,
    routes_input,
    routes_jobs,
    routes_lease,
    routes_screens,
    routes_snapshots,
    routes_status,
    routes_tickets,
    routes_tools,
    routes_web,
)
from .auth import require
from .errors import Answer, answer, new_request_id, of_status, unexpected
from .listener import UNIX
from .routing import PUBLIC, Api
from .services import API, EXTENSION, Services, connection_state, services

BODY_SECONDS = 30
"""How long a request's body may take to arrive; then 408."""


class _Exchange(TrioASGIHTTPConnection):
    """One request in one task, beside the one that waits for a disconnect (Quart-Trio starts two)."""

    async def __call__(self, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        request = self._create_request_from_scope(send)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.handle_messages, nursery, request, receive)
            await self.handle_request(nursery, request, send)


class _App(QuartTrio):
    asgi_http_class = _Exchange


def create_app(provided: Services) -> QuartTrio:
    """The app over *provided*: an ASGI callable for listener.serve, or for Quart's test client."""
    app = _App("bodyd", static_folder=None)
    app.config.update(
        MAX_CONTENT_LENGTH=provided.config.http.max_body_bytes,
        BODY_TIMEOUT=BODY_SECONDS,
        RESPONSE_TIMEOUT=None,  # event streams have no end of their own
        PROVIDE_AUTOMATIC_OPTIONS=False,
    )
    app.url_map.merge_slashes = False
    app.extensions[EXTENSION] = provided
    api = Api(app)
    app.extensions[API] = api
    for routes in (
        routes_web,
        routes_health,
        routes_status,
        routes_lease,
        routes_screens,
        routes_input,
        routes_computer_call,
        routes_desktop,
        routes_snapshots,
        routes_egress,
        routes_events,
        routes_tools,
        routes_jobs,
        routes_console,
        routes_tickets,
    ):
        routes.add(api)
    adapters.mount(api, provided.adapters)

    @app.before_request
    async def admit() -> None:
        g.request_id = new_request_id()
        _admit(api)

    @app.after_request
    async def name(response: Response) -> Response:
        response.headers["x-request-id"] = g.request_id
        response.headers.setdefault("cache-control", "no-store")
        response.headers.setdefault("x-content-type-options", "nosniff")
        return response

    _handle_errors(app)
    return app


def _admit(api: Api) -> None:
    """Host, Origin, then token and scope, before any route runs."""
    needs = api.needs(request.url_rule.endpoint if request.url_rule is not None else None)
    headers = request.headers
    unix = connection_state().get(UNIX) is True
    site = None if needs is PUBLIC else headers.get("sec-fetch-site")
    services().origins.check(headers.get("host"), headers.get("origin"), site, unix=unix)
    if needs is not PUBLIC:
        g.caller = services().gate.caller(headers.getlist("authorization"))
        require(g.caller, needs)


def _handle_errors(app: QuartTrio) -> None:
    @app.errorhandler(BodydError)
    async def expected(exc: BodydError) -> Response:
        return _respond(answer(exc, g.request_id))

    @app.errorhandler(HTTPException)
    async def from_framework(exc: HTTPException) -> Response:
        allowed = exc.valid_methods if isinstance(exc, MethodNotAllowed) else None
        error = of_status(exc.code or 500, allowed=", ".join(sorted(allowed or ())) or None)
        response = _respond(answer(error, g.request_id))
        if allowed:
            response.headers["allow"] = ", ".join(sorted(allowed))
        return response

    @app.errorhandler(Exception)
    async def bug(exc: Exception) -> Response:
        return _respond(unexpected(exc, g.request_id))


def _respond(made: Answer) -> Response:
    return Response(made.body, status=made.status, headers=dict(made.headers))
