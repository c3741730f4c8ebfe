"""The filters, judged by a small interpreter of classic BPF: both machines, every comparison."""

from __future__ import annotations

import errno
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bodyd.desktop.seccomp import AARCH64, AF_UNIX, X86_64, browser_filter, strict_filter

ALLOW = "allow"
MACHINES = pytest.mark.parametrize("machine", [X86_64, AARCH64], ids=["x86_64", "aarch64"])


def judge(program, machine, nr, *args, audit=None):
    """Run the filter on one system call: "allow", "kill" or the name of the error."""
    filled = [*args, *[0] * (6 - len(args))]
    data = struct.pack("<iIQ6Q", nr, audit or machine.audit, 0, *(a & 2**64 - 1 for a in filled))
    code = list(struct.iter_unpack("<HBBI", program))
    at, acc = 0, 0
    while True:
        op, jt, jf, k = code[at]
        at += 1
        if op == 0x20:
            acc = struct.unpack_from("<I", data, k)[0]
        elif op == 0x54:
            acc &= k
        elif op == 0x15:
            at += jt if acc == k else jf
        elif op == 0x35:
            at += jt if acc >= k else jf
        elif op == 0x45:
            at += jt if acc & k else jf
        elif op == 0x06:
            if k == 0x7FFF0000:
                return ALLOW
            return "kill" if k == 0x80000000 else errno.errorcode[k & 0xFFFF]


@MACHINES
def test_ordinary_calls_pass(machine):
    """Reading, mapping, threads and ordinary sockets are untouched by both profiles."""
    for program in (browser_filter(machine), strict_filter(machine=machine)):
        assert judge(program, machine, 0 if machine is X86_64 else 63) == ALLOW
        assert judge(program, machine, machine.calls["socket"], 1, 1) == ALLOW
        assert judge(program, machine, machine.calls["socket"], 2, 1 | 0o2000000) == ALLOW
        assert judge(program, machine, machine.calls["socket"], 16, 3, 0) == ALLOW
        assert judge(program, machine, machine.calls["clone"], 0x3D0F00) == ALLOW
        assert judge(program, machine, machine.calls["ioctl"], 1, 0x5401) == ALLOW


@MACHINES
def test_families_are_a_list(machine):
    """Vsock, packet, alg, netlink but route, and raw sockets are refused, whatever the upper half says."""
    socket = machine.calls["socket"]
    for program in (browser_filter(machine), strict_filter(machine=machine)):
        for family in (17, 38, 40, 44, 0, 3, 45, 200):
            assert judge(program, machine, socket, family, 1) == "EAFNOSUPPORT"
            assert judge(program, machine, socket, family | 1 << 32, 1) == "EAFNOSUPPORT"
        assert judge(program, machine, socket, 16, 3, 9) == "EAFNOSUPPORT"
        assert judge(program, machine, socket, 2, 3) == "EPERM"
        assert judge(program, machine, socket, 10, 3 | 0o2000000) == "EPERM"
    alone = strict_filter((AF_UNIX,), machine)
    assert judge(alone, machine, socket, 1, 1) == ALLOW
    assert judge(alone, machine, socket, 2, 1) == "EAFNOSUPPORT"


@MACHINES
@given(upper=st.integers(0, 2**32 - 1))
def test_terminal_injection_is_refused_on_32_bits(machine, upper):
    """TIOCSTI and TIOCLINUX are refused with any upper half of the register."""
    program = browser_filter(machine)
    for number in (0x5412, 0x541C):
        assert judge(program, machine, machine.calls["ioctl"], 1, number | upper << 32) == "EPERM"


@MACHINES
def test_namespaces_nest_for_the_browser_only(machine):
    """User, pid and network namespaces pass in the browser's profile; mount and others in neither."""
    browser, strict = browser_filter(machine), strict_filter(machine=machine)
    for call in ("clone", "unshare"):
        for flag in (0x10000000, 0x20000000, 0x40000000):
            assert judge(browser, machine, machine.calls[call], flag) == ALLOW
            assert judge(strict, machine, machine.calls[call], flag) == "EPERM"
        for flag in (0x00020000, 0x02000000, 0x04000000, 0x08000000):
            for program in (browser, strict):
                assert judge(program, machine, machine.calls[call], flag | 0x10000000) == "EPERM"
    assert judge(strict, machine, machine.calls["unshare"], 0x80) == "EPERM"
    assert judge(strict, machine, machine.calls["clone3"]) == "ENOSYS"


@MACHINES
def test_dangerous_calls_are_refused(machine):
    """Tracing, keys, bpf, modules, mounts and the rest are refused in both profiles, io_uring is absent."""
    for program in (browser_filter(machine), strict_filter(machine=machine)):
        for name in """ptrace process_vm_readv process_vm_writev pidfd_getfd keyctl add_key bpf userfaultfd
                       perf_event_open kexec_load kexec_file_load init_module mount umount2 pivot_root setns
                       open_tree move_mount fsopen mount_setattr reboot swapon syslog""".split():
            assert judge(program, machine, machine.calls[name]) == "EPERM"
        assert judge(program, machine, machine.calls["io_uring_setup"]) == "ENOSYS"


def test_foreign_machines_and_numbers_are_refused():
    """Another ABI's call kills, and x32 numbers don't exist."""
    program = browser_filter(X86_64)
    assert judge(program, X86_64, 0, audit=0x40000003) == "kill"
    assert judge(program, X86_64, 0x40000000 | 41, 40, 1) == "ENOSYS"
    assert judge(browser_filter(AARCH64), AARCH64, 0, audit=X86_64.audit) == "kill"
