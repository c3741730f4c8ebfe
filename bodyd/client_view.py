"""The live view as a client sees it: the body's screen as pixels, and a person's hands on it.

Speaks the protocol of docs/reference/stream.md over a WebSocket. Counterpart: http/web/view.js, which
does the same in a page. H.264 is decoded where PyAV is installed (the extra `video`).
"""

from __future__ import annotations

import importlib
import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import trio
from numpy.typing import NDArray
from PIL import Image
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.trio.client import ClientConnection, connect, unix_connect
from websockets.typing import Subprotocol

from bodyd import errors
from bodyd.stream import protocol as p

Json = dict[str, Any]
ErrorOf = Callable[[Json], errors.BodydError]
CLOSE_SECONDS = 2.0
MOST_PIXELS = 7680 * 4320


@asynccontextmanager
async def open_view(
    *,
    token: str,
    error_of: ErrorOf,
    socket_path: Path | None = None,
    url: str | None = None,
    video: bool = True,
) -> AsyncIterator[View]:
    """A view that is kept up to date until the context is left.

    Args:
        video: Ask for H.264, if it can be decoded here.
    Raises:
        NotRunning, Unauthorized, Forbidden.
    """
    options: Any = {
        "additional_headers": {"authorization": f"Bearer {token}"},
        "subprotocols": [Subprotocol(p.SUBPROTOCOL)],
        "compression": None,
        "max_size": 64 * 1024 * 1024,
        "close_timeout": CLOSE_SECONDS,
    }
    opening: Any
    if socket_path is not None:
        opening = unix_connect(str(socket_path), "ws://localhost/v1/stream", **options)
    else:
        opening = connect(_websocket(url or ""), proxy=None, **options)
    failed: BaseException | None = None
    entered = False
    try:
        async with opening as connection, trio.open_nursery() as nursery:
            entered = True
            view = View(connection, error_of, _decoder() if video else None)
            nursery.start_soon(view.run)
            try:
                await view.greet()
                yield view
            except Exception as exc:  # kept out of the nursery's exception group: it is the caller's
                failed = exc
            nursery.cancel_scope.cancel(reason="the view is closed")
    except InvalidHandshake as exc:
        raise errors.Unauthorized(f"the live view was refused: {exc}") from exc
    except OSError as exc:
        if entered:
            raise
        raise errors.NotRunning(
            f"no bodyd answers at {socket_path or url}; start it with `bodyd up`"
        ) from exc
    if failed is not None:
        raise failed


