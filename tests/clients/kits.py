"""The environments of real clients: each SDK in one of its own, of pinned versions, kept in .clients/.

    python -m tests.clients.kits [NAME ...]

makes them (all, or those named), so that the tests need no package index afterwards; otherwise a test makes
what it needs when it is first run. A folder with a requirements.txt gets a virtual environment, one with a
package-lock.json gets its node_modules; Node itself is the kit `node`.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
KEPT = ROOT / ".clients"
CODEX = "node_modules/@openai/codex-linux-{arch}/vendor/{machine}-unknown-linux-musl/bin/codex"


def names() -> list[str]:
    """Every kit there is."""
    return sorted(path.parent.name for kind in _PINS for path in HERE.glob(f"*/{kind}"))


def made(name: str) -> Path:
    """The folder of a kit, installed if it is not there yet.

    Raises:
        RuntimeError: it can't be installed here; a test that did not run must not look green.
    """
    pins = _pins(name)
    folder = KEPT / f"{name}-{hashlib.sha256(pins.read_bytes()).hexdigest()[:12]}"
    KEPT.mkdir(exist_ok=True)
    with _alone(KEPT / f"{name}.lock"):
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            for older in KEPT.glob(f"{name}-*"):
                shutil.rmtree(older, ignore_errors=True)
            _PINS[pins.name](name, folder)
            (folder / "complete").touch()
    return folder


def command(name: str) -> list[str]:
    """How the client of a kit is run, without its arguments."""
    folder = made(name)
    if name == "codex":
        machine = os.uname().machine
        arch = {"x86_64": "x64", "aarch64": "arm64"}[machine]
        return [str(folder / CODEX.format(arch=arch, machine=machine))]
    if name.startswith("node_"):
        for source in (HERE / name / "client.mjs", HERE / "desk.mjs"):
            shutil.copy(source, folder)  # modules are looked for beside the file that imports them
        return [str(made("node") / "bin/node"), str(folder / "client.mjs")]
    return [str(folder / "bin/python"), str(HERE / name / "client.py")]


def pinned(name: str) -> dict[str, str]:
    """The versions that a kit is made of: package to version, for Node those that are asked for by name."""
    pins = _pins(name)
    if pins.name == "package-lock.json":
        asked: dict[str, str] = json.loads(pins.with_name("package.json").read_text())["dependencies"]
        return asked
    return dict(line.split("==", 1) for line in pins.read_text().split())


def _pins(name: str) -> Path:
    return next(HERE / name / kind for kind in _PINS if (HERE / name / kind).exists())


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _from_pypi(name: str, folder: Path) -> None:
    _run([sys.executable, "-m", "venv", str(folder)])
    options = ["--quiet", "--disable-pip-version-check", "--no-deps"]
    _run([str(folder / "bin/python"), "-m", "pip", "install", *options, "-r", str(_pins(name))])


def _from_npm(name: str, folder: Path) -> None:
    folder.mkdir()
    for file in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name / file, folder)
    binaries = made("node") / "bin"
    options = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", str(folder)]
    _run([str(binaries / "npm"), "ci", *options], path=binaries)


def _run(words: Sequence[str], path: Path | None = None) -> None:
    before = f"{path}:" if path else ""
    env = {**os.environ, "PATH": before + os.environ["PATH"]}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=env)
    if done.returncode != 0:
        raise RuntimeError(f"{words[0]} could not install: {done.stderr[-2000:]}")


_PINS = {"requirements.txt": _from_pypi, "package-lock.json": _from_npm}


if __name__ == "__main__":
    for wanted in sys.argv[1:] or names():
        print(made(wanted))
