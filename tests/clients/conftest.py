"""Each SDK in a virtual environment of its own, made once from pinned requirements and kept in .clients/."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
KEPT = HERE.parents[1] / ".clients"


def environment(name: str) -> Path:
    """The Python of the SDK's own environment; the test is skipped where no package index can be reached."""
    wanted = (HERE / name / "requirements.txt").read_bytes()
    folder = KEPT / f"{name}-{hashlib.sha256(wanted).hexdigest()[:12]}"
    python = folder / "bin/python"
    if not (folder / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        install = [python, "-m", "pip", "install", "--quiet", "-r", HERE / name / "requirements.txt"]
        done = subprocess.run(install, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"the packages of {name} can't be installed here: {done.stderr[-300:]}")
        (folder / "complete").touch()
    return python


@pytest.fixture
def client_command() -> Callable[..., list[str]]:
    """The command line that runs an SDK's client with arguments."""
    return lambda name, *arguments: [str(environment(name)), str(HERE / name / "client.py"), *arguments]
