"""openai-agents with a ComputerTool and a ShellTool: prints what it ended with and what it executed itself.

Arguments: base URL, key, and a mode: words of plain, stream, previous, conversation.
"""

import asyncio
import json
import sys

from agents import (
    Agent,
    AsyncComputer,
    ComputerTool,
    OpenAIResponsesModel,
    Runner,
    ShellTool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
executed = []


class Screen(AsyncComputer):
    environment = "ubuntu"
    dimensions = (64, 48)

    async def screenshot(self):
        executed.append("screenshot")
        return PIXEL

    async def click(self, x, y, button, keys=None):
        executed.append("click")

    async def double_click(self, x, y, keys=None):
        executed.append("double_click")

    async def scroll(self, x, y, scroll_x, scroll_y, keys=None):
        executed.append("scroll")

    async def type(self, text):
        executed.append("type")

    async def wait(self):
        executed.append("wait")

    async def move(self, x, y, keys=None):
        executed.append("move")

    async def keypress(self, keys):
        executed.append("keypress")

    async def drag(self, path, keys=None):
        executed.append("drag")


async def shell(request):
    executed.extend(request.data.action.commands)
    return "printed"


async def main(base_url, key, mode):
    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=base_url, api_key=key)
    agent = Agent(
        name="tester",
        instructions="Use the desktop.",
        model=OpenAIResponsesModel("body-1", client),
        tools=[ComputerTool(Screen()), ShellTool(executor=shell)],
    )
    how = {}
    if "previous" in mode:
        how["auto_previous_response_id"] = True
    if "conversation" in mode:
        how["conversation_id"] = (await client.conversations.create()).id
    if "stream" in mode:
        result = Runner.run_streamed(agent, "go", **how)
        async for _ in result.stream_events():
            pass
    else:
        result = await Runner.run(agent, "go", **how)
    print(json.dumps({"final": result.final_output, "executed": executed}))


asyncio.run(main(*sys.argv[1:4]))
