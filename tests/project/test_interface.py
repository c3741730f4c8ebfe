"""`make` is the whole interface; its help, its set-up and the CI's entry say and do what they should."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE = {
    name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
}
"""The environment as if the tests themselves had not been started by make."""
TARGETS = {"help", "run", "demo", "test", "check", "bench", "soak", "clean"}


def test_help_lists_every_target() -> None:
    """`make` alone prints each target of the interface once, and there are no others."""
    shown = subprocess.run(
        ["make", "-s"], cwd=ROOT, env=OUTSIDE, capture_output=True, text=True, check=True
    ).stdout
    assert re.findall(r"make (\w+)", shown) == list(dict.fromkeys(re.findall(r"make (\w+)", shown)))
    assert set(re.findall(r"make (\w+)", shown)) == TARGETS
    makefile = (ROOT / "Makefile").read_text()
    assert set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE)) == TARGETS
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony
    assert set(phony[1].split()) == TARGETS


def test_ci_runs_make_test() -> None:
    """.ci/run is executable and hands over to `make test`, whose exit status is its own."""
    script = ROOT / ".ci/run"
    assert os.access(script, os.X_OK)
    assert script.read_text().rstrip().endswith("exec make test")


@pytest.mark.parametrize(("status", "target"), [(0, "run"), (0, "demo"), (3, "demo")])
def test_the_demos_exit_status_is_makes_verdict(tmp_path: Path, status: int, target: str) -> None:
    """`make run` and `make demo` fail exactly when the program that they hand over to fails."""
    _tree(tmp_path, bodyd=f"exit {status}")
    done = subprocess.run(["make", target], cwd=tmp_path, env=OUTSIDE, capture_output=True, check=False)
    assert (done.returncode == 0) == (status == 0)


def test_ctrl_c_ends_make_run_without_an_error(tmp_path: Path) -> None:
    """The interrupt reaches the daemon itself, which ends in its own time; make adds no complaint."""
    _tree(tmp_path, bodyd='trap "echo ended; exit 0" INT\necho ready\nwhile :; do sleep 0.05; done')
    with subprocess.Popen(
        ["make", "run"],
        cwd=tmp_path,
        env=OUTSIDE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as make:
        assert make.stdout
        assert make.stdout.readline() == "ready\n"
        os.killpg(make.pid, signal.SIGINT)  # as a terminal does: to make and to what it runs
        printed = make.stdout.read()
    assert printed.splitlines() == ["ended"]


def _tree(folder: Path, *, bodyd: str) -> None:
    shutil.copy(ROOT / "Makefile", folder)
    for name, body in (("scripts/setup.sh", ""), (".venv/bin/bodyd", bodyd)):
        path = folder / name
        path.parent.mkdir(parents=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)


class Machine:
    """A checkout and a PATH of fakes that write down how they are called."""

    def __init__(self, folder: Path) -> None:
        self.tree, self.bin, self.log = folder / "tree", folder / "bin", folder / "log"
        for path in (self.tree / "scripts", self.tree / "tests", self.tree / ".venv/bin", self.bin):
            path.mkdir(parents=True)
        for name in ("scripts/setup.sh", "pyproject.toml"):
            shutil.copy(ROOT / name, self.tree / name)
        (self.tree / "scripts/packages.txt").write_text(
            "# the body\nbubblewrap\nxvfb # the screen\n\nchromium\n"
        )
        (self.tree / "tests/packages.txt").write_text("xterm\n")
        (self.tree / "tests/soak-packages.txt").write_text("firefox-esr\n")
        for name in "sh sed tr cat grep env printf dirname sha256sum".split():
            (self.bin / name).symlink_to(shutil.which(name) or name)
        self.fake("python", 'case "$1" in -VV) echo "Python 3.11.2" ;; esac', folder=self.tree / ".venv/bin")
        self.installed("bubblewrap", "xvfb", "chromium", "xterm")
        self.fake("apt-get")
        self.user(0)

    def fake(self, name: str, body: str = "", *, folder: Path | None = None) -> None:
        path = (folder or self.bin) / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >>{self.log}\n{body}\n')
        path.chmod(0o755)

    def installed(self, *names: str) -> None:
        self.fake(
            "dpkg-query", f'case " {" ".join(names)} " in *" $4 "*) echo installed ;; *) exit 1 ;; esac'
        )

    def user(self, uid: int) -> None:
        self.fake("id", f"echo {uid}")

    def setup(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        self.log.write_text("")
        return subprocess.run(
            [self.bin / "sh", self.tree / "scripts/setup.sh", *arguments],
            env={"PATH": str(self.bin)},
            capture_output=True,
            text=True,
            check=False,
        )

    def calls(self, name: str) -> list[str]:
        return [line for line in self.log.read_text().splitlines() if line.startswith(f"{name} ")]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    assert made.setup().returncode == 0  # stamps the environment
    return made


def test_setup_is_silent_where_nothing_is_missing(machine: Machine) -> None:
    """A second set-up prints nothing, and calls neither apt-get nor pip."""
    done = machine.setup("--tests")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert machine.calls("apt-get") == []
    assert not [call for call in machine.calls("python") if "pip" in call]


def test_setup_names_the_missing_packages_and_installs_only_them(machine: Machine) -> None:
    """As root, apt-get is called without sudo, after the packages were named, and for them alone."""
    machine.installed("xvfb", "chromium")
    machine.fake("apt-get", 'echo "(apt-get $1)"')
    done = machine.setup("--tests")
    assert done.returncode == 0
    named, update, install = done.stdout.splitlines()
    assert named == "setup: installing the missing system packages: bubblewrap xterm"
    assert (update, install) == ("(apt-get update)", "(apt-get install)")
    assert machine.calls("apt-get")[1].endswith(" bubblewrap xterm")


def test_setup_leaves_the_tests_packages_out_for_a_run(machine: Machine) -> None:
    """Without --tests, a missing test package is not asked for."""
    machine.installed("bubblewrap", "xvfb", "chromium")
    assert machine.setup().returncode == 0
    assert machine.calls("apt-get") == []


def test_setup_asks_for_the_soaks_packages_only_for_a_soak(machine: Machine) -> None:
    """A second browser is missing: the tests do without it, the soak has it installed."""
    assert machine.setup("--tests").returncode == 0
    assert machine.calls("apt-get") == []
    assert machine.setup("--soak").returncode == 0
    assert machine.calls("apt-get")[1].endswith(" firefox-esr")
    soak = (ROOT / "Makefile").read_text().partition("\nsoak:")[2].splitlines()
    assert soak[1] == "\t@scripts/setup.sh --soak"


def test_setup_uses_sudo_as_a_plain_user(machine: Machine) -> None:
    """A plain user's apt-get goes through sudo, and only then."""
    machine.installed("xvfb", "chromium")
    machine.user(1000)
    machine.fake("sudo", 'exec "$@"')
    assert machine.setup().returncode == 0
    assert len(machine.calls("sudo")) == 2
    assert len(machine.calls("apt-get")) == 2


