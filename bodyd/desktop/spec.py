"""What a sandbox is made of: a frozen description, and its bwrap arguments. Pure.

The arguments reach bwrap over a file descriptor, NUL-separated, so that no host path shows in the
sandbox's /proc/1/cmdline. Order matters to bwrap: later mounts cover earlier ones, and the root
becomes read-only last of all. No target is ever placed below a directory that an app can write:
bwrap 0.8 follows symlinks planted there (CVE-2026-87766).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# The user that every program in a sandbox sees itself as.
INNER_UID = 1000
HOSTNAME = "body"
# Where the daemon's own files are inside: on the root, which is read-only.
OURS = "/bodyd"

ETC = (
    "fonts", "ssl/certs", "ca-certificates.conf", "pki/ca-trust/extracted", "crypto-policies",
    "alternatives", "ld.so.cache",
)  # fmt: skip
_MASKED = ("/usr/local", "/usr/src")


@dataclass(frozen=True, slots=True)
class Bind:
    """A host path shown at *target*."""

    source: str
    target: str
    writable: bool = False


@dataclass(frozen=True, slots=True)
class Tmpfs:
    """A size-limited scratch file system; sealed ones become read-only once they are furnished."""

    target: str
    size: int
    mode: int = 0o755
    sealed: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """Resource limits of every process: open files, and processes of the whole sandbox."""

    open_files: int = 16384
    processes: int = 4096


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """Limits of all processes of a sandbox together, as far as cgroups can be written; 0 is none."""

    memory_bytes: int = 0
    processes: int = 0
    cpus: float = 0.0


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """One sandbox.

    Attributes:
        name: For the ledger and messages.
        argv: The program, by its path inside.
        uid: The host uid to drop to first, or None where the daemon is unprivileged.
        seccomp: Filter bytes (seccomp.py).
        nested_userns: Whether user namespaces may be nested (for Chromium's own sandbox).
        scratch, binds, files, links: What is in it beside /usr: files are read-only content by path,
            links are targets by path.
        env: The whole environment.
        etc: What of the host's /etc is shown, as far as it is there.
        limits: Set before bwrap starts; None leaves them to the program.
        group: Set on the sandbox as a whole before its program runs.
        pass_fds: Descriptors that the program inherits under the same numbers.
    """

    name: str
    argv: tuple[str, ...]
    uid: int | None
    seccomp: bytes = field(repr=False)
    nested_userns: bool = False
    scratch: tuple[Tmpfs, ...] = ()
    binds: tuple[Bind, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    links: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    chdir: str = "/"
    masked: tuple[str, ...] = _MASKED
    etc: tuple[str, ...] = ETC
    limits: Limits | None = Limits()
    group: GroupLimits = GroupLimits()
    pass_fds: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Descriptors:
    """The numbers that bwrap is given: its info and block pipes, the filter, one for each file."""

    info: int
    block: int
    seccomp: int
    files: Mapping[str, int]


def arguments(spec: SandboxSpec, fds: Descriptors) -> list[str]:
    """bwrap's argument list for *spec*, without the program."""
    args = "--unshare-all --die-with-parent --new-session --cap-drop ALL --clearenv".split()
    args += ["--uid", str(INNER_UID), "--gid", str(INNER_UID), "--hostname", HOSTNAME]
    if not spec.nested_userns:
        args += ["--unshare-user", "--disable-userns"]
    args += _system(spec.masked, spec.etc)
    for path, fd in fds.files.items():
        args += ["--perms", "0444", "--file", str(fd), path]
    for path, target in spec.links.items():
        args += ["--symlink", target, path]
    args += _binds(spec, "")
    for tmpfs in spec.scratch:
        args += ["--size", str(tmpfs.size), "--perms", f"{tmpfs.mode:04o}", "--tmpfs", tmpfs.target]
        args += _binds(spec, tmpfs.target)
        if tmpfs.sealed:
            args += ["--remount-ro", tmpfs.target]
    for name, value in spec.env.items():
        args += ["--setenv", name, value]
    args += ["--chdir", spec.chdir, "--remount-ro", "/"]
    args += ["--info-fd", str(fds.info), "--block-fd", str(fds.block), "--seccomp", str(fds.seccomp)]
    return args


def _system(masked: tuple[str, ...], etc: tuple[str, ...]) -> list[str]:
    args = ["--ro-bind", "/usr", "/usr"]
    for name in ("lib", "lib64", "bin", "sbin"):
        args += ["--symlink", f"usr/{name}", f"/{name}"]
    for path in masked:
        args += ["--size", "4096", "--tmpfs", path, "--remount-ro", path]
    for name in etc:
        args += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    # /proc/sys is bound read-only as a second layer: the first is that no sandbox is started by root.
    args += ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"]
    return [*args, "--dev", "/dev", "--remount-ro", "/dev"]


def _binds(spec: SandboxSpec, inside: str) -> list[str]:
    """The binds whose targets lie in the scratch file system *inside*, or in none ("")."""
    args: list[str] = []
    for bind in spec.binds:
        around = [t.target for t in spec.scratch if bind.target.startswith(t.target + "/")]
        if max(around, key=len, default="") == inside:
            args += ["--bind" if bind.writable else "--ro-bind", bind.source, bind.target]
    return args
