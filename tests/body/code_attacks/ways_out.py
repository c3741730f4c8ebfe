"""Every way out that code might try, and what came of each: "done", or the error's name."""

import ctypes
import errno
import os
import signal
import socket
import subprocess

libc = ctypes.CDLL(None, use_errno=True)


def tried(attempt, *args, **more):
    try:
        attempt(*args, **more)
    except OSError as exc:
        return errno.errorcode.get(exc.errno, str(exc.errno))
    return "done"


def exec_by_hand():
    if libc.syscall(59 if os.uname().machine == "x86_64" else 221, b"/usr/bin/id", 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "execve")


def dialled(family, address):
    with socket.socket(family) as dialler:
        dialler.connect(address)


def in_a_child():
    child = os.fork()
    if child == 0:
        try:
            exec_by_hand()
        except OSError as exc:
            os._exit(exc.errno)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        raise OSError(status, "in a child")


found = {
    "program": tried(subprocess.run, ["/usr/bin/id"]),
    "program by hand": tried(exec_by_hand),
    "program of a child": tried(in_a_child),
    "internet": tried(dialled, socket.AF_INET, ("1.1.1.1", 80)),
    "loopback": tried(dialled, socket.AF_INET, ("127.0.0.1", 80)),
    "x": tried(dialled, socket.AF_UNIX, "/tmp/.X11-unix/X0"),
    "abstract x": tried(dialled, socket.AF_UNIX, "\0/tmp/.X11-unix/X0"),
    "netlink": tried(socket.socket, socket.AF_NETLINK, socket.SOCK_RAW),
    "vsock": tried(socket.socket, 40, socket.SOCK_STREAM),
    "write": tried(open, "/usr/bin/planted", "w"),
    "write root": tried(open, "/planted", "w"),
    "profile": tried(os.listdir, "/home/user"),
    "workspace": tried(os.listdir, "/workspace"),
    "namespace": tried(
        lambda: (
            os.unshare(0x10000000)
            if hasattr(os, "unshare")
            else (_ for _ in ()).throw(OSError(ctypes.get_errno() if libc.unshare(0x10000000) < 0 else 0, ""))
        )
    ),
    "init": tried(os.kill, 1, signal.SIGTERM),
}
{
    **found,
    "environment": sorted(set(os.environ) & {"DISPLAY", "XAUTHORITY", "PLANTED_SECRET", "HTTP_PROXY"}),
    "descriptors": len(os.listdir("/proc/self/fd")),
    "processes": len([p for p in os.listdir("/proc") if p.isdigit()]),
}
