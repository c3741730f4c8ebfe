"""The acceptance criteria of both tools, one test each, through the real SDK, blocking and streamed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio
from openai import AsyncOpenAI
from openai.types.responses import Response

from bodyd import errors
from bodyd.contract.ports import ProcessResult

from .test_sdk import pytestmark as pytestmark  # the SDK's own generators
from .test_sdk import served
from .test_wire import ACTIONS
from .world import LOWERED, OWNER, PIXEL, Json, World, computer, function, message, shell

ROOT = Path(__file__).resolve().parents[3]
GUIDE = (ROOT / "docs/how-to/openai-clients.md").read_text()
REFERENCE = (ROOT / "docs/reference/gateway.md").read_text()
COMPUTER: Any = {"type": "computer"}
LOCAL: Any = {"type": "shell", "environment": {"type": "local"}}
CLICK = {"type": "click", "button": "left", "x": 1, "y": 2}
SHOT: Any = {"type": "computer_screenshot", "image_url": PIXEL, "detail": "original"}

both = pytest.mark.parametrize("stream", [False, True], ids=["blocking", "streamed"])
anywhere = pytest.mark.parametrize("upstream", [{}, LOWERED], ids=["native", "functions"])


async def ask(client: AsyncOpenAI, *, stream: bool, **body: Any) -> Response:
    """The response, either way."""
    body = {"model": "m", "input": "go", **body}
    if not stream:
        return await client.responses.create(**body)
    events = [event async for event in await client.responses.create(**body, stream=True)]
    assert events[-1].type in ("response.completed", "response.incomplete")
    return events[-1].response


async def stored(w: World, id: str) -> Json:
    """The response as it is kept, without what a client's types make of it."""
    w.adapter.gateway.runs.forget(id)
    return await w.get(f"/v1/responses/{id}", caller=OWNER)


def calls(*items: Json, upstream: Json) -> list[Json]:
    """*items* as that kind of server gives them."""
    if not upstream:
        return list(items)
    made = []
    for item in items:
        match item["type"]:
            case "computer_call":
                made.append(function("computer", {"actions": item["actions"]}, item["call_id"]))
            case "shell_call":
                made.append(function("shell", item["action"], item["call_id"]))
            case _:
                made.append(item)
    return made


def dumped(item: Any) -> Json:
    return item.to_dict()


# -- the computer ---------------------------------------------------------------------------------------


@both
async def test_the_declaration_round_trips(tmp_path: Path, stream: bool):
    """Through parsing, storage, rehydration and serialisation it stays what it was."""
    async with served(tmp_path, [message("x")]) as (w, client):
        response = await ask(client, stream=stream, tools=[COMPUTER])
        assert dumped(response.tools[0]) == COMPUTER
        assert (await stored(w, response.id))["tools"] == [COMPUTER]
        assert w.model.requests[0]["tools"] == [COMPUTER]


@both
@anywhere
async def test_every_action_keeps_its_fields_and_order(tmp_path: Path, stream: bool, upstream: Json):
    """All documented ones, and one yet to come: to the client, into the store, and back upstream."""
    call = computer(*ACTIONS, call_id="c1")
    answers = [calls(call, upstream=upstream), [message("done")]]
    async with served(tmp_path, *answers, upstream=upstream) as (w, client):
        first = await ask(client, stream=stream, tools=[COMPUTER])
        shown = first.output[0].actions
        assert [dumped(action) for action in shown[:-1]] == ACTIONS[:-1]
        assert shown[-1].type == "pinch"
        assert (await stored(w, first.id))["output"][0]["actions"] == ACTIONS
        output: Any = {"type": "computer_call_output", "call_id": "c1", "output": SHOT}
        await ask(client, stream=stream, tools=[COMPUTER], input=[output], previous_response_id=first.id)
        sent = w.model.requests[-1]["input"][1]
        assert (sent["actions"] if "actions" in sent else _arguments(sent)["actions"]) == ACTIONS
        assert w.executed == 0


