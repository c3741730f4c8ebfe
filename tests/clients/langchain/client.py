"""LangChain's ChatOpenAI over the Responses API, with the computer tool: it executes what it is shown.

Arguments: base URL, key, and a mode (ignored).
"""

import json
import sys

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQ"
    "AAAABJRU5ErkJggg=="
)
executed = []


def main(base_url, key, mode):
    model = ChatOpenAI(model="body-1", base_url=base_url, api_key=key, use_responses_api=True)
    model = model.bind_tools([{"type": "computer"}])
    messages = [HumanMessage("go")]
    for _ in range(10):
        answer = model.invoke(messages)
        messages.append(answer)
        calls = [
            block
            for block in answer.content
            if isinstance(block, dict) and block.get("type") == "computer_call"
        ]
        if not calls:
            break
        for call in calls:
            executed.extend(action["type"] for action in call["actions"])
            picture = {"type": "input_image", "image_url": PIXEL, "detail": "original"}
            kind = {"type": "computer_call_output"}
            messages.append(ToolMessage([picture], tool_call_id=call["call_id"], additional_kwargs=kind))
    print(
        json.dumps(
            {"final": answer.text if isinstance(answer.text, str) else answer.text(), "executed": executed}
        )
    )


main(*sys.argv[1:4])
