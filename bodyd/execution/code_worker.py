"""The program in the code tool's sandbox: runs what it is told, in one namespace that lives on.

It is executed by the host's Python, away from the daemon: standard library alone, Pillow and numpy only
where code asks for them. What it says is believed by nobody: code.py and code_ui.py judge every frame. A
frame is a head of 8 bytes (length of JSON, length of what follows), the JSON, and the bytes that follow.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import ctypes
import importlib
import io
import json
import linecache
import os
import resource
import socket
import struct
import sys
import threading
import traceback
from collections.abc import Sequence
from typing import Any, TypeAlias

Value: TypeAlias = Any
HEAD = struct.Struct(">II")
MAX_TRACE = 40  # lines


class UIError(Exception):
    """A call of `ui` that was refused, or did not come off; `code` is bodyd's."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class Revoked(UIError):
    """The lease has ended: nothing that is left of the code can act any more."""


class Line:
    """The one way out. Whole frames, one thread at a time, and only while a call runs."""

    def __init__(self, wire: socket.socket) -> None:
        self._wire = wire
        self._sending = threading.Lock()
        self._asking = threading.Lock()
        self.call = 0  # 0: none runs, and nothing is sent

    def send(self, head: dict[str, Value], tail: bytes = b"") -> None:
        with self._sending:
            if self.call:
                text = json.dumps({"call": self.call, **head}).encode()
                self._wire.sendall(HEAD.pack(len(text), len(tail)) + text + tail)

    def end(self, head: dict[str, Value]) -> None:
        """The last frame of a call; threads that it left behind say nothing after it."""
        with self._sending:
            text = json.dumps({"call": self.call, **head}).encode()
            self.call = 0
            self._wire.sendall(HEAD.pack(len(text), 0) + text)

    def read(self) -> tuple[dict[str, Value], bytes]:
        size, tail = HEAD.unpack(self._exactly(HEAD.size))
        head: dict[str, Value] = json.loads(self._exactly(size))
        return head, self._exactly(tail)

    def ask(self, op: str, **args: Value) -> tuple[Value, bytes]:
        """One call of the body's; blocks until it is answered."""
        with self._asking:
            if not self.call:
                raise Revoked("no call runs: `ui` works only while one does")
            self.send({"op": op, "args": args})
            answer, tail = self.read()
        error = answer.get("error")
        if error is not None:
            kind = Revoked if error.get("over") else UIError
            raise kind(error["message"], error["code"])
        return answer.get("value"), tail

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self._wire.recv(size - len(parts))
            if not part:
                os._exit(0)  # the daemon hung up
            parts += part
        return bytes(parts)


class UI:
    """The desktop, through bodyd's door: each call is one input under the conversation's lease.

    Coordinates are those of the latest screenshot that this conversation was given.
    """

    def __init__(self, line: Line) -> None:
        self._line = line

    def inputs(self, *actions: dict[str, Value]) -> Value:
        """Up to 64 actions, as in `POST /v1/input`, in one batch; its receipt."""
        return self._line.ask("inputs", inputs=list(actions))[0]

    def screenshot(self, *, cursor: bool = False, max_width: int | None = None) -> Value:
        """The screen as a PIL image, once it has settled. Later coordinates are of this picture."""
        from PIL import Image

        facts, png = self._line.ask("screenshot", cursor=cursor, max_width=max_width)
        image = Image.open(io.BytesIO(png))
        image.load()
        image.info["screenshot_id"] = facts["screenshot_id"]
        return image

    def click(self, x: float, y: float, button: str = "left", keys: Sequence[str] = ()) -> Value:
        return self.inputs(_pointer("click", x, y, keys, button=button))

    def double_click(self, x: float, y: float, button: str = "left", keys: Sequence[str] = ()) -> Value:
        return self.inputs(_pointer("double_click", x, y, keys, button=button))

    def triple_click(self, x: float, y: float, button: str = "left", keys: Sequence[str] = ()) -> Value:
        return self.inputs(_pointer("triple_click", x, y, keys, button=button))

    def move(self, x: float, y: float) -> Value:
        return self.inputs(_pointer("move", x, y))

    def drag(self, path: Sequence[tuple[float, float]], keys: Sequence[str] = ()) -> Value:
        """Press the left button at the first point, pass every point, release at the last."""
        points = [{"x": round(x), "y": round(y)} for x, y in path]
        return self.inputs({"type": "drag", "path": points, **_keys(keys)})

    def scroll(self, x: float, y: float, scroll_x: float = 0, scroll_y: float = 0) -> Value:
        """By pixels: +y down, +x right."""
        return self.inputs(_pointer("scroll", x, y, scroll_x=round(scroll_x), scroll_y=round(scroll_y)))

    def type(self, text: str) -> Value:
        return self.inputs({"type": "type", "text": text})

    def paste(self, text: str) -> Value:
        return self.inputs({"type": "paste", "text": text})

    def key(self, *keys: str) -> Value:
        """One chord, pressed together: key("CTRL", "s")."""
        return self.inputs({"type": "keypress", "keys": list(keys)})

    def hold(self, keys: Sequence[str], seconds: float) -> Value:
        return self.inputs({"type": "hold", "keys": list(keys), "duration_ms": round(seconds * 1000)})

    def wait(self, seconds: float = 2.0) -> Value:
        return self.inputs({"type": "wait", "ms": round(seconds * 1000)})

    def settle(self) -> None:
        """Wait until the screen has come to rest, at most a second."""
        self._line.ask("settle")

    def windows(self) -> Value:
        """The windows, bottom to top: id, app, title, bounds, active, minimised, stacking."""
        return self._line.ask("windows")[0]

    def activate(self, window_id: int) -> Value:
        return self._line.ask("activate", window_id=window_id)[0]

    def close(self, window_id: int) -> Value:
        return self._line.ask("close", window_id=window_id)[0]

    def launch(self, name: str) -> Value:
        """Start one of the configured apps."""
        return self._line.ask("launch", name=name)[0]

    def clipboard(self) -> Value:
        return self._line.ask("clipboard")[0]

    def set_clipboard(self, text: str) -> Value:
        return self._line.ask("set_clipboard", text=text)[0]

    def size(self) -> tuple[int, int]:
        """Of the screen, in pixels."""
        facts = self._line.ask("pointer")[0]
        return facts["width"], facts["height"]

    def position(self) -> tuple[int, int]:
        """Of the pointer, on the screen."""
        facts = self._line.ask("pointer")[0]
        return facts["x"], facts["y"]


