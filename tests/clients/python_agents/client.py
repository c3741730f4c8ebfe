"""openai-agents for Python: a ComputerTool whose AsyncComputer is the body, a ShellTool, all ways to go on.

The mode has words of: stream, previous, conversation, session, websocket, checked, previewed. The argument
and the last line of the output are those of tests/clients/world.py.
"""

import asyncio
import json
import sys

told = json.loads(sys.argv[1])
sys.path += [told["root"], f"{told['root']}/tests/clients"]

from agents import (  # noqa: E402
    Agent,
    AsyncComputer,
    ComputerTool,
    OpenAIResponsesModel,
    OpenAIResponsesWSModel,
    Runner,
    ShellCallOutcome,
    ShellCommandOutput,
    ShellResult,
    ShellTool,
    SQLiteSession,
    set_tracing_disabled,
)
from desk import Desk  # noqa: E402
from openai import AsyncOpenAI  # noqa: E402

desk = Desk(**told["body"])


class Body(AsyncComputer):
    environment = "ubuntu"
    dimensions = (1280, 800)

    async def _act(self, kind, **fields):
        plain = {name: value for name, value in fields.items() if value is not None}
        return await asyncio.to_thread(desk.act, [{"type": kind, **plain}])

    async def screenshot(self):
        return await self._act("screenshot")

    async def click(self, x, y, button, *, keys=None):
        await self._act("click", x=x, y=y, button=button, keys=keys)

    async def double_click(self, x, y, *, keys=None):
        await self._act("double_click", x=x, y=y, keys=keys)

    async def scroll(self, x, y, scroll_x, scroll_y, *, keys=None):
        await self._act("scroll", x=x, y=y, scroll_x=scroll_x, scroll_y=scroll_y, keys=keys)

    async def type(self, text):
        await self._act("type", text=text)

    async def wait(self):
        await self._act("wait")

    async def move(self, x, y, *, keys=None):
        await self._act("move", x=x, y=y, keys=keys)

    async def keypress(self, keys):
        await self._act("keypress", keys=keys)

    async def drag(self, path, *, keys=None):
        await self._act("drag", path=[{"x": x, "y": y} for x, y in path], keys=keys)


async def shell(request):
    done = [await asyncio.to_thread(desk.run, command) for command in request.data.action.commands]
    return ShellResult(
        [
            ShellCommandOutput(
                one["stdout"], one["stderr"], ShellCallOutcome("exit", one["outcome"]["exit_code"])
            )
            for one in done
        ]
    )


async def main(mode):
    set_tracing_disabled(True)
    allow = (lambda data: True) if "checked" in mode else None
    client = AsyncOpenAI(base_url=told["base_url"], api_key=told["key"], default_headers=told["headers"])
    kind = OpenAIResponsesWSModel if "websocket" in mode else OpenAIResponsesModel
    agent = Agent(
        name="tester",
        instructions="Use the desktop.",
        model=kind("computer-use-preview" if "previewed" in mode else "body-1", client),
        tools=[ComputerTool(Body(), on_safety_check=allow), ShellTool(executor=shell)],
    )
    how = {"max_turns": 30}
    if "previous" in mode:
        how["auto_previous_response_id"] = True
    if "conversation" in mode:
        how["conversation_id"] = (await client.conversations.create()).id
    if "session" in mode:
        how["session"] = SQLiteSession("one")
    if "stream" in mode:
        result = Runner.run_streamed(agent, told["task"], **how)
        async for _ in result.stream_events():
            pass
    else:
        result = await Runner.run(agent, told["task"], **how)
    thanked = await Runner.run(agent, "Thank you.", **how) if "session" in mode else None
    shown = [item.raw_item.type for item in result.new_items if hasattr(item.raw_item, "type")]
    await asyncio.to_thread(desk.close)
    told_back = thanked and thanked.final_output
    print(
        json.dumps(
            {"final": result.final_output, "executed": desk.executed, "shown": shown, "thanked": told_back}
        )
    )


asyncio.run(main(told["mode"].split()))
