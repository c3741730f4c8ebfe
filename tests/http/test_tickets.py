"""One-use tickets and sessions: http/tickets.py."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from bodyd.clock import Clock
from bodyd.contract.lease import Scope
from bodyd.contract.ports import Caller
from bodyd.errors import Unauthorized
from bodyd.http.tickets import BOARDING_SECONDS, KEPT, SESSION_SECONDS, TICKET_SECONDS, Tickets
from bodyd.http.tokens import digest

NOW_MS = 1_700_000_000_000


@pytest.fixture
def tickets() -> Tickets:
    return Tickets(Clock(lambda: NOW_MS))


async def test_a_ticket_buys_one_session(tickets: Tickets):
    """Redeemed once, it gives a session of its scope; the second time it is refused."""
    ticket, ends = tickets.issue(Scope.VIEWER)
    assert ends == NOW_MS + 300_000
    session, scope, until = tickets.redeem(ticket)
    assert scope is Scope.VIEWER
    assert until == NOW_MS + SESSION_SECONDS * 1000
    assert tickets.session(digest(session)) is Scope.VIEWER
    with pytest.raises(Unauthorized):
        tickets.redeem(ticket)


async def test_a_ticket_ends_after_five_minutes(tickets: Tickets, mock_clock: MockClock):
    """Not a moment later, and its being late is not told from its being wrong."""
    ticket, _ = tickets.issue(Scope.OWNER)
    mock_clock.jump(TICKET_SECONDS)
    with pytest.raises(Unauthorized) as late:
        tickets.redeem(ticket)
    with pytest.raises(Unauthorized) as wrong:
        tickets.redeem("bodyd_ticket_nonsense")
    assert str(late.value) == str(wrong.value)


async def test_a_session_ends(tickets: Tickets, mock_clock: MockClock):
    """Half a day, then a new link is needed."""
    session, _, _ = tickets.redeem(tickets.issue(Scope.OWNER)[0])
    mock_clock.jump(SESSION_SECONDS - 1)
    assert tickets.session(digest(session)) is Scope.OWNER
    mock_clock.jump(1)
    assert tickets.session(digest(session)) is None


async def test_a_ticket_is_no_session(tickets: Tickets):
    """It opens nothing but the exchange."""
    ticket, _ = tickets.issue(Scope.OWNER)
    assert tickets.session(digest(ticket)) is None


async def test_unused_tickets_do_not_pile_up(tickets: Tickets):
    """Beyond the bound, the oldest leave."""
    first, *_ = [tickets.issue(Scope.OWNER)[0] for _ in range(KEPT + 1)]
    with pytest.raises(Unauthorized):
        tickets.redeem(first)


async def test_a_ticket_for_the_live_view_opens_one(tickets: Tickets, mock_clock: MockClock):
    """Once, within 30 seconds, in the name of who asked; used, late and unknown ones are answered alike."""
    asker = Caller("tok_1", Scope.VIEWER)
    ticket, ends = tickets.issue_boarding(asker)
    assert ends == NOW_MS + int(BOARDING_SECONDS * 1000)
    assert tickets.board(ticket) == asker
    late, _ = tickets.issue_boarding(asker)
    mock_clock.jump(BOARDING_SECONDS)
    told = set()
    for bad in (ticket, late, "bodyd_stream_nonsense"):
        with pytest.raises(Unauthorized) as caught:
            tickets.board(bad)
        told.add(caught.value.message)
    assert len(told) == 1
