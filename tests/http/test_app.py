"""The app as a whole: scopes, error shape, routes to the body; over Quart's test client."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from quart_trio.testing import TrioClient

from bodyd import errors
from bodyd.contract.lease import Scope
from bodyd.http.app import create_app
from bodyd.http.routing import PUBLIC, Api
from bodyd.http.services import API, Services

from .fake_body import FakeBody

RANKS = [Scope.VIEWER, Scope.DRIVER, Scope.OWNER]


@pytest.fixture
def web(services: Services) -> TrioClient:
    return create_app(services).test_client()


@pytest.fixture
def ask(web: TrioClient, services: Services):
    """Ask as someone: `await ask("POST", path, {…}, scope=…)`; answers (status, json, headers)."""

    async def ask(
        method: str,
        path: str,
        body: Any = None,
        *,
        scope: Scope | None = Scope.OWNER,
        lease: str | None = None,
        headers: dict[str, str] | None = None,
    ):
        sent = dict(headers or {})
        if scope is not None:
            sent["authorization"] = f"Bearer {services.tokens.token(scope)}"
        if lease is not None:
            sent["bodyd-lease"] = lease
        data = None if body is None else json.dumps(body)
        response = await web.open(path, method=method, data=data, headers=sent)
        raw = await response.get_data()
        kind = response.headers["content-type"]
        return response.status_code, json.loads(raw) if kind == "application/json" else raw, response.headers

    return ask


def table(services: Services) -> list[tuple[str, str, Any]]:
    api: Api = create_app(services).extensions[API]
    return api.table()


async def test_every_route_asks_for_its_scope(services: Services, ask):
    """Without a token 401, with one scope too few 403, and with enough neither."""
    for method, path, needs in table(services):
        path = re.sub("<int:[a-z_]+>", "7", path)
        path = path.replace("<screenshot_id>", "x").replace("<path:request_id>", "x")
        status, _, _ = await ask(method, path, {}, scope=None)
        assert (status == 401) is (needs is not PUBLIC), path
        if needs is PUBLIC:
            continue
        for scope in RANKS:
            status, body, _ = await ask(method, path, {}, scope=scope)
            refused = status == 403 and "needs a token of scope" in body["error"]["message"]
            assert refused is (RANKS.index(scope) < RANKS.index(needs)), (path, scope)


async def test_the_scopes_are_those_of_the_design(services: Services):
    """The viewer looks, the driver acts and may pause, stop and recover; the rest is the owner's."""
    by_scope = {needs: {path for _, path, n in table(services) if n is needs} for needs in (PUBLIC, *Scope)}
    assert by_scope[Scope.VIEWER] == {
        "/v1/status",
        "/v1/inventory",
        "/v1/events",
        "/v1/tools",
        "/v1/screenshots",
        "/v1/screenshots/<screenshot_id>/image",
        "/v1/tickets/stream",
    }
    assert by_scope[Scope.DRIVER] == {
        "/v1/input",
        "/v1/receipts/<path:request_id>",
        "/v1/computer_call",
        "/v1/tools/shell",
        "/v1/tools/shell/jobs",
        "/v1/tools/shell/jobs/<job_id>",
        "/v1/tools/exec_py",
        "/v1/display",
        "/v1/clipboard",
        "/v1/apps/launch",
        "/v1/windows/<int:window_id>/activate",
        "/v1/windows/<int:window_id>/close",
        *(f"/v1/lease/{x}" for x in ("acquire", "renew", "release", "pause", "resume", "stop", "recover")),
    }
    assert by_scope[Scope.OWNER] == {
        "/v1/lease/revoke",
        "/v1/lease/takeover",
        "/v1/lease/handback",
        "/v1/egress",
        "/v1/egress/reload",
        "/v1/receipts",
        "/v1/calls",
        "/v1/calls/<call_id>",
        "/v1/approvals",
        "/v1/approvals/<approval_id>",
        "/v1/snapshots",
        "/v1/snapshots/reset",
        "/v1/snapshots/<name>",
        "/v1/snapshots/<name>/restore",
        "/v1/tickets",
    }
    assert by_scope[PUBLIC] == {
        "/",
        "/console.js",
        "/panels.js",
        "/words.js",
        "/api.js",
        "/console.css",
        "/view.js",
        "/bodyd-view.js",
        "/healthz",
        "/readyz",
        "/v1/tickets/redeem",
    }


