"""The functional probes: sandboxes that try what must not work, and say what happened.

Used by doctor. The program below runs in a sandbox of the apps' profile and prints one JSON line.
"""

from __future__ import annotations

import json
import socket
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import trio

from bodyd.errors import BodydError

from . import seccomp
from .egress import EgressProxy
from .egress_rules import EgressRules
from .layout import Uids
from .process import run, sandbox
from .remedies import Probe
from .session import receive_network
from .spec import OURS, SandboxSpec, Tmpfs

_PYTHON = "/usr/bin/python3"
_SITE = "self-test.bodyd.test"

_INSIDE = r"""
import ctypes, errno, json, os, socket, sys
libc, x86 = ctypes.CDLL(None, use_errno=True), os.uname().machine == "x86_64"
status = dict(line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\t" in line)
def call(*number):
    if libc.syscall(*number, *[0] * 5) < 0:
        raise OSError(ctypes.get_errno(), "")
def tried(f):
    try:
        f()
        return "done"
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e.errno))
def proxied(line):
    s = socket.create_connection(("127.0.0.1", 3128))
    s.sendall(line + b"\r\n\r\n")
    return s.recv(64).split(b" ")[1].decode()
def host(port):
    socket.create_connection(("127.0.0.1", port), 1)
port, site = int(sys.argv[1]), sys.argv[2].encode()
print(json.dumps({
    "core_pattern": tried(lambda: open("/proc/sys/kernel/core_pattern", "r+")),
    "vsock": tried(lambda: socket.socket(40, socket.SOCK_STREAM)),
    "ptrace": tried(lambda: call(101 if x86 else 117)),
    "mount": tried(lambda: call(165 if x86 else 40)),
    "io_uring": tried(lambda: call(425, 1)),
    "seccomp": status["Seccomp"],
    "no_new_privs": status["NoNewPrivs"],
    "capabilities": str(int(status["CapEff"], 16)),
    "host_loopback": tried(lambda: host(port)),
    "denied": proxied(b"CONNECT example.org:443 HTTP/1.1"),
    "address": proxied(b"GET http://127.0.0.1:%d/ HTTP/1.1" % port),
    "local": proxied(b"GET http://" + site + b"/ HTTP/1.1"),
}))
"""


_IMPORTS = r"""
import importlib, json, sys
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = importlib.import_module(name).__version__
    except Exception:
        found[name] = ""
print(json.dumps(found))
"""


async def namespaces(uids: Uids) -> str:
    """Build the strictest sandbox and run something; "" if it worked, else what was said."""
    spec = SandboxSpec("doctor", ("/usr/bin/true",), _uid(uids), seccomp.strict_filter())
    try:
        finished = await run(spec)
    except BodydError as exc:
        return exc.message
    return "" if finished.status == 0 else finished.output.strip() or f"status {finished.status}"


async def imports(uids: Uids, modules: Sequence[str]) -> dict[str, str]:
    """What importing each module came to inside the strictest sandbox: its version, or "" if it can't be."""
    spec = SandboxSpec(
        "doctor", (_PYTHON, "-I", "-B", "-c", _IMPORTS, *modules), _uid(uids), seccomp.strict_filter()
    )
    finished = await run(spec)
    with suppress(ValueError):
        return dict(json.loads(finished.output))
    return dict.fromkeys(modules, "")


async def kill_time(uids: Uids) -> float:
    """Seconds from SIGKILL to the last of fifty stubborn processes being gone."""
    script = (
        "trap '' TERM; for i in $(seq 50); do setsid sh -c 'trap \"\" TERM; sleep 600' & done; echo up; wait"
    )
    spec = SandboxSpec(
        "doctor", ("/bin/sh", "-c", script), _uid(uids), seccomp.strict_filter(), env={"PATH": "/usr/bin"}
    )
    async with sandbox(spec) as box, trio.open_nursery() as nursery:
        nursery.start_soon(box.drain)
        await box.said("up")
        began = time.monotonic()
        await box.kill()
        nursery.cancel_scope.cancel(reason="the self-test is over")
    return time.monotonic() - began


