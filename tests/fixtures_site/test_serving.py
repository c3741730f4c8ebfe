"""The site on its sockets: two faces, of which the body reaches one, and neither can be taken down."""

from __future__ import annotations

import socket
import stat
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import httpx2
import pytest
import trio
from bodyd_fixtures_site import URL, Site, serve


@pytest.fixture
async def site(tmp_path: Path, nursery: trio.Nursery) -> Site:
    start = partial(serve, tmp_path / "site.sock", seed=4, grader_socket=tmp_path / "grader.sock")
    return await nursery.start(start)


def http(path: Path) -> httpx2.AsyncClient:
    transport = httpx2.AsyncHTTPTransport(uds=str(path), trust_env=False)
    return httpx2.AsyncClient(transport=transport, base_url=URL, trust_env=False)


@pytest.fixture
async def shop(site: Site, tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    async with http(tmp_path / "site.sock") as client:
        yield client


@pytest.fixture
async def grader(site: Site, tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    async with http(tmp_path / "grader.sock") as client:
        yield client


async def report(shop: httpx2.AsyncClient, site: Site, *events: dict[str, object]) -> httpx2.Response:
    return await shop.post("/events", json={"run": site.record.run, "page": "p", "events": list(events)})


@pytest.mark.parametrize(
    ("path", "status", "kind"),
    [
        ("/", 200, "text/html"),
        ("/filters", 200, "text/html"),
        ("/filters?seed=9", 200, "text/html"),
        ("/filters?seed=-1", 200, "text/html"),
        ("/look.css?seed=9", 200, "text/css"),
        ("/page.css", 200, "text/css"),
        ("/page.js", 200, "text/javascript"),
        ("/favicon.svg", 200, "image/svg+xml"),
        ("/favicon.ico", 204, "text/html"),
        ("/state", 404, "text/html"),
        ("/verdict", 404, "text/html"),
        ("/reset", 404, "text/html"),
    ],
)
async def test_the_shop_serves_its_page_and_no_grader(
    shop: httpx2.AsyncClient, path: str, status: int, kind: str
) -> None:
    """Every answer has the strict policy; what the grader serves is not there."""
    answer = await shop.get(path)
    assert answer.status_code == status
    assert answer.headers["content-type"].startswith(kind)
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert answer.headers["cache-control"] == "no-store"


async def test_the_grader_sees_what_the_page_reports(
    site: Site, shop: httpx2.AsyncClient, grader: httpx2.AsyncClient
) -> None:
    """State and verdict on the other socket follow the events on the first."""
    assert (await grader.get("/verdict")).json()["success"] is False
    answer = await report(
        shop,
        site,
        {"n": 1, "type": "toggle", "open": True},
        {"n": 2, "type": "search", "value": "penguin"},
    )
    assert answer.status_code == 204
    assert (await grader.get("/state")).json() == site.state()
    assert (await grader.get("/verdict")).json() == {"success": True, "reasons": []}


async def test_a_reset_starts_a_run_and_makes_old_pages_stale(
    site: Site, shop: httpx2.AsyncClient, grader: httpx2.AsyncClient
) -> None:
    """What a page of the last run still reports is refused."""
    old = site.record.run
    state = (await grader.post("/reset", json={"seed": 11, "panel_open": True})).json()
    assert (state["seed"], state["panel_open"], state["log"]) == (11, True, [])
    late = await shop.post("/events", json={"run": old, "page": "p", "events": []})
    assert late.status_code == 409
    assert site.record.run != old


@pytest.mark.parametrize("body", ['{"seed": "x"}', '{"seed": true}', '{"panel_open": 1}', '{"a": 1}', "[]"])
async def test_a_bad_reset_changes_nothing(site: Site, grader: httpx2.AsyncClient, body: str) -> None:
    """The run goes on."""
    run = site.record.run
    assert (await grader.post("/reset", content=body)).status_code == 400
    assert site.record.run == run


@pytest.mark.parametrize("body", ["", "[]", "{", '{"run": 1}', '{"run": "x", "page": "p"}'])
async def test_a_bad_report_is_refused(site: Site, shop: httpx2.AsyncClient, body: str) -> None:
    """Whatever the body sends, the record stays as it was."""
    before = site.state()
    assert (await shop.post("/events", content=body)).status_code == 400
    bad = await report(shop, site, {"n": 1, "type": "nonsense"})
    assert bad.status_code == 400
    assert (await shop.post("/events", content=b"x" * 300_000)).status_code in (400, 413)
    assert site.state() == before


async def test_an_upgrade_with_early_data_harms_nobody_else(shop: httpx2.AsyncClient, tmp_path: Path) -> None:
    """The request that ends Hypercorn's own loop (pgjones/hypercorn#225) ends its connection alone."""
    assert (await shop.get("/")).status_code == 200
    upgrade = (
        b"GET / HTTP/1.1\r\nHost: site.bodyd.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        + b"\x81\x05hello"
        * 9
    )
    for hostile in (upgrade, b"\x00" * 4096, b"GET / HTTP/9.9\r\n\r\n", b"POST /events HTTP/1.1\r\n"):
        async with await trio.open_unix_socket(str(tmp_path / "site.sock")) as stream:
            await stream.send_all(hostile)
    assert (await shop.get("/")).status_code == 200


async def test_a_stalled_reader_does_not_hold_the_exit(tmp_path: Path) -> None:
    """Cancelled while a client reads nothing of what it asked for, the site ends."""
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(serve, tmp_path / "site.sock", seed=1))
            stream = await trio.open_unix_socket(str(tmp_path / "site.sock"))
            with trio.move_on_after(2):  # ends with the buffers: the site stops reading, too
                while True:
                    await stream.send_all(b"GET / HTTP/1.1\r\nHost: site.bodyd.test\r\n\r\n" * 200)
            nursery.cancel_scope.cancel()
    await stream.aclose()


async def test_the_socket_is_private_and_goes_with_the_site(tmp_path: Path) -> None:
    """Mode 0600 while it is served, gone afterwards; a dead one in the way is replaced."""
    path = tmp_path / "site.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve, path, seed=1))
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        async with http(path) as client:
            assert (await client.get("/")).status_code == 200
        nursery.cancel_scope.cancel()
    assert not path.exists()


async def test_a_live_socket_is_not_stolen(site: Site, tmp_path: Path) -> None:
    """A second site on the same path refuses to start; the first goes on."""
    with pytest.raises(OSError, match="in use"):
        await serve(tmp_path / "site.sock", seed=2)
    async with http(tmp_path / "site.sock") as client:
        assert (await client.get("/")).status_code == 200


async def test_success_is_waited_for_until_the_page_is_silent(autojump_clock: trio.abc.Clock) -> None:
    """A success that a late event undoes is not reported as one."""
    site = Site(seed=1, panel_open=True)

    async def page() -> None:
        site.take("p", [{"n": 1, "type": "search", "value": "penguin"}])
        await trio.sleep(0.1)
        site.take("p", [{"n": 2, "type": "search", "value": "penguins"}])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(page)
        with trio.move_on_after(5) as scope:
            await site.until_success()
    assert scope.cancelled_caught
    site.take("p", [{"n": 3, "type": "search", "value": "penguin"}])
    with trio.fail_after(5):
        await site.until_success()


async def test_waiting_for_the_page_wakes_when_it_is_shown(autojump_clock: trio.abc.Clock) -> None:
    """`until_shown` returns for this run's page, not for the last run's."""
    site = Site(seed=1)
    site.take("p", [{"n": 1, "type": "shown"}])
    with trio.fail_after(1):
        await site.until_shown()
    site.reset()
    with trio.move_on_after(1) as scope:
        await site.until_shown()
    assert scope.cancelled_caught
