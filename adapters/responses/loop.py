"""One response: rounds of the model, what the gateway carries out in between, until it is done.

A round's gateway-owned calls run in their order and are recorded; a client-owned call then ends the
response, and otherwise the results go into the next round. What the client sees goes through `emit`; what
is remembered is in `made`. Knows neither HTTP nor the store's layout. Counterpart: runs.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bodyd.contract.gateway import GatewaySettings
from bodyd.errors import BodydError, UpstreamFailed

from . import lifecycle, lowering, notes, pairs, pictures, public
from .failures import COMPLETED, OUT_OF_ROUNDS, OUT_OF_TOKENS, Ending
from .hands import CANCELLED_EXIT, LIMIT, Hands, not_run
from .history import GATEWAY, MODEL, History, Kept, new_token
from .log import Log
from .presence import Presence
from .printing import Printing
from .registry import Owner
from .requests import Prepared
from .restoring import Malformed
from .rounds import Round
from .upstreams import Upstream
from .wire import CALLS, PREFIXES

Json = dict[str, Any]

_OURS = frozenset(
    "model input instructions tools tool_choice stream stream_options store background background_options "
    "previous_response_id conversation include metadata max_output_tokens max_tool_calls prompt_cache_key "
    "prompt_cache_options prompt_cache_retention safety_identifier context_management type generate".split()
)
"""Fields of a request that are not passed on as they are."""
MOST_MALFORMED = 5
"""Calls in a row that make no sense, before the model is given up."""


@dataclass
class Loop:
    """Carries out *prepared*; `made` and `shown` grow as it goes, and are valid whenever it is stopped."""

    prepared: Prepared
    upstream: Upstream
    settings: GatewaySettings
    history: History
    hands: Hands
    presence: Presence
    log: Log
    images: dict[str, bytes]
    made: list[Kept] = field(default_factory=list)
    shown: list[Json] = field(default_factory=list)
    usages: list[Json] = field(default_factory=list)
    rounds: int = 0
    _index: int = 0
    _calls: int = 0
    _malformed: int = 0
    _last: bool = False
    _taken: set[str] = field(default_factory=set)
    _round: Round | None = None
    _printing: Printing | None = None

    async def run(self) -> Ending:
        """Go on until the response is over.

        Raises:
            BodydError: it can't go on; what happened until then is recorded.
        Cancellation:
            Upstream is cancelled; a batch drains at the next atom, and a command's tree dies.
        """
        for kept in (*self.prepared.before, *self.prepared.fed):
            self._taken |= {str(kept.item.get(name)) for name in ("id", "call_id")}
        if self.prepared.body.get("generate") is False:
            return COMPLETED  # a warm-up: its input is kept, to be continued
        async with self.hands.ready():
            while self.rounds < self.settings.max_rounds:
                await self.presence.wait()
                ending = await self._one_round()
                if ending is not None:
                    return ending
        return OUT_OF_ROUNDS

    def cut_off(self) -> None:
        """Close what is open: the response was stopped in the middle."""
        if self._round is not None:
            for event in self._round.abandon():
                self.log.add(event)
            self._record(self._round)
        if self._printing is not None:
            self._printing.cut("cancelled\n", CANCELLED_EXIT)
            self._printed("incomplete")
        answered = {kept.item.get("call_id") for kept in self.made if kept.item["type"] in CALLS.values()}
        for number, kept in enumerate(self.made):
            item = kept.item
            if item["type"] in CALLS and item["call_id"] not in answered and self._is_ours(item):
                self.made[number] = Kept(kept.key, {**item, "status": "incomplete"}, kept.by)

    # -- one round ---------------------------------------------------------------------------------

    async def _one_round(self) -> Ending | None:
        self._round = found = Round(
            registry=self.prepared.registry,
            new_id=_new_id,
            next_index=self._index,
            hidden=self._is_hidden,
            taken=self._taken,
        )
        body = await self._request()
        self.rounds += 1
        await self._ask(found, body)
        self._round = None
        start = len(self.made)
        self._record(found)
        if found.usage:
            self.usages.append(found.usage)
        if found.status == "failed":
            raise _upstream_failure(found.error or {})
        if found.status == "incomplete":
            self.cut_off()
            return Ending("incomplete", reason=found.reason)
        calls = [kept.item for kept in self.made[start:] if kept.item["type"] in CALLS]
        ours = [call for call in calls if self._is_ours(call)]
        last = self._last
        await self._carry_out(ours)
        theirs = [call for call in calls if not self._is_answered(call)]
        return COMPLETED if last else self._judge(found, ours, theirs)

    def _judge(self, found: Round, ours: list[Json], theirs: list[Json]) -> Ending | None:
        malformed = any(isinstance(item, Malformed) for item in found.items)
        self._malformed = self._malformed + 1 if malformed else 0
        if self._malformed >= MOST_MALFORMED:
            raise UpstreamFailed(f"the model made {MOST_MALFORMED} calls in a row that make no sense")
        if theirs or not (ours or malformed):
            return COMPLETED
        limit = self.settings.max_total_tokens
        used = public.total(self.usages)
        if limit and used is not None and used["total_tokens"] >= limit:
            return OUT_OF_TOKENS
        return None

    async def _ask(self, found: Round, body: Json) -> None:
        if not self.prepared.stream:
            answer = await self.upstream.port.respond(body)
            status = answer.get("status") or "completed"
            for event in found.feed({"type": f"response.{status}", "response": answer}):
                self.log.add(event)
        else:
            async with self.upstream.port.stream(body) as events:
                async for event in events:
                    for told in found.feed(event):
                        self.log.add(told)
                    await self.log.room()
        if found.status is None:
            raise UpstreamFailed("the model's server ended its answer without saying how it ended")

    async def _request(self) -> Json:
        """The upstream copy of everything so far: lowered, and within the budget of bytes."""
        prepared, settings = self.prepared, self.settings.upstream
        items = pairs.answerable([kept.item for kept in (*prepared.before, *prepared.fed, *self.made)])
        hashes = list(dict.fromkeys(digest for item in items for digest in pictures.hashes(item)))
        sizes = {digest: len(self.images[digest]) for digest in hashes if digest in self.images}
        missing = [digest for digest in hashes if digest not in sizes]
        if missing:
            sizes |= await self.history.store.image_sizes(missing)
        items, stay = pictures.within(items, sizes, settings.budget_bytes)
        unread = [digest for digest in dict.fromkeys(stay) if digest not in self.images]
        if unread:
            self.images |= await self.history.store.images(unread)
        sent = lowering.items(
            [pictures.put_back(item, self.images, spliced=self.upstream.splices) for item in items],
            prepared.registry,
            native=self.upstream.native,
            images=settings.images,
            encrypted_reasoning=settings.encrypted_reasoning,
        )
        return self._body(sent)

    def _body(self, sent: list[Json]) -> Json:
        request = self.prepared.body
        body = {name: value for name, value in request.items() if name not in _OURS and value is not None}
        body |= {"model": self.upstream.model(request.get("model")), "input": sent, "store": False}
        if request.get("instructions") is not None:
            body["instructions"] = request["instructions"]
        if tools := self.prepared.registry.upstream_tools:
            body["tools"] = tools
            body["tool_choice"] = self._choice()
        if (limit := request.get("max_output_tokens")) is not None:
            used = public.total(self.usages)
            body["max_output_tokens"] = max(16, limit - (used["output_tokens"] if used else 0))
        if self.settings.upstream.encrypted_reasoning:
            body["include"] = ["reasoning.encrypted_content"]
        body["stream"] = self.prepared.stream
        return body

    def _choice(self) -> object:
        """A forced choice holds for the first round; afterwards it would never let the model end."""
        choice: Any = self.prepared.body.get("tool_choice") or "auto"
        if self._last:
            return "none"
        if self.rounds and choice != "none":
            if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
                choice = {**choice, "mode": "auto"}
            else:
                choice = "auto"
        return lowering.tool_choice(choice, self.prepared.registry)

    # -- carrying out ------------------------------------------------------------------------------

    async def _carry_out(self, calls: list[Json]) -> None:
        limit = self.prepared.body.get("max_tool_calls")
        for index, call in enumerate(calls):
            self._calls += 1
            if limit is not None and self._calls > limit:
                self._last = True
                output = not_run(call, LIMIT)
            elif self.hands.refused:
                output = not_run(call, "an earlier call of this turn was not approved")
            elif call["type"] == "computer_call":
                output = await self.hands.computer(call, self.rounds, index)
            else:
                await self._shell(call)
                continue
            self._answered(output)
        self._last = self._last or self.hands.refused

    async def _shell(self, call: Json) -> None:
        """Run it, and stream what it prints if pairs are shown."""
        emit = self._emit if self.prepared.show_pairs else None
        self._printing = Printing(call, id=_new_id("shell_call_output"), index=self._index, emit=emit)
        await self.hands.shell(call, self._printing)
        self._printed("completed")

    def _printed(self, status: str) -> None:
        assert self._printing is not None
        item = self._printing.close(status)
        self._printing = None
        self._keep(item, GATEWAY)
        if self.prepared.show_pairs:
            self.shown.append(item)
            self._index += 1

    def _answered(self, output: Json) -> None:
        """Record the output of a call that the gateway answered; show it if pairs are shown."""
        item = {**output, "id": _new_id(output["type"]), "status": output.get("status") or "completed"}
        stored = pictures.take(item, self.images)
        self._keep(stored, GATEWAY)
        if self.prepared.show_pairs and item["type"] != "function_call_output":
            shown = notes.public(item if self.prepared.full_pictures else pictures.by_reference(stored))
            for event in lifecycle.events(shown, self._index):
                self._emit(event)
            self.shown.append(shown)
            self._index += 1

    # -- recording ---------------------------------------------------------------------------------

    def _record(self, found: Round) -> None:
        self._index = found.next_index
        self.shown += found.shown
        for item in found.items:
            if isinstance(item, Malformed):
                self._record_malformed(item)
            else:
                self._keep(item, MODEL)

    def _record_malformed(self, call: Malformed) -> None:
        """It stays what it was and is answered with the reason; clients aren't shown what they can't read."""
        text = f"This call makes no sense and was not executed: {call.reason}"
        if call.item["type"] == "function_call":
            self._keep({**call.item, "status": "completed"}, MODEL)
            self._answered({"type": "function_call_output", "call_id": call.item["call_id"], "output": text})
        else:
            said = {"type": "input_text", "text": f"{call.item['type']} {call.item['call_id']}: {text}"}
            message = {"type": "message", "id": _new_id("message"), "role": "developer", "content": [said]}
            self._keep(message, GATEWAY)

    def _keep(self, item: Json, by: str) -> None:
        stored = pictures.take(item, self.images)
        self.made.append(Kept(f"{self.prepared.caller.id}/{item['id']}", stored, by))

    def _is_ours(self, call: Json) -> bool:
        return self.prepared.registry.owner(call["type"]) is Owner.GATEWAY

    def _is_answered(self, call: Json) -> bool:
        outputs = (kept.item for kept in self.made if kept.item["type"] in CALLS.values())
        return any(output["call_id"] == call["call_id"] for output in outputs)

    def _is_hidden(self, item: Json) -> bool:
        return item["type"] in CALLS and self._is_ours(item) and not self.prepared.show_pairs

    def _emit(self, event: Json) -> None:
        self.log.add(event)


def _new_id(kind: str) -> str:
    return f"{PREFIXES.get(kind, kind)}_{new_token()}"


def _upstream_failure(error: Json) -> BodydError:
    message = str(error.get("message") or "the model's server failed")
    return UpstreamFailed(f"the model's server failed: {message:.500}", upstream_code=error.get("code"))
