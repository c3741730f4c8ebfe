"""One-use tickets, and the short sessions that they are exchanged for. In memory: a restart ends them.

A session is a bearer token that the console page keeps for its tab, not a cookie. Rejected: a
cookie is sent by every page of the same host whatever its port, so any other server on this
machine's loopback would be given it, and every request would need protection against forgery.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from bodyd.clock import Clock
from bodyd.contract.lease import Scope
from bodyd.contract.ports import Caller
from bodyd.errors import Unauthorized

from .tokens import digest, mint

TICKET_SECONDS = 300.0
BOARDING_SECONDS = 30.0
"""How long a page has to open the WebSocket that it was given a ticket for."""

SESSION_SECONDS = 12 * 3600.0
KEPT = 256


@dataclass(frozen=True, slots=True)
class _Entry:
    scope: Scope
    deadline: float


class _Vault:
    """Secrets by digest, with an end; of too many, the oldest leave first."""

    def __init__(self, kind: str, seconds: float, clock: Clock) -> None:
        self._kind = kind
        self._seconds = seconds
        self._clock = clock
        self._entries: OrderedDict[str, _Entry] = OrderedDict()

    def issue(self, scope: Scope) -> tuple[str, int]:
        """A new secret, and when it ends in Unix milliseconds."""
        token = mint(self._kind)
        self._entries[digest(token)] = _Entry(scope, self._clock.monotonic() + self._seconds)
        while len(self._entries) > KEPT:
            self._entries.popitem(last=False)
        return token, self._clock.wall_ms() + int(self._seconds * 1000)

    def scope(self, token_digest: str) -> Scope | None:
        entry = self._entries.get(token_digest)
        return entry.scope if entry is not None and entry.deadline > self._clock.monotonic() else None

    def take(self, token_digest: str) -> Scope | None:
        scope = self.scope(token_digest)
        self._entries.pop(token_digest, None)
        return scope


class _Boarding:
    """Who may open one WebSocket each, soon."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: OrderedDict[str, tuple[Caller, float]] = OrderedDict()

    def issue(self, caller: Caller) -> tuple[str, int]:
        ticket = mint("stream")
        self._waiting[digest(ticket)] = caller, self._clock.monotonic() + BOARDING_SECONDS
        while len(self._waiting) > KEPT:
            self._waiting.popitem(last=False)
        return ticket, self._clock.wall_ms() + int(BOARDING_SECONDS * 1000)

    def take(self, ticket: str) -> Caller | None:
        caller, deadline = self._waiting.pop(digest(ticket), (None, 0.0))
        return caller if deadline > self._clock.monotonic() else None


class Tickets:
    """Issues tickets, redeems each once, and knows the sessions that came of them.

    Looking a digest up in a dict takes no time that depends on the secret: the digest is what an
    onlooker would learn about.
    """

    def __init__(self, clock: Clock) -> None:
        self._tickets = _Vault("ticket", TICKET_SECONDS, clock)
        self._sessions = _Vault("session", SESSION_SECONDS, clock)
        self._boarding = _Boarding(clock)

    def issue(self, scope: Scope) -> tuple[str, int]:
        """A ticket for *scope*, and when it ends (Unix milliseconds)."""
        return self._tickets.issue(scope)

    def redeem(self, ticket: str) -> tuple[str, Scope, int]:
        """Exchange *ticket*, once: (session token, its scope, its end in Unix milliseconds).

        Raises:
            Unauthorized: unknown, used or expired; these are not told apart.
        """
        scope = self._tickets.take(digest(ticket))
        if scope is None:
            raise Unauthorized(
                "this link was used already or is older than five minutes; `bodyd token link` prints another",
                param="ticket",
            )
        token, expires_at = self._sessions.issue(scope)
        return token, scope, expires_at

    def issue_boarding(self, caller: Caller) -> tuple[str, int]:
        """A ticket with which *caller* may open one WebSocket, and when it ends (Unix milliseconds)."""
        return self._boarding.issue(caller)

    def board(self, ticket: str) -> Caller:
        """Whose ticket it is; it is used up.

        Raises:
            Unauthorized: unknown, used or expired; these are not told apart.
        """
        caller = self._boarding.take(ticket)
        if caller is None:
            raise Unauthorized("this ticket was used already or is too old; ask for another and try again")
        return caller

    def session(self, token_digest: str) -> Scope | None:
        """The scope of a live session, by its token's digest."""
        return self._sessions.scope(token_digest)
