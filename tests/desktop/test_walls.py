"""The walls, tried from inside the apps' sandbox of a running desktop."""

from __future__ import annotations

import json
import os
import socket
import uuid
from contextlib import asynccontextmanager

import pytest
import trio

from bodyd.desktop import selftest
from bodyd.desktop.desktop import open_desktop
from bodyd.desktop.layout import uids
from bodyd.desktop.spec import INNER_UID

from .conftest import ROOT

_PRELUDE = """
import ctypes, errno, json, os, socket, stat, sys
libc = ctypes.CDLL(None, use_errno=True)
def tried(f, *a):
    try:
        f(*a)
        return "done"
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e.errno))
def called(number, *a):
    return "done" if libc.syscall(number, *a) >= 0 else errno.errorcode[ctypes.get_errno()]
"""


@asynccontextmanager
async def desktop_without_browser(configure, **sections):
    async with open_desktop(configure(**sections), report=lambda text: None) as desktop:
        yield desktop


async def inside(desktop, script, *args):
    """Run Python *script* as an app; returns what it assigns to `result`."""
    mark = uuid.uuid4().hex
    program = f"{_PRELUDE}\n{script}\nprint('{mark}' + json.dumps(result) + '{mark}', flush=True)"
    argv = ["/usr/bin/python3", "-I", "-c", program, *args]
    session = desktop._session
    status = await session.run(f"app:probe#{mark}", argv)
    with trio.fail_after(5):
        while session.box.tail().count(mark) < 2 and status == 0:
            await session.box._news.wait()
    assert status == 0, session.box.tail()[-2000:]
    return json.loads(session.box.tail().split(mark)[1])


async def test_nothing_of_the_host_is_there_but_usr_and_named_etc_entries(configure):
    """Every mount and every file outside /usr is ours, a kernel file system, or a named entry of /etc."""
    walk = """
mounts = [line.split()[4] for line in open("/proc/self/mountinfo")]
found = []
for top, dirs, files in os.walk("/"):
    if top == "/":
        dirs[:] = [d for d in dirs if d not in ("proc", "usr", "sys")]
    found += [os.path.join(top, f) for f in files]
result = {"mounts": mounts, "files": found, "root": sorted(os.listdir("/"))}
"""
    async with desktop_without_browser(configure) as desktop:
        seen = await inside(desktop, walk)
    assert set(seen["root"]) <= set("bin bodyd dev etc home lib lib64 proc run sbin tmp usr var".split())
    etc = (
        "fonts ssl/certs ca-certificates.conf pki/ca-trust/extracted crypto-policies alternatives ld.so.cache"
    )
    allowed = {f"/etc/{name}" for name in etc.split()}
    ours = [
        "/",
        "/usr",
        "/usr/local",
        "/usr/src",
        "/proc",
        "/proc/sys",
        "/dev",
        "/tmp",
        "/run/user",
        "/var/tmp",
    ]
    ours += ["/home/user"]
    for mount in seen["mounts"]:
        assert (
            mount in allowed or mount in ours or mount.startswith(("/dev/", "/tmp/.X11-unix", "/run/user/"))
        )
    made = "passwd group machine-id hostname hosts nsswitch.conf resolv.conf timezone localtime".split()
    for path in seen["files"]:
        named = any(path == a or path.startswith(a + "/") for a in allowed)
        policy = path.endswith("/policies/managed/bodyd.json")
        places = ("/bodyd/", "/dev/", "/home/user/", "/tmp/.X11-unix/X0", "/lib", "/bin", "/sbin")
        assert named or policy or path in [f"/etc/{m}" for m in made] or path.startswith(places), path


async def test_no_secret_of_the_daemon_is_inherited(configure, monkeypatch, place):
    """A planted environment variable and an open, inheritable descriptor of the daemon are absent inside."""
    monkeypatch.setenv("PLANTED_SECRET", "hunter2")
    secret = place / "secret"
    secret.write_text("hunter2")
    with secret.open() as file:
        os.set_inheritable(file.fileno(), True)
        look = """
fds = {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
       if os.path.lexists(f"/proc/self/fd/{fd}")}
environ = {}
for pid in filter(str.isdigit, os.listdir("/proc")):
    tried(lambda: environ.update({pid: open(f"/proc/{pid}/environ", "rb").read().decode()}))
result = {"env": dict(os.environ), "fds": fds, "environ": environ}
"""
        async with desktop_without_browser(configure) as desktop:
            seen = await inside(desktop, look)
    assert "hunter2" not in json.dumps(seen)
    assert "secret" not in json.dumps(seen["fds"])
    assert {int(fd) for fd in seen["fds"]} <= {0, 1, 2, 3}
    assert seen["env"]["HOME"] == "/home/user"


