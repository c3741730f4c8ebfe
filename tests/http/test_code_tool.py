"""`/v1/tools/exec_py`: its schema, its answers, its events, and clients that leave; the tool is made up."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from bodyd.contract.code import CodeRequest
from bodyd.contract.lease import Scope
from bodyd.contract.ports import CodeItem
from bodyd.errors import IsolationUnavailable, PersonDriving
from bodyd.http.routes_tools import EXEC_PY

from .wire import SOON, head, post, still_answers, unix

PATH = "/v1/tools/exec_py"
END = {"call_id": "code_1", "error": None, "ui_calls": 2}


class FakeOutcome:
    def to_json(self) -> dict[str, Any]:
        return {**END, "output": [{"type": "input_text", "text": "hi"}]}


class FakeCode:
    """Code is what it does: "person" is refused, "breaks" fails in the middle, "hangs" never ends."""

    def __init__(self) -> None:
        self.asked: list[CodeRequest] = []
        self.left = trio.Event()

    async def run(self, request: CodeRequest, **_how: object) -> FakeOutcome:
        self.asked.append(request)
        if request.code == "person":
            raise PersonDriving("a person drives")
        await trio.lowlevel.checkpoint()
        return FakeOutcome()

    @asynccontextmanager
    async def stream(self, request: CodeRequest, **how: object) -> AsyncIterator[AsyncIterator[object]]:
        await self.run(request)
        try:
            yield Told(request.code)
        finally:
            self.left.set()


class Told:
    def __init__(self, code: str) -> None:
        self._code = code
        self._left: list[object] = [CodeItem("text", "hi"), CodeItem("image", "data:image/png;base64,AA")]
        if code == "runs":
            self._left.append(FakeOutcome())

    def __aiter__(self) -> Told:
        return self

    async def __anext__(self) -> object:
        await trio.lowlevel.checkpoint()
        if self._left:
            return self._left.pop(0)
        if self._code == "breaks":
            raise IsolationUnavailable("no process")
        if self._code == "hangs":
            await trio.sleep_forever()
        raise StopAsyncIteration


@pytest.fixture
def code(services):
    services.code = FakeCode()
    return services.code


@pytest.fixture
def ask(bound, bearer):
    async def post_json(body, **headers):
        async with unix(bound.unix_path) as wire:
            wanted = {**bearer(Scope.DRIVER), "bodyd-lease": "token", **headers}
            await wire.send(post(PATH, json.dumps(body).encode(), **wanted))
            return await wire.reply()

    return post_json


def test_what_a_model_sends_is_what_the_route_takes():
    """Strict function calling: every property is required, and null where it is not meant."""
    parameters = EXEC_PY["parameters"]
    assert sorted(parameters["required"]) == sorted(parameters["properties"])
    assert parameters["additionalProperties"] is False
    assert CodeRequest.model_validate({"code": "1", "reset": None})


async def test_where_it_is_off_it_is_neither_listed_nor_run(services, bound, bearer, ask):
    """`unavailable` names the setting."""
    answer = await ask({"code": "1"})
    assert (answer.status, answer.code) == (503, "unavailable")
    assert "[code] enabled" in answer.json["error"]["message"]
    services.code = FakeCode()
    async with unix(bound.unix_path) as wire:
        await wire.send(head("GET", "/v1/tools", **bearer(Scope.VIEWER)))
        assert (await wire.reply()).json == {"tools": [EXEC_PY]}


async def test_the_outcome_is_the_answer(code, ask):
    """And a refusal is a refusal, asked for as events or not."""
    answer = await ask({"code": "1", "reset": True, "timeout_ms": 5, "epoch": 3})
    assert answer.json == FakeOutcome().to_json()
    assert (code.asked[0].reset, code.asked[0].timeout_ms, code.asked[0].epoch) == (True, 5, 3)
    for body in ({"code": "person"}, {"code": "person", "stream": True}):
        assert (await ask(body)).code == "person_driving"
    for body in ({"code": 1}, {"code": "1", "timeout_ms": 0}, {"code": "1", "who": "me"}):
        answer = await ask(body)
        assert (answer.status, answer.code) == (400, "invalid_request"), body


async def streamed(bound, bearer, body, **headers) -> list[tuple[str, Any]]:
    async with unix(bound.unix_path) as wire:
        fields = {**bearer(Scope.DRIVER), "bodyd-lease": "t", "connection": "close", **headers}
        await wire.send(post(PATH, json.dumps(body).encode(), **fields))
        lines = (await wire.closed()).decode().splitlines()
    names = [line[7:] for line in lines if line.startswith("event: ")]
    data = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
    return list(zip(names, data, strict=True))


@pytest.mark.parametrize(
    ("fields", "headers"), [({"stream": True}, {}), ({}, {"accept": "text/event-stream"})]
)
async def test_events(code, bound, bearer, fields, headers):
    """Pieces as they come, then the outcome without them."""
    assert await streamed(bound, bearer, {"code": "runs", **fields}, **headers) == [
        ("text", {"text": "hi"}),
        ("image", {"image_url": "data:image/png;base64,AA"}),
        ("done", END),
    ]


async def test_what_breaks_in_the_middle_is_an_event(code, bound, bearer):
    """The status is long gone."""
    name, data = (await streamed(bound, bearer, {"code": "breaks", "stream": True}))[-1]
    assert (name, data["code"]) == ("error", "isolation_unavailable")


async def test_leaving_leaves_the_call(code, bound, bearer):
    """Once the client is gone, so is what it asked for."""
    body = json.dumps({"code": "hangs", "stream": True}).encode()
    async with unix(bound.unix_path) as wire:
        await wire.send(post(PATH, body, **{**bearer(Scope.DRIVER), "bodyd-lease": "t"}))
        with trio.fail_after(SOON):
            while not code.asked:  # noqa: ASYNC110
                await trio.sleep(0.005)
    with trio.fail_after(SOON):
        await code.left.wait()
    await still_answers(bound)
