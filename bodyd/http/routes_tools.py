"""`/v1/tools`: what runs for a model beside its desktop, and the function-tool schemas to offer it.

A tool is here if it is configured: then its schema is listed, and its route answers.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

import trio
from quart import Response, request

from bodyd.contract.code import MAX_UI_CALLS, CodeRequest
from bodyd.contract.lease import Scope
from bodyd.contract.ports import ProcessChunk, ProcessPort, ProcessResult
from bodyd.contract.shell import WORKSPACE, ShellRequest
from bodyd.errors import BodydError, Unavailable

from .listener import CLOSERS
from .routes_jobs import outcome, started
from .routing import Api
from .services import Services, caller, connection_state, lease_token, read_model, reply, services

KEEP_ALIVE_SECONDS = 15.0
LEAVE_SECONDS = 10.0
"""The shell bounds its own end by less."""

Happenings = AsyncIterator[ProcessChunk | ProcessResult]

SHELL: Mapping[str, Any] = {
    "type": "function",
    "name": "shell",
    "description": (
        f"Run shell commands (bash) beside the desktop, in a sandbox of their own without a terminal or the "
        f"screen. The working folder {WORKSPACE} is kept between calls; nothing keeps running after one. "
        "Returns stdout, stderr and the outcome of each command."
    ),
    "parameters": {
        "type": "object",
        "properties": {
            "commands": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Commands, run in order; each is one command line or script.",
            },
            "timeout_ms": {
                "type": ["integer", "null"],
                "description": "Time limit for each command; null for the default.",
            },
            "max_output_length": {
                "type": ["integer", "null"],
                "description": "Characters of output to keep of each command; null for the default.",
            },
        },
        "required": ["commands", "timeout_ms", "max_output_length"],
        "additionalProperties": False,
    },
    "strict": True,
}

EXEC_PY: Mapping[str, Any] = {
    "type": "function",
    "name": "exec_py",
    "description": (
        "Run Python in a process that lives on between calls, to look at the desktop and act on it. "
        "`ui` has screenshot(), click(x, y), double_click, triple_click, move, drag(points), "
        "scroll(x, y, scroll_y=300), type(text), paste(text), key('CTRL', 's'), hold(keys, seconds), "
        "wait(seconds), settle(), windows(), activate(id), close(id), launch(name), clipboard(), "
        "set_clipboard(text), size(), position(); `pyautogui` is there, too. Coordinates are those of the "
        "latest screenshot. display(image) shows you a picture, log(text) and print tell you text; the "
        "value of a last expression is printed. PIL and numpy can be imported. No network, no programs, "
        f"no files of the desktop; at most {MAX_UI_CALLS} ui calls "
        "and 60 seconds a call."
    ),
    "parameters": {
        "type": "object",
        "properties": {
            "code": {"type": "string", "description": "Python source."},
            "reset": {
                "type": ["boolean", "null"],
                "description": "Begin with a fresh process: names of earlier calls are gone.",
            },
        },
        "required": ["code", "reset"],
        "additionalProperties": False,
    },
    "strict": True,
}

TOOLS: tuple[tuple[Callable[[Services], object], Mapping[str, Any]], ...] = (
    (lambda provided: provided.processes, SHELL),
    (lambda provided: provided.code, EXEC_PY),
)
"""Each tool: what it needs to be there, and its schema."""


def add(api: Api) -> None:
    @api.get("/v1/tools", Scope.VIEWER)
    async def tools() -> Response:
        """The schemas of what is configured, as the `tools` of a provider's request."""
        provided = services()
        return reply({"tools": [schema for there, schema in TOOLS if there(provided) is not None]})

    _add_shell(api)
    _add_code(api)


def _add_code(api: Api) -> None:
    @api.post("/v1/tools/exec_py", Scope.DRIVER)
    async def exec_py() -> Response:
        """Run code; the answer's `output` is the content of a function call's output."""
        port = services().code
        if port is None:
            raise Unavailable("the code tool is off here ([code] enabled)")
        wanted = await read_model(CodeRequest)
        outcome = await port.run(wanted, caller=caller(), lease_token=lease_token())
        return reply(outcome.to_json())


def _add_shell(api: Api) -> None:
    @api.post("/v1/tools/shell", Scope.DRIVER)
    async def shell() -> Response:
        """Run commands; as server-sent events with `stream`, or where the client accepts only those."""
        port = services().processes
        if port is None:
            raise Unavailable("no shell is configured here ([shell] enabled, and a policy)")
        wanted = await read_model(ShellRequest)
        if wanted.background:
            return await started(wanted)
        opened = _open(port, wanted)
        if wanted.stream or request.headers.get("accept") == "text/event-stream":
            closers: set[Callable[[], None]] = connection_state().get(CLOSERS, set())
            stream = ShellStream(closers)
            await stream.open(opened)  # what is refused is refused with a status
            return Response(stream, content_type="text/event-stream")
        output = []
        async with opened as happenings:
            async for one in happenings:
                if isinstance(one, ProcessResult):
                    output.append(outcome(one))
        return reply({"output": output, "max_output_length": wanted.max_output_length})


def _open(port: ProcessPort, wanted: ShellRequest) -> AbstractAsyncContextManager[Happenings]:
    return port.run(
        wanted.commands,
        lease_token=lease_token(),
        timeout_ms=wanted.timeout_ms,
        max_output_length=wanted.max_output_length,
        concurrent=wanted.concurrent,
        working_directory=wanted.working_directory,
        epoch=wanted.epoch,
    )


class ShellStream:
    """A call as frames: chunks, results, then `done` or `error`. Dropped anywhere, the call is killed.

    An iterator and not a generator: no scope is open between two frames.
    """

    def __init__(self, closers: set[Callable[[], None]]) -> None:
        self._closers = closers
        self._stack = AsyncExitStack()
        self._happenings: Happenings | None = None
        self._waiting: trio.CancelScope | None = None
        self._over = False

    async def open(self, opened: AbstractAsyncContextManager[Happenings]) -> None:
        """Begin; raises what the call is refused with."""
        self._happenings = await self._stack.enter_async_context(opened)
        self._closers.add(self._close)

    def __aiter__(self) -> ShellStream:
        return self

    async def __anext__(self) -> bytes:
        if self._over or self._happenings is None:
            raise StopAsyncIteration
        with trio.CancelScope() as self._waiting:
            try:
                with trio.move_on_after(KEEP_ALIVE_SECONDS):
                    return frame(await anext(self._happenings))
                return b": still here\n\n"
            except StopAsyncIteration:
                self._over = True
                return _event("done", {})
            except BodydError as exc:
                self._over = True
                return _event("error", exc.to_json())
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """End the call, also when the request was cancelled."""
        self._closers.discard(self._close)
        with trio.move_on_after(LEAVE_SECONDS, shield=True):
            await self._stack.aclose()

    def _close(self) -> None:
        self._over = True
        if self._waiting is not None:
            self._waiting.cancel(reason="the server is shutting down")


def frame(one: ProcessChunk | ProcessResult) -> bytes:
    if isinstance(one, ProcessChunk):
        return _event("chunk", {"command": one.command, "stream": one.stream, "text": one.text})
    return _event("result", {"command": one.command, **outcome(one)})


def _event(name: str, data: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()
