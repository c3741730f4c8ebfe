"""Who may ask: bearer token, Host and Origin, before any route runs.

Works on plain headers, so that routes and WebSocket upgrades are judged alike. Host is checked
against names, which defeats DNS rebinding; a request that names an Origin must come from a page of
this very server (or a configured one), and `null` is nobody's.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from bodyd.config import HttpConfig
from bodyd.contract.lease import Scope
from bodyd.contract.ports import Caller
from bodyd.errors import Forbidden, Unauthorized

from .tickets import Tickets
from .tokens import Tokens, caller_of, digest, read_token

__all__ = ["Gate", "Origins", "Tokens", "read_token", "require"]

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Origins:
    """Which Host names and foreign Origins are this server's own."""

    hosts: frozenset[str]
    origins: frozenset[str]

    @classmethod
    def of(cls, config: HttpConfig) -> Origins:
        """By default the loopback names; `public_url`, `allowed_hosts` and `allowed_origins` add."""
        hosts = set(LOOPBACK_NAMES) | {h.lower() for h in config.allowed_hosts}
        origins = {o.lower().rstrip("/") for o in config.allowed_origins}
        if config.public_url is not None:
            public = urlsplit(config.public_url)
            hosts.add((public.hostname or "").lower())
            origins.add(f"{public.scheme}://{public.netloc}".lower())
        return cls(frozenset(hosts), frozenset(origins))

    def check(self, host: str | None, origin: str | None, fetch_site: str | None, *, unix: bool) -> None:
        """Refuse what a foreign page, or a name that was rebound to us, would send.

        Raises:
            Forbidden: names the header at fault.
        """
        if not unix and _name(host) not in self.hosts:
            raise Forbidden(
                "the Host header names no address of this server; use localhost, or add the name to "
                "[http] allowed_hosts",
                param="host",
            )
        if origin is not None and not self._own(origin.lower(), host):
            raise Forbidden(
                "pages of other origins may not call this server; add the origin to [http] allowed_origins",
                param="origin",
            )
        if origin is None and fetch_site in ("cross-site", "same-site"):
            raise Forbidden("pages of other origins may not call this server", param="sec-fetch-site")

    def _own(self, origin: str, host: str | None) -> bool:
        return origin in self.origins or (host is not None and origin == f"http://{host.lower()}")


class Gate:
    """Turns an Authorization header into a Caller."""

    def __init__(self, tokens: Tokens, tickets: Tickets) -> None:
        self._known = [(digest(token), scope) for scope, token in tokens.by_scope.items()]
        self._tickets = tickets

    def caller(self, authorization: Iterable[str]) -> Caller:
        """Who asks, by the one bearer token given.

        Raises:
            Unauthorized: none, several, or one that is not (or no longer) known.
        """
        values = list(authorization)
        scheme, _, token = values[0].partition(" ") if len(values) == 1 else ("", "", "")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise Unauthorized(
                "this needs the header `Authorization: Bearer <token>`; `bodyd token` shows the tokens"
            )
        given = digest(token)
        found: Scope | None = None
        for known, scope in self._known:  # all of them, always: no time that depends on a match
            if hmac.compare_digest(known, given):
                found = scope
        found = found or self._tickets.session(given)
        if found is None:
            raise Unauthorized("the bearer token is not known here; `bodyd token` shows the right ones")
        return caller_of(given, found)


def require(caller: Caller, needed: Scope) -> None:
    """Let *caller* pass.

    Raises:
        Forbidden: its scope does not cover *needed*.
    """
    if not caller.scope.covers(needed):
        raise Forbidden(
            f"this needs a token of scope {needed.value}; yours has scope {caller.scope.value} "
            f"(on the daemon's machine, `bodyd token {needed.value}` prints one)"
        )


def _name(host: str | None) -> str:
    """The name of a Host header, without port, brackets and case."""
    try:
        return (urlsplit(f"//{host or ''}").hostname or "").lower()
    except ValueError:
        return ""
