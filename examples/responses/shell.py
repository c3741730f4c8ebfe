"""A client that carries out shell calls itself, after asking: each command is shown, and run only on a yes.

    python examples/responses/shell.py "Find the five largest PDF files in ~/Documents."

Needs OPENAI_BASE_URL (such as http://127.0.0.1:7310/v1) and OPENAI_API_KEY (`bodyd token driver`).
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

from openai import OpenAI

TOOLS: Any = [{"type": "shell", "environment": {"type": "local"}}]


def run(client: OpenAI, task: str, allowed: Callable[[str], bool], model: str = "gpt-5.6") -> str:
    """Let *model* do *task*; a command runs on this machine if `allowed(command)` says so."""
    response = client.responses.create(
        model=model,
        instructions="The local bash shell environment is on Linux.",
        input=task,
        tools=TOOLS,
    )
    while calls := [item for item in response.output if item.type == "shell_call"]:
        outputs: Any = []
        for call in calls:
            limit = (call.action.timeout_ms or 60_000) / 1000
            output: dict[str, Any] = {
                "type": "shell_call_output",
                "call_id": call.call_id,
                "output": [execute(command, limit, allowed) for command in call.action.commands],
            }
            if call.action.max_output_length is not None:
                output["max_output_length"] = call.action.max_output_length
            outputs.append(output)
        response = client.responses.create(
            model=model, tools=TOOLS, previous_response_id=response.id, input=outputs
        )
    return response.output_text


def execute(command: str, seconds: float, allowed: Callable[[str], bool]) -> dict[str, Any]:
    """One command's stdout, stderr and outcome."""
    if not allowed(command):
        return {"stdout": "", "stderr": "refused", "outcome": {"type": "exit", "exit_code": 1}}
    try:
        done = subprocess.run(
            ["bash", "-c", command], capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return {"stdout": "", "stderr": "", "outcome": {"type": "timeout"}}
    outcome = {"type": "exit", "exit_code": done.returncode}
    return {"stdout": done.stdout, "stderr": done.stderr, "outcome": outcome}


def ask(command: str) -> bool:
    return input(f"run {command!r}? [y/N] ").strip().lower() == "y"


if __name__ == "__main__":
    print(run(OpenAI(), sys.argv[1] if len(sys.argv) > 1 else "Say what system this is.", ask))