def test_setup_without_root_or_sudo_says_what_to_install(machine: Machine) -> None:
    """With no way to install, set-up stops, names what is missing, and has a line for each system."""
    machine.installed("xvfb", "chromium")
    machine.user(1000)
    done = machine.setup()
    assert done.returncode == 1
    assert "bubblewrap" in done.stderr
    assert all(system in done.stderr for system in ("Debian 12, 13", "Ubuntu 24.04", "Fedora"))
    assert machine.calls("apt-get") == []


def test_setup_without_apt_checks_for_the_programs(machine: Machine) -> None:
    """On a system without apt-get, set-up stops at the first program that is missing, or goes on."""
    (machine.bin / "apt-get").unlink()
    done = machine.setup()
    assert done.returncode == 1
    assert "bwrap is missing" in done.stderr
    assert "Fedora" in done.stderr
    for name in "bwrap Xvfb xkbcomp openbox gcc".split():
        machine.fake(name)
    assert machine.setup().returncode == 0


def test_setup_stops_when_apt_fails(machine: Machine) -> None:
    """A failed install ends the set-up with the names in the message, not with a half-made environment."""
    machine.installed("xvfb", "chromium")
    machine.fake("apt-get", '[ "$1" = update ]')
    done = machine.setup()
    assert done.returncode == 1
    assert "could not install: bubblewrap" in done.stderr


def test_setup_runs_pip_again_when_the_project_changed(machine: Machine) -> None:
    """Another pyproject.toml is another environment: pip is called once, then no more."""
    with (machine.tree / "pyproject.toml").open("a") as project:
        project.write("\n# a change\n")
    assert machine.setup().returncode == 0
    assert [call for call in machine.calls("python") if "--editable" in call]
    machine.setup()
    assert not [call for call in machine.calls("python") if "--editable" in call]


def test_setup_refuses_what_it_does_not_know(machine: Machine) -> None:
    """A misspelt argument is an error, not a set-up without it."""
    done = machine.setup("--test")
    assert done.returncode == 1
    assert "--tests" in done.stderr
