"""The client of a running bodyd: its API over the unix socket or a URL, typed.

Failures come back as the classes of bodyd.errors, by their code. There are no timeouts here:
callers use cancel scopes. Nothing is retried: a request id makes a second try safe, and that is the
caller's to decide.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import httpx2
import trio
from pydantic import BaseModel

from bodyd import errors
from bodyd.contract.actions import Action, InputRequest
from bodyd.contract.acts import Act, ClipboardText
from bodyd.contract.events import Event
from bodyd.contract.inventory import Inventory
from bodyd.contract.lease import DEFAULT_TTL_MS, Grant, LeaseView, Scope
from bodyd.contract.ports import ProcessChunk, ProcessResult
from bodyd.contract.receipts import Receipt
from bodyd.contract.screenshots import Screenshot, ScreenshotRequest
from bodyd.contract.shell import ShellRequest

from .client_streams import Events, Lines, ShellOutput

if TYPE_CHECKING:
    from .client_view import View

Model = TypeVar("Model", bound=BaseModel)
Json = dict[str, Any]

POOL = 16
KEEP_ALIVE_SECONDS = 30.0  # well under the server's, so that no request meets a closing connection
CLOSE_SECONDS = 2.0
_UNIX_BASE = "http://localhost"
_JOBS = "/v1/tools/shell/jobs"


@dataclass(frozen=True, slots=True)
class ComputerResult:
    """What a `computer_call` came to: the output item, and its receipts."""

    item: Json
    receipts: tuple[Receipt, ...]


def new_request_id() -> str:
    """A request id that no one else has."""
    return f"req-{secrets.token_hex(12)}"


class BodyClient:
    """One daemon, as seen with one bearer token. Use as an async context manager.

    Args:
        socket_path: The unix socket of a daemon on this machine; or
        url: where it is reached otherwise, such as http://127.0.0.1:7310.
    """

    def __init__(self, *, token: str, socket_path: Path | None = None, url: str | None = None) -> None:
        if (socket_path is None) == (url is None):
            raise ValueError("give either socket_path or url")
        self._where = str(socket_path or url)
        self._place: dict[str, Any] = {"socket_path": socket_path, "url": url}
        self._token = token
        limits = httpx2.Limits(
            max_connections=POOL, max_keepalive_connections=POOL, keepalive_expiry=KEEP_ALIVE_SECONDS
        )
        transport = httpx2.AsyncHTTPTransport(
            uds=str(socket_path) if socket_path else None,
            limits=limits,
            trust_env=False,
            verify=self._where.startswith("https:"),  # reading the CA bundle takes 50 ms
        )
        self._http = httpx2.AsyncClient(
            transport=transport, base_url=url or _UNIX_BASE, timeout=None, trust_env=False
        )
        self._headers = {"authorization": f"Bearer {token}"}

    async def __aenter__(self) -> BodyClient:
        await self._http.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None = None,
        value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        with trio.move_on_after(CLOSE_SECONDS, shield=True):
            await self._http.__aexit__(kind, value, traceback)

    # -- looking -----------------------------------------------------------------------------------

    async def status(self) -> Json:
        return await self._json("GET", "/v1/status")

    async def snapshots(self) -> list[Json]:
        """The home's snapshots, oldest first: {name, created_at, bytes, files, …}."""
        listed: list[Json] = (await self._json("GET", "/v1/snapshots"))["snapshots"]
        return listed

    async def home_progress(self) -> Json | None:
        """What is being done to the home just now: {what, name, phase, files, of}, or None."""
        doing: Json | None = (await self._json("GET", "/v1/snapshots"))["doing"]
        return doing

    async def create_snapshot(self, name: str, *, lease_token: str | None = None) -> Json:
        """Copy the home under a name; the apps are ended meanwhile. Name your claim, if you drive."""
        return await self._json("POST", "/v1/snapshots", {"name": name}, lease_token)

    async def restore_snapshot(self, name: str, *, lease_token: str | None = None) -> Json:
        """Put a snapshot in the home's place; what is in the home now is lost."""
        return await self._json("POST", f"/v1/snapshots/{quote(name, safe='')}/restore", {}, lease_token)

    async def reset_home(self, *, lease_token: str | None = None) -> None:
        """Begin with an empty home; what is in it now is lost."""
        await self._json("POST", "/v1/snapshots/reset", {}, lease_token)

    async def delete_snapshot(self, name: str) -> None:
        await self._json("DELETE", f"/v1/snapshots/{quote(name, safe='')}")

    async def egress(self) -> Json:
        """What each sandbox reached and was denied, by host; the owner's to know."""
        return await self._json("GET", "/v1/egress")

    async def reload_egress(self) -> Json:
        """Have the allowlists read again: {rules}. A fault in the file raises, and changes nothing."""
        return await self._json("POST", "/v1/egress/reload")

    async def ready(self) -> Json:
        """`/readyz`: {ready, components}; answers whether the body is ready or not."""
        response = await self._send("GET", "/readyz")
        return _object(response.content)

    async def inventory(self) -> Inventory:
        return await self._model(Inventory, "GET", "/v1/inventory")

    async def screenshot(
        self, request: ScreenshotRequest | None = None, *, lease_token: str | None = None
    ) -> Screenshot:
        """Capture; with a lease token, input may name the result."""
        body = request or ScreenshotRequest()
        return await self._model(Screenshot, "POST", "/v1/screenshots", body, lease_token)

    async def image(self, screenshot_id: str) -> bytes:
        """The PNG of a kept screenshot."""
        response = await self._send("GET", f"/v1/screenshots/{quote(screenshot_id, safe='')}/image")
        return _checked(response).content

    async def clipboard(self, *, lease_token: str | None = None) -> str:
        """The clipboard's text; without a lease token, the owner's to read."""
        return (await self._model(ClipboardText, "GET", "/v1/clipboard", lease_token=lease_token)).text

    async def resize(
        self, width: int, height: int, *, restart: bool = False, lease_token: str | None = None
    ) -> Act:
        """Resize the screen. `restart` begins the display anew where it can't grow: apps are lost."""
        body = {"width": width, "height": height, "restart": restart}
        return await self._model(Act, "POST", "/v1/display", body, lease_token)

    async def receipt(self, request_id: str) -> Receipt:
        """What became of a request id."""
        return await self._model(Receipt, "GET", f"/v1/receipts/{quote(request_id, safe='')}")

    @asynccontextmanager
    async def events(self) -> AsyncIterator[AsyncIterator[Event]]:
        """Events from now on: `async with client.events() as events: async for event in events`."""
        async with self._streamed("GET", "/v1/events") as lines:
            yield Events(lines)

    @asynccontextmanager
    async def stream(self, *, video: bool = True) -> AsyncIterator[View]:
        """The live view, kept up to date: `async with client.stream() as view: await view.next_frame()`.

        Args:
            video: Take H.264, where it can be decoded here.
        Raises:
            NotRunning, Unauthorized, Forbidden.
        """
        from .client_view import open_view  # loads numpy and Pillow

        async with open_view(token=self._token, error_of=error_of, video=video, **self._place) as view:
            yield view

    @asynccontextmanager
    async def shell(
        self, request: ShellRequest, *, lease_token: str
    ) -> AsyncIterator[AsyncIterator[ProcessChunk | ProcessResult]]:
        """Run commands in the body's shell; output as it comes. See ProcessPort.

        Cancellation:
            The connection closes, which kills the commands.
        """
        body = {**request.model_dump(mode="json", exclude_none=True), "stream": True}
        async with self._streamed("POST", "/v1/tools/shell", body, lease_token) as lines:
            yield ShellOutput(lines, error_of)

    # -- the lease ---------------------------------------------------------------------------------

    async def acquire(
        self, conversation_id: str, *, ttl_ms: int = DEFAULT_TTL_MS, wait_ms: int = 0
    ) -> ClientLease:
        """Take the body for a conversation; the result acts under that claim."""
        body = {"conversation_id": conversation_id, "ttl_ms": ttl_ms, "wait_ms": wait_ms}
        return ClientLease(self, await self._model(Grant, "POST", "/v1/lease/acquire", body))

    async def revoke(self, *, reason: str = "") -> LeaseView:
        return await self._lease("revoke", {"reason": reason})

    async def pause(self, *, reason: str = "") -> LeaseView:
        return await self._lease("pause", {"reason": reason})

    async def resume(self, *, lease_token: str | None = None) -> LeaseView:
        return await self._lease("resume", {}, lease_token)

    async def stop(self, *, reason: str = "") -> LeaseView:
        return await self._lease("stop", {"reason": reason})

    async def takeover(self, *, reason: str = "") -> ClientLease:
        """Take the body as its owner; the agent's claim is suspended until `hand_back`."""
        return ClientLease(self, await self._model(Grant, "POST", "/v1/lease/takeover", {"reason": reason}))

    async def recover(self, *, step: int = 1) -> LeaseView:
        return await self._lease("recover", {"step": step})

    # -- tickets -----------------------------------------------------------------------------------

    async def ticket(self, scope: Scope = Scope.OWNER) -> Json:
        """A one-use secret, good for five minutes: {ticket, scope, expires_at, link}."""
        return await self._json("POST", "/v1/tickets", {"scope": scope.value})

    async def console_link(self, base_url: str | None = None, scope: Scope = Scope.OWNER) -> str:
        """A link to the owner's page that works once.

        Args:
            base_url: Where the browser reaches the daemon, if not where the daemon thinks.
        Raises:
            Unavailable: the daemon listens on its unix socket alone, and no base_url was given.
        """
        issued = await self.ticket(scope)
        if base_url is not None:
            return f"{base_url.rstrip('/')}/#ticket={issued['ticket']}"
        if issued["link"] is None:
            raise errors.Unavailable("this daemon has no address for browsers; set [http] port or public_url")
        return str(issued["link"])

    # -- inside ------------------------------------------------------------------------------------

    async def _lease(self, step: str, body: Json, lease_token: str | None = None) -> LeaseView:
        return await self._model(LeaseView, "POST", f"/v1/lease/{step}", body, lease_token)

    async def _model(
        self,
        model: type[Model],
        method: str,
        path: str,
        body: BaseModel | Mapping[str, Any] | None = None,
        lease_token: str | None = None,
    ) -> Model:
        response = _checked(await self._send(method, path, body, lease_token))
        return model.model_validate_json(response.content)

    async def _json(
        self,
        method: str,
        path: str,
        body: BaseModel | Mapping[str, Any] | None = None,
        lease_token: str | None = None,
    ) -> Json:
        return _object(_checked(await self._send(method, path, body, lease_token)).content)

    @asynccontextmanager
    async def _streamed(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, lease_token: str | None = None
    ) -> AsyncIterator[Lines]:
        content, headers = self._content(body, lease_token)
        request = self._http.build_request(method, path, content=content, headers=headers)
        with self._translated():
            response = await self._http.send(request, stream=True)
        lines = Lines(response.aiter_raw(), self._translated)
        try:
            if response.is_error:
                with self._translated():
                    await response.aread()
                _checked(response)
            yield lines
        finally:
            with trio.move_on_after(CLOSE_SECONDS, shield=True):
                await lines.aclose()
                await response.aclose()

    async def _send(
        self,
        method: str,
        path: str,
        body: BaseModel | Mapping[str, Any] | None = None,
        lease_token: str | None = None,
    ) -> httpx2.Response:
        content, headers = self._content(body, lease_token)
        with self._translated():
            return await self._http.request(method, path, content=content, headers=headers)

    def _content(
        self, body: BaseModel | Mapping[str, Any] | None, lease_token: str | None
    ) -> tuple[bytes | None, dict[str, str]]:
        headers = dict(self._headers)
        content: bytes | None = None
        if isinstance(body, BaseModel):
            content = body.model_dump_json().encode()
        elif body is not None:
            content = json.dumps(body, ensure_ascii=False).encode()
        if content is not None:
            headers["content-type"] = "application/json"
        if lease_token is not None:
            headers["bodyd-lease"] = lease_token
        return content, headers

    def _translated(self) -> _Translated:
        return _Translated(self._where)


