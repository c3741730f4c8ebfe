"""Runs in a peer's own environment: does what it is told on stdin, one JSON object a line, and times it.

`python peer_driver.py NAME` answers {"ready": version}, then for each request {"do": "screenshot"},
{"do": "click", "x", "y"}, {"do": "type", "text"} or {"do": "save", "path"} (the last picture's PNG)
{"begun", "ended", "cpu"}: CLOCK_MONOTONIC and CPU seconds, those of child processes and of a server
that belongs to the peer included; or {"error"}. Knows nothing of bodyd. Ends with its stdin.
"""

from __future__ import annotations

import base64
import http.client
import importlib.metadata
import io
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


class PyAutoGui:
    def __init__(self, pause: float | None = None) -> None:
        import pyautogui

        self.gui: Any = pyautogui
        if pause is not None:
            pyautogui.PAUSE = pause
        self.version = importlib.metadata.version("pyautogui")

    def screenshot(self) -> bytes:
        out = io.BytesIO()
        self.gui.screenshot().save(out, "png")
        return out.getvalue()

    def click(self, x: int, y: int) -> None:
        self.gui.click(x, y)

    def type(self, text: str) -> None:
        self.gui.write(text)


class XdotoolScrot:
    def __init__(self) -> None:
        self.version = subprocess.run(["xdotool", "version"], check=True, capture_output=True).stdout.decode()
        self.path = Path(tempfile.mkdtemp(dir=os.environ["HOME"])) / "shot.png"

    def screenshot(self) -> bytes:
        subprocess.run(["scrot", "-o", str(self.path)], check=True)
        return self.path.read_bytes()

    def click(self, x: int, y: int) -> None:
        subprocess.run(["xdotool", "mousemove", str(x), str(y), "click", "1"], check=True)

    def type(self, text: str) -> None:
        subprocess.run(["xdotool", "type", "--", text], check=True)


class MssPillow:
    def __init__(self) -> None:
        import mss

        self.mss: Any = mss.mss()
        self.version = importlib.metadata.version("mss")

    def screenshot(self) -> bytes:
        from PIL import Image

        shot = self.mss.grab(self.mss.monitors[0])
        out = io.BytesIO()
        Image.frombytes("RGB", shot.size, shot.bgra, "raw", "BGRX").save(out, "png", compress_level=1)
        return out.getvalue()


class Pynput:
    def __init__(self) -> None:
        from pynput import keyboard, mouse

        self.mouse, self.keyboard = mouse.Controller(), keyboard.Controller()
        self.left = mouse.Button.left
        self.version = importlib.metadata.version("pynput")

    def click(self, x: int, y: int) -> None:
        self.mouse.position = (x, y)
        self.mouse.click(self.left)

    def type(self, text: str) -> None:
        self.keyboard.type(text)


class Cua:
    """Its server beside this process, driven over its HTTP API on loopback, on one kept connection."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        env = {name: value for name, value in os.environ.items() if name != "CONTAINER_NAME"}
        command = [str(Path(sys.executable).with_name("cua-computer-server"))]
        self.server = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)],
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.used = 0.0
        self.http = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self.version = importlib.metadata.version("cua-computer-server")
        self._wait()

    def _wait(self) -> None:
        end = time.monotonic() + 60
        while True:
            try:
                self._command("get_cursor_position")
                return
            except OSError:
                self.http.close()
                if time.monotonic() > end or self.server.poll() is not None:
                    raise
                time.sleep(0.1)

    def screenshot(self) -> bytes:
        return base64.b64decode(self._command("screenshot")["image_data"])

    def click(self, x: int, y: int) -> None:
        self._command("left_click", x=x, y=y)

    def type(self, text: str) -> None:
        self._command("type_text", text=text)

    def _command(self, command: str, **params: object) -> dict[str, Any]:
        if time.monotonic() - self.used > 2.0:
            self.http.close()  # the server has hung up on an idle connection, or is about to
        self.used = time.monotonic()
        body = json.dumps({"command": command, "params": params})
        self.http.request("POST", "/cmd", body, {"content-type": "application/json"})
        answer = self.http.getresponse().read().decode()
        said: dict[str, Any] = json.loads(answer.partition("data: ")[2])
        if not said.get("success"):
            raise RuntimeError(str(said))
        return said


DRIVERS: dict[str, Any] = {
    "pyautogui": PyAutoGui,
    "pyautogui, PAUSE = 0": lambda: PyAutoGui(0.0),
    "xdotool + scrot": XdotoolScrot,
    "mss + Pillow": MssPillow,
    "pynput": Pynput,
    "cua-computer-server": Cua,
}


def cpu(driver: object) -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = time.process_time() + children.ru_utime + children.ru_stime
    if isinstance(driver, Cua):
        threads = Path(f"/proc/{driver.server.pid}/task").iterdir()
        used += sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9
    return used


def main() -> None:
    answers, sys.stdout = sys.stdout, sys.stderr  # libraries print
    driver = DRIVERS[sys.argv[1]]()
    print(json.dumps({"ready": driver.version}), file=answers, flush=True)
    picture = b""
    try:
        for line in sys.stdin:
            request = json.loads(line)
            what = request.pop("do")
            if what == "save":
                Path(request["path"]).write_bytes(picture)
            used, begun = cpu(driver), time.perf_counter()
            try:
                if what == "screenshot":
                    picture = driver.screenshot()
                elif what != "save":
                    getattr(driver, what)(**request)
            except Exception as exc:  # whatever a library raises; it may still do other things
                answer: dict[str, object] = {"error": f"{type(exc).__name__}: {exc}"}
            else:
                ended = time.perf_counter()
                answer = {"begun": begun, "ended": ended, "cpu": cpu(driver) - used}
            print(json.dumps(answer), file=answers, flush=True)
    finally:
        if isinstance(driver, Cua):
            driver.server.kill()
            driver.server.wait()


if __name__ == "__main__":
    main()
