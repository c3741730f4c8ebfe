"""The API's edges: what is preserved, what is refused by name, pages, retention, and what is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openresponses_types
import pytest
import trio.testing
from bodyd_adapters.responses.keeping import RUNNING, Keeper
from bodyd_adapters.responses.log import AT_ONCE, LAG, Log

from bodyd import errors
from bodyd.journal.documents import open_documents

from .streams import faults
from .test_loop import ADD, CLICK, kinds
from .world import LOWERED, PIXEL, Json, computer, function, message, shell, world

FULL = "include[]=computer_call_output.output.image_url"


# -- what is preserved --------------------------------------------------------------------------------------


async def test_unknown_fields_survive_storage_and_continuation(tmp_path: Path):
    """Of tools, items, actions, environments, chunks and parts: echoed, stored, and sent on."""
    tool = {"type": "shell", "environment": {"type": "local", "future": [1]}, "later": {"a": None}}
    action = {**CLICK, "pressure": 0.5}
    call = computer(action, future_field={"x": 1})
    run = shell("ls", new_limit=3) | {"another": "yes"}
    async with world(tmp_path, [call, run], [message("done", someday=True)]) as w:
        said = {"role": "user", "content": [{"type": "input_text", "text": "go", "mood": "calm"}], "tag": 7}
        first = await w.create({"type": "computer", "extra": 1}, tool, input=[said])
        assert first["tools"] == [{"type": "computer", "extra": 1}, tool]
        stored = await w.get(f"/v1/responses/{first['id']}")
        for response in (first, stored):
            assert response["output"][0]["actions"] == [action]
            assert response["output"][0]["future_field"] == {"x": 1}
            assert response["output"][1]["action"]["new_limit"] == 3
            assert response["output"][1]["another"] == "yes"
        chunk = {
            "stdout": "",
            "stderr": "",
            "outcome": {"type": "exit", "exit_code": 0, "signal": None},
            "n": 1,
        }
        shot = {"type": "computer_screenshot", "image_url": PIXEL, "detail": "original", "dpi": 96}
        answers = [
            {"type": "computer_call_output", "call_id": "call_c", "output": shot, "took_ms": 4},
            {"type": "shell_call_output", "call_id": "call_s", "output": [chunk], "host": "h"},
        ]
        second = await w.create("computer", tool, input=answers, previous_response_id=first["id"])
        assert second["output"][0]["someday"] is True
        sent = w.model.requests[1]["input"]
        assert sent[0] == {**said, "type": "message", "id": sent[0]["id"]}
        assert sent[1]["actions"] == [action]
        assert [{k: v for k, v in item.items() if k != "id"} for item in sent[3:]] == answers
        items = (await w.get(f"/v1/responses/{second['id']}/input_items?order=asc&{FULL}"))["data"]
        assert items == sent
        assert w.executed == 0


async def test_request_fields_that_nobody_here_knows_go_upstream(tmp_path: Path):
    """Null ones don't, nor those that this gateway answers for itself; http URLs are not touched."""
    picture = {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "low"}
    async with world(tmp_path, [message("x")]) as w:
        await w.create(
            input=[{"role": "user", "content": [picture]}],
            temperature=0.5,
            mind_control={"on": True},
            top_p=None,
            metadata={"k": "v"},
            background=False,
            store=False,
        )
        (sent,) = w.model.requests
        assert (sent["temperature"], sent["mind_control"]) == (0.5, {"on": True})
        assert sent.keys().isdisjoint({"top_p", "metadata", "background", "tools", "tool_choice"})
        assert sent["store"] is False
        assert sent["input"][0]["content"] == [picture]


