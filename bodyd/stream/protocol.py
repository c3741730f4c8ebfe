"""The stream's wire, version 1. Pure.

Server to client: text messages are JSON objects with a `type`; binary messages are pictures: a header,
then parts. Client to server: JSON only. docs/reference/stream.md is the contract; the counterparts are
session.py, bodyd/client_view.py and http/web/view.js. All numbers are little-endian.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from bodyd.errors import InvalidRequest

VERSION = 1
PATH = "/v1/stream"
SUBPROTOCOL = "bodyd.stream.v1"
TICKET_PREFIX = "bodyd.ticket."
"""Before a one-use ticket, offered as a second subprotocol: browsers can't send an Authorization header."""

WINDOW = 2
"""Frames that may be under way to one client before it has acknowledged any of them."""

MAX_MESSAGE = 2 * 1024 * 1024
MAX_TEXT = 4096
MAX_CLIPBOARD = 1024 * 1024

_HEADER = struct.Struct("<BBHII")
_PART = struct.Struct("<BBHHHHHI")


class Kind(IntEnum):
    """What a binary message is: a piece of the screen, or the pointer's picture."""

    FRAME = 1
    CURSOR = 2


class Codec(IntEnum):
    """How a part is encoded. PNG and PALETTE are exact; of H264, a part is one access unit (Annex B)."""

    PNG = 0
    JPEG = 1
    H264 = 2
    PALETTE = 3


def pack_palette(colours: bytes, indices: bytes) -> bytes:
    """The data of a PALETTE part: how many colours less one, RGB of each, an index for each pixel.

    Args:
        indices: Row by row; not sent where there is one colour alone.
    """
    count = len(colours) // 3
    return bytes((count - 1,)) + colours + (indices if count > 1 else b"")


EXACT = 1
"""Flag of a frame: once it is drawn, every pixel is the body's own."""

KEY = 1
"""Flag of an H.264 part: a decoder can start here, at this size."""


@dataclass(frozen=True, slots=True)
class Part:
    """A rectangle of the screen. Of a cursor, x and y are the hot spot."""

    codec: Codec
    x: int
    y: int
    width: int
    height: int
    data: bytes
    flags: int = 0


@dataclass(frozen=True, slots=True)
class Picture:
    """One binary message."""

    kind: Kind
    sequence: int
    epoch: int
    parts: tuple[Part, ...]
    flags: int = 0


def pack(kind: Kind, sequence: int, epoch: int, parts: Sequence[Part], flags: int = 0) -> bytes:
    """A binary message."""
    pieces = [_HEADER.pack(kind, flags, len(parts), sequence & 0xFFFFFFFF, epoch & 0xFFFFFFFF)]
    for part in parts:
        place = (part.x, part.y, part.width, part.height)
        pieces += (_PART.pack(part.codec, part.flags, *place, 0, len(part.data)), part.data)
    return b"".join(pieces)


def unpack(message: bytes) -> Picture:
    """The inverse of `pack`.

    Raises:
        ValueError: it is no such message.
    """
    try:
        kind, flags, count, sequence, epoch = _HEADER.unpack_from(message)
        at, parts = _HEADER.size, []
        for _ in range(count):
            codec, marks, x, y, width, height, _reserved, length = _PART.unpack_from(message, at)
            at += _PART.size
            if at + length > len(message):
                raise ValueError("a part is longer than its message")
            parts.append(Part(Codec(codec), x, y, width, height, message[at : at + length], marks))
            at += length
        return Picture(Kind(kind), sequence, epoch, tuple(parts), flags)
    except struct.error as exc:
        raise ValueError(f"a picture that ends too early: {exc}") from None


# -- what clients say ------------------------------------------------------------------------------


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


Coordinate = Annotated[int, Field(strict=True, ge=0, le=32767)]
Notches = Annotated[int, Field(strict=True, ge=-50, le=50)]


