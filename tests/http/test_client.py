"""bodyd.client against the real server over the unix socket."""

from __future__ import annotations

from bodyd.client import BodyClient


async def test_a_status_comes_back(client: BodyClient):
    """The client reads the body's status with the caller's scope in it."""
    status = await client.status()
    assert status["body_id"] == "body_fake"
    assert status["scope"] == "owner"


async def test_a_whole_turn(client: BodyClient):
    """Acquire, look, act, release."""
    lease = await client.acquire("conv-1")
    shot = await lease.screenshot()
    assert (await lease.image(shot.screenshot_id)).startswith(b"\x89PNG")
    receipt = await lease.input([{"type": "click", "x": 0, "y": 0}], screenshot_id=shot.screenshot_id)
    assert receipt.delivery == "confirmed"
    assert (await client.receipt(receipt.request_id)).request_id == receipt.request_id
    assert (await lease.release()).state == "vacant"
