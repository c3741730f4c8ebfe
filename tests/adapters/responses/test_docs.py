"""The gateway's page names every route and failure; the examples run."""

from __future__ import annotations

import importlib.util
import inspect
import re
from pathlib import Path
from types import ModuleType

import trio
from bodyd_adapters.responses import failures
from openai import OpenAI

from bodyd import errors

from .test_sdk import pytestmark as pytestmark  # the SDK's own generators
from .test_sdk import served
from .world import computer, message, shell, world

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/reference/gateway.md").read_text()


async def test_every_route_is_documented(tmp_path: Path):
    """The table has each route once, and no other."""
    documented = re.findall(r"^\| `((?:GET|POST|DELETE) [^`]+)` \|", PAGE, re.MULTILINE)
    async with world(tmp_path) as w:
        routes = [f"{route.method} {route.path}" for route in w.adapter.routes]
    assert sorted(documented) == sorted(routes)


def test_every_failure_of_our_own_is_documented():
    """The table has each type that the gateway makes up itself."""
    documented = named()
    made = {
        ending.error["type"]
        for _, ending in inspect.getmembers(failures, lambda thing: isinstance(thing, failures.Ending))
        if ending.error is not None
    }
    assert made <= documented
    assert documented >= {"executor_failed", "upstream_failed", "conversation_busy"}
    assert documented >= {error.code for error in below(errors.LeaseError)} - {
        "lease_required",
        "stale_epoch",
    }
    assert documented >= {error.code for error in below(errors.Unavailable)} - {
        "too_many_connections",
        "accessibility_unavailable",
    }


def named() -> set[str]:
    """The types in the first column of the table of failures."""
    cells = re.findall(r"^\| (`[a-z_`, ]+`) \| `[a-z_]+`", PAGE.split("## Failures")[1], re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"[a-z_]+", cell)}


def below(error: type[errors.BodydError]) -> list[type[errors.BodydError]]:
    """Its subclasses, which a response may end with."""
    return error.__subclasses__()


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / f"examples/responses/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_the_computer_example_runs(tmp_path: Path):
    """The client acts for each call, and prints the answer; the gateway executes nothing."""
    acted = []
    answers = [[computer(call_id="c1")], [computer({"type": "wait"}, call_id="c2")], [message("done")]]
    async with served(tmp_path, *answers) as (w, client):

        def run() -> str:
            module = example("computer")
            with OpenAI(base_url=str(client.base_url), api_key=client.api_key) as sync:
                return module.run(sync, "look", lambda actions: acted.append(actions) or module.PIXEL)

        assert await trio.to_thread.run_sync(run) == "done"
        assert [one[0].type for one in acted] == ["screenshot", "wait"]
        assert w.executed == 0


async def test_the_shell_example_runs(tmp_path: Path):
    """What is allowed runs on the client's machine, what is not is refused; nothing runs here."""
    answers = [[shell("printf hi", "printf no", max_output_length=99)], [message("done")]]
    async with served(tmp_path, *answers) as (w, client):

        def run() -> str:
            with OpenAI(base_url=str(client.base_url), api_key=client.api_key) as sync:
                return example("shell").run(sync, "go", lambda command: "hi" in command)

        assert await trio.to_thread.run_sync(run) == "done"
        sent = w.model.requests[-1]["input"][-1]
        assert [chunk["stdout"] for chunk in sent["output"]] == ["hi", ""]
        assert sent["output"][1]["stderr"] == "refused"
        assert sent["max_output_length"] == 99
        assert w.shell.ran == []
