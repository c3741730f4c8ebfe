"""Routes as they are declared: a method, a path, and the scope that it needs, which can't be left out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import TypeVar

from quart import Response
from quart_trio import QuartTrio

from bodyd.contract.lease import Scope


class Public(Enum):
    """Needs no token: static pages, health, and what a ticket itself pays for."""

    PUBLIC = "public"


PUBLIC = Public.PUBLIC
Needs = Scope | Public
R = TypeVar("R", bound=Callable[..., Awaitable[Response]])


class Api:
    """Adds routes to an app, and remembers what each needs."""

    def __init__(self, app: QuartTrio) -> None:
        self._app = app
        self._routes: dict[str, tuple[str, str, Needs]] = {}

    def get(self, path: str, needs: Needs) -> Callable[[R], R]:
        return self.add("GET", path, needs)

    def post(self, path: str, needs: Needs) -> Callable[[R], R]:
        return self.add("POST", path, needs)

    def needs(self, endpoint: str | None) -> Needs:
        """What a matched endpoint needs; the least for a request that matched none.

        Unknown routes need a token, too: a stranger learns nothing from a 404.
        """
        return Scope.VIEWER if endpoint is None else self._routes[endpoint][2]

    def table(self) -> list[tuple[str, str, Needs]]:
        """(method, path, needs) of every route."""
        return list(self._routes.values())

    def add(self, method: str, path: str, needs: Needs) -> Callable[[R], R]:
        def add_view(view: R) -> R:
            endpoint = f"{method} {path}"
            self._routes[endpoint] = (method, path, needs)
            self._app.add_url_rule(path, endpoint, view, methods=[method])
            return view

        return add_view
