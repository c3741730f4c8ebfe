"""The functional probes: sandboxes that try what must not work, and say what happened.

Used by doctor. The program below runs in a sandbox of the apps' profile and prints one JSON line.
"""

from __future__ import annotations

import json
import socket
import tempfile
import time
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
import errno, json, socket, sys
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
    "host_loopback": tried(lambda: host(port)),
    "denied": proxied(b"CONNECT example.org:443 HTTP/1.1"),
    "address": proxied(b"GET http://127.0.0.1:%d/ HTTP/1.1" % port),
    "local": proxied(b"GET http://" + site + b"/ HTTP/1.1"),
}))
"""


async def namespaces(uids: Uids) -> str:
    """Build the strictest sandbox and run something; "" if it worked, else what was said."""
    spec = SandboxSpec("doctor", ("/usr/bin/true",), _uid(uids), seccomp.strict_filter())
    try:
        finished = await run(spec)
    except BodydError as exc:
        return exc.message
    return "" if finished.status == 0 else finished.output.strip() or f"status {finished.status}"


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


def judge(tried: dict[str, str]) -> Probe:
    """What the attempts of `walls` mean."""
    wanted = {
        "core_pattern": ("EROFS", "EACCES", "EPERM"),
        "vsock": ("EAFNOSUPPORT",),
        "host_loopback": ("ECONNREFUSED",),
        "denied": ("403",),
        "address": ("403",),
        "local": ("200",),
    }
    wrong = [f"{k} came to {tried.get(k, 'nothing')}" for k, v in wanted.items() if tried.get(k) not in v]
    if wrong:
        detail = "; ".join([*wrong, *([tried["error"][-300:]] if "error" in tried else [])])
        return Probe("walls", "fail", detail, "report this: a wall that leaks is a defect of bodyd")
    return Probe("walls", "ok", "network, kernel and proxy refuse what they must, tried from inside")


async def _site(stream: trio.SocketStream) -> None:
    await stream.receive_some(4096)
    await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    await stream.aclose()


def _uid(uids: Uids) -> int | None:
    return uids.apps if uids.drop else None
