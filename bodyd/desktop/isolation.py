"""What the wall stands on: checked before anything starts, and described for `GET /v1/status`.

Never a fallback: what is missing refuses the start, with the fix. The functional proof is the first
sandbox itself; one that could not be built is explained from the facts read here.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from bodyd.config import Config
from bodyd.errors import IsolationUnavailable

from . import browser, seccomp
from .layout import Uids, uids
from .remedies import NO_SUCH_UIDS, System, explain, install, lacking
from .xserver import XVFB

PYTHON = "/usr/bin/python3"
_SYSCTLS = (
    "user.max_user_namespaces",
    "kernel.unprivileged_userns_clone",
    "kernel.apparmor_restrict_unprivileged_userns",
)


def require_isolation(config: Config) -> None:
    """Refuse at once what can be known without starting anything.

    Raises:
        IsolationUnavailable: what is missing, and the exact fix.
    """
    seccomp.this_machine()
    for name, path in programs(config).items():
        if path is None:
            raise IsolationUnavailable(
                f"{name} is not installed, and bodyd never runs without its walls; "
                f"fix: {install(name, system().distribution)} ('bodyd doctor' lists all that is missing)"
            )
    if config.desktop.browser:
        browser.program(config.desktop.browser)
    if found := unfit(uids(config)):
        raise IsolationUnavailable(f"{found[0]}; fix: {found[1]}")


def unfit(who: Uids) -> tuple[str, str] | None:
    """Why the daemon can't be, or give away, these uids, and the exact fix; None if it can."""
    table = read("/proc/self/uid_map")
    if not all(_mapped(uid, table) for uid in (who.apps, who.x, who.shell, who.code)):
        return NO_SUCH_UIDS if who.drop else explain("namespace", system())
    words = iter(read("/proc/self/status").split())
    effective = next((next(words) for word in words if word == "CapEff:"), "0")
    return lacking(int(effective, 16)) if who.drop else None


def programs(config: Config) -> dict[str, str | None]:
    """The programs that a body needs, by name, with their paths; None for one that is not there."""
    manager = config.desktop.window_manager
    found = {name: shutil.which(name) for name in ("bwrap", "setpriv", "prlimit", "xkbcomp")}
    fixed = {"Xvfb": XVFB, os.path.basename(manager): manager, "python3": PYTHON}
    return found | {name: path if os.access(path, os.X_OK) else None for name, path in fixed.items()}


def system() -> System:
    """What causes are inferred from, read from this machine."""
    lines = [line for line in read("/etc/os-release").splitlines() if "=" in line and line[0] != "#"]
    release = dict(line.split("=", 1) for line in lines)
    names = f"{release.get('ID', '')} {release.get('ID_LIKE', '')}".replace('"', "").split()
    sysctls = {name: read(f"/proc/sys/{name.replace('.', '/')}").strip() for name in _SYSCTLS}
    marks = ("/.dockerenv", "/run/.containerenv")
    return System(
        tuple(names),
        {name: value for name, value in sysctls.items() if value},
        container=any(map(os.path.exists, marks)) or "container" in os.environ,
        filtered="Seccomp:\t2" in read("/proc/self/status"),
        mapped=_mapped(os.getuid(), read("/proc/self/uid_map")),
    )


def _mapped(uid: int, lines: str) -> bool:
    """Whether a uid_map has *uid*: without one, every process is told the same uid, which is nobody's."""
    ranges = [tuple(map(int, line.split())) for line in lines.splitlines()]
    return any(first <= uid < first + count for first, _, count in ranges)


def explained(refusal: IsolationUnavailable) -> IsolationUnavailable:
    """The refusal with its cause and fix, where bwrap's words are understood."""
    found = explain(refusal.message, system())
    if found is None:
        return refusal
    cause, fix = found
    return IsolationUnavailable(f"{cause}; fix: {fix} ({refusal.message})")


def describe(uids: Uids) -> dict[str, Any]:
    """The isolation in force, as status reports it; `landlock_abi` follows once the apps' sandbox says."""
    return {
        "backend": "bwrap",
        "enforced": True,
        "uids": {"apps": uids.apps, "x": uids.x, "shell": uids.shell, "separate": uids.separate},
        "network": "own namespace, default deny",
        "seccomp": True,
        "landlock_abi": None,
        "browser_sandbox": "on",
    }


def read(path: str) -> str:
    """The text of a file of the system, "" if it can't be read."""
    try:
        return Path(path).read_text()
    except OSError:
        return ""
