"""Seccomp filters: what a sandbox may ask of the kernel, assembled here as classic BPF.

bwrap loads the bytes with `--seccomp FD`, after it has built the sandbox, so nothing that bwrap
itself needs has to be allowed. Two profiles: `browser_filter` leaves nested user namespaces to
Chromium's own sandbox; `strict_filter` leaves none. Why an own assembler: docs/decisions/0101.

Arguments declared `int` by the kernel are compared on 32 bits: the upper half of the register is
ignored by the system call and must not hide anything from the filter.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from bodyd.errors import IsolationUnavailable

# seccomp_data: int nr; u32 arch; u64 instruction_pointer; u64 args[6] (linux/seccomp.h).
_NR, _ARCH = 0, 4
_LD_ABS, _JEQ, _JGE, _JSET, _AND, _RET = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
_NETLINK_ROUTE = 0
_SOCK_TYPE_MASK, _SOCK_RAW = 0xF, 3
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C

# CLONE_NEW{NS,CGROUP,UTS,IPC,TIME}: what no browser sandbox needs; and, strictly, USER, PID, NET.
_CLONE_HOST_LIKE = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x00000080
_CLONE_ALL = _CLONE_HOST_LIKE | 0x10000000 | 0x20000000 | 0x40000000
# For clone(2) the low byte is the exit signal, so CLONE_NEWTIME (0x80) can't be asked for there.
_CLONE_CALL_MASK = 0xFFFFFF00


@dataclass(frozen=True, slots=True)
class Machine:
    """One kernel ABI: its audit number and the numbers of the calls that filters name."""

    audit: int
    calls: dict[str, int]


_COMMON = {  # numbers shared by all 64-bit ABIs since 5.0
    "pidfd_getfd": 438, "clone3": 435, "io_uring_setup": 425, "io_uring_enter": 426,
    "io_uring_register": 427, "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431,
    "fsmount": 432, "fspick": 433, "mount_setattr": 442, "quotactl_fd": 443,
}  # fmt: skip

X86_64 = Machine(
    0xC000003E,
    {
        "socket": 41, "socketpair": 53, "ioctl": 16, "clone": 56, "unshare": 272, "setns": 308,
        "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312,
        "add_key": 248, "request_key": 249, "keyctl": 250, "bpf": 321, "perf_event_open": 298,
        "userfaultfd": 323, "kexec_load": 246, "kexec_file_load": 320, "init_module": 175,
        "finit_module": 313, "delete_module": 176, "mount": 165, "umount2": 166, "pivot_root": 155,
        "swapon": 167, "swapoff": 168, "reboot": 169, "acct": 163, "quotactl": 179, "syslog": 103,
        "settimeofday": 164, "clock_settime": 227, "clock_adjtime": 305, "adjtimex": 159,
        "open_by_handle_at": 304, "lookup_dcookie": 212, "chroot": 161, "iopl": 172, "ioperm": 173,
        "modify_ldt": 154, "uselib": 134, "ustat": 136, "vhangup": 153, "nfsservctl": 180,
        "move_pages": 279, "migrate_pages": 256, "execve": 59, "execveat": 322, **_COMMON,
    },
)  # fmt: skip

AARCH64 = Machine(
    0xC00000B7,
    {
        "socket": 198, "socketpair": 199, "ioctl": 29, "clone": 220, "unshare": 97, "setns": 268,
        "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272,
        "add_key": 217, "request_key": 218, "keyctl": 219, "bpf": 280, "perf_event_open": 241,
        "userfaultfd": 282, "kexec_load": 104, "kexec_file_load": 294, "init_module": 105,
        "finit_module": 273, "delete_module": 106, "mount": 40, "umount2": 39, "pivot_root": 41,
        "swapon": 224, "swapoff": 225, "reboot": 142, "acct": 89, "quotactl": 60, "syslog": 116,
        "settimeofday": 170, "clock_settime": 112, "clock_adjtime": 266, "adjtimex": 171,
        "open_by_handle_at": 265, "lookup_dcookie": 18, "chroot": 51, "vhangup": 58,
        "nfsservctl": 42, "move_pages": 239, "migrate_pages": 238, "execve": 221, "execveat": 281, **_COMMON,
    },
)  # fmt: skip

_MACHINES = {"x86_64": X86_64, "aarch64": AARCH64, "arm64": AARCH64}

_NEVER = """
    ptrace process_vm_readv process_vm_writev kcmp pidfd_getfd add_key request_key keyctl bpf
    perf_event_open userfaultfd kexec_load kexec_file_load init_module finit_module delete_module
    mount umount2 pivot_root open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr setns
    swapon swapoff reboot acct quotactl quotactl_fd syslog settimeofday clock_settime clock_adjtime
    adjtimex open_by_handle_at lookup_dcookie iopl ioperm modify_ldt uselib ustat vhangup nfsservctl
    move_pages migrate_pages
