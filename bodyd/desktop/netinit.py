"""The first program in a sandbox that has a network: hands the proxy's socket out, then closes doors.

Runs inside, under the system's Python with the standard library alone; nothing of bodyd is importable.
Usage: netinit.py CONTROL_FD PROCESSES MEMORY EXECUTABLE_ROOT... -- agent | PROGRAM ARGUMENT...

PROCESSES is a limit of the whole sandbox, MEMORY one of each process's private memory in bytes (0: none).
It binds the proxy's address in its own network namespace, sends the listening socket over CONTROL_FD (a
SOCK_SEQPACKET pair), keeps no copy, and restricts itself by Landlock to executing files under the roots.
What follows can't widen any of it. Its counterpart is session.py.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import resource
import socket
import sys

PROXY = ("127.0.0.1", 3128)

_LANDLOCK_CREATE_RULESET, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT_SELF = 444, 445, 446
_LANDLOCK_VERSION_FLAG = 1
_LANDLOCK_FS_EXECUTE = 1
_LANDLOCK_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38
_CLONE_NEWUSER = 0x10000000

libc = ctypes.CDLL(None, use_errno=True)


class _Ruleset(ctypes.Structure):
    _fields_ = (("handled_access_fs", ctypes.c_uint64),)


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def main(argv: list[str]) -> None:
    """Never returns: becomes the agent, or the program."""
    split = argv.index("--")
    control = socket.socket(fileno=int(argv[0]))
    processes, memory, roots, program = int(argv[1]), int(argv[2]), argv[3:split], argv[split + 1 :]
    resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))
    if memory:  # not RLIMIT_AS: a browser reserves far more than it uses
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    hand_over(control, {"userns": can_nest(), "landlock": restrict_execution(roots)})
    if program == ["agent"]:
        sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
        importlib.import_module("agent").main(control)
    else:
        control.close()
        os.execv(program[0], program)


def hand_over(control: socket.socket, facts: dict[str, object]) -> None:
    """Send what was found and the listening socket, in one message."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(PROXY)
    listener.listen(128)
    message = json.dumps({"event": "network", **facts}).encode()
    socket.send_fds(control, [message], [listener.fileno()])
    listener.close()


def restrict_execution(roots: list[str]) -> int:
    """Let this process and its children execute files under *roots* only; the Landlock ABI, 0 for none."""
    abi: int = libc.syscall(_LANDLOCK_CREATE_RULESET, None, 0, _LANDLOCK_VERSION_FLAG)
    if abi < 1:
        return 0
    rules = _Ruleset(_LANDLOCK_FS_EXECUTE)
    ruleset: int = libc.syscall(_LANDLOCK_CREATE_RULESET, ctypes.byref(rules), ctypes.sizeof(rules), 0)
    if ruleset < 0:
        return 0
    for root in roots:
        parent = os.open(root, os.O_PATH | os.O_CLOEXEC)
        beneath = _PathBeneath(_LANDLOCK_FS_EXECUTE, parent)
        if libc.syscall(_LANDLOCK_ADD_RULE, ruleset, _LANDLOCK_PATH_BENEATH, ctypes.byref(beneath), 0):
            raise OSError(ctypes.get_errno(), f"Landlock: no rule for {root}")
        os.close(parent)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if libc.syscall(_LANDLOCK_RESTRICT_SELF, ruleset, 0):
        raise OSError(ctypes.get_errno(), "Landlock: not restricted")
    os.close(ruleset)
    return abi


def can_nest() -> bool:
    """Whether a user namespace can be nested here, as Chromium's own sandbox needs; tried in a child."""
    pid = os.fork()
    if pid == 0:
        os._exit(0 if libc.unshare(_CLONE_NEWUSER) == 0 else 1)
    return os.waitpid(pid, 0)[1] == 0


if __name__ == "__main__":
    main(sys.argv[1:])