class ClientLease:
    """A claim on the body: acts under its token, and releases it when the context is left.

    Attributes:
        token: The lease token; anyone who has it acts as this driver.
        epoch: The fencing number; a `StaleEpoch` error's details have the new one.
    """

    def __init__(self, client: BodyClient, grant: Grant) -> None:
        self._client = client
        self.token = grant.lease_token
        self.epoch = grant.epoch
        self.view = grant.lease

    async def renew(self, ttl_ms: int | None = None) -> LeaseView:
        return await self._client._lease("renew", {"ttl_ms": ttl_ms}, self.token)

    async def exec_py(
        self, code: str, *, reset: bool = False, timeout_ms: int | None = None
    ) -> dict[str, Any]:
        """Run Python beside the desktop, under this lease: {call_id, output, error, ui_calls, …}.

        Cancellation:
            The code is killed.
        """
        body = {"code": code, "reset": reset, "timeout_ms": timeout_ms}
        return await self._client._json("POST", "/v1/tools/exec_py", body, self.token)

    async def start_job(self, command: str, **how: object) -> Json:
        """Run a command in the background: {job_id, state, …}. It dies with this lease.

        Args:
            how: Fields of ShellRequest: timeout_ms, max_output_length, working_directory, epoch.
        """
        body = {"commands": [command], "background": True, **how}
        job: Json = (await self._client._json("POST", "/v1/tools/shell", body, self.token))["job"]
        return job

    async def jobs(self) -> list[Json]:
        """Those of this conversation, oldest first, without their output."""
        return list((await self._client._json("GET", _JOBS, None, self.token))["jobs"])

    async def job(self, job_id: str) -> Json:
        """One with its output so far; `outcome` is None until it has ended."""
        return await self._client._json("GET", f"{_JOBS}/{quote(job_id, safe='')}", None, self.token)

    async def end_job(self, job_id: str) -> Json:
        """Kill it, if it runs; what came of it."""
        return await self._client._json("DELETE", f"{_JOBS}/{quote(job_id, safe='')}", None, self.token)

    async def release(self) -> LeaseView:
        """Give the body back; returns once it is proved quiet."""
        return await self._client._lease("release", {}, self.token)

    async def hand_back(self) -> LeaseView:
        """End a take-over: the suspended agent gets its claim back, under a new epoch."""
        return await self._client._lease("handback", {}, self.token)

    async def resume(self) -> LeaseView:
        return await self._client.resume(lease_token=self.token)

    async def screenshot(self, request: ScreenshotRequest | None = None) -> Screenshot:
        return await self._client.screenshot(request, lease_token=self.token)

    async def image(self, screenshot_id: str) -> bytes:
        return await self._client.image(screenshot_id)

    async def input(
        self,
        inputs: Sequence[Action | Mapping[str, Any]],
        *,
        screenshot_id: str | None = None,
        request_id: str | None = None,
        binding: str = "window",
        screenshot: bool = False,
    ) -> Receipt:
        """Send one batch. Give a request id of your own to be able to ask again after a lost answer."""
        body = {
            "request_id": request_id or new_request_id(),
            "epoch": self.epoch,
            "screenshot_id": screenshot_id,
            "inputs": [_plain(action) for action in inputs],
            "binding": binding,
            "screenshot": screenshot,
        }
        return await self._client._model(Receipt, "POST", "/v1/input", body, self.token)

    async def clipboard(self) -> str:
        return await self._client.clipboard(lease_token=self.token)

    async def write_clipboard(self, text: str) -> Act:
        return await self._act("/v1/clipboard", text=text)

    async def launch(self, name: str) -> Act:
        """Start one of the apps that `inventory` lists."""
        return await self._act("/v1/apps/launch", name=name)

    async def activate(self, window_id: int) -> Act:
        return await self._act(f"/v1/windows/{window_id}/activate")

    async def close_window(self, window_id: int) -> Act:
        return await self._act(f"/v1/windows/{window_id}/close")

    async def resize(self, width: int, height: int) -> Act:
        return await self._act("/v1/display", width=width, height=height)

    async def _act(self, path: str, **body: object) -> Act:
        return await self._client._model(Act, "POST", path, {**body, "epoch": self.epoch}, self.token)

    async def send(self, request: InputRequest) -> Receipt:
        """Send a request that is made already; its epoch is its own."""
        return await self._client._model(Receipt, "POST", "/v1/input", request, self.token)

    async def computer_call(
        self, item: Mapping[str, Any], *, request_id: str | None = None
    ) -> ComputerResult:
        """Run an OpenAI `computer_call` item; the result's item goes back to the model."""
        body = {"request_id": request_id or new_request_id(), "epoch": self.epoch, "item": dict(item)}
        raw = await self._client._json("POST", "/v1/computer_call", body, self.token)
        return ComputerResult(raw["item"], tuple(Receipt.model_validate(r) for r in raw["receipts"]))


