"""The whole way: a client, the daemon's gateway, a model's server, the door, the browser's own log."""

from __future__ import annotations

import importlib.util
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trio
from openai import AsyncOpenAI, OpenAI

from bodyd.config import parse
from bodyd.contract.lease import Scope
from bodyd.demo import Site
from bodyd.http.tokens import read_token
from tests.body.world import World, folder, running_world

from .model_server import Answer, ModelServer
from .test_alone import program
from .test_loop import kinds
from .test_sdk import pytestmark as pytestmark  # the SDK's own generators
from .world import function, message

Json = dict[str, Any]
SOON = 60
EXAMPLES = Path(__file__).resolve().parents[3] / "examples/responses"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


PORT = free_port()
"""Where the model's server of each test listens; the daemon is told once."""


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    gateway = {
        "computer": "body",
        "shell": "body",
        "upstream": {"kind": "responses", "url": f"http://127.0.0.1:{PORT}/v1"},
    }
    shell = {"enabled": True, "policy": {"default": "allow"}}
    with folder() as root, running_world(root, gateway=gateway, shell=shell) as made:
        assert trio.run(partial(made.page.until, lambda page: page.origin is not None, within=20))
        yield made


@asynccontextmanager
async def model(*answers: Answer) -> AsyncIterator[ModelServer]:
    server = ModelServer(list(answers), PORT)
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(trio.serve_tcp, server.handle, PORT, host="127.0.0.1"))
        yield server
        nursery.cancel_scope.cancel(reason="the test is over")


def answer(*items: Json) -> Answer:
    return Answer({"id": "r", "status": "completed", "output": list(items), "usage": None})


def look(call_id: str) -> Json:
    return function("computer", {"actions": [{"type": "screenshot"}]}, call_id)


def client(world: World) -> AsyncOpenAI:
    token = read_token(world.config.state / "private", Scope.DRIVER)
    http = httpx2.AsyncClient(trust_env=False)
    return AsyncOpenAI(base_url=f"{world.url}/v1", api_key=token, http_client=http)


async def lease_state(world: World) -> str:
    async with world.client() as owner:
        return (await owner.status())["lease"]["state"]


async def test_a_model_works_on_the_real_body(world: World):
    """It looks, clicks and types by functions; the page saw exactly that; the body is vacant afterwards."""
    x, y = world.page.at(60, 60)
    click = {"type": "click", "button": "left", "x": x, "y": y}
    act = [click, {"type": "type", "text": "penguin"}, {"type": "keypress", "keys": ["CTRL", "A"]}]
    answers = [
        answer(look("c1")),
        answer(function("computer", {"actions": act}, "c2")),
        answer(function("computer", {"actions": [{"type": "type", "text": "ice"}]}, "c3")),
        answer(message("done")),
    ]
    async with model(*answers) as server, client(world) as sdk:
        response = await sdk.responses.create(
            model="m", tools=[{"type": "computer"}], input="type", extra_headers={"bodyd-items": "pairs"}
        )
        assert response.output_text == "done"
        assert [item.type for item in response.output][:2] == ["computer_call", "computer_call_output"]
        assert await world.page.until(lambda page: _value(page) == "ice")
        (clicked,) = world.page.entries("click")
        assert (clicked["x"], clicked["y"], clicked["trusted"]) == (60, 60, True)
        assert _notes(server) == []
    assert await lease_state(world) == "vacant"
    async with world.client() as owner:
        receipt = await owner.receipt(f"{response.id}/2/0")
        assert [one.type for one in receipt.inputs] == ["click", "type", "keypress"]