async def test_unknown_routes_and_methods(ask):
    """404 and 405 in the one shape, for those with a token; 401 for those without."""
    status, body, headers = await ask("GET", "/v1/nope")
    assert (status, body["error"]["code"]) == (404, "not_found")
    assert headers["x-should-retry"] == "false"
    status, body, headers = await ask("DELETE", "/v1/status")
    assert (status, body["error"]["code"]) == (405, "method_not_allowed")
    assert set(headers["allow"].split(", ")) >= {"GET"}
    assert (await ask("OPTIONS", "/v1/status"))[0] == 405
    assert (await ask("GET", "/v1/nope", scope=None))[0] == 401
    assert (await ask("GET", "/v1/status/"))[0] == 404


def leaves(cls: type[errors.BodydError]) -> list[type[errors.BodydError]]:
    return [cls, *(leaf for sub in cls.__subclasses__() for leaf in leaves(sub))]


@pytest.mark.parametrize("cls", leaves(errors.BodydError), ids=lambda c: c.__name__)
async def test_every_error_has_the_one_shape(cls: type[errors.BodydError], body: FakeBody, ask):
    """Status, code, retryable and details as the class says; a permanent one stops SDK retries."""
    body.raising = cls("what is wrong", param="field", epoch=7)
    status, answer, headers = await ask("GET", "/v1/status")
    assert status == cls.status
    assert (
        answer["error"].items()
        >= {
            "message": "what is wrong",
            "param": "field",
            "code": cls.code,
            "retryable": cls.retryable,
            "epoch": 7,
        }.items()
    )
    assert headers["x-request-id"].startswith("req_")
    assert headers.get("x-should-retry") == (None if cls.retryable else "false")


@pytest.mark.parametrize("bug", [KeyError("secret"), ExceptionGroup("g", [ValueError("secret")])])
async def test_a_bug_is_logged_and_not_told(bug: Exception, body: FakeBody, ask, caplog):
    """The answer has nothing of the exception but the id that the log has it under."""
    body.raising = bug
    status, answer, headers = await ask("GET", "/v1/status")
    assert (status, answer["error"]["code"]) == (500, "internal")
    assert "secret" not in json.dumps(answer)
    assert headers["x-request-id"] in answer["error"]["message"]
    assert headers["x-request-id"] in caplog.text
    assert "secret" in caplog.text


async def test_a_refusal_inside_a_group_is_still_itself(body: FakeBody, ask):
    """A body that works in a nursery raises groups; the one error in it is answered."""
    body.raising = ExceptionGroup("g", [errors.Busy("taken")])
    status, answer, _ = await ask("GET", "/v1/status")
    assert (status, answer["error"]["code"]) == (409, "busy")


async def test_answers_are_not_cached_or_sniffed(ask):
    """Every answer says so."""
    for path in ("/v1/status", "/healthz", "/v1/nope"):
        _, _, headers = await ask("GET", path)
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"


async def test_status_names_the_askers_scope(ask):
    """So that a page knows which buttons to show."""
    _, status, _ = await ask("GET", "/v1/status", scope=Scope.VIEWER)
    assert status["scope"] == "viewer"
    assert status["lease"]["state"] == "vacant"


async def test_readiness_is_per_component_and_keeps_details_back(body: FakeBody, ask):
    """503 while one part is down; what is told to strangers is a word."""
    status, answer, _ = await ask("GET", "/readyz", scope=None)
    assert (status, answer) == (200, {"ready": True, "components": {"display": "ready"}})
    body.components["browser"] = {"state": "down", "detail": "/root/secret/path"}
    status, answer, _ = await ask("GET", "/readyz", scope=None)
    assert status == 503
    assert answer == {"ready": False, "components": {"display": "ready", "browser": "down"}}


async def test_readiness_of_a_body_that_fails(body: FakeBody, ask):
    """It is not ready; healthz still is."""
    body.raising = errors.DisplayUnavailable("gone")
    status, answer, _ = await ask("GET", "/readyz", scope=None)
    assert (status, answer["components"]) == (503, {"body": "display_unavailable"})
    assert (await ask("GET", "/healthz", scope=None))[0] == 200


