"""The wheel has every package and every file; what was pinned stays pinned; nothing names this machine."""

from __future__ import annotations

import re
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SETUPTOOLS = PROJECT["tool"]["setuptools"]

PINNED = {"quart-trio": "==0.12.*", "hypercorn": "==0.18.*", "websockets": ">=17"}


def tracked() -> list[Path]:
    """The files that git has, or would take with the next commit."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [ROOT / name for name in listing.split("\0") if name and (ROOT / name).is_file()]


def test_every_package_folder_is_in_the_wheel() -> None:
    """`packages` lists each folder with Python in it, under its installed name, and nothing else."""
    found = {
        ".".join([installed, *path.parent.relative_to(ROOT / folder).parts])
        for installed, folder in SETUPTOOLS["package-dir"].items()
        for path in (ROOT / folder).rglob("*.py")
    }
    assert sorted(SETUPTOOLS["packages"]) == sorted(found)


def test_every_other_file_of_a_package_is_package_data() -> None:
    """A file that is no Python (a page, a style, py.typed) is matched by a package-data pattern."""
    left_out = []
    for installed, folder in SETUPTOOLS["package-dir"].items():
        patterns = SETUPTOOLS["package-data"].get(installed, [])
        for path in tracked():
            if path.is_relative_to(ROOT / folder) and path.suffix != ".py":
                name = str(path.relative_to(ROOT / folder))
                if not any(fnmatch(name, pattern) for pattern in patterns):
                    left_out.append(f"{folder}/{name}")
    assert not left_out


def test_no_installed_name_is_too_general() -> None:
    """Top-level names in site-packages are bodyd's own: a package `adapters` would clash."""
    tops = {name.split(".")[0] for name in SETUPTOOLS["packages"]}
    assert all(name == "bodyd" or name.startswith("bodyd_") for name in tops)


def test_pins_that_matter_stay() -> None:
    """The versions that the workarounds were made for are the versions that are asked for."""
    wanted = {}
    for requirement in PROJECT["project"]["dependencies"]:
        name, pin = re.fullmatch(r"([\w.-]+)(?:\[[\w,]+\])?(.*)", requirement).groups()
        wanted[name] = pin
    assert {name: wanted.get(name) for name in PINNED} == PINNED


def test_the_owners_input_library_is_an_extra() -> None:
    """pynput needs a compiler: a plain install does without, and nothing imports it at the top of a file."""
    assert any(entry.startswith("pynput") for entry in PROJECT["project"]["optional-dependencies"]["owner"])
    assert not any("pynput" in entry for entry in PROJECT["project"]["dependencies"])
    eager = [
        str(path.relative_to(ROOT))
        for folder in ("bodyd", "adapters")
        for path in (ROOT / folder).rglob("*.py")
        if re.search(r"^(import|from) pynput", path.read_text(), re.MULTILINE)
    ]
    assert not eager


def test_no_tracked_file_names_a_machine() -> None:
    """No file mentions somebody's home folder or a working folder."""
    pattern = re.compile(r"(?<!\w)/(?:home|Users)/[a-z]|/root/\.|/work/(?:main|shared)\b|/tmp/bash_jobs")
    allowed = re.compile(r"/home/(?:user|you)\b")  # the home inside the body; a reader's
    found = []
    for path in tracked():
        if path == Path(__file__).resolve() or path.suffix in (".png", ".ico", ".woff2", ".sqlite"):
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if pattern.search(allowed.sub("", line)):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    assert not found


def test_scripts_that_are_called_are_executable() -> None:
    """Every shell script with a #! line may be executed."""
    files = [path for path in tracked() if path.suffix == ".sh" or path == ROOT / ".ci/run"]
    assert files
    assert [path for path in files if not path.stat().st_mode & 0o111] == []