async def test_a_model_runs_commands_in_the_bodys_shell(world: World):
    """In the sandbox and the conversation's folder: nothing of the daemon's environment, nor its files."""
    commands = ["echo kept > file; pwd; id -u", f"ls {world.root}", "sleep 60", "env | grep -c KEY"]
    answers = [
        answer(function("shell", {"commands": commands, "timeout_ms": 700}, "s1")),
        answer(function("shell", {"commands": ["cat file"]}, "s2")),
        answer(message("done")),
        answer(function("shell", {"commands": ["cat file"]}, "s3")),
        answer(message("still")),
    ]
    async with model(*answers) as server, client(world) as sdk:
        tools: Any = [{"type": "shell", "environment": {"type": "local"}}]
        first = await sdk.responses.create(model="m", tools=tools, input="go")
        assert first.output_text == "done"
        output = _result(server, 1)
        assert output[0]["stdout"] == "/workspace\n1000\n"
        assert output[1]["outcome"]["exit_code"] != 0
        assert output[2]["outcome"] == {"type": "timeout"}
        assert output[3]["stdout"] == "0\n"
        assert _result(server, 2)[0]["stdout"] == "kept\n"
        await sdk.responses.create(model="m", tools=tools, input="on", previous_response_id=first.id)
        assert _result(server, 4)[0]["stdout"] == "kept\n", "one conversation, one folder"
    assert await lease_state(world) == "vacant"


async def test_cancelling_in_the_middle_of_a_drag(world: World):
    """The batch stops at the next atom, button and modifier go up, and the body is vacant at once."""
    x, y = world.page.at(300, 130)
    path = [{"x": x + n % 150, "y": y + n % 100} for n in range(1000)]
    drags = [{"type": "drag", "path": path, "keys": ["SHIFT"]}] * 30
    before = len(world.page.entries("drag"))
    async with (
        model(answer(look("c1")), answer(function("computer", {"actions": drags}, "c2"))),
        client(world) as sdk,
    ):
        response = await sdk.responses.create(
            model="m", tools=[{"type": "computer"}], input="go", background=True
        )
        assert await world.page.until(lambda page: len(page.entries("drag")) > before, within=SOON)
        with trio.fail_after(SOON):
            cancelled = await sdk.responses.cancel(response.id)
        assert cancelled.status == "cancelled"
        assert await lease_state(world) == "vacant", "proved empty-handed"
    up = partial(_let_go, downs=world.page.entries("mousedown"))
    assert await world.page.until(up)
    async with world.client() as owner:
        receipt = await owner.receipt(f"{response.id}/2/0")
    assert "interrupted" in {one.delivery.reason for one in receipt.inputs}
    assert receipt.inputs[-1].delivery.reason == "not_attempted"


async def test_cancelling_stops_a_command_and_the_models_server(world: World):
    """The tree of a running command is dead, and a server that is still answering sees its client leave."""
    mark = "7193"
    running = answer(function("shell", {"commands": [f"setsid sleep {mark} & sleep {mark}"]}, "s1"))
    async with client(world) as sdk:
        async with model(running):
            response = await sdk.responses.create(
                model="m", tools=[{"type": "shell"}], input="go", background=True
            )
            await _until(lambda: _sleeping(mark))
            with trio.fail_after(SOON):
                assert (await sdk.responses.cancel(response.id)).status == "cancelled"
            assert not _sleeping(mark)
        async with model(Answer({}, hang=True)) as server:
            response = await sdk.responses.create(model="m", input="go", background=True)
            await _until(lambda: bool(server.seen))
            with trio.fail_after(SOON):
                assert (await sdk.responses.cancel(response.id)).status == "cancelled"
                await server.left.wait()
    assert await lease_state(world) == "vacant"


async def test_a_gateway_that_stands_alone_drives_it(world: World, tmp_path: Path):
    """`bodyd gateway` with this daemon as its remote body: looks, acts and runs commands there."""
    x, y = world.page.at(340, 160)
    click = {"type": "click", "button": "left", "x": x, "y": y}
    before = len(world.page.entries("click"))
    answers = [
        answer(look("c1")),
        answer(function("computer", {"actions": [click]}, "c2")),
        answer(function("shell", {"commands": ["echo there"]}, "s1")),
        answer(message("done")),
    ]
    token = read_token(world.config.state / "private", Scope.DRIVER)
    async with (
        model(*answers) as server,
        program(tmp_path, str(world.config.api_socket), token, server.url) as alone,
    ):
        with trio.fail_after(SOON):
            port = await alone.start()
            mine = read_token(tmp_path / "state" / "gateway", Scope.DRIVER)
            http = httpx2.AsyncClient(trust_env=False)
            url = f"http://127.0.0.1:{port}/v1"
            async with AsyncOpenAI(base_url=url, api_key=mine, http_client=http) as sdk:
                response = await sdk.responses.create(
                    model="m", tools=[{"type": "computer"}, {"type": "shell"}], input="go"
                )
            assert await alone.stop() == 0
        assert response.output_text == "done"
        assert await world.page.until(lambda page: len(page.entries("click")) == before + 1)
        assert _result(server, 3)[0]["stdout"] == "there\n"
    assert await lease_state(world) == "vacant"