@both
@anywhere
async def test_a_client_carries_a_call_out(tmp_path: Path, stream: bool, upstream: Json):
    """Call and output in both flows, the continuation preserves both, detail and all; nothing runs here."""
    answers = [calls(computer(CLICK, call_id="c1"), upstream=upstream), [message("done")], [message("yes")]]
    async with served(tmp_path, *answers, upstream=upstream) as (w, client):
        first = await ask(client, stream=stream, tools=[COMPUTER])
        (call,) = first.output
        assert call.type == "computer_call"
        assert (call.call_id, call.status, call.pending_safety_checks) == ("c1", "completed", [])
        output: Any = {"type": "computer_call_output", "call_id": "c1", "output": SHOT}
        second = await ask(
            client, stream=stream, tools=[COMPUTER], input=[output], previous_response_id=first.id
        )
        assert second.output_text == "done"
        await ask(client, stream=stream, tools=[COMPUTER], previous_response_id=second.id)
        assert PIXEL in str(w.model.requests[-1]["input"])
        items = client.responses.input_items.list(
            second.id, order="asc", include=["computer_call_output.output.image_url"]
        )
        kept = [dumped(item) async for item in items]
        assert [item["type"] for item in kept] == ["message", "computer_call", "computer_call_output"]
        assert kept[2]["output"] == SHOT
        assert w.executed == 0
        assert w.body.calls == []


@both
@anywhere
async def test_a_configured_body_completes_a_loop(tmp_path: Path, stream: bool, upstream: Json):
    """Actions in order, a full screenshot after each batch, further rounds, and a final answer."""
    rounds = [
        calls(computer(call_id="c1"), upstream=upstream),
        calls(computer(CLICK, {"type": "type", "text": "penguin"}, call_id="c2"), upstream=upstream),
        calls(computer({"type": "wait"}, call_id="c3"), upstream=upstream),
        [message("The panel is open.")],
    ]
    async with served(tmp_path, *rounds, computer="body", upstream=upstream) as (w, client):
        response = await ask(client, stream=stream, tools=[COMPUTER])
        assert response.output_text == "The panel is open."
        assert [action.type for action in w.body.acted] == ["screenshot", "click", "type", "wait"]
        assert [str(request["input"]).count("data:image/png") for request in w.model.requests] == [0, 1, 2, 3]
        assert w.body.token is None


def exhausted(w: World) -> None:
    w.model.answers[:] = [[computer(call_id=f"c{n}")] for n in range(9)]


def timed_out(w: World) -> None:
    w.model.answers[:] = [[computer(call_id="c1")], trio.Event()]


def failing(w: World) -> None:
    w.body.raising = errors.DisplayUnavailable("the display is gone")


FAILURES: list[tuple[str, Any, Json, tuple[str, str | None]]] = [
    ("maximum-loop exhaustion", exhausted, {"max_rounds": 2}, ("incomplete", "max_messages")),
    ("timeout", timed_out, {"max_wall_ms": 60}, ("failed", "wall_time_exceeded")),
    ("handler failure", failing, {}, ("failed", "display_unavailable")),
]


@both
@pytest.mark.parametrize(
    ("arrange", "settings", "end"), [row[1:] for row in FAILURES], ids=[row[0] for row in FAILURES]
)
async def test_failures_are_typed(tmp_path: Path, stream: bool, arrange: Any, settings: Json, end: Any):
    """Each ends the response with a status and a name that is documented, and gives the body back."""
    async with served(tmp_path, [computer()], computer="body", **settings) as (w, client):
        arrange(w)
        status, name = end
        body: Any = {"model": "m", "input": "go", "tools": [COMPUTER]}
        if stream:
            events = [event async for event in await client.responses.create(**body, stream=True)]
            assert events[-1].type == f"response.{status}"
            response = events[-1].response
        else:
            response = await client.responses.create(**body)
        assert response.status == status
        if status == "incomplete":
            assert response.incomplete_details is not None
            assert response.incomplete_details.reason == name
        else:
            assert response.error is not None
            assert response.error.to_dict()["type"] == name
            assert name in REFERENCE.split("## Failures")[1]
        assert w.body.token is None


