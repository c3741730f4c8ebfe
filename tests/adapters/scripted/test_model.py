"""The scripted model behind its port: Responses in, Responses out, and the task done by looking."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import trio
from bodyd_adapters.scripted import ScriptedUpstream

from bodyd.contract.ports import UpstreamPort
from tests.fixtures_site.browser import Page, browsing

from .sheets import Sheet

ASK = {"role": "user", "content": "Open the panel and type penguin."}


def upstream() -> UpstreamPort:
    numbers = count(1)
    return ScriptedUpstream(token=lambda: f"{next(numbers):04}", now=lambda: 1_700_000_000)


def asked(*items: Mapping[str, Any]) -> dict[str, Any]:
    return {"model": "m", "tools": [{"type": "computer"}], "input": [ASK, *items], "metadata": {"a": "b"}}


def shown(call_id: str, png: bytes, **other: Any) -> dict[str, Any]:
    url = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    output = {"type": "computer_screenshot", "image_url": url, "detail": "original"} | other
    return {"type": "computer_call_output", "call_id": call_id, "output": output}


async def test_the_first_answer_asks_for_a_screenshot() -> None:
    """A whole Response, with one computer_call in the current shape."""
    response = await upstream().respond(asked())
    assert response["id"] == "resp_0001"
    assert response["status"] == "completed"
    assert response["created_at"] == 1_700_000_000
    assert response["metadata"] == {"a": "b"}
    assert response["output"] == [
        {
            "type": "computer_call",
            "id": "cu_0002",
            "call_id": "call_0002",
            "status": "completed",
            "pending_safety_checks": [],
            "actions": [{"type": "screenshot"}],
        }
    ]


async def test_ids_are_never_used_twice() -> None:
    """Two upstreams and many answers share no id."""
    answers = [await ScriptedUpstream().respond(asked()) for _ in range(5)]
    ids = [answer["id"] for answer in answers] + [answer["output"][0]["call_id"] for answer in answers]
    assert len(set(ids)) == 10


@pytest.mark.parametrize("text", ["anything", [{"type": "input_text", "text": "anything"}]])
async def test_the_prompt_may_have_any_form(text: Any) -> None:
    """A bare string, or parts: the script begins the same way."""
    for given in (text, [{"role": "user", "content": text}]):
        response = await upstream().respond({**asked(), "input": given})
        assert response["output"][0]["actions"] == [{"type": "screenshot"}]


async def test_without_the_tool_it_says_so() -> None:
    """No computer tool, no computer call."""
    response = await upstream().respond({"model": "m", "input": "hello", "tools": [{"type": "shell"}]})
    (message,) = response["output"]
    assert message["role"] == "assistant"
    assert "computer tool" in message["content"][0]["text"]


@pytest.mark.parametrize(
    "output",
    [
        {"type": "computer_screenshot", "file_id": "file_1"},
        {"type": "computer_screenshot", "image_url": ""},
        {"type": "computer_screenshot", "image_url": "https://example.org/a.png"},
        {"type": "computer_screenshot", "image_url": "data:image/png;base64,%%%"},
        None,
    ],
)
async def test_a_picture_that_did_not_come_ends_it(output: Any) -> None:
    """The script acts on pixels or not at all."""
    call = {"type": "computer_call", "call_id": "c1", "actions": [{"type": "screenshot"}]}
    item = {"type": "computer_call_output", "call_id": "c1", "output": output}
    response = await upstream().respond(asked(call, item))
    assert "no screenshot came back" in response["output"][0]["content"][0]["text"]


async def test_outputs_are_matched_by_call_and_not_by_place() -> None:
    """Pictures may arrive in any order, and under either name; a new user message starts anew."""
    first = {"type": "computer_call", "call_id": "c1", "action": {"type": "screenshot"}}
    second = {"type": "computer_call", "call_id": "c2", "actions": [{"type": "wait"}]}
    blank = Sheet().png
    outputs = [shown("c2", blank, type="input_image"), shown("c1", blank)]
    response = await upstream().respond(asked(first, second, *outputs))
    assert response["output"][0]["actions"] == [{"type": "wait"}]
    response = await upstream().respond(asked(first, second, *outputs, ASK))
    assert response["output"][0]["actions"] == [{"type": "screenshot"}]


async def streamed(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    async with upstream().stream(request) as events:
        return [event async for event in events]


async def test_a_call_is_streamed_as_the_protocol_has_it() -> None:
    """created, in_progress, the item added and done with one identity, completed with the full output."""
    events = await streamed(asked())
    assert [event["type"].removeprefix("response.") for event in events] == [
        "created",
        "in_progress",
        "output_item.added",
        "output_item.done",
        "completed",
    ]
    assert [event["sequence_number"] for event in events] == [0, 1, 2, 3, 4]
    added, finished, completed = events[2]["item"], events[3]["item"], events[4]["response"]
    assert (added["id"], added["call_id"]) == (finished["id"], finished["call_id"])
    assert completed["output"] == [finished]
    assert completed["id"] == events[0]["response"]["id"]
    assert events[0]["response"]["status"] == "in_progress"


async def test_a_message_is_streamed_with_its_text() -> None:
    """Part, delta and done agree, and name the item."""
    events = await streamed({"model": "m", "input": "hello"})
    kinds = [event["type"].removeprefix("response.") for event in events]
    assert kinds == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    item = events[-2]["item"]
    text = item["content"][0]["text"]
    assert events[4]["delta"] == events[5]["text"] == text
    assert {event["item_id"] for event in events[3:7]} == {item["id"]}


async def test_a_stream_may_be_left_early() -> None:
    """Leaving the context ends it, without a warning from the generator."""
    async with upstream().stream(asked()) as events:
        async for event in events:
            assert event["type"] == "response.created"
            break


async def perform(page: Page, model: UpstreamPort) -> tuple[int, str]:
    """Run the model against a page until its last word; the number of rounds, and the word."""
    items: list[dict[str, Any]] = []
    for number in range(25):
        (item,) = (await model.respond(asked(*items)))["output"]
        items.append(item)
        if item["type"] == "message":
            return number, item["content"][0]["text"]
        for action in item["actions"]:
            match action:
                case {"type": "click", "x": x, "y": y}:
                    await page.click(x, y)
                case {"type": "type", "text": text}:
                    await page.type(text)
                case {"type": "keypress"}:
                    await page.select_all()
                case {"type": "wait" | "screenshot"}:
                    pass
        await page.painted()
        items.append(shown(item["call_id"], await page.screenshot()))
    raise AssertionError("it never ended")


async def test_the_task_is_done_on_seeds_it_was_not_made_on(tmp_path: Path) -> None:
    """Five fresh seeds, panel open and closed: the grader agrees, and an open panel was not touched."""
    model = ScriptedUpstream()
    async with browsing(tmp_path) as (site, page):
        for seed in (1009, 4242, 77_777, 123_456, 2**40 + 5):
            for panel_open in (False, True):
                await page.show(site, seed=seed, panel_open=panel_open)
                rounds, word = await perform(page, model)
                with trio.move_on_after(10):
                    await site.until_success()
                assert site.verdict().reasons == (), (seed, panel_open, word)
                assert site.state()["toggles"] == (0 if panel_open else 1)
                assert rounds <= 6


async def test_a_half_typed_word_is_mended(tmp_path: Path) -> None:
    """When letters get lost, the model sees it, and types the whole word over what stands there."""

    class Lossy(Page):
        lost = False

        async def type(self, text: str) -> None:
            await super().type(text if self.lost else text[1:])
            self.lost = True

    async with browsing(tmp_path) as (site, page):
        await page.show(site, seed=16, panel_open=True)
        page.__class__ = Lossy
        _, word = await perform(page, ScriptedUpstream())
        with trio.move_on_after(10):
            await site.until_success()
        assert site.verdict().success, word
