"""Model servers over HTTP: Responses, and Chat Completions, which is translated on the way.

Retries happen only before a byte of an answer has come, so that nothing is generated twice behind the
client's back. Leaving a stream cancels it upstream: the connection is closed.
"""

from __future__ import annotations

import os
import random
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx2
import trio

from bodyd.contract.gateway import UpstreamSettings
from bodyd.errors import BodydError, ConfigError, UpstreamFailed, UpstreamRefused, UpstreamUnavailable

from ..dumping import dump
from . import chat_request
from .chat_stream import ChatStream
from .sse import Parser, read

Json = dict[str, Any]

CONNECT_SECONDS = 10.0
CLOSE_SECONDS = 1.0
FIRST_PAUSE = 0.25
LONGEST_PAUSE = 8.0
KEEP_ALIVE_SECONDS = 4.0
"""Under the five of uvicorn, which most model servers run on: no request meets a closing connection."""
_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504})


@asynccontextmanager
async def open_server(settings: UpstreamSettings) -> AsyncIterator[Server]:
    """The server at `settings.url`.

    Raises:
        ConfigError: its key can't be read.
    """
    limits = httpx2.Limits(max_connections=256, keepalive_expiry=KEEP_ALIVE_SECONDS)
    async with httpx2.AsyncClient(
        base_url=settings.url.rstrip("/") + "/",
        timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
        limits=limits,
        trust_env=False,
        verify=settings.url.startswith("https:"),
    ) as client:
        server = Server(client, settings)
        server.key()
        yield server


class Server:
    """An UpstreamPort. The request is lowered already, if the server needs it."""

    def __init__(self, client: httpx2.AsyncClient, settings: UpstreamSettings) -> None:
        self._client = client
        self._settings = settings
        self._chat = settings.kind == "chat"

    def key(self) -> str | None:
        """The bearer key, from the environment or a file.

        Raises:
            ConfigError: it is named, and not there.
        """
        if self._settings.key_file is not None:
            try:
                return self._settings.key_file.read_text().strip()
            except OSError as exc:
                raise ConfigError(f"gateway.upstream.key_file: {exc.strerror}") from exc
        if self._settings.key_env:
            found = os.environ.get(self._settings.key_env)
            if not found:
                raise ConfigError(f"gateway.upstream.key_env: {self._settings.key_env} is not set")
            return found
        return None

    async def models(self) -> list[Json]:
        """What the server lists, or nothing if it lists none."""
        try:
            response = await self._client.get("models", headers=self._headers())
            found = read(response.content)
        except (httpx2.RequestError, UpstreamFailed):
            return []
        listed = found.get("data") if isinstance(found, dict) else None
        return [model for model in listed if isinstance(model, dict)] if isinstance(listed, list) else []

    async def respond(self, request: Mapping[str, Any]) -> Json:
        """One blocking round. See UpstreamPort."""
        async with self._answer(self._body(request, stream=False)) as response:
            with _translated():
                raw = await response.aread()
        value = read(raw)
        if not isinstance(value, dict):
            raise UpstreamFailed("the model's server answered with something that is no object")
        return self._from_chat(value, request) if self._chat else value

    def stream(self, request: Mapping[str, Any]) -> AbstractAsyncContextManager[AsyncIterator[Json]]:
        """The same round as a stream. See UpstreamPort."""
        return self._streaming(request)

    @asynccontextmanager
    async def _streaming(self, request: Mapping[str, Any]) -> AsyncIterator[AsyncIterator[Json]]:
        async with self._answer(self._body(request, stream=True)) as response:
            found = _Objects(response)
            try:
                yield _ChatEvents(found, self._translation(request)) if self._chat else found
            finally:
                await found.aclose()

    def _body(self, request: Mapping[str, Any], *, stream: bool) -> Json:
        if self._chat:
            return chat_request.translate(request, stream=stream)
        return {**request, "stream": stream}

    def _from_chat(self, value: Json, request: Mapping[str, Any]) -> Json:
        translation = self._translation(request)
        last: Json = {}
        for event in (*translation.feed(value, whole=True), *translation.finish()):
            last = event
        response: Json = last["response"]
        return response

    def _translation(self, request: Mapping[str, Any]) -> ChatStream:
        return ChatStream(
            token=lambda: secrets.token_hex(12),
            model=str(request.get("model")),
            created_at=int(time.time()),
        )

    @asynccontextmanager
    async def _answer(self, body: Json) -> AsyncIterator[httpx2.Response]:
        """An answer that has begun, and is good; tried again only where none had begun."""
        content = dump(body, mark=secrets.token_hex(16))
        path = "chat/completions" if self._chat else "responses"
        response = await self._begun(path, content)
        try:
            yield response
        finally:
            with trio.move_on_after(CLOSE_SECONDS, shield=True):
                await response.aclose()

    async def _begun(self, path: str, content: bytes) -> httpx2.Response:
        left = self._settings.retries
        pause = FIRST_PAUSE
        while True:
            refusal: BodydError
            request = self._client.build_request("POST", path, content=content, headers=self._headers())
            try:
                response = await self._client.send(request, stream=True)
            except httpx2.TransportError as exc:
                refusal = UpstreamUnavailable(f"the model's server can't be reached: {exc or type(exc)}")
                wait = pause
            else:
                if response.is_success:
                    return response
                refusal = await _refusal(response)
                wait = max(pause, _asked_to_wait(response))
                if response.status_code not in _AGAIN:
                    raise refusal
            if left <= 0 or wait > LONGEST_PAUSE:
                raise refusal
            left -= 1
            await trio.sleep(wait * random.uniform(0.75, 1.25))
            pause = min(2 * pause, LONGEST_PAUSE)

    def _headers(self) -> dict[str, str]:
        headers = {"content-type": "application/json"}
        key = self.key()
        return {**headers, "authorization": f"Bearer {key}"} if key else headers


