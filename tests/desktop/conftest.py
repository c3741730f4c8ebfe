"""Real sandboxes, each test in a place and under uids of its own, and a count of what is left."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bodyd.config import Config, parse
from bodyd.desktop.ledger import children
from bodyd.desktop.process import _become_subreaper

ROOT = os.geteuid() == 0
# Uids that no other run on this machine has: what runs under them is ours.
BASE_UID = 70000 + (os.getpid() % 5000) * 4


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that other uids can pass through, as a body's roots must be."""
    path = Path(tempfile.mkdtemp(prefix="bodyd-test-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def configure(place: Path) -> Callable[..., Config]:
    """A configuration in *place*: no browser unless asked for; sections are given as keywords."""

    def make(**sections: object) -> Config:
        desktop = {"browser": "", "base_uid": BASE_UID, **sections.pop("desktop", {})}  # type: ignore[dict-item]
        return parse({"state_dir": place / "state", "run_dir": place / "run", "desktop": desktop, **sections})

    return make


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Whatever a test starts is gone when it ends: orphans would come to this process, the subreaper."""
    _become_subreaper()
    _earlier.clear()
    _earlier.update(descendants())  # orphans of other folders' tests come to this process, too
    yield
    left = descendants()
    assert [_describe(pid) for pid in left] == []


_earlier: set[int] = set()


def descendants(pid: int | None = None) -> list[int]:
    """Every process below this one (or below *pid*) that this test has started."""
    found = [child for child in children(pid or os.getpid()) if child not in _earlier]
    return found + [d for child in found for d in descendants(child)]


def of_uids(*uids: int) -> list[int]:
    """Every process of the machine that runs under one of *uids*."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and os.stat(f"/proc/{entry}").st_uid in uids:
                found.append(int(entry))
        except FileNotFoundError:
            continue
    return found


def _describe(pid: int) -> str:
    try:
        return f"{pid} {Path(f'/proc/{pid}/cmdline').read_text()[:200]}"
    except OSError:
        return f"{pid} (gone)"


def readable_python() -> str | None:
    """An interpreter of this version that any uid can run, or None."""
    for path in (os.path.realpath(sys.executable), "/usr/bin/python3"):
        real = Path(path).resolve()
        open_to_all = all(p.stat().st_mode & 0o001 for p in real.parents)
        if open_to_all and real.name.endswith(f"{sys.version_info[0]}.{sys.version_info[1]}"):
            return path
    return None
