"""What to do about what is missing: packages by distribution, causes of a refused sandbox. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warn", "fail"]

_DEBIAN = {
    "bwrap": "bubblewrap",
    "setpriv": "util-linux",
    "prlimit": "util-linux",
    "Xvfb": "xvfb",
    "xkbcomp": "x11-xkb-utils",
    "openbox": "openbox",
    "browser": "chromium",
    "python3": "python3",
    "latin fonts": "fonts-dejavu-core fonts-liberation",
    "CJK fonts": "fonts-noto-cjk",
    "emoji font": "fonts-noto-color-emoji",
    "time zones": "tzdata",
    "Pillow": "python3-pil",
    "numpy": "python3-numpy",
}
_FEDORA = {
    **_DEBIAN,
    "Xvfb": "xorg-x11-server-Xvfb",
    "xkbcomp": "xkbcomp",
    "latin fonts": "dejavu-sans-fonts liberation-fonts",
    "CJK fonts": "google-noto-sans-cjk-fonts",
    "emoji font": "google-noto-color-emoji-fonts",
    "Pillow": "python3-pillow",
}


@dataclass(frozen=True, slots=True)
class Probe:
    """One thing that was tried. `fix` is the exact thing to do, "" where nothing is needed."""

    name: str
    status: Status
    detail: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class System:
    """The facts that a cause is inferred from.

    Attributes:
        distribution: ID of os-release ("debian", "ubuntu", "fedora", …), and what it is like.
        sysctls: Values by dotted name; absent ones are left out.
        container: The daemon itself runs in a container.
        filtered: A seccomp filter is on the daemon itself.
        mapped: The daemon's own uid is one of the user namespace that it runs in.
    """

    distribution: tuple[str, ...]
    sysctls: dict[str, str]
    container: bool
    filtered: bool
    mapped: bool = True


NO_SUCH_UIDS = (
    "the user namespace that bodyd runs in has no such uids as it gives to the apps",
    "map more of them there (65536, say), or set desktop.base_uid to the first of four in a row that "
    "/proc/self/uid_map has, or start bodyd as an ordinary user, who needs none",
)
"""The cause and the fix."""


CAPABILITIES = {"CHOWN": 0, "DAC_OVERRIDE": 1, "FOWNER": 3, "KILL": 5, "SETGID": 6, "SETUID": 7}
"""What root needs to have parts under uids of their own, with their numbers (capabilities(7))."""


def lacking(effective: int) -> tuple[str, str] | None:
    """The cause and the fix where root has not all of CAPABILITIES; *effective* has a bit for each."""
    missing = [name for name, bit in CAPABILITIES.items() if not effective >> bit & 1]
    if not missing:
        return None
    return (
        f"root lacks capabilities that it needs to give the apps uids of their own: {', '.join(missing)}",
        f"docker or podman {' '.join(f'--cap-add {name}' for name in missing)}; Kubernetes "
        "securityContext.capabilities.add; or start bodyd as an ordinary user, who needs none",
    )


def install(what: str, distribution: tuple[str, ...]) -> str:
    """The command that installs *what* ("bwrap", "Xvfb", "CJK fonts", …)."""
    if what == "browser" and "ubuntu" in distribution:
        return (
            "Chromium is a snap on Ubuntu, which can't run here: install Google Chrome, Brave or Edge from "
            "its maker's .deb, and set desktop.browser to its path (/opt/google/chrome/chrome, say)"
        )
    if "fedora" in distribution or "rhel" in distribution:
        return f"dnf install {_FEDORA.get(what, what)}"
    return f"apt-get install {_DEBIAN.get(what, what)}"


def explain(said: str, system: System) -> tuple[str, str] | None:
    """Why bwrap could not build a sandbox, and the exact fix; None if its words are not understood."""
    if "mount proc" in said or "Can't mount proc" in said:
        return (
            "/proc is masked by the container that bodyd runs in",
            "unmask it: podman --security-opt unmask=ALL; docker --security-opt systempaths=unconfined; "
            "Kubernetes securityContext.procMount: Unmasked with hostUsers: false",
        )
    if "setresuid failed" in said or "setresgid failed" in said:
        return NO_SUCH_UIDS
    if "Resource temporarily unavailable" in said:
        return (
            "no more processes may be started",
            "raise the limit: ulimit -u 8192, where bodyd is started; TasksMax= of its unit; --pids-limit of "
            "docker or podman",
        )
    namespace = "namespace" in said or "Operation not permitted" in said or "uid map" in said
    used_up = "No space left" in said or "ENOSPC" in said
    if not namespace and not used_up:
        return None
    if not system.mapped:
        return (
            "the uid that runs bodyd is none of the user namespace that it is in",
            "map it there: unshare --map-user=1000 --map-group=1000; podman --userns=keep-id",
        )
    sysctls = system.sysctls
    if sysctls.get("user.max_user_namespaces") == "0" or used_up:
        return (
            "user namespaces are used up, or set to none, here or in a sandbox around bodyd",
            "sysctl -w user.max_user_namespaces=15000, where the limit is set",
        )
    if sysctls.get("kernel.unprivileged_userns_clone") == "0":
        return "user namespaces are switched off", "sysctl -w kernel.unprivileged_userns_clone=1"
    if sysctls.get("kernel.apparmor_restrict_unprivileged_userns") == "1":
        return (
            "AppArmor keeps unprivileged programs from user namespaces (Ubuntu's default)",
            "give bwrap a profile: printf 'abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile bwrap "
            "/usr/bin/bwrap flags=(unconfined) { userns, }\\n' > /etc/apparmor.d/bwrap && apparmor_parser -r "
            "/etc/apparmor.d/bwrap; or: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        )
    if system.container or system.filtered:
        return (
            "the container's seccomp filter refuses user namespaces",
            "start it with a filter that allows clone, unshare, mount, umount2, pivot_root and setns for "
            "unprivileged users (docker or podman --security-opt seccomp=FILE; seccomp=unconfined to try), "
            "and an unmasked /proc",
        )
    return "the kernel refuses user namespaces", "boot a kernel with CONFIG_USER_NS, and allow it to users"


def render(probes: Iterable[Probe]) -> str:
    """The probes as text for a person: a mark, the name, what was seen, and the fix below."""
    lines = []
    for probe in probes:
        mark = {"ok": "ok  ", "warn": "warn", "fail": "FAIL"}[probe.status]
        lines.append(f"{mark}  {probe.name}: {probe.detail}")
        if probe.fix:
            lines.append(f"      fix: {probe.fix}")
    return "\n".join(lines)


def severity(probes: Iterable[Probe]) -> int:
    """The exit status: 0 all is well, 3 a body runs with less than it could have, 1 it can't run."""
    found = {p.status for p in probes}
    return 1 if "fail" in found else 3 if "warn" in found else 0