class _Translated:
    """Turns what the transport raises into the errors of this project (a context manager)."""

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(value, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.UnsupportedProtocol):
            raise errors.NotRunning(f"no bodyd answers at {self._where}; start it with `bodyd up`") from value
        if isinstance(value, httpx2.TransportError):
            raise errors.Unavailable(
                f"the connection to bodyd at {self._where} broke; what became of the request is in "
                "its receipt: ask for it, or send the same request id again"
            ) from value


def _plain(action: Action | Mapping[str, Any]) -> Json:
    return action.model_dump(mode="json") if isinstance(action, BaseModel) else dict(action)


def _object(content: bytes) -> Json:
    try:
        value = json.loads(content)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise errors.Unavailable("what answered is not bodyd: its answer is no JSON object")
    return value


def _checked(response: httpx2.Response) -> httpx2.Response:
    """*response*, or the error that it stands for."""
    if response.is_success:
        return response
    told = _object(response.content).get("error")
    if not isinstance(told, dict):
        raise errors.Unavailable(f"what answered is not bodyd: status {response.status_code}")
    raise error_of(told)


def error_of(told: Json) -> errors.BodydError:
    """The error object of the wire as an instance of its class; an unknown code stays a BodydError."""
    known = {"message", "type", "param", "code", "retryable"}
    cls = _BY_CODE.get(str(told.get("code")), errors.BodydError)
    details = {key: value for key, value in told.items() if key not in known}
    return cls(str(told.get("message", "")), param=told.get("param"), **details)


def _leaves(cls: type[errors.BodydError]) -> Iterator[type[errors.BodydError]]:
    yield cls
    for sub in cls.__subclasses__():
        yield from _leaves(sub)


_BY_CODE: dict[str, type[errors.BodydError]] = {}
for _cls in _leaves(errors.BodydError):
    _BY_CODE.setdefault(_cls.code, _cls)
