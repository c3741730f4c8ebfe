"""What came of one call of the code tool: texts and pictures in order, within their bounds.

Fed by code.py with what a worker says, which may be anything. Nothing here decodes a picture.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bodyd.contract.code import MAX_IMAGE_BYTES, MAX_ITEMS, MAX_TEXT_BYTES
from bodyd.contract.ports import CodeItem

MAX_SIDE = 16384
_PNG = b"\x89PNG\r\n\x1a\n"
_COUNTABLE = 2**53  # what JSON's numbers hold everywhere


@dataclass
class Outcome:
    """What came of one call. Implements ports.CodeOutcome.

    Attributes:
        call_id: Its receipts are `{call_id}.N`, N counting the `ui` calls from 1.
        output: Texts and pictures in order, as the content of a function call's output.
        error: {type, message} where it did not run to its end: exception, timeout, revoked, worker.
        state_lost: Names that earlier calls had made are gone.
        omitted_bytes: Of text that was too much; its head was kept.
        omitted_images: Pictures that were too much, or none.
        tell: Told of each piece that is kept, as it comes.
    """

    call_id: str
    output: list[dict[str, str]] = field(default_factory=list)
    error: dict[str, str] | None = None
    ui_calls: int = 0
    state_lost: bool = False
    omitted_bytes: int = 0
    omitted_images: int = 0
    tell: Callable[[CodeItem], None] | None = None
    _text: int = 0
    _image: int = 0

    def say(self, text: str) -> None:
        """Keep *text*, as far as there is room."""
        data = text.encode("utf-8", "replace")
        joins = bool(self.output) and self.output[-1]["type"] == "input_text"
        room = MAX_TEXT_BYTES - self._text if joins or len(self.output) < MAX_ITEMS else 0
        kept = data[:room].decode("utf-8", "ignore")
        size = len(kept.encode())
        self._text += size
        self.omit(len(data) - size)
        if not kept:
            return
        if joins:
            self.output[-1]["text"] += kept
        else:
            self.output.append({"type": "input_text", "text": kept})
        self._told(CodeItem("text", kept))

    def show(self, png: bytes) -> None:
        """Keep a picture, by its header alone."""
        fits = self._image + len(png) <= MAX_IMAGE_BYTES and len(self.output) < MAX_ITEMS
        if not fits or not is_png(png):
            self.omit(images=1)
            return
        self._image += len(png)
        url = f"data:image/png;base64,{base64.b64encode(png).decode()}"
        self.output.append({"type": "input_image", "image_url": url})
        self._told(CodeItem("image", url))

    def omit(self, text: object = 0, images: object = 0) -> None:
        """Count what is not there; a worker may claim to have left out anything."""
        self.omitted_bytes = _sum(self.omitted_bytes, text)
        self.omitted_images = _sum(self.omitted_images, images)

    def fail(self, kind: str, message: str) -> None:
        """It did not run to its end, and why."""
        self.error = {"type": kind, "message": message}

    def to_json(self) -> dict[str, Any]:
        return {
            "call_id": self.call_id,
            "output": self.output,
            "error": self.error,
            "ui_calls": self.ui_calls,
            "state_lost": self.state_lost,
            "omitted_bytes": self.omitted_bytes,
            "omitted_images": self.omitted_images,
        }

    def _told(self, item: CodeItem) -> None:
        if self.tell is not None:
            self.tell(item)


def is_png(data: bytes) -> bool:
    """Whether *data* begins as a PNG of a sane size does."""
    if len(data) < 33 or data[:8] != _PNG or data[12:16] != b"IHDR":
        return False
    width, height = struct.unpack(">II", data[16:24])
    return bool(0 < width <= MAX_SIDE and 0 < height <= MAX_SIDE)


def _sum(count: int, more: object) -> int:
    if isinstance(more, bool) or not isinstance(more, int) or more < 0:
        return count
    return min(count + more, _COUNTABLE)