class View:
    """The screen, kept up to date; use `BodyClient.stream`.

    Attributes:
        screen: height x width x 3, RGB, as last drawn; of no size before the first frame.
        exact: Every pixel of it is the body's own.
        state: The last `state` message: {lease, driver, yours, hidden}.
        pointer: Where the body's pointer is.
        cursor: Its picture, RGBA, and the hot spot.
        frames: How many have been drawn; `received_bytes` counts every picture.
        lease_token: The claim under which this view drives, or None.
        blind: Set it to acknowledge frames without drawing them. `paused`: to acknowledge none.
    """

    def __init__(self, connection: ClientConnection, error_of: ErrorOf, av: Any) -> None:  # noqa: ANN401
        self._connection = connection
        self._error_of = error_of
        self._av = av
        self._decoder: Any = None
        self._changed = trio.Event()
        self._replies: dict[str, list[Json]] = {}
        self.screen: NDArray[np.uint8] = np.zeros((0, 0, 3), np.uint8)
        self.exact = False
        self.state: Json = {}
        self.scope: str | None = None
        self.pointer: tuple[int, int] | None = None
        self.cursor: tuple[NDArray[np.uint8], int, int] | None = None
        self.frames = 0
        self.received_bytes = 0
        self.codecs: dict[p.Codec, int] = {}
        self.lease_token: str | None = None
        self.refused: list[Json] = []
        self.closed = False
        self.paused = False
        self.blind = False

    async def greet(self) -> None:
        """Say hello, and wait for the welcome."""
        await self._say("hello", version=p.VERSION, codecs=["h264"] if self._av is not None else [])
        await self.until(lambda view: view.scope is not None)

    async def run(self) -> None:
        """Read until the connection ends; `BodyClient.stream` runs it."""
        try:
            while True:
                message = await self._connection.recv()
                if isinstance(message, bytes):
                    await self._take_picture(message)
                else:
                    self._take_word(json.loads(message))
                self._poke()
        except ConnectionClosed:
            self.closed = True
            self._poke()

    # -- looking ---------------------------------------------------------------------------------

    async def until(self, met: Callable[[View], bool]) -> None:
        """Wait until *met* is true of what this view knows.

        Raises:
            Unavailable: the connection has ended.
        """
        while not met(self):
            if self.closed:
                raise errors.Unavailable("the live view has ended")
            await self._changed.wait()

    async def next_frame(self) -> NDArray[np.uint8]:
        """The screen after the next frame."""
        before = self.frames
        await self.until(lambda view: view.frames > before)
        return self.screen

    # -- driving ---------------------------------------------------------------------------------

    async def take_over(self, reason: str = "") -> str:
        """Take the body for the person at this view; returns the lease token.

        Raises:
            Forbidden, RecoveryRequired, BodyStopped.
        """
        told = await self._ask("granted", "take_over", reason=reason)
        self.lease_token = str(told["lease_token"])
        return self.lease_token

    async def drive(self, lease_token: str) -> None:
        """Go on driving under the claim of an earlier view.

        Raises:
            StaleLease.
        """
        told = await self._ask("granted", "drive", lease_token=lease_token)
        self.lease_token = str(told["lease_token"])

    async def hand_back(self) -> None:
        """Give the body back."""
        await self._ask("done", "hand_back")
        self.lease_token = None

    async def move(self, x: int, y: int) -> None:
        await self._say("pointer", x=x, y=y)

    async def button(self, x: int, y: int, *, down: bool, button: str = "left") -> None:
        await self._say("button", button=button, down=down, x=x, y=y)

    async def click(self, x: int, y: int, button: str = "left") -> None:
        await self.button(x, y, down=True, button=button)
        await self.button(x, y, down=False, button=button)

    async def wheel(self, x: int, y: int, *, dx: int = 0, dy: int = 0) -> None:
        await self._say("wheel", x=x, y=y, dx=dx, dy=dy)

    async def key(self, key: str, *, down: bool) -> None:
        """A key by its W3C `key` value."""
        await self._say("key", key=key, down=down)

    async def press(self, *keys: str) -> None:
        """A chord: down in order, up in the other."""
        for key in keys:
            await self.key(key, down=True)
        for key in reversed(keys):
            await self.key(key, down=False)

    async def type(self, text: str) -> None:
        for start in range(0, len(text), p.MAX_TEXT):
            await self._say("text", text=text[start : start + p.MAX_TEXT])

    async def let_go(self) -> None:
        """Lift every key and button, as a page that loses the focus does."""
        await self._say("let_go")

    async def write_clipboard(self, text: str) -> None:
        await self._ask("done", "set_clipboard", text=text)

    async def read_clipboard(self) -> str:
        return str((await self._ask("clipboard", "get_clipboard"))["text"])

    # -- inside ----------------------------------------------------------------------------------

    async def _say(self, kind: str, **fields: object) -> None:
        try:
            await self._connection.send(json.dumps({"type": kind, **fields}))
        except ConnectionClosed:
            raise errors.Unavailable("the live view has ended") from None

    async def _ask(self, answer: str, kind: str, **fields: object) -> Json:
        """Say something that is answered, or refused."""
        answers = self._replies[kind] = []
        await self._say(kind, **fields)
        await self.until(lambda _: bool(answers))
        told = answers[0]
        if told["type"] == "refused":
            raise self._error_of(told["error"])
        if told["type"] != answer:
            raise errors.Unavailable(f"the live view answered {told['type']!r}, not {answer!r}")
        return told

    def _take_word(self, told: Json) -> None:
        match told["type"]:
            case "welcome":
                self.scope = told["scope"]
            case "screen":
                width, height = int(told["width"]), int(told["height"])
                if not 0 < width * height <= MOST_PIXELS:
                    raise errors.Unavailable("the live view says that the screen has an impossible size")
                self.screen = np.zeros((height, width, 3), np.uint8)
                self.exact = False
            case "state":
                self.state = told
                if told["hidden"]:
                    self.screen[...] = 0
                    self.exact = False
            case "pointer":
                self.pointer = told["x"], told["y"]
            case "refused":
                self.refused.append(told)
                self._answer(told["of"], told)
            case "granted":
                self._answer("take_over", told)
                self._answer("drive", told)
            case "clipboard":
                self._answer("get_clipboard", told)
            case "done":
                self._answer(told["of"], told)
            case _:
                pass  # a later version may say more

    def _answer(self, kind: str | None, told: Json) -> None:
        if kind in self._replies:
            self._replies.pop(kind).append(told)

    async def _take_picture(self, message: bytes) -> None:
        picture = p.unpack(message)
        self.received_bytes += len(message)
        if picture.kind is p.Kind.CURSOR:
            part = picture.parts[0]
            rgba = np.asarray(Image.open(io.BytesIO(part.data)).convert("RGBA"))
            self.cursor = rgba, part.x, part.y
            return
        for part in picture.parts:
            if not self.blind:
                self._draw(part)
            self.codecs[part.codec] = self.codecs.get(part.codec, 0) + 1
        self.exact = bool(picture.flags & p.EXACT)
        self.frames += 1
        if not self.paused:
            await self._say("ack", sequence=picture.sequence)

    def _draw(self, part: p.Part) -> None:
        if part.codec is p.Codec.H264:
            pixels = self._decode(part)
            if pixels is None:
                return
        elif part.codec is p.Codec.PALETTE:
            pixels = _painted(part)
        else:
            pixels = np.asarray(Image.open(io.BytesIO(part.data)).convert("RGB"))
        there = self.screen[part.y : part.y + part.height, part.x : part.x + part.width]
        there[...] = pixels[: there.shape[0], : there.shape[1]]

    def _decode(self, part: p.Part) -> NDArray[np.uint8] | None:
        if part.flags & p.KEY:
            self._decoder = self._av.CodecContext.create("h264", "r")
            self._decoder.thread_count = 1
            self._decoder.flags |= 0x80000  # AV_CODEC_FLAG_LOW_DELAY: hold no frame back
        if self._decoder is None:
            return None
        frames = self._decoder.decode(self._av.Packet(part.data))
        return np.asarray(frames[-1].to_ndarray(format="rgb24")) if frames else None

    def _poke(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


def _painted(part: p.Part) -> NDArray[np.uint8]:
    """The pixels of a PALETTE part."""
    count = part.data[0] + 1
    colours = np.frombuffer(part.data, np.uint8, 3 * count, 1).reshape(count, 3)
    if count == 1:
        return np.broadcast_to(colours[0], (part.height, part.width, 3))
    indices = np.frombuffer(part.data, np.uint8, part.width * part.height, 1 + 3 * count)
    return np.asarray(colours[indices].reshape(part.height, part.width, 3))


def _decoder() -> Any:  # noqa: ANN401
    try:
        return importlib.import_module("av")
    except ImportError:
        return None


def _websocket(url: str) -> str:
    parts = urlsplit(url)
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    return f"{scheme}://{parts.netloc}{parts.path.rstrip('/')}/v1/stream"
