"""The listening sockets: http/sockets.py."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from bodyd.errors import ConfigError
from bodyd.http.sockets import open_tcp, unix_socket


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_tcp_is_loopback(host: str):
    """A free port of a loopback address, with a bound on unacknowledged data."""
    try:
        sock = open_tcp(host, 0)
    except ConfigError:
        assert host == "::1"
        pytest.skip("this machine has no IPv6 loopback")
    with sock:
        assert sock.getsockname()[0] == host
        assert sock.getsockname()[1] > 0
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) > 0


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::"])
def test_nothing_else_is_listened_on(host: str):
    """Whatever else a configuration comes up with."""
    with pytest.raises(ConfigError, match="loopback"):
        open_tcp(host, 0)


def test_a_taken_port_is_said():
    """The message names the port and the setting."""
    with open_tcp("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port}") as caught:
            open_tcp("127.0.0.1", port)
    assert caught.value.param == "http.port"


def test_the_unix_socket_is_the_users_alone(tmp_path: Path):
    """0600 from the first moment, whatever the umask; gone at the end."""
    path = tmp_path / "run" / "api.sock"
    before = os.umask(0)
    try:
        with unix_socket(path):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    finally:
        os.umask(before)
    assert not path.exists()


def test_a_live_server_is_not_robbed_of_its_socket(tmp_path: Path):
    """A second server is refused, and the first goes on answering."""
    path = tmp_path / "api.sock"
    with unix_socket(path) as first:
        with pytest.raises(ConfigError, match="another bodyd"), unix_socket(path):
            pytest.fail("two servers on one path")
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(str(path))
            first.accept()[0].close()


def test_what_a_dead_server_left_is_replaced(tmp_path: Path):
    """After a kill -9 the file is there, but nobody holds the lock."""
    path = tmp_path / "api.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with unix_socket(path):
        assert stat.S_ISSOCK(path.stat().st_mode)


def test_another_file_of_that_name_is_left_alone(tmp_path: Path):
    """Only sockets are replaced."""
    path = tmp_path / "api.sock"
    path.write_text("precious")
    with pytest.raises(ConfigError, match="not a socket"), unix_socket(path):
        pytest.fail("a file was taken for a socket")
    assert path.read_text() == "precious"


def test_a_socket_that_someone_put_there_since_is_left_alone(tmp_path: Path):
    """Only our own file is removed at the end."""
    path = tmp_path / "api.sock"
    with unix_socket(path):
        path.unlink()
        path.write_text("not ours")
    assert path.read_text() == "not ours"


def test_a_path_that_is_too_long_is_said(tmp_path: Path):
    """The system takes 107 bytes; the message says which setting to shorten."""
    path = tmp_path / ("x" * 120) / "api.sock"
    with pytest.raises(ConfigError, match="run_dir"), unix_socket(path):
        pytest.fail("bound to a path that is too long")


def test_a_lock_that_is_a_symlink_is_refused(tmp_path: Path):
    """In a folder that others may write to, a link must not lead to a file of ours."""
    path = tmp_path / "api.sock"
    (tmp_path / "api.sock.lock").symlink_to(tmp_path / "victim")
    with pytest.raises(ConfigError), unix_socket(path):
        pytest.fail("followed a link")
    assert not (tmp_path / "victim").exists()
