"""A client of a gateway that carries out the calls itself: one request, and every call that was made for it.

    python examples/responses/watched.py "Show the filters, then type penguin in the search box."

Needs a daemon with `gateway.computer = "body"`, OPENAI_BASE_URL (such as http://127.0.0.1:7310/v1) and
OPENAI_API_KEY (`bodyd token driver`). Nothing is executed on the machine that this runs on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from openai import OpenAI


def run(client: OpenAI, task: str, report: Callable[[str], None] = print, model: str = "gpt-5.6") -> str:
    """Let *model* do *task* on the gateway's body; `report` is told each call as it is made."""
    stream = client.responses.create(
        model=model,
        tools=[{"type": "computer"}, {"type": "shell", "environment": {"type": "local"}}],
        input=task,
        stream=True,
        extra_headers={"bodyd-items": "pairs"},  # without it, what was carried out is not shown
    )
    text = ""
    for event in stream:
        if event.type == "response.output_item.done" and event.item.type == "computer_call":
            report("computer  " + ", ".join(action.type for action in event.item.actions or ()))
        elif event.type == "response.output_item.done" and event.item.type == "shell_call":
            report("shell     " + "; ".join(event.item.action.commands))
        elif event.type == "response.completed":
            text = event.response.output_text
        elif event.type in ("response.failed", "response.incomplete"):
            report(f"{event.response.status}: {event.response.error or event.response.incomplete_details}")
    return text


if __name__ == "__main__":
    print(run(OpenAI(), sys.argv[1] if len(sys.argv) > 1 else "Say what the screen shows."))
