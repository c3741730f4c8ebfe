"""bodyd.client against the real server, over both sockets."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import trio

from bodyd import errors
from bodyd.client import BodyClient, error_of, new_request_id
from bodyd.contract import actions as a
from bodyd.contract.lease import Scope
from bodyd.contract.screenshots import RegionTarget, ScreenshotRequest
from bodyd.http.app import create_app
from bodyd.http.listener import Bound, listen
from bodyd.http.services import Services

from .fake_body import FakeBody


async def test_a_status_comes_back(client: BodyClient):
    """The client reads the body's status with the caller's scope in it."""
    status = await client.status()
    assert status["body_id"] == "body_fake"
    assert status["scope"] == "owner"
    assert await client.ready() == {"ready": True, "components": {"display": "ready"}}
    assert (await client.inventory()).windows[0].id == 7


async def test_a_body_that_is_not_ready_still_answers(client: BodyClient, body: FakeBody):
    """`ready` reports a 503 instead of raising it."""
    body.components = {"display": {"state": "down"}}
    assert (await client.ready())["ready"] is False


async def test_a_whole_turn(client: BodyClient, body: FakeBody):
    """Acquire, renew, look, act by models or by mappings, release."""
    lease = await client.acquire("conv-1")
    assert lease.view.claim is not None
    assert (await lease.renew(5_000)).state == "held"
    assert (await lease.renew()).state == "held"
    shot = await lease.screenshot()
    assert (await lease.image(shot.screenshot_id)).startswith(b"\x89PNG")
    receipt = await lease.input(
        [{"type": "click", "x": 0, "y": 0}, a.Type(text="ÄÖ🍑")],
        screenshot_id=shot.screenshot_id,
        request_id="mine",
        screenshot=True,
    )
    assert receipt.request_id == "mine"
    assert receipt.delivery == "confirmed"
    assert receipt.screenshot is not None
    assert body.acted == [a.Click(x=0, y=0), a.Type(text="ÄÖ🍑")]
    assert (await client.receipt("mine")).inputs == receipt.inputs
    made = a.InputRequest(request_id="made", epoch=lease.epoch, inputs=(a.Wait(ms=0),))
    assert (await lease.send(made)).request_id == "made"
    assert (await lease.release()).state == "vacant"


async def test_acts(client: BodyClient, body: FakeBody):
    """Screen, clipboard, apps and windows, each under the claim and its epoch."""
    lease = await client.acquire("conv-1")
    assert (await lease.write_clipboard("美国 🍑")).effect.outcome == "confirmed"
    assert await lease.clipboard() == await client.clipboard() == "美国 🍑"
    assert (await lease.launch("notes")).type == "launch"
    assert (await lease.activate(7)).type == "activate"
    assert (await lease.close_window(7)).type == "close"
    assert (await lease.resize(1024, 600)).epoch == lease.epoch
    assert not (await client.resize(1280, 800, restart=True)).restarted
    lease.epoch -= 1
    with pytest.raises(errors.StaleEpoch):
        await lease.launch("notes")


async def test_request_ids_are_new_each_time(client: BodyClient):
    """Two batches without an id of their own are two requests."""
    lease = await client.acquire("conv-1")
    first, second = [(await lease.input([a.Wait(ms=0)])).request_id for _ in range(2)]
    assert first != second
    assert new_request_id() != new_request_id()


async def test_the_owners_hand(client: BodyClient):
    """Pause, resume, take over, hand back, revoke, stop, recover."""
    lease = await client.acquire("conv-1")
    assert (await client.pause(reason="lunch")).state == "paused"
    assert (await lease.resume()).state == "held"
    taken = await client.takeover(reason="mine")
    assert taken.epoch == lease.epoch + 1
    assert (await taken.hand_back()).state == "vacant"
    assert (await client.revoke(reason="x")).reason == "x"
    assert (await client.recover(step=2)).reason == "recovered by step 2"
    assert (await client.stop(reason="now")).state == "stopped"
    assert (await client.resume()).state == "vacant"


async def test_a_console_link_works_once(client: BodyClient, bound: Bound):
    """Its ticket is good for one session of the scope asked for."""
    link = await client.console_link("http://localhost:7310/", scope=Scope.VIEWER)
    base, _, ticket = link.partition("#ticket=")
    assert base == "http://localhost:7310/"
    assert (await client.console_link()).startswith(f"http://127.0.0.1:{bound.port}/#ticket=")
    raw = await client._json("POST", "/v1/tickets/redeem", {"ticket": ticket})
    async with BodyClient(url=f"http://127.0.0.1:{bound.port}", token=raw["token"]) as page:
        assert (await page.status())["scope"] == "viewer"


async def test_a_link_needs_an_address_for_browsers(services: Services, tmp_path: Path):
    """A daemon on its unix socket alone has none, and says so; public_url is one."""
    owner = services.tokens.token(Scope.OWNER)
    path = tmp_path / "only.sock"
    async with (
        listen(create_app(services), unix_path=path),
        BodyClient(socket_path=path, token=owner) as client,
    ):
        with pytest.raises(errors.Unavailable, match="public_url"):
            await client.console_link()
    http = services.config.http.model_copy(update={"public_url": "https://body.example.org/x"})
    public = Services(
        body=services.body, tokens=services.tokens, config=services.config.model_copy(update={"http": http})
    )
    async with (
        listen(create_app(public), unix_path=path),
        BodyClient(socket_path=path, token=owner) as client,
    ):
        assert (await client.console_link()).startswith("https://body.example.org/x/#ticket=bodyd_ticket_")


async def test_screenshots_take_requests(client: BodyClient):
    """A region, scaled, with the cursor."""
    region = RegionTarget(type="region", bounds={"x": 0, "y": 0, "width": 10, "height": 10})
    shot = await client.screenshot(ScreenshotRequest(target=region, max_width=5, cursor=True))
    assert shot.target == region
    assert shot.input_ready is False


@pytest.mark.parametrize(
    "cls", [errors.Busy, errors.StaleEpoch, errors.JournalUnavailable, errors.OutOfBounds]
)
async def test_errors_come_back_as_themselves(
    cls: type[errors.BodydError], client: BodyClient, body: FakeBody
):
    """Class, message, param and details survive the wire."""
    body.raising = cls("what", param="field", epoch=9)
    with pytest.raises(cls) as caught:
        await client.status()
    assert type(caught.value) is cls
    assert caught.value.to_json() == body.raising.to_json()


def test_every_code_has_its_class():
    """Each leaf of the tree is found by its code, the root by any unknown one."""
    todo = [errors.BodydError]
    while todo:
        cls = todo.pop()
        todo += cls.__subclasses__()
        if "code" in vars(cls) and cls.__module__ == errors.__name__:
            assert type(error_of({"code": cls.code, "message": "m"})) is cls
    assert type(error_of({"code": "of_the_future"})) is errors.BodydError


async def test_a_wrong_token_is_refused(bound: Bound):
    """Unauthorized, with what to do."""
    async with BodyClient(socket_path=bound.unix_path, token="bodyd_owner_wrong") as stranger:
        with pytest.raises(errors.Unauthorized, match="bodyd token"):
            await stranger.status()


async def test_no_daemon_says_how_to_start_one(tmp_path: Path, unused_tcp_port: int):
    """Over either way in: a missing socket, a dead one, a closed port."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "dead.sock"))
    for where in (
        {"socket_path": tmp_path / "none.sock"},
        {"socket_path": tmp_path / "dead.sock"},
        {"url": f"http://127.0.0.1:{unused_tcp_port}"},
    ):
        async with BodyClient(token="x", **where) as client:
            with pytest.raises(errors.NotRunning, match="bodyd up"):
                await client.status()


