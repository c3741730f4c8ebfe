"""LangChain's ChatOpenAI over the Responses API: it carries out the computer calls that it is shown.

The mode has words of: stream, previous. The argument and the last line of the output are those of
tests/clients/world.py.
"""

import json
import sys

told = json.loads(sys.argv[1])
sys.path += [told["root"], f"{told['root']}/tests/clients"]

from desk import Desk  # noqa: E402
from langchain_core.messages import HumanMessage, ToolMessage  # noqa: E402
from langchain_openai import ChatOpenAI  # noqa: E402

desk = Desk(**told["body"])
shown = []
model = ChatOpenAI(
    model="body-1",
    base_url=told["base_url"],
    api_key=told["key"],
    default_headers=told["headers"],
    use_responses_api=True,
    use_previous_response_id="previous" in told["mode"],
).bind_tools([{"type": "computer"}])


def ask(messages):
    if "stream" not in told["mode"]:
        return model.invoke(messages)
    whole = None
    for chunk in model.stream(messages):
        whole = chunk if whole is None else whole + chunk
    return whole


def carried_out(call):
    picture = {"type": "input_image", "image_url": f"data:image/png;base64,{desk.act(call['actions'])}"}
    kind = {"type": "computer_call_output"}
    return ToolMessage([picture], tool_call_id=call["call_id"], additional_kwargs=kind)


messages = [HumanMessage(told["task"])]
while True:
    answer = ask(messages)
    messages.append(answer)
    blocks = [block for block in answer.content if isinstance(block, dict)]
    shown += [block["type"] for block in blocks]
    calls = [block for block in blocks if block["type"] == "computer_call"]
    if not calls:
        break
    messages += [carried_out(call) for call in calls]
desk.close()
print(json.dumps({"final": answer.text, "executed": desk.executed, "shown": shown}))