class Hello(_Message):
    """First of all; `codecs` are those that the client can decode, beside PNG and JPEG."""

    type: Literal["hello"]
    version: Annotated[int, Field(strict=True)]
    codecs: tuple[Literal["h264"], ...] = ()


class Ack(_Message):
    """The frame of that sequence number has been drawn."""

    type: Literal["ack"]
    sequence: Annotated[int, Field(strict=True, ge=0)]


class Ping(_Message):
    """Answered at once, to tell how far away the server is."""

    type: Literal["ping"]
    id: Annotated[int, Field(strict=True, ge=0)]


class TakeOver(_Message):
    """Take the body for this person; owners only."""

    type: Literal["take_over"]
    reason: Annotated[str, Field(max_length=500)] = ""


class Drive(_Message):
    """Go on driving under the claim of an earlier connection."""

    type: Literal["drive"]
    lease_token: Annotated[str, Field(min_length=1, max_length=200)]


class HandBack(_Message):
    """Give the body back: to the agent whose claim was suspended, or to nobody."""

    type: Literal["hand_back"]


class Pointer(_Message):
    """The pointer moves to a pixel of the body's screen."""

    type: Literal["pointer"]
    x: Coordinate
    y: Coordinate


class Button(_Message):
    """A button goes down or up at a pixel."""

    type: Literal["button"]
    button: Literal["left", "middle", "right", "back", "forward"]
    down: bool
    x: Coordinate
    y: Coordinate


class Wheel(_Message):
    """Notches of the wheel at a pixel: down and right are positive."""

    type: Literal["wheel"]
    x: Coordinate
    y: Coordinate
    dx: Notches = 0
    dy: Notches = 0


class KeyPress(_Message):
    """A key goes down or up, by its name: a W3C `key` value, or one character."""

    type: Literal["key"]
    key: Annotated[str, Field(min_length=1, max_length=32)]
    down: bool


class Text(_Message):
    """Text that a keyboard or an input method has composed."""

    type: Literal["text"]
    text: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]


class LetGo(_Message):
    """The page lost the focus: lift every key and button."""

    type: Literal["let_go"]


class SetClipboard(_Message):
    """Put text on the body's clipboard."""

    type: Literal["set_clipboard"]
    text: Annotated[str, Field(max_length=MAX_CLIPBOARD)]


class GetClipboard(_Message):
    """Ask for the text on the body's clipboard."""

    type: Literal["get_clipboard"]


Input = Pointer | Button | Wheel | KeyPress | Text | LetGo
Request = TakeOver | Drive | HandBack | SetClipboard | GetClipboard
Message = Hello | Ack | Ping | Input | Request

_MESSAGES: TypeAdapter[Message] = TypeAdapter(Annotated[Message, Field(discriminator="type")])


def parse(message: str | bytes) -> Message:
    """What a client said.

    Raises:
        InvalidRequest: it is no message of this protocol; the text does not repeat what was said.
    """
    if isinstance(message, bytes):
        raise InvalidRequest("a client sends JSON in text messages, nothing binary")
    try:
        return _MESSAGES.validate_json(message)
    except ValidationError as exc:
        fault = exc.errors(include_url=False, include_input=False, include_context=False)[0]
        if fault["type"].startswith("union_tag"):
            raise InvalidRequest("no message of this protocol has such a type") from None
        where = ".".join(str(part) for part in fault["loc"])
        raise InvalidRequest(f"no message of this protocol: {where}: {fault['msg']:.100}") from None


# -- what the server says --------------------------------------------------------------------------


class Said(StrEnum):
    """The `type` of the server's text messages."""

    WELCOME = "welcome"
    SCREEN = "screen"
    STATE = "state"
    POINTER = "pointer"
    GRANTED = "granted"
    CLIPBOARD = "clipboard"
    REFUSED = "refused"
    DONE = "done"
    PONG = "pong"


def say(kind: Said, **fields: Any) -> str:  # noqa: ANN401
    """A text message."""
    return json.dumps({"type": kind.value, **fields}, ensure_ascii=False)
