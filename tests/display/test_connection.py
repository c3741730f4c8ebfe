"""The way in: the right socket, the right cookie, nothing else."""

from __future__ import annotations

import os
import resource
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from Xlib import error as xlib_error
from Xlib.protocol import request

from bodyd.display.connection import XConnection, connect
from bodyd.display.display import open_display
from bodyd.errors import DisplayUnavailable

from .world import XServer


async def test_a_display_opens(server: XServer) -> None:
    """The server's size is known once the context is entered."""
    async with open_display(server.endpoint) as display:
        assert (display.size.width, display.size.height) == (1280, 800)
        assert await display.ping() < 2


async def test_a_wrong_cookie_is_refused(server: XServer) -> None:
    """The server's word stands; nothing is tried without a cookie."""
    with pytest.raises(DisplayUnavailable, match="lost"):
        async with open_display(replace(server.endpoint, cookie=bytes(16))):
            pass


async def test_a_link_is_not_followed(server: XServer, tmp_path: Path) -> None:
    """A symbolic link in the socket's place is refused, even to the right socket."""
    link = tmp_path / "X7"
    link.symlink_to(server.endpoint.socket_path)
    with pytest.raises(DisplayUnavailable, match="not a socket"):
        async with open_display(replace(server.endpoint, socket_path=str(link))):
            pass


async def test_a_socket_of_another_owner_is_refused(server: XServer) -> None:
    """Whoever listens there instead of the body's server gets no cookie."""
    with pytest.raises(DisplayUnavailable, match="belongs to uid"):
        async with open_display(replace(server.endpoint, uid=server.endpoint.uid + 1)):
            pass


async def test_a_file_is_not_a_socket(server: XServer, tmp_path: Path) -> None:
    """Anything but a socket is refused by its type."""
    plain = tmp_path / "plain"
    plain.touch()
    with pytest.raises(DisplayUnavailable, match="not a socket"):
        async with open_display(replace(server.endpoint, socket_path=str(plain))):
            pass


async def test_nobody_listens(tmp_path: Path, server: XServer) -> None:
    """A socket file that a dead server left behind is reported as such."""
    left = tmp_path / "X8"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(left))
    with pytest.raises(DisplayUnavailable, match="does not accept"):
        async with open_display(replace(server.endpoint, socket_path=str(left))):
            pass


async def test_the_callers_own_error_comes_out_bare(server: XServer) -> None:
    """The nursery inside is nobody's business."""
    with pytest.raises(ZeroDivisionError):
        async with open_display(server.endpoint):
            raise ZeroDivisionError


def test_the_servers_complaints_are_errors_and_no_crash(server: XServer) -> None:
    """BadValue, which python-xlib's randr takes away, where an answer is waited for and where none is."""
    x = server.connect()
    with pytest.raises(xlib_error.BadValue):
        request.GetKeyboardMapping(display=x.core, first_keycode=0, count=255)
    request.Bell(display=x.core, percent=-128)
    x.display.sync()
    assert [type(error) for error in x.errors] == [xlib_error.BadValue]
    x.close()


def test_descriptors_above_1023_work(server: XServer) -> None:
    """A daemon with many open files is no reason to fail: select(2) is not used."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    hoard = [os.open("/dev/null", os.O_RDONLY) for _ in range(1100)]
    try:
        x = XConnection(connect(server.endpoint))
        assert x.wire.fileno() > 1023
        x.display.sync()
        x.close()
    finally:
        for fd in hoard:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_reopening_leaks_nothing(server: XServer) -> None:
    """Ten displays, opened and used and closed, leave the process's descriptors as they were."""

    async def once() -> None:
        async with open_display(server.endpoint) as display:
            await display.capture()
            await display.write_clipboard("x")
            await display.windows()

    await once()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        await once()
    assert len(os.listdir("/proc/self/fd")) <= before
