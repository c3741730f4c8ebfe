"""The peers: what people drive a desktop with today, each installed into an environment of its own.

Made on the first run, pinned, and kept in .venv-peers/. A peer that can't be installed or started, or
that breaks, is kept with a note of why: its rows are shown without a value, never left out.
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import trio

from tests.display.world import XServer

HERE = Path(__file__).parent
KEPT = HERE.parent / ".venv-peers"
PACKAGES = HERE.parent / "scripts/bench-packages.txt"
DEBIAN_PYTHON = "/usr/bin/python3"
START_SECONDS = 90.0
NOTE_LENGTH = 60

PYAUTOGUI = ("pyautogui==0.9.54", "pillow==13.0.0", "python-xlib==0.33")
PINS: dict[str, tuple[str, ...]] = {
    "pyautogui": PYAUTOGUI,
    "xdotool + scrot": (),
    "mss + Pillow": ("mss==10.2.0", "pillow==13.0.0"),
    "pynput": ("pynput==1.8.1", "python-xlib==0.33"),
    # the newest crashes on import with the FastAPI of today
    "cua-computer-server": ("cua-computer-server==0.1.25", "fastapi==0.139.2"),
    "pyautogui, PAUSE = 0": PYAUTOGUI,
}


class PeerFailed(Exception):
    """It could not be installed or started, broke, or took too long."""


@dataclass(frozen=True, slots=True)
class Took:
    """One call: when it began and ended (CLOCK_MONOTONIC), and the caller's CPU seconds."""

    begun: float
    ended: float
    cpu: float

    @property
    def ms(self) -> float:
        return (self.ended - self.begun) * 1000


class Peer:
    """One peer's process on the server.

    Attributes:
        version: What it says of itself.
        notes: Why it can't do something any more; under "" if it can't do anything.
    """

    def __init__(self, name: str, server: XServer) -> None:
        self.name = name
        self.version = ""
        self.notes: dict[str, str] = {}
        self._log = server.place / f"{name}.log"
        try:
            python = installed(PINS[name])
            with self._log.open("wb") as log:
                command = [python, str(HERE / "peer_driver.py"), name]
                pipe = subprocess.PIPE
                self._process = server.run(*command, stdin=pipe, stdout=pipe, stderr=log)
            self.version = str(self._answer(START_SECONDS)["ready"]).strip()
        except PeerFailed as exc:
            self.notes[""] = str(exc)
        print(f"  {name}: {self.why('') or self.version}", flush=True)

    def why(self, do: str) -> str | None:
        """Why it can't *do* that; None if it can."""
        return self.notes.get("") or self.notes.get(do)

    async def call(self, do: str, *, within: float = 30.0, **arguments: object) -> Took:
        """Have it *do* something.

        Raises:
            PeerFailed: now or earlier.
        Cancellation:
            Waits for the answer, or for *within* seconds.
        """
        return await trio.to_thread.run_sync(partial(self._call, within, {"do": do, **arguments}))

    def _call(self, within: float, request: dict[str, object]) -> Took:
        do = str(request["do"])
        if (why := self.why(do)) is not None:
            raise PeerFailed(why)
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            answer = self._answer(within)
        except (PeerFailed, OSError) as exc:
            self.notes[""] = f"{do}: {exc}"
            self._process.kill()  # its server, if it has one, goes with its group, when the X server does
            raise PeerFailed(self.notes[""]) from exc
        if "error" in answer:
            self.notes[do] = str(answer["error"])[:NOTE_LENGTH]
            raise PeerFailed(self.notes[do])
        return Took(**answer)

    def _answer(self, within: float) -> dict[str, Any]:
        output = self._process.stdout
        assert output is not None
        end, data = time.monotonic() + within, b""
        while not data.endswith(b"\n"):
            if not select.select([output], [], [], max(0.0, end - time.monotonic()))[0]:
                raise PeerFailed(f"no answer within {within:.0f} s")
            piece = os.read(output.fileno(), 65536)
            if not piece:
                said = self._log.read_text(errors="replace").strip().splitlines()
                raise PeerFailed(said[-1][:NOTE_LENGTH] if said else "it ended")
            data += piece
        return dict(json.loads(data))


def installed(pins: tuple[str, ...]) -> str:
    """The Python of an environment that holds *pins*, made if there is none yet.

    Raises:
        PeerFailed.
    """
    base = DEBIAN_PYTHON if _usable(DEBIAN_PYTHON) else sys.executable
    if not pins:
        return base
    folder = KEPT / hashlib.sha256("\n".join([base, *pins]).encode()).hexdigest()[:12]
    python = folder / "bin/python"
    if not (folder / "complete").exists():
        print(f"  installing {' '.join(pins)}", flush=True)
        _run([base, "-m", "venv", "--clear", str(folder)])
        _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *pins])
        (folder / "complete").touch()
    return str(python)


def install_packages() -> None:
    """Name the peers' Debian packages, and install them if root. What stays missing shows as a note."""
    lines = (line.partition("#")[0].strip() for line in PACKAGES.read_text().splitlines())
    missing = [name for name in lines if name and not _present(name)]
    if not missing or shutil.which("apt-get") is None:
        return
    print(f"  the peers need these Debian packages: {' '.join(missing)}", flush=True)
    if os.geteuid() != 0:
        print("  (not root: install them yourself, or some peers can't be measured)", flush=True)
        return
    subprocess.run(["apt-get", "-qq", "update"], check=False, stdout=subprocess.DEVNULL)
    subprocess.run(
        ["apt-get", "-qq", "install", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300", *missing],
        check=False,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
    )


def _present(package: str) -> bool:
    query = ["dpkg-query", "-W", "-f", "${db:Status-Status}", package]
    return subprocess.run(query, capture_output=True, check=False).stdout == b"installed"


def _usable(python: str) -> bool:
    look = [python, "-c", "import venv, ensurepip, tkinter"]  # pyautogui ends the process without tkinter
    return Path(python).exists() and subprocess.run(look, capture_output=True, check=False).returncode == 0


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise PeerFailed(f"not installed: {said[-1][:NOTE_LENGTH] if said else done.returncode}")