""".split()
# io_uring makes sockets that no filter sees; callers fall back when it does not exist.
_ABSENT = "io_uring_setup io_uring_enter io_uring_register clone3".split()
_STRICTLY_NEVER = ("chroot",)


def browser_filter(machine: Machine | None = None) -> bytes:
    """For the apps: user, pid and network namespaces may be nested, everything else may not."""
    return _assemble(
        machine or this_machine(), (AF_UNIX, AF_INET, AF_INET6, AF_NETLINK), _CLONE_HOST_LIKE, ()
    )


def strict_filter(
    families: Iterable[int] = (AF_UNIX, AF_INET, AF_INET6, AF_NETLINK), machine: Machine | None = None
) -> bytes:
    """For the X server, shell and code: no namespaces at all, and only these socket families."""
    return _assemble(machine or this_machine(), tuple(families), _CLONE_ALL, _STRICTLY_NEVER)


def no_programs_filter(machine: Machine | None = None) -> bytes:
    """For the code tool, once its program runs: as strict, only unix sockets, and nothing is executed."""
    never = (*_STRICTLY_NEVER, "execve", "execveat")
    return _assemble(machine or this_machine(), (AF_UNIX,), _CLONE_ALL, never)


def this_machine() -> Machine:
    """The ABI that runs here.

    Raises:
        IsolationUnavailable: neither x86_64 nor aarch64.
    """
    try:
        return _MACHINES[platform.machine()]
    except KeyError:
        raise IsolationUnavailable(
            f"no system call filter for {platform.machine()}: bodyd runs on x86_64 and aarch64"
        ) from None


def _assemble(machine: Machine, families: tuple[int, ...], clone_flags: int, more: Iterable[str]) -> bytes:
    calls = machine.calls
    code = _load(_ARCH) + _unless(_JEQ, machine.audit, _ret(_KILL)) + _load(_NR)
    if machine is X86_64:
        code += _when(_JGE, 0x40000000, _ret(_ERRNO | errno.ENOSYS))  # the x32 ABI has other numbers
    for name in (*_NEVER, *more):
        if name in calls:
            code += _when(_JEQ, calls[name], _ret(_ERRNO | errno.EPERM))
    for name in _ABSENT:
        code += _when(_JEQ, calls[name], _ret(_ERRNO | errno.ENOSYS))
    code += _when(_JEQ, calls["socket"], _socket_body(families))
    code += _when(_JEQ, calls["socketpair"], _socket_body((AF_UNIX,)))
    code += _when(_JEQ, calls["ioctl"], _ioctl_body())
    code += _when(_JEQ, calls["clone"], _flags_body(clone_flags & _CLONE_CALL_MASK))
    code += _when(_JEQ, calls["unshare"], _flags_body(clone_flags))
    code += _ret(_ALLOW)
    return b"".join(code)


def _socket_body(families: tuple[int, ...]) -> list[bytes]:
    """The families allowed; of NETLINK only ROUTE; of INET and INET6 no raw sockets."""
    refuse = _ret(_ERRNO | errno.EAFNOSUPPORT)
    raw = [*_arg(1), _op(_AND, _SOCK_TYPE_MASK), *_when(_JEQ, _SOCK_RAW, _ret(_ERRNO | errno.EPERM))]
    body = _arg(0)
    for family in families:
        if family == AF_NETLINK:
            accept = [*_arg(2), *_when(_JEQ, _NETLINK_ROUTE, _ret(_ALLOW)), *refuse]
        elif family in (AF_INET, AF_INET6):
            accept = [*raw, *_ret(_ALLOW)]
        else:
            accept = _ret(_ALLOW)
        body += _when(_JEQ, family, accept)
    return body + refuse


def _ioctl_body() -> list[bytes]:
    refuse = _ret(_ERRNO | errno.EPERM)
    return [*_arg(1), *_when(_JEQ, _TIOCSTI, refuse), *_when(_JEQ, _TIOCLINUX, refuse), *_ret(_ALLOW)]


def _flags_body(forbidden: int) -> list[bytes]:
    return [*_arg(0), *_when(_JSET, forbidden, _ret(_ERRNO | errno.EPERM)), *_ret(_ALLOW)]


# -- the assembler: an instruction is 8 bytes, a jump counts instructions forward -----------------


def _op(code: int, k: int, jt: int = 0, jf: int = 0) -> bytes:
    return struct.pack("<HBBI", code, jt, jf, k)


def _load(offset: int) -> list[bytes]:
    return [_op(_LD_ABS, offset)]


def _arg(index: int) -> list[bytes]:
    """Load the low 32 bits of an argument (little endian, as both machines are)."""
    return _load(16 + 8 * index)


def _ret(value: int) -> list[bytes]:
    return [_op(_RET, value)]


def _when(jump: int, value: int, body: list[bytes]) -> list[bytes]:
    """Run *body*, which must return, if the comparison holds; else go on behind it."""
    return [_op(jump, value, 0, len(body)), *body]


def _unless(jump: int, value: int, body: list[bytes]) -> list[bytes]:
    return [_op(jump, value, len(body), 0), *body]
