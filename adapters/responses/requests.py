"""A request to make a response, read and checked whole before anything is sent or run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import from_json

from bodyd.contract.adapters import HttpRequest
from bodyd.contract.gateway import GatewaySettings
from bodyd.contract.ports import Caller
from bodyd.errors import InvalidRequest

from . import lowering, pairs, pictures, registry, restoring, wire
from .history import History, Kept
from .registry import Handlers, Registry
from .remembering import Memory

Json = dict[str, Any]

EXECUTION_HEADER = "bodyd-execution"
ITEMS_HEADER = "bodyd-items"
FULL_PICTURES = "computer_call_output.output.image_url"

_FLAGS = ("stream", "background", "store", "parallel_tool_calls", "generate")
_COUNTS = ("max_output_tokens", "max_tool_calls")
_NUMBERS = ("temperature", "top_p", "frequency_penalty", "presence_penalty", "top_logprobs")
_STRINGS = (
    "instructions previous_response_id user prompt_cache_key prompt_cache_retention safety_identifier "
    "service_tier truncation"
).split()
_OBJECTS = ("metadata", "reasoning", "text", "stream_options", "prompt")
_LISTS = ("include", "context_management")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request that can be carried out.

    Attributes:
        before: The stored history that it continues.
        fed: Its own input, pictures taken out; *images* has those.
        root: The conversation that a lease is bound to, or "" where this response begins one.
    """

    body: Json
    caller: Caller
    tools: tuple[Json, ...]
    registry: Registry
    before: tuple[Kept, ...]
    fed: tuple[Kept, ...]
    images: dict[str, bytes] = field(repr=False)
    root: str
    conversation: str | None
    show_pairs: bool
    full_pictures: bool

    @property
    def stream(self) -> bool:
        return bool(self.body.get("stream"))

    @property
    def background(self) -> bool:
        return bool(self.body.get("background"))

    @property
    def store(self) -> bool:
        return self.body.get("store") is not False


def read_json(raw: bytes) -> Json:
    """A request's body as an object, with one meaning.

    Raises:
        InvalidRequest: it is none.
    """
    try:
        value = from_json(raw, allow_inf_nan=False) if raw else {}
    except ValueError as exc:  # not UTF-8, a lone surrogate, nested too deep: all of it
        raise InvalidRequest(f"the body is not JSON: {exc}") from None
    if not isinstance(value, dict):
        raise InvalidRequest("the body must be a JSON object")
    return value


def take_pictures(body: Json, recent: pictures.Recent) -> dict[str, bytes]:
    """Move the pictures of *body*'s input out of it, unchecked as it is; returns them by hash.

    Args:
        recent: Pictures that were read lately.
    Raises:
        InvalidRequest, TooLarge: one that can't be read.
    """
    images: dict[str, bytes] = {}
    listed = body.get("input")
    if isinstance(listed, list):
        body["input"] = [
            pictures.take(item, images, param=f"input[{index}]", recent=recent)
            if isinstance(item, dict)
            else item
            for index, item in enumerate(listed)
        ]
    return images


async def prepare(
    request: HttpRequest,
    body: Json,
    images: dict[str, bytes],
    *,
    history: History,
    settings: GatewaySettings,
    native: frozenset[str],
    memory: Memory | None = None,
) -> Prepared:
    """Read *body*, from which *images* were taken, with the history that it continues.

    Args:
        memory: What this connection can continue besides what is stored.
    Raises:
        BodydError: it can't be carried out; `param` names the field.
    """
    _check_fields(body)
    passthrough = settings.unknown == "passthrough"
    tools = wire.tools(body.get("tools"), passthrough=passthrough)
    listed = wire.input_items(body.get("input"), passthrough=passthrough)
    remembered = memory.of(body.get("previous_response_id")) if memory is not None else None
    if remembered is not None:
        before, root, conversation = list(remembered.items), remembered.root, None
        images = {**remembered.images, **images}
    else:
        before, root, conversation = await _continued(body, request.caller, history)
    fed = await history.resolve(listed, request.caller, known={kept.key for kept in before})
    past = pairs.answerable([kept.item for kept in before])
    fed = [kept for kept in fed if not (kept.new and pairs.repeated(kept.item, past))]
    pairs.check([(item, "") for item in past] + [(kept.item, f"input[{i}]") for i, kept in enumerate(fed)])
    more = restoring.tools_of([*past, *(kept.item for kept in fed)])
    made = registry.build(
        [*tools, *more],
        native=native,
        handlers=_handlers(request.headers, settings),
        passthrough=passthrough,
    )
    _check_choice(body.get("tool_choice"), made)
    full = FULL_PICTURES in (body.get("include") or ())
    return Prepared(
        body=body,
        caller=request.caller,
        tools=tuple(tools),
        registry=made,
        before=tuple(before),
        fed=tuple(fed),
        images=images,
        root=root,
        conversation=conversation,
        show_pairs=_show_pairs(request.headers, settings) or full,
        full_pictures=full,
    )


