"""What the console asks for: the timeline, calls and approvals, as the routes tell them."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import wait_all_tasks_blocked

from bodyd.client import BodyClient
from bodyd.contract.actions import Click, Type
from bodyd.contract.ports import ApprovalRequest, Caller
from bodyd.errors import InvalidRequest, NotFound
from bodyd.http.listener import Bound
from bodyd.policy.approvals import Approvals

from .fake_body import HEIGHT, WIDTH


class FakeHistory:
    def __init__(self) -> None:
        self.asked: list[tuple[int | None, int]] = []

    async def history(self, *, before: int | None, limit: int) -> list[dict[str, Any]]:
        self.asked.append((before, limit))
        return [{"sequence": 1}]


class FakeBoard:
    def calls(self, *, caller: Caller) -> list[dict[str, Any]]:
        return [{"call_id": "call_1"}]

    def call(self, call_id: str, *, caller: Caller) -> dict[str, Any]:
        if call_id != "call_1":
            raise NotFound("no such call")
        return {"call_id": call_id, "output": []}


async def test_a_body_with_nothing_to_show_says_so(client: BodyClient):
    """Empty lists, and nobody who is asked; what is named is not found."""
    assert await client._json("GET", "/v1/receipts") == {"receipts": []}
    assert await client._json("GET", "/v1/calls") == {"calls": []}
    assert await client._json("GET", "/v1/approvals") == {"configured": False, "approvals": []}
    for method, path in (("GET", "/v1/calls/call_1"), ("POST", "/v1/approvals/apr_1")):
        with pytest.raises(NotFound):
            await client._json(method, path, {"approve": True} if method == "POST" else None)


async def test_the_timeline_is_paged_within_bounds(services: Any, client: BodyClient):
    """Up to a hundred at once; what is no number is refused with its name."""
    services.history = FakeHistory()
    for query in ("", "?limit=5&before=9", "?limit=0", "?limit=100000"):
        assert await client._json("GET", f"/v1/receipts{query}") == {"receipts": [{"sequence": 1}]}
    assert services.history.asked == [(None, 30), (9, 5), (None, 1), (None, 100)]
    for query in ("limit=x", "before=-1", "before=²", "limit=" + "9" * 30):
        with pytest.raises(InvalidRequest) as caught:
            await client._json("GET", f"/v1/receipts?{query}")
        assert caught.value.param == query.split("=", maxsplit=1)[0]


async def test_calls_are_listed_and_read(services: Any, client: BodyClient):
    """By id with their output."""
    services.board = FakeBoard()
    assert await client._json("GET", "/v1/calls") == {"calls": [{"call_id": "call_1"}]}
    assert await client._json("GET", "/v1/calls/call_1") == {"call_id": "call_1", "output": []}
    with pytest.raises(NotFound):
        await client._json("GET", "/v1/calls/call_2")


async def test_an_approval_is_answered_once(services: Any, client: BodyClient):
    """True or false, and nothing that is only like it; then it waits no more."""
    services.approvals = approvals = Approvals(now_ms=lambda: 1, announce=lambda event: None)
    answers: list[bool] = []

    async def ask() -> None:
        answers.append(await approvals.decide(ApprovalRequest("apr_1", "talk", "print", 1, "rule", ())))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        listed = await client._json("GET", "/v1/approvals")
        assert listed["configured"] is True
        assert [one["approval_id"] for one in listed["approvals"]] == ["apr_1"]
        for wrong in ({}, {"approve": "yes"}, {"approve": 1}, {"approve": True, "always": True}):
            with pytest.raises(InvalidRequest):
                await client._json("POST", "/v1/approvals/apr_1", wrong)
        told = await client._json("POST", "/v1/approvals/apr_1", {"approve": True})
        assert told == {"approval_id": "apr_1", "approved": True}
    assert answers == [True]
    with pytest.raises(NotFound):
        await client._json("POST", "/v1/approvals/apr_1", {"approve": True})


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # Playwright's own loop and pipes
async def test_an_approval_shows_who_asks_why_and_where(services: Any, bound: Bound, client: BodyClient):
    """The target is marked in the picture it was aimed at; words of the model are quoted, and only words."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    services.approvals = approvals = Approvals(now_ms=lambda: 1, announce=lambda event: None)
    shot = await client.screenshot()
    actions = (Click(x=16, y=12), Type(text="4711"))
    reason = "<b>pay</b> \u202enow"
    wanted = ApprovalRequest("apr_1", "shopper", "p", 5, "payment", actions, reason, shot.screenshot_id)
    link = (await client._json("POST", "/v1/tickets", {}))["ticket"]
    answers: list[bool] = []

    def look() -> None:
        with playwright.sync_playwright() as started:
            browser = started.chromium.launch(
                executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
            )
            try:
                page = browser.new_page()
                page.goto(f"http://127.0.0.1:{bound.port}/#ticket={link}")
                page.wait_for_selector(".question .mark")
                text = page.inner_text(".question")
                for said in (
                    "shopper asks",
                    "rule payment",
                    "<b>pay</b> ‹202E›now",
                    "Click at 16, 12",
                    "“4711”",
                ):
                    assert said in text, said
                assert page.locator(".question b").count() == 0
                image = page.locator(".question img").bounding_box()
                mark = page.locator(".question .mark").bounding_box()
                assert image
                assert mark
                left = (mark["x"] + mark["width"] / 2 - image["x"]) / image["width"]
                top = (mark["y"] + mark["height"] / 2 - image["y"]) / image["height"]
                assert abs(left - 16.5 / WIDTH) < 0.02
                assert abs(top - 12.5 / HEIGHT) < 0.02
                page.get_by_role("button", name="Approve once").click()
                page.wait_for_selector("#nothing-asked:visible")
            finally:
                browser.close()

    async def ask() -> None:
        answers.append(await approvals.decide(wanted))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.to_thread.run_sync(look)
    assert answers == [True]
