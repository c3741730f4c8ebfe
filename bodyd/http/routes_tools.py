"""`/v1/tools`: what runs for a model beside its desktop, and the function-tool schemas to offer it.

A tool is here if it is configured: then its schema is listed, and its route answers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from quart import Response, request

from bodyd.contract.code import MAX_UI_CALLS, CodeRequest
from bodyd.contract.lease import Scope
from bodyd.contract.ports import CodeItem, CodeOutcome, ProcessChunk, ProcessPort, ProcessResult
from bodyd.contract.shell import WORKSPACE, ShellRequest
from bodyd.errors import Unavailable

from .call_stream import event, streamed
from .routes_jobs import outcome, started
from .routing import Api
from .services import Services, caller, lease_token, read_model, reply, services

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
        """Run code; the answer's `output` is the content of a function call's output. Or events."""
        port = services().code
        if port is None:
            raise Unavailable("the code tool is off here ([code] enabled)")
        wanted = await read_model(CodeRequest)
        if _streamed(wanted.stream):
            opened = port.stream(wanted, caller=caller(), lease_token=lease_token())
            return await streamed(opened, _code_frame)
        outcome = await port.run(wanted, caller=caller(), lease_token=lease_token())
        return reply(outcome.to_json())


def _streamed(asked: bool | None) -> bool:
    return bool(asked) or request.headers.get("accept") == "text/event-stream"


def _code_frame(one: CodeItem | CodeOutcome) -> bytes:
    """A piece of output, or, last, the outcome, whose output was told already."""
    if not isinstance(one, CodeItem):
        return event("done", {k: v for k, v in one.to_json().items() if k != "output"})
    return event(one.kind, {"text" if one.kind == "text" else "image_url": one.value})


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
        if _streamed(wanted.stream):
            return await streamed(opened, _shell_frame, end=event("done", {}))
        output = []
        async with opened as happenings:
            async for one in happenings:
                if isinstance(one, ProcessResult):
                    output.append(outcome(one))
        return reply({"output": output, "max_output_length": wanted.max_output_length})


def _open(
    port: ProcessPort, wanted: ShellRequest
) -> AbstractAsyncContextManager[AsyncIterator[ProcessChunk | ProcessResult]]:
    return port.run(
        wanted.commands,
        lease_token=lease_token(),
        timeout_ms=wanted.timeout_ms,
        max_output_length=wanted.max_output_length,
        concurrent=wanted.concurrent,
        working_directory=wanted.working_directory,
        epoch=wanted.epoch,
    )


def _shell_frame(one: ProcessChunk | ProcessResult) -> bytes:
    if isinstance(one, ProcessChunk):
        return event("chunk", {"command": one.command, "stream": one.stream, "text": one.text})
    return event("result", {"command": one.command, **outcome(one)})
