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

from bodyd.contract.lease import Scope
from bodyd.contract.ports import ProcessChunk, ProcessPort, ProcessResult
from bodyd.contract.shell import WORKSPACE, ShellRequest
from bodyd.errors import BodydError, Unavailable

from .listener import CLOSERS
from .routing import Api
from .services import Services, connection_state, lease_token, read_model, reply, services

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

TOOLS: tuple[tuple[Callable[[Services], object], Mapping[str, Any]], ...] = (
    (lambda provided: provided.processes, SHELL),
)
"""Each tool: what it needs to be there, and its schema."""


def add(api: Api) -> None:
    @api.get("/v1/tools", Scope.VIEWER)
    async def tools() -> Response:
        """The schemas of what is configured, as the `tools` of a provider's request."""
        provided = services()
        return reply({"tools": [schema for there, schema in TOOLS if there(provided) is not None]})

    _add_shell(api)


def _add_shell(api: Api) -> None:
    @api.post("/v1/tools/shell", Scope.DRIVER)
    async def shell() -> Response:
        """Run commands; as server-sent events with `stream`, or where the client accepts only those."""
        port = services().processes
        if port is None:
            raise Unavailable("no shell is configured here ([shell] enabled, and a policy)")
        wanted = await read_model(ShellRequest)
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


def outcome(result: ProcessResult) -> dict[str, Any]:
    """One entry of a `shell_call_output`, with what was omitted beside it."""
    end = {"type": "timeout"} if result.timed_out else {"type": "exit", "exit_code": result.exit_code}
    return {
        "stdout": result.stdout,
        "stderr": result.stderr,
        "outcome": end,
        "omitted_bytes": result.omitted_bytes,
    }


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