async def walls(uids: Uids) -> tuple[dict[str, str], dict[str, Any]]:
    """Try the walls from inside: what each attempt came to, and what netinit found (userns, landlock)."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    control = trio.socket.from_stdlib_socket(ours)
    with socket.create_server(("127.0.0.1", 0)) as host, control, tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/site"
        with theirs:
            argv = (
                *(_PYTHON, "-I", "-S", "-B", f"{OURS}/netinit.py", str(theirs.fileno()), "64", "0"),
                *("/usr", "--", _PYTHON, "-I", "-c", _INSIDE, str(host.getsockname()[1]), _SITE),
            )
            spec = SandboxSpec(
                *("doctor", argv, _uid(uids), seccomp.browser_filter()),
                nested_userns=True,
                scratch=(Tmpfs("/tmp", 1 << 20, 0o1777),),
                files={f"{OURS}/netinit.py": Path(__file__).with_name("netinit.py").read_bytes()},
                pass_fds=(theirs.fileno(),),
            )
            async with sandbox(spec) as box, trio.open_nursery() as nursery:
                theirs.close()
                facts, listener = await receive_network(control)
                rules = EgressRules.parse(local={f"{_SITE}:80": path})
                proxy = EgressProxy(rules, announce=lambda verdict: None)
                site = trio.socket.socket(socket.AF_UNIX)
                await site.bind(path)
                site.listen(4)
                nursery.start_soon(proxy.serve, trio.SocketListener(trio.socket.from_stdlib_socket(listener)))
                nursery.start_soon(trio.serve_listeners, _site, [trio.SocketListener(site)])
                nursery.start_soon(box.drain)
                await box.wait()
                said = await box.last_words()
                nursery.cancel_scope.cancel(reason="the self-test is over")
    with suppress(ValueError):
        return json.loads(said), facts
    return {"error": said}, facts


_WANTED: dict[str, dict[str, tuple[str, ...]]] = {
    "network": {"host_loopback": ("ECONNREFUSED",)},
    "egress": {"denied": ("403",), "address": ("403",), "local": ("200",)},
    "kernel": {
        "core_pattern": ("EROFS", "EACCES", "EPERM"),
        "vsock": ("EAFNOSUPPORT",),
        "capabilities": ("0",),
    },
    "seccomp": {
        "seccomp": ("2",),
        "no_new_privs": ("1",),
        "ptrace": ("EPERM",),
        "mount": ("EPERM",),
        "io_uring": ("ENOSYS",),
    },
}
_SAID = {
    "network": "the host's loopback is out of reach from inside",
    "egress": "through the proxy a listed name is reached; another name, and an address, are not",
    "kernel": "no vsock, no capabilities, core_pattern read-only: tried from inside",
    "seccomp": "the filter is on: tracing, mounting and io_uring are refused",
}


def judge(tried: dict[str, str]) -> list[Probe]:
    """What the attempts of `walls` mean, wall by wall."""
    probes = []
    for wall, attempts in _WANTED.items():
        wrong = [
            f"{what} came to {tried.get(what, 'nothing')}"
            for what, right in attempts.items()
            if tried.get(what) not in right
        ]
        if wrong:
            detail = "; ".join([*wrong, *([tried["error"][-300:]] if "error" in tried else [])])
            probes.append(Probe(wall, "fail", detail, "report this: a wall that leaks is a defect of bodyd"))
        else:
            probes.append(Probe(wall, "ok", _SAID[wall]))
    return probes


async def _site(stream: trio.SocketStream) -> None:
    await stream.receive_some(4096)
    await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    await stream.aclose()


def _uid(uids: Uids) -> int | None:
    return uids.apps if uids.drop else None
