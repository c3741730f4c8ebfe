"""The walls that import-linter can't express, read off the syntax trees: `.importlinter` has the rest."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = [ROOT / "bodyd", ROOT / "adapters"]

PURE = [
    "bodyd/contract/*.py",
    "bodyd/lease/machine.py",
    "bodyd/journal/recovery.py",
    "bodyd/driver/admission.py",
    "bodyd/stream/protocol.py",
]
"""By design; a file whose module docstring says "Pure" is held to it as well."""

IMPURE_MODULES = frozenset(
    "trio Xlib xcffib jeepney time random secrets datetime uuid asyncio threading socket subprocess "
    "sqlite3 select signal tempfile logging structlog".split()
)
IMPURE_CALLS = frozenset("os.urandom os.environ os.getenv os.getpid open input".split())

STARTS_A_PROCESS = frozenset(
    "os.fork os.forkpty os.system os.popen os.posix_spawn os.posix_spawnp os.execv os.execve os.execvp "
    "os.execvpe os.execl os.execle os.execlp os.spawnv os.spawnve os.spawnvp os.spawnl pty.fork "
    "trio.run_process trio.lowlevel.open_process".split()
)


def sources(*folders: Path) -> Iterator[tuple[str, ast.Module]]:
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


def imported(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every module that is imported, wherever the statement stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def mentioned(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Dotted names as written (`os.fork`), and bare ones (`open`) where they are called."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.lineno, node.func.id


def pure_files() -> list[Path]:
    """Pure by design, with all that they lean on; and those that call themselves so."""
    found: set[Path] = set()
    left = [path for pattern in PURE for path in ROOT.glob(pattern)]
    while left:
        path = left.pop()
        if path not in found:
            found.add(path)
            left += neighbours(path)
    for name, tree in sources(*ROOMS):
        if re.search(r"\bPure\b", ast.get_docstring(tree) or ""):
            found.add(ROOT / name)
    return sorted(found)


def impurities(path: Path) -> list[str]:
    tree = ast.parse(path.read_text())
    faults = [
        f"{line}: import {name}" for line, name in imported(tree) if name.split(".")[0] in IMPURE_MODULES
    ]
    return faults + [f"{line}: {name}" for line, name in mentioned(tree) if name in IMPURE_CALLS]


def neighbours(path: Path) -> set[Path]:
    """The files of bodyd that *path* imports, `from . import` included."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            base = path.parents[node.level - 1] if node.level else ROOT
            parts = (node.module or "").split(".") if node.module else []
            names = [[*parts, alias.name] for alias in node.names] + [parts]
            found |= {file for name in names if (file := base.joinpath(*name).with_suffix(".py")).is_file()}
    return {file for file in found if file.is_relative_to(ROOT / "bodyd")}


@pytest.mark.parametrize("path", pure_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_pure_files_do_nothing_but_compute(path: Path) -> None:
    """A pure file imports no event loop, display, clock, randomness or I/O, and calls none."""
    assert impurities(path) == []


def test_only_desktop_starts_processes() -> None:
    """No call that makes or becomes another process stands outside bodyd/desktop."""
    faults = [
        f"{path}:{line}: {name}"
        for path, tree in sources(*ROOMS)
        if not path.startswith("bodyd/desktop/")
        for line, name in [*mentioned(tree), *imported(tree)]
        if name in STARTS_A_PROCESS
    ]
    assert not faults


def test_adapters_know_the_contract_and_the_errors_alone() -> None:
    """An adapter's imports of bodyd are of bodyd.contract or bodyd.errors, even by `from bodyd import`."""
    faults = [
        f"{path}:{line}: {name}"
        for path, tree in sources(ROOT / "adapters")
        for line, name in imported(tree)
        if name.split(".")[0] == "bodyd"
        and (name.split(".")[1:2] or ["?"])[0] not in ("contract", "errors", "?")
    ]
    assert not faults


def test_the_sites_and_the_manual_harness_are_imported_by_nobody() -> None:
    """fixtures_site is reached by entry point and scripts/ by hand: no import leads there."""
    faults = [
        f"{path}:{line}: {name}"
        for path, tree in sources(*ROOMS)
        for line, name in imported(tree)
        if name.split(".")[0] in ("bodyd_fixtures_site", "fixtures_site", "scripts", "bench", "tests")
    ]
    assert not faults


def test_the_public_clients_use_the_public_api() -> None:
    """bodyd.client and bodyd.demo talk to the daemon over HTTP: they import no room of it."""
    allowed = {"bodyd.contract", "bodyd.errors", "bodyd.config", "bodyd.client", "bodyd.clock"}
    faults = [
        f"{path}:{line}: {name}"
        for path, tree in sources(ROOT / "bodyd")
        if path in ("bodyd/client.py", "bodyd/demo.py")
        for line, name in imported(tree)
        if name.startswith("bodyd.") and ".".join(name.split(".")[:2]) not in allowed
    ]
    assert not faults


def test_import_linter_keeps_every_contract() -> None:
    """`lint-imports` finds no broken contract: the rooms know each other as design and docs say."""
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
