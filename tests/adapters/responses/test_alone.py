"""The gateway alone: the body is another daemon's, reached over its API."""

from __future__ import annotations

import copy
from pathlib import Path

import httpx2
import trio
from openai import AsyncOpenAI

from bodyd.client import BodyClient
from bodyd.config import parse
from bodyd.contract.lease import LeaseState, Scope
from bodyd.http.alone import serve_gateway
from bodyd.http.app import create_app
from bodyd.http.listener import listen
from bodyd.http.services import Services
from bodyd.http.tokens import Tokens
from tests.http.fake_body import FakeBody

from .model_server import Answer, model_server
from .test_sdk import pytestmark as pytestmark  # the SDK's own generators
from .world import function, message

ACTIONS = {"actions": [{"type": "screenshot"}, {"type": "wait"}]}


async def test_a_remote_body_is_driven_through_its_api(tmp_path: Path):
    """The loop runs here, the input there, under a lease of the other daemon that is given back."""
    body, tokens = FakeBody(), Tokens.fresh()
    calls = [
        {"id": "r", "status": "completed", "output": [function("computer", copy.deepcopy(ACTIONS))]},
        {"id": "r", "status": "completed", "output": [message("done")]},
    ]
    async with (
        model_server(*[Answer(call) for call in calls]) as server,
        listen(create_app(Services(body=body, tokens=tokens)), unix_path=tmp_path / "body.sock"),
        BodyClient(token=tokens.token(Scope.DRIVER), socket_path=tmp_path / "body.sock") as remote,
    ):
        raw = {
            "state_dir": str(tmp_path / "state"),
            "run_dir": str(tmp_path / "run"),
            "http": {"port": 0},
            "gateway": {"computer": "body", "upstream": {"kind": "responses", "url": server.url}},
        }
        with trio.fail_after(30):
            async with serve_gateway(parse(raw), remote) as (bound, mine):
                http = httpx2.AsyncClient(trust_env=False)
                url, key = f"http://127.0.0.1:{bound.port}/v1", mine.token(Scope.DRIVER)
                async with AsyncOpenAI(base_url=url, api_key=key, http_client=http) as client:
                    response = await client.responses.create(
                        model="m", tools=[{"type": "computer"}], input="go"
                    )
    assert response.output_text == "done"
    assert [action.type for action in body.acted] == ["screenshot", "wait"]
    assert body.state is LeaseState.VACANT
    assert server.seen[1][2]["input"][-1]["output"][-1]["image_url"].startswith("data:image/png")
