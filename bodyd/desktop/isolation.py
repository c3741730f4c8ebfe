"""What the wall stands on: checked before anything starts, and described for `GET /v1/status`.

Never a fallback: what is missing refuses the start, with the fix. The functional proof is the first
sandbox itself; doctor.py explains one that could not be built.
"""

from __future__ import annotations

import os
import shutil
from typing import Any

from bodyd.config import Config
from bodyd.errors import IsolationUnavailable

from . import browser, seccomp
from .layout import Uids
from .xserver import XVFB


def require_isolation(config: Config) -> None:
    """Refuse at once what can be known without starting anything.

    Raises:
        IsolationUnavailable: what is missing, and the exact fix.
    """
    seccomp.this_machine()
    needed = {
        "bwrap": (shutil.which("bwrap"), "bubblewrap"),
        "setpriv": (shutil.which("setpriv"), "util-linux"),
        "prlimit": (shutil.which("prlimit"), "util-linux"),
        "Xvfb": (XVFB, "xvfb"),
        "python3": ("/usr/bin/python3", "python3"),
        config.desktop.window_manager: (config.desktop.window_manager, "openbox"),
    }
    for name, (path, package) in needed.items():
        if path is None or not os.access(path, os.X_OK):
            raise IsolationUnavailable(
                f"{name} is not installed: install the package {package} (apt-get install {package}); "
                "'bodyd doctor' lists all that is missing"
            )
    if config.desktop.browser:
        browser.program(config.desktop.browser)


def describe(uids: Uids) -> dict[str, Any]:
    """The isolation in force, as status reports it; `landlock_abi` follows once the apps' sandbox says."""
    return {
        "backend": "bwrap",
        "enforced": True,
        "uids": {"apps": uids.apps, "x": uids.x, "separate": uids.separate},
        "network": "own namespace, default deny",
        "seccomp": True,
        "landlock_abi": None,
        "browser_sandbox": "on",
    }
