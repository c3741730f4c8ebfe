"""Look for anything of the host: its services' sockets, its files, its network, secrets of the daemon.

Arguments: a loopback port of the host, the name of an abstract socket, the daemon's state and run folders.
"""

import os
import socket
import sys
from pathlib import Path

from attempt import dialled, tried

port, abstract, *folders = sys.argv[1:]
services = [
    "/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock",
    "/run/dbus/system_bus_socket", "/run/user/0/bus", f"/run/user/{os.getuid()}/bus", "/run/systemd/private",
    "/var/run/postgresql/.s.PGSQL.5432", "/run/mysqld/mysqld.sock", *(f"{f}/api.sock" for f in folders),
]  # fmt: skip
files = [
    "/etc/shadow", "/root", "/var/lib/dpkg", "/var/log", "/boot", "/sys", "/home/user/../../root",
    "/usr/local/bin", "/usr/src", "/proc/1/root/etc/shadow", *folders,
    *(f"{f}/private/owner.token" for f in folders),
]  # fmt: skip


def lines(path):
    return Path(path).read_text().splitlines() if os.path.exists(path) else []


environ = {}
for pid in filter(str.isdigit, os.listdir("/proc")):
    tried(lambda pid=pid: environ.update({pid: Path(f"/proc/{pid}/environ").read_text()}))
links = {fd: tried(os.readlink, f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")}
result = {
    "services": {path: tried(dialled, socket.AF_UNIX, path) for path in services},
    "files": {path: os.path.exists(path) and bool(os.listdir(path) if os.path.isdir(path) else True)
              for path in files},
    "loopback": tried(dialled, socket.AF_INET, ("127.0.0.1", int(port))),
    "loopback6": tried(dialled, socket.AF_INET6, ("::1", int(port))),
    "address": tried(dialled, socket.AF_INET, ("192.0.2.1", 80)),
    "metadata": tried(dialled, socket.AF_INET, ("169.254.169.254", 80)),
    "abstract": tried(dialled, socket.AF_UNIX, "\0" + abstract),
    "abstracts": [line.split()[-1] for line in lines("/proc/net/unix") if " @" in line],
    "interfaces": sorted(line.split(":")[0].strip() for line in lines("/proc/net/dev") if ":" in line),
    "resolver": [line for line in lines("/etc/resolv.conf") if line.startswith("nameserver")],
    "env": dict(os.environ),
    "environ": environ,
    "fds": [os.readlink(f"/proc/self/fd/{fd}") for fd, done in links.items() if done == "done"
            and os.path.lexists(f"/proc/self/fd/{fd}")],
    "pids": len(list(filter(str.isdigit, os.listdir("/proc")))),
    "cmdlines": ["".join(lines(f"/proc/{pid}/cmdline")) for pid in filter(str.isdigit, os.listdir("/proc"))],
}  # fmt: skip