@both
async def test_malformed_actions_are_the_models_to_mend(tmp_path: Path, stream: bool):
    """Nothing of the call runs; the model is told why and goes on."""
    answers = [[computer(call_id="c0")], [computer({"type": "click", "x": "left"})], [message("sorry")]]
    async with served(tmp_path, *answers, computer="body") as (w, client):
        response = await ask(client, stream=stream, tools=[COMPUTER])
        assert response.output_text == "sorry"
        assert [action.type for action in w.body.acted] == ["screenshot"]
        assert "actions[0]" in str(w.model.requests[-1]["input"])


async def test_cancelling(tmp_path: Path):
    """A background response that is cancelled stops the body, and says so."""
    async with served(tmp_path, [computer()], computer="body") as (w, client):
        w.body.slow = trio.Event()
        begun = await client.responses.create(model="m", input="go", tools=[COMPUTER], background=True)
        await w.body.waiting.wait()
        with trio.fail_after(10):
            cancelled = await client.responses.cancel(begun.id)
        assert cancelled.status == "cancelled"
        assert w.body.cancelled.is_set()
        assert w.body.token is None


@pytest.mark.parametrize(
    "heading", ["Register a handler", "Let the client execute", "Isolation", "Approvals", "The shell"]
)
def test_the_guide_explains(heading: str):
    """Registration, isolation, approvals and the client-executed fallback have a section each."""
    assert f"\n## {heading}\n" in GUIDE


