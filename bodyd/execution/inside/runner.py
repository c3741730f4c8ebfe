"""Runs what it is told, in one namespace that lives on."""

from __future__ import annotations

import ast
import builtins
import contextlib
import io
import linecache
import os
import sys
import traceback

from .desk import UI
from .gestures import Gestures
from .line import MAX_IMAGES, MAX_ITEMS, Line, Revoked, UIError, Value

MAX_TRACE = 40  # lines
MAX_TRACE_BYTES = 8 * 1024


class Out(io.TextIOBase):
    """stdout and stderr of code."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._line.text(text)
        return len(text)


class Runner:
    """The namespace, and the running of code in it."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._count = self._shown = self._room = 0
        self.ui = UI(line)
        gestures = Gestures(self.ui, UIError)
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
        self._line.text(" ".join(map(str, things)) + "\n")

    def display(self, image: Value) -> None:
        """Show a PIL image, or the bytes of a PNG, to whoever asked for this code to be run."""
        if self._shown >= MAX_ITEMS:
            self._line.omit_image()
            return
        png = _png(image)
        self._room -= len(png)
        if self._room < 0:
            self._room += len(png)
            self._line.omit_image()
            return
        self._shown += 1
        self._line.send({"op": "image"}, png)

    def run(self, code: str) -> str | None:
        """Run *code*; the value of a last expression is shown. Returns the end of a traceback, or None."""
        self._count += 1
        self._shown, self._room = 0, MAX_IMAGES
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
                return None if not exc.code else f"SystemExit: {exc.code}"[:MAX_TRACE_BYTES]
            except BaseException as exc:  # noqa: ASYNC103  (told to whoever asked)
                return _trace(exc)  # noqa: ASYNC104
        return None


def _png(image: Value) -> bytes:
    """Of a PIL image, an array, or what is one already."""
    if isinstance(image, bytes | bytearray):
        return bytes(image)
    if not hasattr(image, "save"):
        from PIL import Image

        if not hasattr(image, "__array_interface__"):
            raise TypeError(
                f"display() takes a PIL image, an array or a PNG's bytes, not {type(image).__name__}"
            )
        image = Image.fromarray(image)
    if image.mode not in ("1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16"):
        image = image.convert("RGB")
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


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
    text = "\n".join(lines).encode("utf-8", "replace")
    left_out = len(text) - MAX_TRACE_BYTES
    if left_out > 0:
        return f"… {left_out} bytes left out\n" + text[left_out:].decode("utf-8", "ignore")
    return text.decode()
