"""Attacks from inside each sandbox: on the kernel, the host, the proxy and the X server's socket."""

from __future__ import annotations

import json
import os
import socket
from contextlib import contextmanager

import pytest
import trio

from bodyd.desktop.spec import INNER_UID

from .rooms import NETWORKED, ROOMS, room

REFUSED = {"EPERM", "EAFNOSUPPORT"}


@pytest.mark.parametrize("name", ROOMS)
async def test_the_kernel_refuses_what_leads_out(name, configure):
    """No odd sockets, terminal injection, tracing, mounts, capabilities, or writable /proc/sys."""
    async with room(name, configure) as attack:
        seen = await attack("kernel")
    assert set(seen["sockets"].values()) <= REFUSED, seen["sockets"]
    assert seen["wide vsock"] == "EAFNOSUPPORT"
    assert set(seen["terminal"]) == {"EPERM"}
    assert set(seen["calls"].values()) == {"EPERM"}, seen["calls"]
    assert seen["io_uring"] == "ENOSYS"
    for file in ("core_pattern", "modprobe", "sysrq"):
        assert seen[file] in ("EROFS", "EACCES", "ENOENT"), seen[file]
    assert seen["uid"] == [INNER_UID, INNER_UID]
    assert seen["capabilities"] == [0] * 5
    assert (seen["no new privileges"], seen["seccomp"]) == ("1", "2")
    # The browser's own sandbox is made of one; nobody else may have any.
    assert seen["user namespace"] == ("done" if name == "apps" else "EPERM")


@contextmanager
def bystanders():
    """A service on the host's loopback and one on an abstract socket; nobody must have called them."""
    abstract = f"bodyd-test-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind("\0" + abstract)
        unix.listen()
        yield str(tcp.getsockname()[1]), abstract
        for service in (tcp, unix):
            service.setblocking(False)
            with pytest.raises(BlockingIOError):
                service.accept()


@pytest.mark.parametrize("name", ROOMS)
async def test_nothing_of_the_host_is_in_reach(name, configure, place, monkeypatch):
    """No service, file, network or process of the host; no secret, descriptor or path of the daemon."""
    monkeypatch.setenv("PLANTED_SECRET", "hunter2")
    (place / "secret").write_text("hunter2")
    folders = [str(place / "state"), str(place / "run")]
    with bystanders() as services, (place / "secret").open() as file:
        os.set_inheritable(file.fileno(), True)
        async with room(name, configure) as attack:
            seen = await attack("host", *services, *folders)
    # An argument of ours names the folders: that one command line is left out.
    cmdlines = [line for line in seen.pop("cmdlines") if services[1] not in line]
    assert not any(str(place) in line for line in cmdlines)
    assert set(seen["services"].values()) <= {"ENOENT", "ENOTDIR", "EACCES"}, seen["services"]
    assert not any(seen["files"].values()), seen["files"]
    assert {seen["loopback"], seen["loopback6"], seen["abstract"]} <= {
        *("ECONNREFUSED", "EADDRNOTAVAIL", "ENETUNREACH", "EAFNOSUPPORT")
    }
    assert {seen["address"], seen["metadata"]} <= {"ENETUNREACH", "EAFNOSUPPORT"}
    assert not [a for a in seen["abstracts"] if not a.startswith("@/bodyd")]
    assert seen["interfaces"] == ["lo"]
    assert seen["resolver"] == []
    assert "hunter2" not in json.dumps(seen)
    assert str(place) not in json.dumps([seen["env"], seen["environ"], seen["fds"]])
    assert all(fd.startswith(("pipe:", "/dev/null", "/proc/", "/tmp/sh-thd")) for fd in seen["fds"]), seen[
        "fds"
    ]
    assert seen["pids"] < 16


@pytest.mark.parametrize("name", NETWORKED)
async def test_the_proxy_sees_through_every_disguise(name, configure):
    """Plain HTTP is held to the list like CONNECT; addresses, user parts, NULs and dots get nowhere."""
    with bystanders() as (port, _):
        async with room(name, configure) as attack:
            seen = await attack("proxy", "site.test", port)
    assert set(seen["tunnels"].values()) <= {400, 403}, seen["tunnels"]
    assert set(seen["requests"].values()) <= {400, 403}, seen["requests"]
    assert set(seen["ports"].values()) == {403}
    assert set(seen["schemes"].values()) == {400}
    assert seen["methods"] == 400
    assert seen["listed"] == 502  # it is let through; nobody serves it


@pytest.mark.parametrize("name", NETWORKED)
async def test_a_relay_inside_widens_nothing(name, configure):
    """The proxy's address can't be taken over, and what is relayed to it is judged like all."""
    with bystanders() as (port, _):
        async with room(name, configure) as attack:
            seen = await attack("relay", port)
    assert seen["listen"] == "EADDRINUSE"
    assert seen["listen with reuse"] == "EADDRINUSE"
    assert seen["relayed"] == "403"
    assert seen["nested network"] in ("ENETUNREACH", "EPERM")


@pytest.mark.parametrize("name", ROOMS)
async def test_the_x_socket_stays_what_it_is(name, configure):
    """The apps can use it and not replace it; no command sees any of it; nothing listens elsewhere."""
    async with room(name, configure) as attack:
        seen = await attack("x_socket")
    assert (seen.pop("there"), seen.pop("display") is not None) == (name == "apps", name == "apps")
    assert (seen.pop("authority") is not None) == (name == "apps")
    assert {seen.pop("abstract"), seen.pop("tcp")} <= {"ECONNREFUSED", "EAFNOSUPPORT", "ENETUNREACH"}
    if name == "apps":
        assert seen.pop("swap") == "EEXIST"
        assert set(seen.values()) <= {"EROFS", "EACCES", "EBUSY", "EPERM", "EXDEV", "ENXIO"}, seen
    elif name.startswith("shell"):
        assert set(seen.values()) == {"ENOENT"}, seen


async def test_the_shells_list_is_its_own(configure):
    """Without a list a command has no proxy at all, whatever the apps may reach."""
    async with room("shell", configure) as attack:
        with pytest.raises(AssertionError, match="refused"):
            await attack("proxy", "site.test", "80")
    await trio.lowlevel.checkpoint()
