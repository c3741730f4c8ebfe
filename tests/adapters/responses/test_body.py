"""The whole way: a client, the daemon's gateway, a model's server, the door, the browser's own log."""

from __future__ import annotations

import json
from typing import Any

import httpx2
from openai import AsyncOpenAI

from bodyd.contract.lease import Scope
from bodyd.http.tokens import read_token
from tests.body.world import World, folder, running_world

from .model_server import Answer, ModelServer, model_server
from .test_sdk import pytestmark as pytestmark  # the SDK's own generators
from .world import function, message

Json = dict[str, Any]


def answer(*items: Json) -> Answer:
    return Answer({"id": "r", "status": "completed", "output": list(items), "usage": None})


def client(world: World) -> AsyncOpenAI:
    token = read_token(world.config.state / "private", Scope.DRIVER)
    http = httpx2.AsyncClient(trust_env=False)
    return AsyncOpenAI(base_url=f"{world.url}/v1", api_key=token, http_client=http)


async def test_a_model_works_on_the_real_body():
    """It looks, clicks and types by functions; the page saw exactly that; the body is vacant afterwards."""
    async with model_server() as server:
        upstream = {"kind": "responses", "url": server.url}
        with (
            folder() as root,
            running_world(root, gateway={"computer": "body", "upstream": upstream}) as world,
        ):
            assert await world.page.until(lambda page: page.origin is not None, within=20)
            x, y = world.page.at(60, 60)
            click = {"type": "click", "button": "left", "x": x, "y": y}
            act = [click, {"type": "type", "text": "penguin"}, {"type": "keypress", "keys": ["CTRL", "A"]}]
            server.answers += [
                answer(function("computer", {"actions": [{"type": "screenshot"}]}, "c1")),
                answer(function("computer", {"actions": act}, "c2")),
                answer(function("computer", {"actions": [{"type": "type", "text": "ice"}]}, "c3")),
                answer(message("done")),
            ]
            async with client(world) as sdk:
                response = await sdk.responses.create(
                    model="m",
                    tools=[{"type": "computer"}],
                    input="type",
                    extra_headers={"bodyd-items": "pairs"},
                )
            assert response.output_text == "done"
            assert [item.type for item in response.output][:2] == ["computer_call", "computer_call_output"]
            assert await world.page.until(lambda page: _value(page) == "ice")
            (clicked,) = world.page.entries("click")
            assert (clicked["x"], clicked["y"], clicked["trusted"]) == (60, 60, True)
            assert _notes(server) == []
            async with world.client() as owner:
                assert (await owner.status())["lease"]["state"] == "vacant"
                receipt = await owner.receipt(f"{response.id}/2/0")
                assert [one.type for one in receipt.inputs] == ["click", "type", "keypress"]


def _value(page: Any) -> str | None:
    values = page.entries("value")
    return values[-1]["value"] if values else None


def _notes(server: ModelServer) -> list[str]:
    """What the model was told beside its pictures."""
    parts = [
        part["text"]
        for item in server.seen[-1][2]["input"]
        if item["type"] == "function_call_output"
        for part in json.loads(json.dumps(item["output"]))
        if part["type"] == "input_text"
    ]
    return parts