async def _continued(body: Json, caller: Caller, history: History) -> tuple[list[Kept], str, str | None]:
    previous, conversation = body.get("previous_response_id"), body.get("conversation")
    if previous is not None and conversation is not None:
        raise InvalidRequest(
            "previous_response_id and conversation exclude each other", param="previous_response_id"
        )
    if previous is not None:
        found = await history.previous(str(previous), caller)
        before = await history.kept([*found["history"], *found["input"], *found["made"]])
        return before, found["root"], None
    if conversation is not None:
        id = conversation.get("id") if isinstance(conversation, dict) else conversation
        found = await history.conversation(str(id), caller)
        return await history.kept(found["items"]), found["id"], found["id"]
    return [], "", None


def _handlers(headers: Mapping[str, str], settings: GatewaySettings) -> Handlers:
    """What is executed here: what the deployment configured, unless the request lowers it."""
    wanted = headers.get(EXECUTION_HEADER)
    if wanted == "client":
        return Handlers()
    if wanted not in (None, "gateway"):
        raise InvalidRequest(f"the header {EXECUTION_HEADER} may say client", param=EXECUTION_HEADER)
    return Handlers(computer=settings.computer == "body", shell=settings.shell == "body")


def _show_pairs(headers: Mapping[str, str], settings: GatewaySettings) -> bool:
    wanted = headers.get(ITEMS_HEADER, settings.executed_items)
    if wanted not in ("pairs", "hidden"):
        raise InvalidRequest(f"the header {ITEMS_HEADER} may say pairs or hidden", param=ITEMS_HEADER)
    return wanted == "pairs"


def _check_fields(body: Json) -> None:
    for name in _FLAGS:
        if not isinstance(body.get(name), bool | None):
            raise InvalidRequest(f"{name} must be true or false", param=name)
    for name in _COUNTS:
        value = body.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise InvalidRequest(f"{name} must be a whole number of at least 1", param=name)
    model = body.get("model")
    if model is not None and (not isinstance(model, str) or not model):
        raise InvalidRequest("model must be a string", param="model")
    for names, kind, what in (
        (_NUMBERS, int | float, "a number"),
        (_STRINGS, str, "a string"),
        (_OBJECTS, dict, "an object"),
        (_LISTS, list, "a list"),
    ):
        for name in names:
            value = body.get(name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, kind)):
                raise InvalidRequest(f"{name} must be {what}", param=name)
    form = (body.get("text") or {}).get("format")
    if form is not None and not isinstance(form, dict):
        raise InvalidRequest("text.format must be an object", param="text.format")
    if body.get("background") and body.get("store") is False:
        raise InvalidRequest("a background response is always stored", param="store")


def _check_choice(choice: object, tools: Registry) -> None:
    if choice is None or choice in ("auto", "none", "required"):
        return
    if not isinstance(choice, dict) or not isinstance(choice.get("type"), str):
        raise InvalidRequest("tool_choice must be auto, none, required or an object", param="tool_choice")
    lowered = lowering.tool_choice(choice, tools)
    if choice["type"] in ("function", "custom"):
        known = isinstance(lowered, dict) and tools.called(str(lowered.get("name"))) is not None
    elif choice["type"] in ("computer", "computer_use", "computer_use_preview", "shell", "apply_patch"):
        known = lowered is not choice
    else:
        known = True
    if not known:
        raise InvalidRequest(
            "tool_choice names a tool that the request does not declare", param="tool_choice"
        )
