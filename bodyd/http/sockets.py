"""The listening sockets: TCP on a loopback address, and a unix socket that two daemons never share."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

from bodyd.errors import ConfigError

BACKLOG = 128
USER_TIMEOUT_MS = 20_000
"""Unacknowledged data older than this ends a connection (TCP_USER_TIMEOUT, RFC 5482)."""


def open_tcp(host: str, port: int) -> socket.socket:
    """Listen on a loopback address; port 0 takes a free one.

    Raises:
        ConfigError: not loopback, or the port is taken.
    """
    address = ip_address(host)
    if not address.is_loopback:
        raise ConfigError(
            f"[http] host {host} is not a loopback address; put a TLS proxy in front", param="http.host"
        )
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, USER_TIMEOUT_MS)
        sock.bind((host, port))
        sock.listen(BACKLOG)
    except OSError as exc:
        sock.close()
        raise ConfigError(
            f"cannot listen on {host} port {port}: {exc.strerror}; set another [http] port, or 0",
            param="http.port",
        ) from exc
    return sock


@contextlib.contextmanager
def unix_socket(path: Path) -> Iterator[socket.socket]:
    """Listen on *path* with mode 0600; the file is removed at the end, if it is still ours.

    A lock beside it tells a live server from a dead one's leftovers: Linux lets anyone with the
    right to the directory bind over a live path after unlinking it.

    Raises:
        ConfigError: another server is alive there, something else has that name, or it is too long.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(
            path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
    except OSError as exc:
        raise ConfigError(f"{path}: {exc.strerror}") from exc
    try:
        _claim(lock, path)
        sock = _bind(path)
        try:
            mine = _identity(path)
            yield sock
        finally:
            sock.close()
            if _identity(path) == mine:
                path.unlink()
    finally:
        os.close(lock)


def _claim(lock: int, path: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ConfigError(f"another bodyd already serves {path}; stop it with `bodyd stop`") from None
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ConfigError(f"{path} exists and is not a socket; remove it, or set another run_dir")
        path.unlink()


def _bind(path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Linux takes the mode of the new file from the socket's own: no umask, which is the process's.
        os.fchmod(sock.fileno(), 0o600)
        sock.bind(str(path))
        sock.listen(BACKLOG)
    except OSError as exc:
        sock.close()
        reason = exc.strerror or str(exc)
        hint = "; set a shorter run_dir" if exc.errno in (None, errno.ENAMETOOLONG) else ""
        raise ConfigError(f"cannot listen on {path}: {reason}{hint}", param="run_dir") from exc
    return sock


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