async def test_the_lease_by_hand(body: FakeBody, ask):
    """Every lease route reaches its method, with reasons and tokens."""
    _, grant, _ = await ask("POST", "/v1/lease/acquire", {"conversation_id": "c1"}, scope=Scope.DRIVER)
    lease = grant["lease_token"]
    assert grant["lease"]["state"] == "held"
    for step, sent in (("renew", {"ttl_ms": 5}), ("pause", {"reason": "lunch"}), ("resume", None)):
        status, view, _ = await ask("POST", f"/v1/lease/{step}", sent, scope=Scope.DRIVER, lease=lease)
        assert status == 200, view
    assert view["reason"] == "lunch"
    status, view, _ = await ask("POST", "/v1/lease/release", scope=Scope.DRIVER, lease=lease)
    assert view["state"] == "vacant"
    _, taken, _ = await ask("POST", "/v1/lease/takeover", {})
    assert taken["lease"]["claim"]["kind"] == "person"
    status, _, _ = await ask("POST", "/v1/lease/handback", {}, lease=taken["lease_token"])
    assert status == 200
    status, view, _ = await ask("POST", "/v1/lease/revoke", {"reason": "enough"})
    assert view["reason"] == "enough"
    status, view, _ = await ask("POST", "/v1/lease/stop", {"reason": "now"}, scope=Scope.DRIVER)
    assert view["state"] == "stopped"


@pytest.mark.parametrize("step", ["renew", "release", "handback"])
async def test_what_needs_the_lease_says_so(step: str, ask):
    """401 lease_required, not a guess."""
    status, answer, _ = await ask("POST", f"/v1/lease/{step}", {})
    assert (status, answer["error"]["code"]) == (401, "lease_required")


async def test_the_third_step_of_recover_is_the_owners(body: FakeBody, ask):
    """It costs every open app; a driver has the first two."""
    for step in (1, 2):
        assert (await ask("POST", "/v1/lease/recover", {"step": step}, scope=Scope.DRIVER))[0] == 200
    assert (await ask("POST", "/v1/lease/recover", {"step": 3}, scope=Scope.DRIVER))[0] == 403
    assert (await ask("POST", "/v1/lease/recover", {"step": 3}))[0] == 200
    assert [name for name, _ in body.calls] == ["recover 1", "recover 2", "recover 3"]


@pytest.mark.parametrize(
    ("path", "sent", "param"),
    [
        ("/v1/lease/acquire", {}, "conversation_id"),
        ("/v1/lease/acquire", {"conversation_id": "c", "ttl_ms": 0}, "ttl_ms"),
        ("/v1/lease/acquire", {"conversation_id": "c", "ttl_ms": 300_001}, "ttl_ms"),
        ("/v1/lease/acquire", {"conversation_id": "c", "ttl_ms": 1.5}, "ttl_ms"),
        ("/v1/lease/acquire", {"conversation_id": "c", "wait_ms": 30_001}, "wait_ms"),
        ("/v1/lease/acquire", {"conversation_id": "a b"}, "conversation_id"),
        ("/v1/lease/acquire", {"conversation_id": "c", "kind": "person"}, "kind"),
        ("/v1/lease/stop", {"reason": "x" * 501}, "reason"),
        ("/v1/lease/recover", {"step": 4}, "step"),
        ("/v1/screenshots", {"target": {"type": "page"}}, "target"),
        ("/v1/screenshots", {"max_width": 0}, "max_width"),
        ("/v1/display", {"width": 1280}, "height"),
        ("/v1/display", {"width": 319, "height": 800}, "width"),
        ("/v1/display", {"width": 1280, "height": 800, "restart": 1}, "restart"),
        ("/v1/tickets", {"scope": "root"}, "scope"),
        ("/v1/tickets/redeem", {}, "ticket"),
    ],
)
async def test_bad_fields_are_named(path: str, sent: dict[str, Any], param: str, body: FakeBody, ask):
    """400 with the field at fault, and the body is not asked at all."""
    status, answer, _ = await ask("POST", path, sent)
    assert (status, answer["error"]["code"], answer["error"]["param"]) == (400, "invalid_request", param)
    assert body.calls == []


CLICK = {"type": "click", "x": 1, "y": 1}


