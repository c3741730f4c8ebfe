"""Host, Origin and bearer tokens, on plain headers: http/auth.py."""

from __future__ import annotations

import pytest

from bodyd.clock import Clock
from bodyd.config import HttpConfig
from bodyd.contract.lease import Scope
from bodyd.contract.ports import Caller
from bodyd.errors import Forbidden, Unauthorized
from bodyd.http.auth import Gate, Origins, require
from bodyd.http.tickets import Tickets
from bodyd.http.tokens import Tokens

HOST = "localhost:7310"
OURS = Origins.of(HttpConfig())
BEHIND_TLS = Origins.of(
    HttpConfig(
        public_url="https://Body.example.org:8443/x",
        allowed_hosts=("box.lan",),
        allowed_origins=("https://app.example/",),
    )
)


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:7310", "[::1]", "[::1]:7310"]
)
def test_loopback_names_are_ours(host: str):
    """Each, with any port."""
    OURS.check(host, None, None, unix=False)


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "evil.example",
        "localhost.",
        "localhost@evil.example",
        "127.0.0.2",
        "[::2]",
        "[",
        "a:b:c",
        "::1",
    ],
)
def test_other_names_are_not(host: str | None):
    """DNS rebinding comes with a name that is not ours; so does a missing or broken one."""
    with pytest.raises(Forbidden) as caught:
        OURS.check(host, None, None, unix=False)
    assert caught.value.param == "host"


def test_userinfo_does_not_disguise_a_name():
    """What stands before an @ is no host."""
    with pytest.raises(Forbidden):
        OURS.check("localhost:80@evil.example", None, None, unix=False)


def test_the_unix_socket_needs_no_name():
    """Whoever can open a 0600 socket is not a browser that was lured there."""
    OURS.check("anything", None, None, unix=True)
    OURS.check(None, None, None, unix=True)


def test_origins_are_checked_on_the_unix_socket_too():
    """A proxy in front of it passes a page's Origin on."""
    with pytest.raises(Forbidden):
        OURS.check(None, "https://evil.example", None, unix=True)


@pytest.mark.parametrize("origin", ["http://localhost:7310", "HTTP://LOCALHOST:7310"])
def test_our_own_pages_may_call(origin: str):
    """The origin of this very host and port."""
    OURS.check(HOST, origin, "same-origin", unix=False)


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "https://localhost:7310",
        "http://localhost",
        "http://localhost:7311",
        "http://127.0.0.1:7310",
        "http://localhost:7310.evil.example",
        "http://evil.example",
        "http://localhost:7310/",
    ],
)
def test_other_origins_may_not(origin: str):
    """Another scheme, port or name; and `null`, which anyone can be."""
    with pytest.raises(Forbidden) as caught:
        OURS.check(HOST, origin, None, unix=False)
    assert caught.value.param == "origin"


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_browser_that_says_it_is_foreign_is_believed(site: str):
    """A GET of an image has no Origin, but Sec-Fetch-Site."""
    with pytest.raises(Forbidden):
        OURS.check(HOST, None, site, unix=False)


@pytest.mark.parametrize("site", [None, "none", "same-origin"])
def test_other_requests_without_an_origin_pass(site: str | None):
    """Programs send neither."""
    OURS.check(HOST, None, site, unix=False)


def test_what_the_configuration_adds():
    """public_url with its name and origin, allowed_hosts, allowed_origins."""
    BEHIND_TLS.check("body.example.org:8443", "https://body.example.org:8443", None, unix=False)
    BEHIND_TLS.check("box.lan", "https://app.example", None, unix=False)
    with pytest.raises(Forbidden):
        BEHIND_TLS.check("box.lan", "https://body.example.org", None, unix=False)


@pytest.fixture
def tokens() -> Tokens:
    return Tokens.fresh()


@pytest.fixture
def tickets() -> Tickets:
    return Tickets(Clock())


@pytest.mark.parametrize("scope", list(Scope))
def test_each_token_has_its_scope(tokens: Tokens, tickets: Tickets, scope: Scope):
    """And an id that is the same each time, and another's is not."""
    gate = Gate(tokens, tickets)
    caller = gate.caller([f"Bearer {tokens.token(scope)}"])
    assert caller.scope is scope
    assert gate.caller([f"bearer  {tokens.token(scope)} "]) == caller
    others = {gate.caller([f"Bearer {t}"]).id for s, t in tokens.by_scope.items() if s is not scope}
    assert caller.id not in others


async def test_a_session_is_a_caller(tokens: Tokens, tickets: Tickets):
    """What a ticket was exchanged for stands in for a token, with the ticket's scope."""
    session, _, _ = tickets.redeem(tickets.issue(Scope.VIEWER)[0])
    assert Gate(tokens, tickets).caller([f"Bearer {session}"]).scope is Scope.VIEWER


@pytest.mark.parametrize(
    "values",
    [
        [],
        [""],
        ["Bearer"],
        ["Bearer "],
        ["Basic x"],
        ["{0}"],
        ["Bearer {0}x"],
        ["Bearer {0}", "Bearer {0}"],
        ["Bearer \udcff"],
    ],
)
async def test_anything_else_is_nobody(tokens: Tokens, tickets: Tickets, values: list[str]):
    """No header, another scheme, a wrong token, or two headers of which one might be right."""
    with pytest.raises(Unauthorized):
        Gate(tokens, tickets).caller([v.format(tokens.token(Scope.OWNER)) for v in values])


@pytest.mark.parametrize("have", list(Scope))
@pytest.mark.parametrize("need", list(Scope))
def test_scopes_cover_what_is_below_them(have: Scope, need: Scope):
    """owner > driver > viewer."""
    order = [Scope.VIEWER, Scope.DRIVER, Scope.OWNER]
    caller = Caller("x", have)
    if order.index(have) >= order.index(need):
        require(caller, need)
    else:
        with pytest.raises(Forbidden, match=need.value):
            require(caller, need)
