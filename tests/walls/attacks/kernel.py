"""Ask the kernel for what leads out of namespaces: odd sockets, terminals, tracing, mounts, /proc/sys."""

import ctypes
import errno
import os
import socket
from pathlib import Path

from attempt import X86, called, libc, tried

STATUS = Path("/proc/self/status")


def ioctl(number):
    _, slave = os.openpty()
    done = libc.ioctl(slave, ctypes.c_ulong(number), b"x") == 0
    return "done" if done else errno.errorcode[ctypes.get_errno()]


sockets = {
    "vsock": (40, 1, 0), "alg": (38, 5, 0), "packet": (17, 3, 0), "bluetooth": (31, 3, 1), "can": (29, 3, 1),
    "xdp": (44, 3, 0), "netlink audit": (16, 3, 9), "netlink netfilter": (16, 3, 12), "raw": (2, 3, 1),
    "raw6": (10, 3 | 0o2000000, 58),
}  # fmt: skip
calls = {
    "ptrace": (101 if X86 else 117, 0, 0, 0, 0),
    "process_vm_readv": (310 if X86 else 270, os.getpid(), None, 0, None, 0, 0),
    "pidfd_getfd": (438, 0, 0, 0),
    "keyctl": (250 if X86 else 219, 0, 0),
    "bpf": (321 if X86 else 280, 0, None, 0),
    "userfaultfd": (323 if X86 else 282, 0),
    "perf_event_open": (298 if X86 else 241, None, 0, -1, -1, 0),
    "mount": (165 if X86 else 40, None, None, None, 0, None),
    "setns": (308 if X86 else 268, 0, 0),
    "mount namespace": (272 if X86 else 97, 0x20000),
    "syslog": (103 if X86 else 116, 3, None, 0),
}
status = dict(line.split(":\t", 1) for line in STATUS.read_text().splitlines() if ":\t" in line)
result = {
    "sockets": {name: tried(socket.socket, *kind) for name, kind in sockets.items()},
    "wide vsock": called(41 if X86 else 198, ctypes.c_long(1 << 32 | 40), 1, 0),
    "terminal": [ioctl(0x5412), ioctl(0x5412 | 1 << 32), ioctl(0x541C)],
    "calls": {name: called(*call) for name, call in calls.items()},
    "io_uring": called(425, 1, None),
    "core_pattern": tried(open, "/proc/sys/kernel/core_pattern", "r+"),
    "modprobe": tried(open, "/proc/sys/kernel/modprobe", "r+"),
    "sysrq": tried(open, "/proc/sysrq-trigger", "w"),
    "uid": [os.getuid(), os.geteuid()],
    "capabilities": [int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")],
    "no new privileges": status["NoNewPrivs"],
    "seccomp": status["Seccomp"],
    "user namespace": called(272 if X86 else 97, 0x10000000),
}