async def test_the_host_is_unreachable_over_the_network(configure):
    """Host loopback, host addresses, link-local metadata and abstract sockets can't be reached."""
    attempt = """
def dial(host, port):
    with socket.socket() as s:
        s.settimeout(2)
        s.connect((host, port))
def abstract(name):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect("\\0" + name)
port, name = int(sys.argv[1]), sys.argv[2]
result = {
    "loopback": tried(dial, "127.0.0.1", port),
    "loopback6": tried(lambda: socket.socket(socket.AF_INET6).connect(("::1", port))),
    "address": tried(dial, "192.0.2.1", 80),
    "metadata": tried(dial, "169.254.169.254", 80),
    "abstract": tried(abstract, name),
    "abstracts": [l.split()[-1] for l in open("/proc/net/unix") if " @" in l],
    "interfaces": os.listdir("/proc/sys/net/ipv4/conf"),
}
"""
    name = f"bodyd-test-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as host, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind("\0" + name)
        abstract.listen()
        host.setblocking(False)
        async with desktop_without_browser(configure) as desktop:
            seen = await inside(desktop, attempt, str(host.getsockname()[1]), name)
        with pytest.raises(BlockingIOError):
            host.accept()
    assert seen["loopback"] == "ECONNREFUSED"
    assert seen["loopback6"] in ("ECONNREFUSED", "EADDRNOTAVAIL", "ENETUNREACH")
    assert seen["address"] == seen["metadata"] == "ENETUNREACH"
    assert seen["abstract"] == "ECONNREFUSED"
    assert not [a for a in seen["abstracts"] if not a.startswith("@/bodyd")]
    assert set(seen["interfaces"]) <= {"all", "default", "lo"}


async def test_the_kernel_refuses_what_crosses_namespaces(configure):
    """Odd socket families, raw sockets, terminal injection (on 32 bits), tracing and keys are refused."""
    attempt = """
def ioctl(number):
    master, slave = os.openpty()
    done = libc.ioctl(slave, ctypes.c_ulong(number), b"x") == 0
    return "done" if done else errno.errorcode[ctypes.get_errno()]
x86 = os.uname().machine == "x86_64"
families = {n: tried(socket.socket, f, t, p) for n, f, t, p in [
    ("vsock", 40, 1, 0), ("alg", 38, 5, 0), ("packet", 17, 3, 0), ("bluetooth", 31, 3, 1), ("can", 29, 3, 1),
    ("xdp", 44, 3, 0), ("netlink audit", 16, 3, 9), ("netlink netfilter", 16, 3, 12), ("raw", 2, 3, 1),
    ("raw6", 10, 3 | 0o2000000, 58), ("netlink route", 16, 3, 0), ("tcp", 2, 1, 0), ("unix", 1, 1, 0)]}
result = {
    "families": families,
    "wide family": called(41 if x86 else 198, ctypes.c_long(1 << 32 | 40), 1, 0),
    "tiocsti": ioctl(0x5412), "wide tiocsti": ioctl(0x5412 | 1 << 32), "tioclinux": ioctl(0x541C),
    "ptrace": called(101 if x86 else 117, 0, 0, 0, 0),
    "process_vm_readv": called(310 if x86 else 270, os.getpid(), None, 0, None, 0, 0),
    "keyctl": called(250 if x86 else 219, 0, 0),
    "bpf": called(321 if x86 else 280, 0, None, 0),
    "userfaultfd": called(323 if x86 else 282, 0),
    "perf_event_open": called(298 if x86 else 241, None, 0, -1, -1, 0),
    "mount": called(165 if x86 else 40, None, None, None, 0, None),
    "io_uring": called(425, 1, None),
    "mount namespace": called(272 if x86 else 97, 0x20000),
    "core_pattern": tried(open, "/proc/sys/kernel/core_pattern", "r+"),
    "caps": [l for l in open("/proc/self/status") if l.startswith("CapEff")][0].split()[1],
    "groups": os.getgroups(),
}
"""
    async with desktop_without_browser(configure) as desktop:
        seen = await inside(desktop, attempt)
    families = seen.pop("families")
    assert {n: families.pop(n) for n in ("netlink route", "tcp", "unix")} == {
        "netlink route": "done",
        "tcp": "done",
        "unix": "done",
    }
    assert {n: families.pop(n) for n in ("raw", "raw6")} == {"raw": "EPERM", "raw6": "EPERM"}
    assert set(families.values()) == {"EAFNOSUPPORT"}
    assert seen.pop("wide family") == "EAFNOSUPPORT"
    assert seen.pop("core_pattern") in ("EROFS", "EACCES")
    assert seen.pop("io_uring") == "ENOSYS"
    assert int(seen.pop("caps"), 16) == 0
    assert seen.pop("groups") in ([], [INNER_UID], [65534])
    assert set(seen.values()) == {"EPERM"}, seen


