"""A gateway over a body in memory, a model that is a list of answers, and a shell that starts nothing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio
from bodyd_adapters.responses import ResponsesAdapter, lifecycle, open_gateway

from bodyd.contract.adapters import AdapterContext, HttpReply, HttpRequest
from bodyd.contract.gateway import GatewaySettings
from bodyd.contract.lease import Scope
from bodyd.contract.ports import ApprovalPort, Caller, ProcessChunk, ProcessResult
from bodyd.journal.documents import Documents, open_documents
from tests.http.fake_body import FakeBody

Json = dict[str, Any]
DRIVER = Caller("caller_1", Scope.DRIVER)
OTHER = Caller("caller_2", Scope.DRIVER)
OWNER = Caller("caller_0", Scope.OWNER)
PIXEL = "data:image/png;base64,iVBORw0KGgo="


def message(text: str, **extra: Any) -> Json:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    whole = {"type": "message", "role": "assistant", "status": "completed", "content": [part]}
    return {**whole, "id": f"msg_{text[:12].replace(' ', '_')}", **extra}


def computer(*actions: Json, call_id: str = "call_c", **extra: Any) -> Json:
    listed = list(actions) or [{"type": "screenshot"}]
    return {
        "type": "computer_call",
        "id": f"cu_{call_id}",
        "call_id": call_id,
        "status": "completed",
        "pending_safety_checks": [],
        "actions": listed,
        **extra,
    }


def shell(*commands: str, call_id: str = "call_s", **action: Any) -> Json:
    return {
        "type": "shell_call",
        "id": f"sh_{call_id}",
        "call_id": call_id,
        "status": "completed",
        "action": {"commands": list(commands), "timeout_ms": None, "max_output_length": None, **action},
        "environment": {"type": "local"},
    }


def function(name: str, arguments: Json | str, call_id: str = "call_f") -> Json:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {
        "type": "function_call",
        "id": f"fc_{call_id}",
        "call_id": call_id,
        "name": name,
        "arguments": text,
        "status": "completed",
    }


class Model:
    """Answers in turn with the given outputs; remembers what it was sent.

    An answer is a list of items, an Exception to raise, an Event to wait for before the next answer, or a
    whole Response object.
    """

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[Json] = []
        self.waiting = trio.Event()
        self.cancelled = 0

    async def respond(self, request: Mapping[str, Any]) -> Json:
        self.requests.append(json.loads(json.dumps(request)))
        while True:
            await trio.lowlevel.checkpoint()
            answer = self.answers.pop(0)
            if not isinstance(answer, trio.Event):
                break
            self.waiting.set()
            try:
                await answer.wait()
            except trio.Cancelled:
                self.cancelled += 1
                raise
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, dict):
            return answer
        usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
        return {"id": "up", "status": "completed", "output": list(answer), "usage": usage}

    @asynccontextmanager
    async def stream(self, request: Mapping[str, Any]) -> AsyncIterator[AsyncIterator[Json]]:
        response = await self.respond(request)
        events: list[Json] = [{"type": "response.created", "response": {**response, "output": []}}]
        for index, item in enumerate(response["output"]):
            events += lifecycle.events(item, index) if "id" in item else ()  # such come in the end alone
        yield Listed([*events, {"type": f"response.{response['status']}", "response": response}])


class Listed:
    """What is known beforehand, one at a time."""

    def __init__(self, things: Iterable[Any]) -> None:
        self._things = iter(things)

    def __aiter__(self) -> Listed:
        return self

    async def __anext__(self) -> Any:
        await trio.lowlevel.checkpoint()
        for thing in self._things:
            return thing
        raise StopAsyncIteration


class Shell:
    """Prints what it is asked to, runs nothing; `hang` waits until it is cancelled."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.waiting = trio.Event()
        self.cancelled = 0
        self.results: Callable[[str], ProcessResult] = lambda command: ProcessResult(
            f"out:{command}\n", "", 0, timed_out=False, omitted_bytes=0
        )

    @asynccontextmanager
    async def run(
        self,
        commands: Sequence[str],
        *,
        lease_token: str,
        timeout_ms: int | None,
        max_output_length: int | None,
        concurrent: bool = False,
        working_directory: str | None = None,
        epoch: int | None = None,
    ) -> AsyncIterator[AsyncIterator[ProcessChunk | ProcessResult]]:
        try:
            yield Output(self, commands)
        except trio.Cancelled:
            self.cancelled += 1
            raise