class _Objects:
    """The JSON objects of a streamed answer, as they come."""

    def __init__(self, response: httpx2.Response) -> None:
        self._bytes = response.aiter_bytes()
        self._parser = Parser()
        self._waiting: deque[Json] = deque()
        self._ended = False

    def __aiter__(self) -> _Objects:
        return self

    async def __anext__(self) -> Json:
        while not self._waiting:
            if self._parser.done and not self._ended:
                await self._drain()
            if self._ended:
                raise StopAsyncIteration
            with _translated():
                chunk = await anext(self._bytes, None)
            self._ended = chunk is None
            self._waiting += self._parser.finish() if chunk is None else self._parser.feed(chunk)
        return self._waiting.popleft()

    async def _drain(self) -> None:
        """Read to the end of an answer that is over, so that its connection can be used again."""
        self._ended = True
        with trio.move_on_after(CLOSE_SECONDS), _translated():
            while await anext(self._bytes, None) is not None:
                pass

    async def aclose(self) -> None:
        with trio.move_on_after(CLOSE_SECONDS, shield=True):
            await self._bytes.aclose()


class _ChatEvents:
    """Chunks of Chat Completions as Responses events."""

    def __init__(self, chunks: _Objects, translation: ChatStream) -> None:
        self._chunks = chunks
        self._translation = translation
        self._waiting: deque[Json] = deque(translation.begin())
        self._ended = False

    def __aiter__(self) -> _ChatEvents:
        return self

    async def __anext__(self) -> Json:
        while not self._waiting:
            if self._ended:
                raise StopAsyncIteration
            chunk = await anext(self._chunks, None)
            self._ended = chunk is None or ("error" in chunk and not chunk.get("choices"))
            if chunk is None:
                self._waiting += self._translation.finish()
            elif self._ended:
                self._waiting.append({"type": "error", "error": chunk["error"]})
            else:
                self._waiting += self._translation.feed(chunk)
        return self._waiting.popleft()


class _translated:  # noqa: N801 (it is used like a function)
    """Tell a connection that broke as UpstreamFailed."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, value: BaseException | None, traceback: object) -> None:
        if isinstance(value, httpx2.RequestError):
            raise UpstreamFailed("the connection to the model's server broke") from value


async def _refusal(response: httpx2.Response) -> BodydError:
    """The error that an answer stands for; its body is read, bounded by what servers send."""
    status = response.status_code
    with _translated():
        raw = await response.aread()
    await response.aclose()
    message, code = _told(raw)
    text = f"the model's server answered {status}: {message:.500}"
    if status in (401, 403):
        return UpstreamFailed(f"the model's server did not take the gateway's key ({status})")
    if status in _AGAIN:
        busy = status == 429
        return UpstreamUnavailable(text, upstream_code="rate_limit_exceeded" if busy else "server_error")
    if status >= 500:
        return UpstreamFailed(text)
    return UpstreamRefused(text, upstream_code=code)


def _told(raw: bytes) -> tuple[str, object]:
    try:
        value = read(raw)
    except UpstreamFailed:
        return raw[:500].decode("utf-8", "replace"), None
    error = value.get("error", value) if isinstance(value, dict) else value
    if isinstance(error, dict):
        return str(error.get("message") or error.get("detail") or error), error.get("code")
    return str(error), None


def _asked_to_wait(response: httpx2.Response) -> float:
    try:
        return float(response.headers.get("retry-after", "0"))
    except ValueError:
        return 0.0