async def test_apps_execute_files_under_usr_only(configure):
    """A program copied into home, /tmp or /dev/shm is not executed; interpreters aside, only /usr runs."""
    attempt = """
import shutil
result = {}
for place in ("/home/user", "/tmp", "/dev/shm", "/var/tmp"):
    copy = place + "/true"
    shutil.copy("/usr/bin/true", copy)
    result[place] = tried(os.posix_spawn, copy, [copy], {})
result["usr"] = tried(os.posix_spawn, "/usr/bin/true", ["true"], {})
"""
    async with desktop_without_browser(configure) as desktop:
        seen = await inside(desktop, attempt)
        abi = desktop.isolation["landlock_abi"]
    if not abi:
        pytest.skip("no Landlock in this kernel")
    assert seen.pop("usr") == "done"
    assert set(seen.values()) == {"EACCES"}


async def test_what_is_ours_can_not_be_replaced(configure):
    """The X socket, the policy, /etc and the agent's files and memory are out of an app's reach."""
    attempt = """
def write(path):
    open(path, "w")
agent = next(p for p in sorted(map(int, filter(str.isdigit, os.listdir("/proc"))))
             if b"netinit" in open(f"/proc/{p}/cmdline", "rb").read() and p != 1)
result = {
    "unlink": tried(os.unlink, "/tmp/.X11-unix/X0"),
    "rename": tried(os.rename, "/tmp/.X11-unix/X0", "/tmp/X0"),
    "rename dir": tried(os.rename, "/tmp/.X11-unix", "/tmp/other"),
    "add": tried(os.symlink, "/tmp/x", "/tmp/.X11-unix/X1"),
    "policy": tried(write, "/etc/chromium/policies/managed/bodyd.json"),
    "passwd": tried(write, "/etc/passwd"),
    "agent": tried(write, "/bodyd/agent.py"),
    "authority": tried(write, "/bodyd/xauth"),
    "root": tried(os.mkdir, "/new"),
    "dev": tried(os.mkdir, "/dev/new"),
    "memory": tried(open, f"/proc/{agent}/mem", "rb"),
    "descriptors": tried(os.listdir, f"/proc/{agent}/fd"),
}
"""
    async with desktop_without_browser(configure) as desktop:
        seen = await inside(desktop, attempt)
    for name in ("unlink", "rename", "rename dir"):
        assert seen.pop(name) in ("EBUSY", "EROFS", "EXDEV")
    assert seen.pop("memory") in ("EACCES", "EPERM")
    assert seen.pop("descriptors") in ("EACCES", "EPERM")
    assert set(seen.values()) <= {"EROFS", "EACCES"}, seen


async def test_the_sizes_hold(configure):
    """Scratch file systems end where the configuration says, and processes at the limit."""
    attempt = """
def fill(path):
    with open(path, "wb") as f:
        for _ in range(40):
            f.write(bytes(1 << 20))
result = {"tmp": tried(fill, "/tmp/big"), "shm": tried(fill, "/dev/shm/big")}
result["limits"] = __import__("resource").getrlimit(__import__("resource").RLIMIT_NPROC)
"""
    sizes = {"tmp_bytes": 16 << 20, "shm_bytes": 16 << 20}
    async with desktop_without_browser(configure, desktop=sizes) as desktop:
        seen = await inside(desktop, attempt)
    assert seen == {"tmp": "ENOSPC", "shm": "ENOSPC", "limits": [4096, 4096]}