class Output:
    def __init__(self, shell: Shell, commands: Sequence[str]) -> None:
        self._shell = shell
        self._left = list(enumerate(commands))
        self._result: ProcessResult | None = None

    def __aiter__(self) -> Output:
        return self

    async def __anext__(self) -> ProcessChunk | ProcessResult:
        await trio.lowlevel.checkpoint()
        if self._result is not None:
            result, self._result = self._result, None
            return result
        if not self._left:
            raise StopAsyncIteration
        number, command = self._left[0]
        if command == "hang" and command in self._shell.ran[-1:]:
            self._shell.waiting.set()
            await trio.sleep_forever()
        self._shell.ran.append(command)
        if command == "hang":
            return ProcessChunk(number, "stdout", "begun\n")
        self._left.pop(0)
        self._result = self._shell.results(command)
        return ProcessChunk(number, "stdout", self._result.stdout)


@dataclass
class World:
    adapter: ResponsesAdapter
    model: Model
    body: FakeBody
    shell: Shell
    store: Documents
    caller: Caller = DRIVER
    headers: dict[str, str] = field(default_factory=dict)

    async def call(
        self, method: str, path: str, body: Any = None, *, caller: Caller | None = None, **headers: str
    ) -> HttpReply:
        """Reach a route as the app would."""
        bare, _, query = path.partition("?")
        for route in self.adapter.routes:
            params = _match(route.path, bare)
            if route.method == method and params is not None:
                raw = b"" if body is None else json.dumps(body).encode()
                sent = {**self.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
                request = HttpRequest(method, bare, params, _query(query), sent, raw, caller or self.caller)
                return await route.handler(request)
        raise AssertionError(f"no route {method} {path}")

    async def ask(self, path: str = "/v1/responses", body: Any = None, **more: Any) -> Json:
        """POST, and the JSON that is answered."""
        return json.loads((await self.call("POST", path, body, **more)).body)

    async def get(self, path: str, **more: Any) -> Json:
        return json.loads((await self.call("GET", path, **more)).body)

    async def create(
        self, *tools: Any, input: Any = "go", headers: Mapping[str, str] | None = None, **body: Any
    ):
        made = {"model": "m", "input": input, "tools": [_tool(tool) for tool in tools], **body}
        return await self.ask(body=made, **dict(headers or {}))

    async def stream(
        self, *tools: Any, input: Any = "go", headers: Mapping[str, str] | None = None, **body: Any
    ) -> list[Json]:
        """All events of a streamed response."""
        made = {
            "model": "m",
            "input": input,
            "tools": [_tool(tool) for tool in tools],
            "stream": True,
            **body,
        }
        reply = await self.call("POST", "/v1/responses", made, **dict(headers or {}))
        return await read(reply)

    @property
    def executed(self) -> int:
        """How many inputs reached the body, and commands the shell."""
        return len(self.body.acted) + len(self.shell.ran)


async def read(reply: HttpReply) -> list[Json]:
    """The events of a stream, which must end as streams end."""
    assert reply.stream is not None
    raw = b"".join([chunk async for chunk in reply.stream])
    frames = raw.decode().split("\n\n")
    assert frames[-2:] == ["data: [DONE]", ""]
    events = []
    for frame in frames[:-2]:
        if frame.startswith(":"):
            continue
        kind, data = frame.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert kind == f"event: {event['type']}"
        events.append(event)
    return events


@asynccontextmanager
async def world(
    folder: Path, *answers: Any, approvals: ApprovalPort | None = None, process: bool = True, **settings: Any
) -> AsyncIterator[World]:
    model, body, shell_port = Model(*answers), FakeBody(), Shell()
    upstream = {"kind": "scripted", "native_tools": ["computer", "shell"], **settings.pop("upstream", {})}
    async with open_documents(folder, now_ms=lambda: 1_700_000_000_000) as store:
        context = AdapterContext(
            body=body,
            store=store,
            settings=GatewaySettings.model_validate({**settings, "upstream": upstream}),
            now_ms=lambda: 1_700_000_000_000,
            process=shell_port if process else None,
            approvals=approvals,
            upstreams=lambda name: model,
        )
        async with open_gateway(context) as adapter:
            yield World(adapter, model, body, shell_port, store)


LOWERED = {"native_tools": ["none"]}
"""An upstream that has functions alone."""


def _tool(tool: Any) -> Json:
    return {"type": tool} if isinstance(tool, str) else tool


def _match(pattern: str, path: str) -> dict[str, str] | None:
    wanted, given = pattern.split("/"), path.split("/")
    if len(wanted) != len(given):
        return None
    params = {}
    for want, have in zip(wanted, given, strict=True):
        if want.startswith("{"):
            params[want[1:-1]] = have
        elif want != have:
            return None
    return params


def _query(text: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for pair in filter(None, text.split("&")):
        name, _, value = pair.partition("=")
        found[name] = (*found.get(name, ()), value)
    return found
