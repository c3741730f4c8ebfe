"""What the routes need, and the few things they share: who asks, the lease token, the body's JSON."""

from __future__ import annotations

import json
import re
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol, TypeVar, cast

import trio
from pydantic import BaseModel, ValidationError
from quart import Response, current_app, g, request

from bodyd.clock import Clock
from bodyd.config import Config
from bodyd.contract.actions import invalid
from bodyd.contract.adapters import Adapter
from bodyd.contract.computer_run import ComputerRunner
from bodyd.contract.events import Event
from bodyd.contract.lease import Scope
from bodyd.contract.ports import BodyPort, Caller, CodePort, JobsPort, ProcessPort
from bodyd.errors import InvalidRequest, LeaseRequired, NotFound

from .auth import Gate, Origins, require
from .tickets import Tickets
from .tokens import Tokens

Model = TypeVar("Model", bound=BaseModel)

EXTENSION = "bodyd"
API = "bodyd.api"
LEASE_HEADER = "bodyd-lease"
_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class EventSource(Protocol):
    """Where `GET /v1/events` reads from. The channel is bounded and loses the oldest when full."""

    def subscribe(
        self, *, owner: bool = False
    ) -> AbstractAsyncContextManager[trio.MemoryReceiveChannel[Event]]:
        """Events from now on; while a person drives, those of the lease alone unless for an *owner*.

        The context holds no nursery: it is left from a generator.
        """
        ...


class EgressPort(Protocol):
    """The ways out of the body's sandboxes."""

    def snapshot(self, *, hosts: bool) -> dict[str, object]:
        """Counts by sandbox; by host only if *hosts*."""
        ...

    async def reload(self) -> dict[str, int]:
        """Read the lists again; the number of rules by sandbox. ConfigError: all stays as it was."""
        ...


class HomesPort(Protocol):
    """The home folder's snapshots (driver/homes.py)."""

    async def list(self) -> list[dict[str, Any]]: ...

    @property
    def doing(self) -> dict[str, Any] | None: ...

    async def create(
        self, name: str, *, caller: Caller, lease_token: str | None = None
    ) -> dict[str, Any]: ...

    async def restore(
        self, name: str, *, caller: Caller, lease_token: str | None = None
    ) -> dict[str, Any]: ...

    async def reset(self, *, caller: Caller, lease_token: str | None = None) -> None: ...

    async def delete(self, name: str, *, caller: Caller) -> None: ...


class HistoryPort(Protocol):
    """What was done, as the journal has it."""

    async def history(self, *, before: int | None, limit: int) -> list[dict[str, Any]]: ...


class BoardPort(Protocol):
    """Commands and code that run now, and the last that ended (execution/board.py)."""

    def calls(self, *, caller: Caller) -> list[dict[str, Any]]: ...

    def call(self, call_id: str, *, caller: Caller) -> dict[str, Any]: ...


class ApprovalsPort(Protocol):
    """Approvals that wait for the owner (policy/approvals.py)."""

    def pending(self) -> list[dict[str, Any]]: ...

    def answer(self, approval_id: str, *, approve: bool) -> None: ...


@dataclass
class Services:
    """Everything that the app is made of; the daemon builds one, tests another.

    `events` is None where nothing publishes events yet; `processes` and `jobs` where no shell is
    configured; `code` where the code tool is off; `egress` and `homes` where no sandbox is the daemon's own;
    `history`, `board` and `approvals` where the console has nothing to show of them.
    """

    body: BodyPort
    tokens: Tokens
    config: Config = field(default_factory=Config)
    clock: Clock = field(default_factory=Clock)
    events: EventSource | None = None
    adapters: tuple[Adapter, ...] = ()
    processes: ProcessPort | None = None
    jobs: JobsPort | None = None
    code: CodePort | None = None
    egress: EgressPort | None = None
    homes: HomesPort | None = None
    history: HistoryPort | None = None
    board: BoardPort | None = None
    approvals: ApprovalsPort | None = None
    origins: Origins = field(init=False)
    tickets: Tickets = field(init=False)
    gate: Gate = field(init=False)
    runner: ComputerRunner = field(init=False)

    def __post_init__(self) -> None:
        self.origins = Origins.of(self.config.http)
        self.tickets = Tickets(self.clock)
        self.gate = Gate(self.tokens, self.tickets)
        self.runner = ComputerRunner(self.body)


def services() -> Services:
    """Those of the app that serves this request."""
    return cast(Services, current_app.extensions[EXTENSION])


def body() -> BodyPort:
    return services().body


def caller() -> Caller:
    """Who asks; set before any route that is not public runs."""
    return cast(Caller, g.caller)


def connection_state() -> dict[str, Any]:
    """What the listener says of the connection; empty where there is none (Quart's test client)."""
    return cast(dict[str, Any], request.scope.get("state") or {})


def lease_token() -> str:
    """The claim that the call is made under.

    Raises:
        LeaseRequired: no `bodyd-lease` header.
    """
    token = request.headers.get(LEASE_HEADER)
    if not token:
        raise LeaseRequired("this needs the header `bodyd-lease` with the token that acquire returned")
    return token


def optional_lease_token() -> str | None:
    """As `lease_token`, where a call may be made without. A viewer has no claim to name.

    Raises:
        Forbidden: a lease token under a viewer's bearer token.
    """
    token = request.headers.get(LEASE_HEADER) or None
    if token is not None:
        require(caller(), Scope.DRIVER)
    return token


def path_id(value: str, what: str) -> str:
    """An id from the path, or a 404 that does not repeat it."""
    if not _ID.fullmatch(value):
        raise NotFound(f"no {what} has such an id")
    return value


async def read_json() -> object:
    """The request's body as JSON, read strictly: one meaning, or a refusal.

    Raises:
        InvalidRequest: not UTF-8, not JSON, a key given twice, NaN or infinite, nested too deep, or
            text that is no Unicode (lone surrogates).
        HTTPException: 408 or 413, from the framework.
    """
    return parse_json(cast(bytes, await request.get_data()))


async def read_model(model: type[Model]) -> Model:
    """The body as *model*; an empty body stands for {}.

    Raises:
        InvalidRequest: with the field at fault.
    """
    raw = await request.get_data()
    value = parse_json(cast(bytes, raw)) if raw else {}
    if not isinstance(value, dict):
        raise InvalidRequest("the body must be a JSON object")
    try:
        return model.model_validate(value)
    except ValidationError as exc:
        raise invalid(exc) from None


def parse_json(raw: bytes) -> object:
    """As read_json, from bytes."""
    try:
        text = raw.decode("utf-8")
        value = json.loads(
            text, object_pairs_hook=_no_twins, parse_constant=_no_constant, parse_float=_finite
        )
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError:
        raise InvalidRequest("the body is not UTF-8") from None
    except UnicodeEncodeError:
        raise InvalidRequest("the body has text that is no Unicode: a lone surrogate") from None
    except RecursionError:
        raise InvalidRequest("the body is nested too deep") from None
    except json.JSONDecodeError as exc:
        raise InvalidRequest(f"the body is not JSON: {exc.msg} at byte {exc.pos}") from None
    except ValueError as exc:
        raise InvalidRequest(f"the body is not JSON: {exc}") from None
    return value


def reply(value: BaseModel | dict[str, Any], status: int = 200) -> Response:
    """*value* as a JSON response."""
    text = value.model_dump_json() if isinstance(value, BaseModel) else json.dumps(value, ensure_ascii=False)
    return Response(text, status=status, content_type="application/json")


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key is given twice in one object")
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError("a number is out of range")
    return value
