"""What every attack has: how an attempt is made, and what is said of it ("done", or the error's name)."""

import ctypes
import errno
import os
import socket

libc = ctypes.CDLL(None, use_errno=True)
X86 = os.uname().machine == "x86_64"


def tried(attempt, *args):
    """Call it."""
    try:
        attempt(*args)
    except OSError as exc:
        return errno.errorcode.get(exc.errno, str(exc.errno))
    return "done"


def called(number, *args):
    """Make the system call of this number."""
    return "done" if libc.syscall(number, *args) >= 0 else errno.errorcode[ctypes.get_errno()]


def dialled(family, address):
    with socket.socket(family) as dialler:
        dialler.settimeout(2)
        dialler.connect(address)