@pytest.mark.parametrize(
    ("inputs", "more", "code", "param"),
    [
        ([], {}, "invalid_request", "inputs"),
        ([CLICK] * 65, {}, "invalid_request", "inputs"),
        ([{**CLICK, "x": 1.5}], {}, "invalid_request", "inputs[0].x"),
        ([{**CLICK, "x": True}], {}, "invalid_request", "inputs[0].x"),
        ([CLICK, {"type": "keypress", "keys": ["NOSUCH"]}], {}, "unknown_key", None),
        ([{"type": "explode"}], {}, "unknown_action", "inputs[0].type"),
        ([{**CLICK, "pressure": 1}], {}, "invalid_request", "inputs[0].pressure"),
        ([CLICK], {"epoch": "1"}, "invalid_request", "epoch"),
        ([CLICK], {"request_id": ""}, "invalid_request", "request_id"),
        ([CLICK], {"binding": "loose"}, "invalid_request", "binding"),
    ],
)
async def test_bad_input_is_refused_whole(inputs, more, code, param, body: FakeBody, ask):
    """A typed error with the field; nothing reaches the body."""
    sent = {"request_id": "r", "epoch": 1, "inputs": inputs, **more}
    status, answer, _ = await ask("POST", "/v1/input", sent, lease="x")
    assert (status, answer["error"]["code"]) == (400, code)
    assert param is None or answer["error"]["param"] == param
    assert body.calls == []


@pytest.fixture
async def grant(ask) -> dict[str, Any]:
    _, grant, _ = await ask("POST", "/v1/lease/acquire", {"conversation_id": "c"}, scope=Scope.DRIVER)
    return grant


async def test_input_and_its_receipt(grant, body: FakeBody, ask):
    """A batch runs under lease and epoch; its receipt can be read again by its id, slashes and all."""
    lease = grant["lease_token"]
    _, shot, _ = await ask("POST", "/v1/screenshots", {}, scope=Scope.DRIVER, lease=lease)
    sent = {
        "request_id": "order/7?#%",
        "epoch": grant["epoch"],
        "screenshot_id": shot["screenshot_id"],
        "inputs": [CLICK, {"type": "type", "text": "$(touch /tmp/x)"}],
    }
    status, receipt, _ = await ask("POST", "/v1/input", sent, scope=Scope.DRIVER, lease=lease)
    assert status == 200
    assert [i["delivery"]["outcome"] for i in receipt["inputs"]] == ["confirmed", "confirmed"]
    assert body.acted[1].text == "$(touch /tmp/x)"
    status, again, _ = await ask("GET", "/v1/receipts/order%2F7%3F%23%25", scope=Scope.DRIVER)
    assert again == receipt
    status, replay, _ = await ask("POST", "/v1/input", sent, scope=Scope.DRIVER, lease=lease)
    assert replay == {**receipt, "replayed": True}
    assert len(body.acted) == 2


async def test_input_under_the_wrong_lease_or_epoch(grant, body: FakeBody, ask):
    """409 with the code; the new epoch is in the answer."""
    sent = {"request_id": "r", "epoch": grant["epoch"] - 1, "inputs": [{"type": "wait"}]}
    _, answer, headers = await ask("POST", "/v1/input", sent, lease=grant["lease_token"])
    assert answer["error"]["code"] == "stale_epoch"
    assert answer["error"]["epoch"] == grant["epoch"]
    assert headers["x-should-retry"] == "false"
    _, answer, _ = await ask("POST", "/v1/input", sent, lease="guess")
    assert answer["error"]["code"] == "stale_lease"
    _, answer, _ = await ask("POST", "/v1/input", sent)
    assert answer["error"]["code"] == "lease_required"
    assert body.acted == []


async def test_an_image_can_only_be_an_image(ask):
    """Body-made bytes: an attachment, typed, sandboxed, not cached."""
    _, shot, _ = await ask("POST", "/v1/screenshots", {}, scope=Scope.VIEWER)
    assert shot["input_ready"] is False
    status, png, headers = await ask(
        "GET", f"/v1/screenshots/{shot['screenshot_id']}/image", scope=Scope.VIEWER
    )
    assert status == 200
    assert png.startswith(b"\x89PNG")
    assert headers["content-type"] == "image/png"
    assert headers["content-disposition"].startswith("attachment")
    assert headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in headers["content-security-policy"]
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("name", ["nope", "..%2F..%2Fetc", "%22%0d%0ax", "x" * 65, "a%00b"])
async def test_an_unknown_image_is_a_404(name: str, ask):
    """Whatever the name, it is only ever looked up."""
    status, answer, _ = await ask("GET", f"/v1/screenshots/{name}/image")
    assert (status, answer["error"]["code"]) == (404, "not_found")


