"""The model of these tests, on a real socket: the demo's script, which looks, or a list of answers."""

from __future__ import annotations

from typing import Any

from bodyd_adapters.responses import lifecycle
from bodyd_adapters.scripted import ScriptedUpstream

from tests.adapters.responses.model_server import Answer, ModelServer
from tests.adapters.responses.world import message

Json = dict[str, Any]
THANKS = "Thank you."
"""What a client says after the task, to begin another turn."""


class Mind(ModelServer):
    """Answers with the next of `answers` (items, or a function of the request); without one, by looking.

    Attributes:
        asked: Every call that it has made, as it left.
    """

    def __init__(self) -> None:
        super().__init__([])
        self._eyes = ScriptedUpstream()
        self.asked: list[Json] = []

    def forget(self) -> None:
        """Begin anew."""
        self.answers.clear()
        self.seen.clear()
        self.asked.clear()

    def actions(self) -> list[str]:
        """The types of all actions that it has asked for."""
        calls = [item for item in self.asked if item["type"] == "computer_call"]
        return [action["type"] for call in calls for action in call["actions"]]

    def told(self) -> list[Json]:
        """The input items of its last round."""
        return self.seen[-1][2]["input"]

    async def answer_to(self, request: Json) -> Answer:
        if self.answers:
            made: Any = self.answers.pop(0)
            output = made(request) if callable(made) else made
            usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
            response = {"id": "resp_mind", "status": "completed", "output": output, "usage": usage}
        elif THANKS in str(request["input"][-1].get("content")):
            response = {"id": "resp_mind", "status": "completed", "output": [message("You are welcome.")]}
        else:
            response = await self._eyes.respond(request)
        self.asked += [item for item in response["output"] if item["type"].endswith("_call")]
        return Answer(_events(response) if request.get("stream") else response)


def _events(response: Json) -> list[Json]:
    begun = {**response, "status": "in_progress", "output": []}
    events: list[Json] = [{"type": "response.created", "response": begun}]
    for index, item in enumerate(response["output"]):
        events += lifecycle.events(item, index)
    events.append({"type": "response.completed", "response": response})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]
