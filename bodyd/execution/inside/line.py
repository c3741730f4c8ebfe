"""The wire to the daemon. Counterpart: code_box.py.

A frame is a head of 8 bytes (length of JSON, length of what follows), the JSON, and the bytes that follow.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
import time
from typing import Any, TypeAlias

Value: TypeAlias = Any
HEAD = struct.Struct(">II")
MAX_TEXT, MAX_IMAGES, MAX_ITEMS = 60 * 1024, 8 * 1024 * 1024, 250
"""The body's own bounds (contract/code.py): what is over them is not even sent."""

CHUNK = 16 * 1024
LINGER_S = 0.02


class UIError(Exception):
    """A call of `ui` that was refused, or did not come off; `code` is bodyd's."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class Revoked(UIError):
    """The lease has ended: nothing that is left of the code can act any more."""


class Line:
    """The one way out. Whole frames, one thread at a time, and only while a call runs.

    What is printed is kept for a moment, for one frame of many small pieces; any other frame goes after it.
    """

    def __init__(self, wire: socket.socket) -> None:
        self._wire = wire
        self.call = 0  # 0: none runs, and nothing is sent
        self._asked = 0
        self._room = 0
        self._begin()
        os.register_at_fork(after_in_child=self._mute)

    def _begin(self) -> None:
        self._sending = threading.Lock()
        self._asking = threading.Lock()
        self._printed = threading.Event()
        self._pending = bytearray()
        self._omitted = self._omitted_images = 0
        self._lingering: threading.Thread | None = None

    def _mute(self) -> None:
        """A child of code's has no say, and locks that nobody lets go."""
        self.call = 0
        self._wire.close()
        self._begin()

    def next(self) -> str:
        """Wait for the next call; its code."""
        order: dict[str, Value] = {}
        while "code" not in order:  # an answer that code did not wait for
            order, _ = self._read()
        self._room = MAX_TEXT
        self.call = order["call"]
        code: str = order["code"]
        return code

    def text(self, text: str) -> None:
        with self._sending:
            if not self.call:
                return
            data = text.encode("utf-8", "replace")
            kept = data[: self._room].decode("utf-8", "ignore").encode()
            self._pending += kept
            self._room = self._room - len(kept) if len(kept) == len(data) else 0
            self._omitted += len(data) - len(kept)
            if len(self._pending) >= CHUNK:
                self._flush()
                return
            if self._lingering is None:
                self._lingering = threading.Thread(target=self._linger, daemon=True)
                self._lingering.start()
        self._printed.set()

    def omit_image(self) -> None:
        with self._sending:
            self._omitted_images += 1

    def send(self, head: dict[str, Value], tail: bytes = b"") -> None:
        with self._sending:
            if self.call:
                self._flush()
                self._frame(head, tail)

    def end(self, error: str | None) -> None:
        """The last frame of a call; threads that it left behind say and ask nothing after it."""
        with self._asking, self._sending:
            if not self.call:
                os._exit(0)  # a child that ran on to the end of its parent's code
            self._flush()
            self._frame({"op": "done", "error": error})
            self.call = 0

    def ask(self, op: str, **args: Value) -> tuple[Value, bytes]:
        """One call of the body's; blocks until it is answered."""
        with self._asking:
            if not self.call:
                raise Revoked("no call runs: `ui` works only while one does")
            self._asked += 1
            self.send({"op": op, "args": args, "ask": self._asked})
            answer: dict[str, Value] = {}
            while answer.get("ask") != self._asked:  # an earlier one, whose waiting a signal's handler ended
                answer, tail = self._read()
        error = answer.get("error")
        if error is not None:
            kind = Revoked if error.get("over") else UIError
            raise kind(error["message"], error["code"])
        return answer.get("value"), tail

    def _linger(self) -> None:
        while True:
            self._printed.wait()
            time.sleep(LINGER_S)
            with self._sending:
                self._printed.clear()
                if self.call:
                    self._flush()

    def _flush(self) -> None:
        if not (self._pending or self._omitted or self._omitted_images):
            return
        text, self._pending = self._pending.decode("utf-8", "replace"), bytearray()
        left_out, self._omitted = self._omitted, 0
        images, self._omitted_images = self._omitted_images, 0
        self._frame({"op": "text", "text": text, "omitted": left_out, "omitted_images": images})

    def _frame(self, head: dict[str, Value], tail: bytes = b"") -> None:
        text = json.dumps({"call": self.call, **head}).encode()
        self._wire.sendall(HEAD.pack(len(text), len(tail)) + text + tail)

    def _read(self) -> tuple[dict[str, Value], bytes]:
        size, tail = HEAD.unpack(self._exactly(HEAD.size))
        head: dict[str, Value] = json.loads(self._exactly(size))
        return head, self._exactly(tail)

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self._wire.recv(size - len(parts))
            if not part:
                os._exit(0)  # the daemon hung up
            parts += part
        return bytes(parts)
