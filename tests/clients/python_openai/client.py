"""The openai package for Python: its loops, written as its users write them, and its own.

The mode is one of LOOPS. The argument and the last line of the output are those of tests/clients/world.py.
"""

import asyncio
import json
import sys

told = json.loads(sys.argv[1])
sys.path += [told["root"], f"{told['root']}/tests/clients"]

from desk import Desk, picture  # noqa: E402
from openai import AsyncOpenAI, OpenAI  # noqa: E402
from openai.lib.computer import ComputerToolset  # noqa: E402
from openai.lib.responses_websocket import ResponsesWebSocketLimits, ResponsesWebSocketSession  # noqa: E402

CALLS = ("computer_call", "shell_call")
desk = Desk(**told["body"])
shown = []
made = {"base_url": told["base_url"], "api_key": told["key"], "default_headers": told["headers"]}
asking = {
    "model": "body-1",
    "tools": [{"type": "computer"}, {"type": "shell", "environment": {"type": "local"}}],
}


def answers(response):
    shown.extend(item.type for item in response.output)
    return [desk.answer(item) for item in response.output if item.type in CALLS]


def unanswered(response):
    """Calls that have their output beside them are not for us."""
    theirs = {item.call_id for item in response.output if item.type.endswith("_call_output")}
    shown.extend(item.type for item in response.output)
    return [
        desk.answer(item) for item in response.output if item.type in CALLS and item.call_id not in theirs
    ]


def sync():
    client = OpenAI(**made)
    response = client.responses.create(**asking, input=told["task"])
    while outputs := answers(response):
        response = client.responses.create(**asking, input=outputs, previous_response_id=response.id)
    return response


def pairs():
    client = OpenAI(**made)
    response = client.responses.create(**asking, input=told["task"])
    while outputs := unanswered(response):
        response = client.responses.create(**asking, input=outputs, previous_response_id=response.id)
    return response


def replay():
    """The history is the client's: nothing is stored, all of it is sent each time."""
    client, items = OpenAI(**made), [{"role": "user", "content": told["task"]}]
    while True:
        response = client.responses.create(**asking, input=items, store=False)
        items += response.output
        outputs = answers(response)
        if not outputs:
            return response
        items += outputs


def conversation():
    client = OpenAI(**made)
    where = client.conversations.create()
    response = client.responses.create(**asking, input=told["task"], conversation=where.id)
    while outputs := answers(response):
        response = client.responses.create(**asking, input=outputs, conversation=where.id)
    return response


def background():
    client = OpenAI(**made)

    def done(response):
        while response.status in ("queued", "in_progress"):
            response = client.responses.retrieve(response.id)
        return response

    response = done(client.responses.create(**asking, input=told["task"], background=True))
    while outputs := answers(response):
        more = {"input": outputs, "previous_response_id": response.id, "background": True}
        response = done(client.responses.create(**asking, **more))
    return response


def reread():
    """A background response, read through its stream: begun, left after three events, and read on."""
    client = OpenAI(**made)

    def last(**more):
        begun = client.responses.create(**asking, **more, background=True, stream=True)
        for event in begun:
            if event.sequence_number == 2:
                break
        begun.close()
        with client.responses.stream(response_id=event.response.id, starting_after=2) as stream:
            for event in stream:
                kinds.add(event.type)
            return stream.get_final_response()

    response = last(input=told["task"])
    while outputs := answers(response):
        response = last(input=outputs, previous_response_id=response.id)
    return response


def events():
    client = OpenAI(**made)

    def last(**more):
        for event in client.responses.create(**asking, **more, stream=True):
            kinds.add(event.type)
        return event.response

    response = last(input=told["task"])
    while outputs := answers(response):
        response = last(input=outputs, previous_response_id=response.id)
    return response


def helper():
    client = OpenAI(**made)

    def last(**more):
        with client.responses.stream(**asking, **more) as stream:
            for event in stream:
                kinds.add(event.type)
            return stream.get_final_response()

    response = last(input=told["task"])
    while outputs := answers(response):
        response = last(input=outputs, previous_response_id=response.id)
    return response


async def unsync(streamed):
    async with AsyncOpenAI(**made) as client:

        async def last(**more):
            if not streamed:
                return await client.responses.create(**asking, **more)
            async with client.responses.stream(**asking, **more) as stream:
                async for event in stream:
                    kinds.add(event.type)
                return await stream.get_final_response()

        response = await last(input=told["task"])
        while outputs := await asyncio.to_thread(answers, response):
            response = await last(input=outputs, previous_response_id=response.id)
        return response


def connect():
    """One WebSocket for all of it."""
    with OpenAI(**made).responses.connect() as connection:

        def last(**more):
            connection.response.create(**asking, **more)
            for event in connection:
                kinds.add(event.type)
                if event.type == "response.completed":
                    return event.response

        response = last(input=told["task"])
        while outputs := answers(response):
            response = last(input=outputs, previous_response_id=response.id)
        return response


def lanes():
    """Named lanes of one WebSocket, and nothing stored: the connection remembers."""
    limits = ResponsesWebSocketLimits(
        max_lanes=4, max_events_per_lane=999, max_events=999, max_bytes_per_lane=10**8, max_bytes=10**8
    )
    options = {"max_size": None}
    with (
        OpenAI(**made).responses.connect(websocket_connection_options=options) as connection,
        ResponsesWebSocketSession(connection, limits=limits) as session,
    ):
        lane = session.lane("one")

        def last(**more):
            lane.send({"type": "response.create", **asking, **more, "store": False})
            return lane.get_final_response()

        response = last(input=told["task"])
        while outputs := answers(response):
            response = last(input=outputs, previous_response_id=response.id)
        return response


def toolset():
    class Driver:
        def screenshot(self):
            return picture(desk.act([{"type": "screenshot"}]))

    for kind in ("click", "double_click", "drag", "keypress", "move", "scroll", "type", "wait"):
        setattr(Driver, kind, lambda self, action: desk.act([action]) and None)
    tools = {"model": "body-1", "tools": [{"type": "computer"}]}
    response = ComputerToolset(Driver()).run(OpenAI(**made), {**tools, "input": told["task"]})
    shown.extend(item.type for item in response.output)
    return response


LOOPS = {
    "sync": sync,
    "replay": replay,
    "conversation": conversation,
    "background": background,
    "background, reread": reread,
    "stream=True": events,
    ".stream()": helper,
    "async": lambda: asyncio.run(unsync(streamed=False)),
    "async .stream()": lambda: asyncio.run(unsync(streamed=True)),
    "connect()": connect,
    "lanes": lanes,
    "ComputerToolset": toolset,
    "pairs": pairs,
}
kinds = set()
final = LOOPS[told["mode"]]()
desk.close()
print(
    json.dumps(
        {"final": final.output_text, "executed": desk.executed, "shown": shown, "events": sorted(kinds)}
    )
)