async def test_what_is_unknown_is_refused_by_name(tmp_path: Path):
    """A 400 names the param, before anything is sent."""
    async with world(tmp_path) as w:
        for body, param in (
            ({"tools": [ADD, {"type": "quantum"}]}, "tools[1].type"),
            ({"input": [{"role": "user", "content": ""}, {"type": "quantum_call"}]}, "input[1].type"),
            (
                {"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "x"}]}]},
                "tools[0].tools[0].type",
            ),
            ({"input": [{"type": "additional_tools", "tools": [{"type": "x"}]}]}, "input[0].tools[0].type"),
            ({"tool_choice": {"type": "computer"}}, "tool_choice"),
            ({"tool_choice": {"type": "function", "name": "nope"}}, "tool_choice"),
            ({"stream": "yes"}, "stream"),
            ({"max_tool_calls": 0}, "max_tool_calls"),
            ({"background": True, "store": False}, "store"),
            ({"previous_response_id": "a", "conversation": "b"}, "previous_response_id"),
            ({"input": [{"type": "item_reference", "id": "gone"}]}, "input[0].id"),
            ({"metadata": [1]}, "metadata"),
        ):
            with pytest.raises(errors.InvalidRequest) as caught:
                await w.create(**{"input": "x", **body})
            assert caught.value.param == param
            assert caught.value.status == 400
        assert w.model.requests == []


async def test_passthrough_lets_the_unknown_pass(tmp_path: Path):
    """Configured so, an unknown tool and an unknown item reach the server, and come back, and are kept."""
    tool = {"type": "quantum", "qubits": 3}
    item = {"type": "quantum_call", "id": "q_1", "spin": "up"}
    async with world(tmp_path, [item, message("one")], [message("two")], unknown="passthrough") as w:
        first = await w.create(
            tool, input=[{"type": "quantum_note", "n": 1}, {"role": "user", "content": "x"}]
        )
        assert w.model.requests[0]["tools"] == [tool]
        assert w.model.requests[0]["input"][0]["n"] == 1
        assert first["tools"] == [tool]
        assert first["output"][0] == item
        await w.create(tool, input="on", previous_response_id=first["id"])
        assert kinds(w.model.requests[1]["input"]) == [
            "quantum_note",
            "message",
            "quantum_call",
            "message",
            "message",
        ]
        assert w.executed == 0


async def test_more_tools_in_the_input(tmp_path: Path):
    """`additional_tools` declare like `tools` do, for this turn and the ones that continue it."""
    more = {"type": "additional_tools", "role": "developer", "tools": [ADD]}
    answers = [[function("add", {"a": 1}, "f1")], [message("3")]]
    async with world(tmp_path, *answers, upstream=LOWERED) as w:
        first = await w.create(input=[more, {"role": "user", "content": "go"}])
        assert [tool["name"] for tool in w.model.requests[0]["tools"]] == ["add"]
        answer = {"type": "function_call_output", "call_id": "f1", "output": "3"}
        await w.create(input=[answer], previous_response_id=first["id"])
        assert [tool["name"] for tool in w.model.requests[1]["tools"]] == ["add"]
        assert first["tools"] == [], "the request declared none itself"


async def test_tools_that_are_left_out_are_said(tmp_path: Path):
    """web_search is echoed, not sent, and named in a header; the response says nothing else."""
    async with world(tmp_path, [message("x")], upstream=LOWERED) as w:
        body = {"model": "m", "input": "x", "tools": [{"type": "web_search"}]}
        reply = await w.call("POST", "/v1/responses", body)
        assert "web_search" in reply.headers["bodyd-warning"]
        assert "tools" not in w.model.requests[0]


async def test_custom_tools_and_namespaces(tmp_path: Path):
    """A function stands for them upstream; the client gets its own shapes, blocking and streamed."""
    tools = [
        {
            "type": "custom",
            "name": "sql",
            "format": {"type": "grammar", "syntax": "lark", "definition": "s: X"},
        },
        {"type": "namespace", "name": "crm", "description": "d", "tools": [{**ADD, "name": "find"}]},
    ]
    calls = [function("sql", {"input": "select 1"}, "k1"), function("crm__find", {"a": 1}, "k2")]
    async with world(tmp_path, calls, calls, upstream=LOWERED) as w:
        response = await w.create(*tools)
        assert [item["type"] for item in response["output"]] == ["custom_tool_call", "function_call"]
        assert response["output"][0]["input"] == "select 1"
        assert (response["output"][1]["name"], response["output"][1]["namespace"]) == ("find", "crm")
        assert response["tools"][0] == tools[0]
        events = await w.stream(*tools)
        assert faults(events) == []
        assert events[-1]["response"]["output"][0]["type"] == "custom_tool_call"


# -- pages and retention -----------------------------------------------------------------------------------


async def test_pages_of_input_items(tmp_path: Path):
    """Newest first unless asked otherwise; `after` goes on from an item; what makes no sense is refused."""
    said = [{"role": "user", "content": str(number)} for number in range(5)]
    async with world(tmp_path, [message("x")]) as w:
        path = f"/v1/responses/{(await w.create(input=said))['id']}/input_items"

        async def page(query: str) -> tuple[list[str], Json]:
            found = await w.get(f"{path}?{query}")
            return [item["content"][0]["text"] for item in found["data"]], found

        texts, whole = await page("")
        assert texts == ["4", "3", "2", "1", "0"]
        assert (whole["object"], whole["has_more"]) == ("list", False)
        assert (whole["first_id"], whole["last_id"]) == (whole["data"][0]["id"], whole["data"][-1]["id"])
        texts, first = await page("order=asc&limit=2")
        assert (texts, first["has_more"]) == (["0", "1"], True)
        texts, last = await page(f"order=asc&limit=3&after={first['last_id']}")
        assert (texts, last["has_more"]) == (["2", "3", "4"], False)
        assert (await page(f"after={whole['last_id']}"))[0] == []
        for bad in ("limit=0", "limit=101", "limit=x", "order=up", "after=gone"):
            with pytest.raises(errors.InvalidRequest) as caught:
                await page(bad)
            assert caught.value.param == bad.partition("=")[0]


async def test_pictures_in_listings(tmp_path: Path):
    """By reference, unless `include` asks for them; a reference can be sent back in place of the picture."""
    async with world(tmp_path, [computer()], [message("one")], [message("two")], computer="body") as w:
        first = await w.create("computer")
        second = await w.create("computer", input="on", previous_response_id=first["id"])
        path = f"/v1/responses/{second['id']}/input_items?order=asc"
        plain = (await w.get(path))["data"][2]
        assert "image_url" not in plain["output"]
        full = (await w.get(f"{path}&{FULL}"))["data"][2]
        assert full["output"]["image_url"].startswith("data:image/png;base64,")
        part = {"type": "input_image", "file_id": plain["output"]["file_id"], "detail": "auto"}
        w.model.answers.append([message("three")])
        await w.create(input=[{"role": "user", "content": [part]}])
        sent = w.model.requests[-1]["input"][0]["content"][0]
        assert sent["image_url"] == full["output"]["image_url"]


async def test_conversation_items(tmp_path: Path):
    """Added, listed, read and removed one by one; a turn's hidden pairs are among them, in their place."""
    async with world(tmp_path, [computer()], [message("one")], computer="body") as w:
        conversation = await w.ask("/v1/conversations", {"items": [{"role": "user", "content": "a"}]})
        path = f"/v1/conversations/{conversation['id']}"
        await w.create("computer", input="b", conversation={"id": conversation["id"]})
        items = (await w.get(f"{path}/items?order=asc"))["data"]
        assert kinds(items) == ["message", "message", "computer_call", "computer_call_output", "message"]
        one = await w.get(f"{path}/items/{items[3]['id']}?{FULL}")
        assert one["output"]["image_url"].startswith("data:image/png")
        added = await w.ask(f"{path}/items", {"items": [{"role": "user", "content": "c"}]})
        assert added["data"][0]["content"][0]["text"] == "c"
        await w.call("DELETE", f"{path}/items/{items[0]['id']}")
        assert len((await w.get(f"{path}/items"))["data"]) == 5
        with pytest.raises(errors.NotFound):
            await w.get(f"{path}/items/{items[0]['id']}")
        with pytest.raises(errors.InvalidRequest):
            await w.ask(f"{path}/items", {"items": [{"role": "user", "content": "x"}] * 21})
        assert (await w.ask(path, {"metadata": {"k": "v"}}))["metadata"] == {"k": "v"}
        await w.call("DELETE", path)
        with pytest.raises(errors.NotFound):
            await w.get(path)


async def test_what_is_past_its_retention_is_removed(tmp_path: Path):
    """Responses, their events, items and pictures; younger ones stay, and what they are made of."""
    now = 1_700_000_000_000
    async with world(tmp_path, [computer()], [message("one")], [message("two")], computer="body") as w:
        old = await w.create("computer")
        w.adapter.gateway.runs.forget(old["id"])
    async with open_documents(tmp_path, now_ms=lambda: now + 86_400_000) as store:
        (document,) = [await store.get("response", key) for key in await store.keys("response")]
        assert document is not None
        keeper = Keeper(store, lambda: now + 31 * 86_400_000)
        assert await keeper.forget(32) == 0
        assert await keeper.forget(30) == 2, "the response and its events"
        assert await store.keys("item") == []
        assert await store.keys(RUNNING) == []
        assert await store.image_sizes(_digests(document)) == {}


def _digests(document: Json) -> list[str]:
    return [part.split("_")[1] for part in str(document).split("'") if part.startswith("img_")]


async def test_models(tmp_path: Path):
    """The configured ones; each in the shape that clients list."""
    async with world(tmp_path, upstream={"models": ["a"]}) as w:
        (model,) = (await w.get("/v1/models"))["data"]
        assert model == {"id": "a", "object": "model", "created": 0, "owned_by": "bodyd"}


async def test_counting_tokens(tmp_path: Path):
    """An estimate that says that it is one; a picture counts like a screen's."""
    async with world(tmp_path) as w:
        reply = await w.call("POST", "/v1/responses/input_tokens", {"model": "m", "input": "x" * 400})
        assert reply.headers["bodyd-estimate"] == "true"
        assert b'"response.input_tokens"' in reply.body
        part = {"type": "input_image", "image_url": PIXEL}
        body = {"model": "m", "input": [{"role": "user", "content": [part]}]}
        shown = await w.ask("/v1/responses/input_tokens", body)
        assert shown["input_tokens"] > 1105


# -- reading slowly ----------------------------------------------------------------------------------------


async def test_a_slow_reader_holds_up_its_own_response(tmp_path: Path, nursery: Any):
    """The log waits while a reader is far behind, goes on as it reads, and forgets one that leaves."""
    log = Log()
    with log.reader() as reader:
        for _ in range(LAG + 1):
            log.add({"type": "x"})
        went_on = trio.Event()

        async def loop() -> None:
            await log.room()
            went_on.set()

        nursery.start_soon(loop)
        await trio.testing.wait_all_tasks_blocked()
        assert not went_on.is_set()
        assert len(await reader.next()) == AT_ONCE
        with trio.fail_after(10):
            await went_on.wait()
        for _ in range(LAG):
            log.add({"type": "x"})
        nursery.start_soon(log.room)
    with trio.fail_after(10):
        await log.room()


async def test_compact_of_a_stored_response(tmp_path: Path):
    """The whole chain is summarised, computer pairs as words alone, with its tokens counted."""
    answer = {"status": "completed", "output": [message("I looked.")], "usage": {"input_tokens": 3}}
    async with world(tmp_path, [computer()], [message("one")], answer, computer="body") as w:
        first = await w.create("computer")
        found = await w.ask("/v1/responses/compact", {"model": "m", "previous_response_id": first["id"]})
        openresponses_types.CompactResource.model_validate(found)
        assert found["usage"]["input_tokens"] == 3
        sent = w.model.requests[-1]
        assert "image" not in str(sent["input"])
        assert "tools" not in sent