async def test_a_wrong_cookie_is_refused_by_the_x_server(configure):
    """The X server answers a client without the cookie, and with another, by a refusal."""
    setup = b"l\0" + (11).to_bytes(2, "little") + bytes(8)
    named = b"l\0" + (11).to_bytes(2, "little") + bytes(2) + bytes([18, 0, 16, 0]) + bytes(2)
    async with desktop_without_browser(configure) as desktop:
        for request in (setup, named + b"MIT-MAGIC-COOKIE-1\0\0" + bytes(16)):
            assert await _x_setup(desktop.x.socket_path, request) == 0
        right = named + b"MIT-MAGIC-COOKIE-1\0\0" + desktop.x.cookie
        assert await _x_setup(desktop.x.socket_path, right) == 1


async def _x_setup(path, request):
    """The first byte of the server's answer: 1 accepted, 0 refused."""
    stream = await trio.open_unix_socket(path)
    async with stream:
        await stream.send_all(request)
        with trio.fail_after(10):
            return (await stream.receive_some(1))[0]


async def test_home_persists_and_a_planted_symlink_creates_nothing_outside(configure, place):
    """What an app wrote is there in the next life; a symlink in home leads no start out of it."""
    outside = place / "outside"
    outside.mkdir(mode=0o777)
    outside.chmod(0o777)
    plant = """
open("/home/user/kept", "w").write("yes")
for name in ("chromium", "Downloads", ".config", ".local", "user"):
    os.symlink(sys.argv[1] + "/" + name, "/home/user/" + name)
    os.symlink(sys.argv[1], "/home/user/to-" + name)
result = None
"""
    async with desktop_without_browser(configure) as desktop:
        await inside(desktop, plant, str(outside))
    async with desktop_without_browser(configure) as desktop:
        kept = await inside(desktop, "result = open('/home/user/kept').read()")
    assert kept == "yes"
    assert list(outside.iterdir()) == []
    info = (place / "state" / "home").stat()
    assert info.st_mode & 0o777 == 0o700


async def test_the_daemons_files_are_out_of_the_apps_uid(configure, place):
    """state/private and run/private are the daemon's alone; no cookie or token is readable by others."""
    async with desktop_without_browser(configure):
        for path in (place / "state" / "private", place / "run" / "private"):
            assert path.stat().st_mode & 0o777 == 0o700
            assert path.stat().st_uid == os.geteuid()
        assert (place / "run" / "x").stat().st_mode & 0o007 == 0
        assert (place / "state").stat().st_mode & 0o027 == 0


async def test_the_egress_proxy_is_the_way_out_and_counts(configure, place):
    """From inside, the proxy answers on its address; a denied name is counted by the daemon."""
    attempt = """
def proxied(line):
    s = socket.create_connection(("127.0.0.1", 3128))
    s.sendall(line + b"\\r\\n\\r\\n")
    return s.recv(64).split(b" ")[1].decode()
result = [proxied(b"CONNECT other.test:443 HTTP/1.1"), proxied(b"GET http://127.0.0.1:7310/ HTTP/1.1")]
"""
    async with desktop_without_browser(configure) as desktop:
        assert await inside(desktop, attempt) == ["403", "403"]
        assert desktop.egress.snapshot()["denied"] == {"other.test": 1, "(malformed)": 1}


async def test_the_self_test_agrees(configure):
    """What doctor tries from inside comes to what it must."""
    who = uids(configure())
    assert await selftest.namespaces(who) == ""
    tried, facts = await selftest.walls(who)
    assert {probe.status for probe in selftest.judge(tried)} == {"ok"}, tried
    assert facts["userns"] is True
    assert await selftest.kill_time(who) < 5


@pytest.mark.skipif(not ROOT, reason="uids are dropped only by root")
async def test_every_process_has_dropped_root(configure):
    """As root, no sandboxed process runs as root, and the X server's uid is not the apps'."""
    from .conftest import BASE_UID, descendants

    async with desktop_without_browser(configure) as desktop:
        owners = {os.stat(f"/proc/{pid}").st_uid for pid in descendants()}
        assert owners == {BASE_UID, BASE_UID + 1}
        assert desktop.isolation["uids"]["separate"] is True
        assert desktop.x.uid == BASE_UID + 1