@pytest.fixture
def unused_tcp_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


async def test_a_connection_that_breaks_points_to_the_receipt(tmp_path: Path):
    """The server dies after the request: what became of it is not known here."""
    listener = trio.socket.socket(trio.socket.AF_UNIX)
    await listener.bind(str(tmp_path / "a.sock"))
    listener.listen()

    async def die() -> None:
        peer, _ = await listener.accept()
        await peer.recv(65536)
        peer.close()

    async with (
        trio.open_nursery() as nursery,
        BodyClient(socket_path=tmp_path / "a.sock", token="x") as client,
    ):
        nursery.start_soon(die)
        with pytest.raises(errors.Unavailable, match="receipt") as caught:
            await client.status()
    assert type(caught.value) is errors.Unavailable
    listener.close()


@pytest.mark.parametrize("answer", [b"hello", b"[]", b'{"error": "no"}'])
async def test_someone_else_on_the_port_is_noticed(answer: bytes, tmp_path: Path):
    """What answers is not bodyd, and is said to be so."""
    listener = trio.socket.socket(trio.socket.AF_UNIX)
    await listener.bind(str(tmp_path / "a.sock"))
    listener.listen()

    async def be_someone_else() -> None:
        peer, _ = await listener.accept()
        await peer.recv(65536)
        await peer.send(b"HTTP/1.1 500 Oops\r\ncontent-length: %d\r\n\r\n%b" % (len(answer), answer))
        await peer.recv(1)
        peer.close()

    async with (
        trio.open_nursery() as nursery,
        BodyClient(socket_path=tmp_path / "a.sock", token="x") as client,
    ):
        nursery.start_soon(be_someone_else)
        with pytest.raises(errors.Unavailable, match="not bodyd"):
            await client.status()
        await client.__aexit__()
    listener.close()


async def test_a_cancelled_call_ends_at_once(client: BodyClient, body: FakeBody):
    """There are no timeouts but the caller's; the client is usable afterwards."""
    lease = await client.acquire("conv-1")
    body.slow = trio.Event()
    with trio.move_on_after(0.1) as scope:
        await lease.input([a.Wait(ms=0)])
    assert scope.cancelled_caught
    assert (await client.status())["body_id"] == "body_fake"


async def test_calls_run_side_by_side(client: BodyClient, body: FakeBody):
    """One client, one pool: a slow call holds up no other."""
    lease = await client.acquire("conv-1")
    body.slow = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lease.input, [a.Wait(ms=0)])
        await body.waiting.wait()
        await client.status()
        body.slow.set()


def test_one_place_only(services: Services):
    """A socket and a URL at once would be two daemons."""
    with pytest.raises(ValueError, match="either"):
        BodyClient(token="x")
    with pytest.raises(ValueError, match="either"):
        BodyClient(token="x", url="http://localhost", socket_path=Path("/x"))