def test_the_guide_tells_the_legacy_shell_apart():
    """Both are in one table: how they are declared, called and answered."""
    section = GUIDE.split("\n## The shell\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    assert ["local_shell" in row for row in rows].count(True) >= 4
    assert "unsupported_tool" in section
    assert '{"type": "shell", "environment": {"type": "local"}}' in section


EXAMPLES: list[tuple[Any, Json, Json]] = [
    (
        COMPUTER,
        {
            "type": "computer_call",
            "call_id": "call_001",
            "actions": [{"type": "screenshot"}],
            "status": "completed",
        },
        {
            "type": "computer_call_output",
            "call_id": "call_001",
            "output": {"type": "computer_screenshot", "image_url": PIXEL, "detail": "original"},
        },
    ),
    (
        LOCAL,
        {
            "type": "shell_call",
            "call_id": "call_001",
            "action": {
                "commands": ["find ~/Documents -name '*.pdf' -printf '%s %p\\n' | sort -nr | head -5"],
                "timeout_ms": 120000,
                "max_output_length": 4096,
            },
            "status": "in_progress",
        },
        {
            "type": "shell_call_output",
            "call_id": "call_001",
            "max_output_length": 4096,
            "output": [{"stdout": "...", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
        },
    ),
]
"""Declaration, call and output as the requests for both tools have them, without ids."""


@both
@pytest.mark.parametrize("owner", ["client", "body"])
@pytest.mark.parametrize(("tool", "call", "output"), EXAMPLES, ids=["computer", "shell"])
async def test_the_examples_shapes_to_the_letter(
    tmp_path: Path, stream: bool, owner: str, tool: Any, call: Json, output: Json
):
    """A server's call without an id is the client's, or is carried out; the pair is kept and sent on."""
    async with served(tmp_path, [call], [message("done")], computer=owner, shell=owner) as (w, client):
        response = await ask(client, stream=stream, tools=[tool])
        if owner == "client":
            (shown,) = response.output
            assert {name: dumped(shown)[name] for name in call} == call
            assert shown.id
            more: Any = [output]
            response = await ask(
                client, stream=stream, tools=[tool], input=more, previous_response_id=response.id
            )
        assert response.output_text == "done"
        sent = {item["type"]: item for item in w.model.requests[-1]["input"]}
        assert {name: sent[call["type"]][name] for name in call.keys() - {"status"}} == {
            name: call[name] for name in call.keys() - {"status"}
        }
        told = sent[output["type"]]
        assert told["call_id"] == "call_001"
        assert told.keys() >= output.keys()
        if owner == "client":
            assert {name: told[name] for name in output} == output
        assert w.executed == (owner == "body")


# -- the shell ------------------------------------------------------------------------------------------


@both
@anywhere
async def test_the_shell_round_trips(tmp_path: Path, stream: bool, upstream: Json):
    """Declaration, commands, limits and outcomes: to the client, into the store, back upstream."""
    action = {
        "commands": ["find . -name '*.pdf'", "exit 3"],
        "timeout_ms": 120_000,
        "max_output_length": 4096,
    }
    call = shell(*action["commands"], call_id="s1", timeout_ms=120_000, max_output_length=4096)
    answers = [calls(call, upstream=upstream), [message("five")]]
    async with served(tmp_path, *answers, upstream=upstream) as (w, client):
        first = await ask(client, stream=stream, tools=[LOCAL])
        w.adapter.gateway.runs.forget(first.id)
        for response in (first, await client.responses.retrieve(first.id)):
            assert dumped(response.tools[0]) == LOCAL
            (made,) = response.output
            assert made.type == "shell_call"
            assert dumped(made)["action"] == action
            assert dumped(made)["environment"] == {"type": "local"}
        chunks = [
            {"stdout": "a.pdf\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
            {"stdout": "", "stderr": "late", "outcome": {"type": "timeout"}},
        ]
        output: Any = {
            "type": "shell_call_output",
            "call_id": "s1",
            "max_output_length": 4096,
            "output": chunks,
        }
        second = await ask(
            client, stream=stream, tools=[LOCAL], input=[output], previous_response_id=first.id
        )
        assert second.output_text == "five"
        kept = [dumped(item) async for item in client.responses.input_items.list(second.id, order="asc")]
        assert {name: kept[2][name] for name in output} == output
        assert w.shell.ran == []


@both
@anywhere
async def test_a_configured_shell_completes_a_loop(tmp_path: Path, stream: bool, upstream: Json):
    """Two rounds of commands, a failure and a timeout among them, and a final answer."""
    rounds = [
        calls(shell("one", "two", call_id="s1"), upstream=upstream),
        calls(shell("three", call_id="s2"), upstream=upstream),
        [message("done")],
    ]
    async with served(tmp_path, *rounds, shell="body", upstream=upstream) as (w, client):
        w.shell.results = lambda command: {
            "one": ProcessResult("1\n", "", 0, timed_out=False, omitted_bytes=0),
            "two": ProcessResult("", "no\n", 2, timed_out=False, omitted_bytes=0),
            "three": ProcessResult("part", "", None, timed_out=True, omitted_bytes=9),
        }[command]
        response = await ask(client, stream=stream, tools=[LOCAL])
        assert response.output_text == "done"
        assert w.shell.ran == ["one", "two", "three"]
        told = str(w.model.requests[-1]["input"])
        assert "exit_code" in told
        assert "timeout" in told


@both
@pytest.mark.parametrize(
    "environment",
    [{"type": "container_auto"}, {"type": "local", "skills": [{"name": "s"}]}, {"type": "moon"}],
)
async def test_other_environments_are_never_local(tmp_path: Path, stream: bool, environment: Json):
    """Whatever is configured: kept as it came, its call the client's."""
    async with served(tmp_path, [shell("id")], shell="body") as (w, client):
        tool: Any = {"type": "shell", "environment": environment}
        response = await ask(client, stream=stream, tools=[tool])
        kept = await stored(w, response.id)
        assert kept["tools"] == [tool]
        assert kept["output"][0]["type"] == "shell_call"
        assert w.shell.ran == []


@both
async def test_a_shell_loop_ends(tmp_path: Path, stream: bool):
    """A model that never stops is stopped: incomplete, in OpenAI's words."""
    answers = [[shell("again", call_id=f"s{n}")] for n in range(9)]
    async with served(tmp_path, *answers, shell="body", max_rounds=3) as (w, client):
        response = await ask(client, stream=stream, tools=[LOCAL])
        assert response.status == "incomplete"
        assert len(w.shell.ran) == 3


def _arguments(call: Json) -> Json:
    found: Json = json.loads(call["arguments"])
    return found