def _pointer(kind: str, x: float, y: float, keys: Sequence[str] = (), **more: object) -> Value:
    return {"type": kind, "x": round(x), "y": round(y), **_keys(keys), **more}


def _keys(keys: Sequence[str]) -> Value:
    return {"keys": list(keys)} if keys else {}


# -- running ----------------------------------------------------------------------------------------


class Out(io.TextIOBase):
    """stdout and stderr of code."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if text:
            self._line.send({"op": "text", "text": text.encode("utf-8", "replace").decode()[:100_000]})
        return len(text)


class Runner:
    """The namespace, and the running of code in it."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._count = 0
        self.ui = UI(line)
        gestures = importlib.import_module("gestures").Gestures(self.ui, UIError)
        sys.modules["pyautogui"] = self.gestures = gestures
        self.names: dict[str, Value] = {
            "__name__": "__main__",
            "__builtins__": builtins,
            "ui": self.ui,
            "pyautogui": gestures,
            "UIError": UIError,
            "Revoked": Revoked,
            "log": self.log,
            "display": self.display,
        }

    def log(self, *things: object) -> None:
        """Say something to whoever asked for this code to be run."""
        self._line.send({"op": "text", "text": " ".join(map(str, things)) + "\n"})

    def display(self, image: Value) -> None:
        """Show a PIL image, or the bytes of a PNG, to whoever asked for this code to be run."""
        if isinstance(image, bytes | bytearray):
            png = bytes(image)
        else:
            if not hasattr(image, "save"):
                from PIL import Image

                image = Image.fromarray(image)
            out = io.BytesIO()
            image.save(out, "PNG")
            png = out.getvalue()
        self._line.send({"op": "image"}, png)

    def run(self, code: str) -> str | None:
        """Run *code*; the value of a last expression is shown. Returns the end of a traceback, or None."""
        self._count += 1
        self.gestures.begin()
        name = f"<code {self._count}>"
        linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
        out = Out(self._line)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            try:
                tree = ast.parse(code, name)
                last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
                exec(compile(tree, name, "exec"), self.names)
                if isinstance(last, ast.Expr):
                    value = eval(compile(ast.Expression(last.value), name, "eval"), self.names)
                    if value is not None:
                        out.write(f"{value!r}\n")
            except SystemExit as exc:
                return None if not exc.code else f"SystemExit: {exc.code}"
            except BaseException as exc:  # noqa: ASYNC103  (told to whoever asked)
                return _trace(exc)  # noqa: ASYNC104
        return None


def _trace(exc: BaseException) -> str:
    """The traceback through the code's own lines, cut to its end; what is this program's is left out."""
    report = traceback.TracebackException.from_exception(exc)
    ours = os.path.dirname(os.path.abspath(__file__)) + "/"
    link: traceback.TracebackException | None = report
    while link is not None:
        link.stack = traceback.StackSummary.from_list(
            [f for f in link.stack if not f.filename.startswith(ours)]
        )
        link = link.__cause__ or link.__context__
    lines = "".join(report.format()).splitlines()
    if len(lines) > MAX_TRACE:
        lines = [f"… {len(lines) - MAX_TRACE} lines left out", *lines[-MAX_TRACE:]]
    return "\n".join(lines)


def limit(memory: int) -> None:
    """No more than was given; no core files, few threads, no large files."""
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_DATA, memory),
        (resource.RLIMIT_NOFILE, 256),
        (resource.RLIMIT_NPROC, 64),
    ):
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


def confine(path: str) -> None:
    """Install the second filter: from here on nothing can be executed."""

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))

    with open(path, "rb") as file:
        code = file.read()
    libc = ctypes.CDLL(None, use_errno=True)
    program = Program(len(code) // 8, code)
    if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, ctypes.byref(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the filter could not be installed")


def main(argv: Sequence[str]) -> None:
    fd, memory, folder = int(argv[1]), int(argv[2]), argv[3]
    limit(memory)
    sys.path.insert(0, os.path.dirname(argv[4]))
    confine(argv[4])
    os.chdir(folder)
    line = Line(socket.socket(fileno=fd))
    runner = Runner(line)
    while True:
        order, _ = line.read()
        line.call = order["call"]
        error = runner.run(order["code"])
        line.end({"op": "done", "error": error})


if __name__ == "__main__":
    main(sys.argv)