# -- the mission's example, carried out -----------------------------------------------------------------


@contextmanager
def served(site: Site) -> Iterator[trio.lowlevel.TrioToken]:
    """*site*, served from a thread of its own."""
    ready, handles = threading.Event(), {}

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(site.serve)
            handles.update(token=trio.lowlevel.current_trio_token(), scope=nursery.cancel_scope)
            ready.set()

    thread = threading.Thread(target=trio.run, args=(main,), name="site")
    thread.start()
    assert ready.wait(SOON)
    try:
        yield handles["token"]
    finally:
        handles["token"].run_sync_soon(handles["scope"].cancel)
        thread.join(SOON)


def test_the_example_with_the_demos_model():
    """The Filters panel is opened and penguin typed, by one request; the site's grader agrees."""
    site = Site.load(seed=3)
    with folder() as root, served(site) as token:
        configured = site.configure(_plain(root))
        gateway = {"computer": "body", "upstream": {"kind": "scripted"}}
        sections = {
            "gateway": gateway,
            "desktop": {"start_url": configured.desktop.start_url},
            "egress": {"local": dict(configured.egress.local)},
        }
        with running_world(root, **sections) as world:
            trio.from_thread.run(site.until_shown, trio_token=token)
            told: list[str] = []
            key = read_token(world.config.state / "private", Scope.DRIVER)
            with OpenAI(
                base_url=f"{world.url}/v1", api_key=key, http_client=httpx2.Client(trust_env=False)
            ) as sdk:
                text = _example("watched").run(sdk, site.task, told.append, model="scripted")
            verdict = trio.from_thread.run(site.grade, trio_token=token)
    assert verdict.success, (list(verdict.reasons), text, told)
    assert told[0] == "computer  screenshot"
    assert len(told) >= 3


def _plain(root: Path) -> Any:
    return parse({"state_dir": str(root / "state"), "run_dir": str(root / "run")})


def _example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _value(page: Any) -> str | None:
    values = page.entries("value")
    return values[-1]["value"] if values else None


def _let_go(page: Any, *, downs: list[Json]) -> bool:
    """Whether every button that went down is up again, and the modifier, too."""
    keys = page.entries("keydown")
    shifts = sum(one["key"] == "Shift" for one in keys)
    ups = sum(one["key"] == "Shift" for one in page.entries("keyup"))
    return len(page.entries("mouseup")) == len(downs) and ups == shifts


def _notes(server: ModelServer) -> list[str]:
    """What the model was told beside its pictures."""
    return [
        part["text"]
        for item in server.seen[-1][2]["input"]
        if item["type"] == "function_call_output"
        for part in item["output"]
        if part["type"] == "input_text"
    ]


def _result(server: ModelServer, number: int) -> list[Json]:
    """The shell's output that a request of the gateway ended with."""
    items = server.seen[number][2]["input"]
    assert kinds(items)[-1] == "function_call_output"
    return json.loads(items[-1]["output"])["output"]


def _sleeping(mark: str) -> bool:
    wanted = [b"sleep", mark.encode()]
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cmdline").read_bytes().split(b"\0")[:2] == wanted:
                return True
        except OSError:
            continue
    return False


async def _until(met: Any) -> None:
    for _ in range(SOON * 50):
        if met():
            return
        await trio.sleep(0.02)
    raise AssertionError("it did not come")
