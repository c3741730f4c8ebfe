"""A client that carries out computer calls itself: start, act, return the screenshot, until it is done.

    python examples/responses/computer.py "Check whether the Filters panel is open."

Needs OPENAI_BASE_URL (such as http://127.0.0.1:7310/v1) and OPENAI_API_KEY (`bodyd token driver`).
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable
from typing import Any

from openai import OpenAI

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
)


def run(client: OpenAI, task: str, act: Callable[[Any], bytes], model: str = "gpt-5.6") -> str:
    """Let *model* do *task*; `act(actions)` carries out a batch and returns a PNG of the screen after it."""
    response = client.responses.create(model=model, tools=[{"type": "computer"}], input=task)
    while calls := [item for item in response.output if item.type == "computer_call"]:
        outputs: Any = []
        for call in calls:
            screenshot_base64 = base64.b64encode(act(call.actions)).decode()
            outputs.append(
                {
                    "type": "computer_call_output",
                    "call_id": call.call_id,
                    "output": {
                        "type": "computer_screenshot",
                        "image_url": f"data:image/png;base64,{screenshot_base64}",
                        "detail": "original",
                    },
                }
            )
        response = client.responses.create(
            model=model,
            tools=[{"type": "computer"}],
            previous_response_id=response.id,
            input=outputs,
        )
    return response.output_text


def only_tell(actions: list[Any]) -> bytes:
    """Stands for your browser or VM: it says what it would do, and shows one grey pixel."""
    for action in actions:
        print("would", action.to_dict())
    return PIXEL


if __name__ == "__main__":
    print(run(OpenAI(), sys.argv[1] if len(sys.argv) > 1 else "Look at the screen.", only_tell))