async def test_a_viewer_has_no_lease_to_name(ask, grant):
    """A viewer's screenshot is never bound to the driver's input, even with a token that it overheard."""
    status, answer, _ = await ask(
        "POST", "/v1/screenshots", {}, scope=Scope.VIEWER, lease=grant["lease_token"]
    )
    assert (status, answer["error"]["code"]) == (403, "forbidden")


async def test_a_ticket_opens_a_session(web: TrioClient, ask):
    """Issued by the owner, redeemed once without a token, it acts with its scope."""
    _, issued, _ = await ask("POST", "/v1/tickets", {"scope": "viewer"})
    _, session, _ = await ask("POST", "/v1/tickets/redeem", {"ticket": issued["ticket"]}, scope=None)
    assert session["scope"] == "viewer"
    bearer = {"authorization": f"Bearer {session['token']}"}
    assert (await ask("GET", "/v1/status", scope=None, headers=bearer))[0] == 200
    assert (await ask("POST", "/v1/lease/stop", {}, scope=None, headers=bearer))[0] == 403
    status, answer, _ = await ask("POST", "/v1/tickets/redeem", {"ticket": issued["ticket"]}, scope=None)
    assert (status, answer["error"]["code"]) == (401, "unauthorized")


async def test_a_wrong_host_or_origin_is_refused_before_anything_else(ask, body: FakeBody):
    """403 with the right token, and the body is not asked."""
    for headers in ({"host": "evil.example"}, {"origin": "https://evil.example"}, {"origin": "null"}):
        status, answer, _ = await ask("POST", "/v1/lease/stop", {}, headers=headers)
        assert (status, answer["error"]["code"]) == (403, "forbidden")
    assert body.calls == []


async def test_a_link_from_elsewhere_opens_the_page_but_not_the_api(ask):
    """A navigation says cross-site, and is how a printed link is followed."""
    foreign = {"sec-fetch-site": "cross-site"}
    assert (await ask("GET", "/", scope=None, headers=foreign))[0] == 200
    assert (await ask("GET", "/v1/status", headers=foreign))[0] == 403


async def test_inventory(ask):
    """Windows with their untrusted titles as they are: escaping is the page's affair."""
    _, inventory, _ = await ask("GET", "/v1/inventory", scope=Scope.VIEWER)
    assert inventory["windows"][0]["title"] == '<img src=x onerror="alert(1)">'


async def test_acts_reach_the_body_under_the_lease(grant, body: FakeBody, ask):
    """Clipboard, apps, windows and screen size: without the lease they say so, with it they arrive."""
    sent = {
        "/v1/clipboard": {"text": "ÄÖ🍑"},
        "/v1/apps/launch": {"name": "notes", "epoch": body.epoch},
        "/v1/windows/7/activate": {},
        "/v1/windows/7/close": None,
        "/v1/display": {"width": 1024, "height": 600},
    }
    for path, what in sent.items():
        if path != "/v1/display":
            status, answer, _ = await ask("POST", path, what, scope=Scope.DRIVER)
            assert (status, answer["error"]["code"]) == (401, "lease_required")
        status, answer, _ = await ask("POST", path, what, scope=Scope.DRIVER, lease=grant["lease_token"])
        assert (status, answer["effect"]["outcome"]) == (200, "confirmed"), answer
    stale = {"name": "notes", "epoch": body.epoch + 1}
    status, answer, _ = await ask("POST", "/v1/apps/launch", stale, lease=grant["lease_token"])
    assert answer["error"]["code"] == "stale_epoch"
    status, answer, _ = await ask("GET", "/v1/clipboard", scope=Scope.DRIVER, lease=grant["lease_token"])
    assert answer == {"text": "ÄÖ🍑"}
    assert {"launch notes", "activate 7", "close 7", "resize 1024x600"} <= {name for name, _ in body.calls}


async def test_a_window_is_named_by_a_number(grant, ask):
    """Anything else is no route."""
    for name in ("0x7", "-1", "seven", ""):
        status, _, _ = await ask("POST", f"/v1/windows/{name}/close", {}, lease=grant["lease_token"])
        assert status == 404


async def test_events_without_a_source_say_so(ask):
    """503 until something publishes events."""
    status, answer, _ = await ask("GET", "/v1/events")
    assert (status, answer["error"]["code"]) == (503, "unavailable")
