"""The accessibility bus of the apps' sandbox: its socket, its rules, and what makes apps join it.

The daemon binds the socket and passes it in, so no app can put another in its place. Where the daemon's
uid is another than the apps', the bus keeps apps from acting on each other through it; reading stays
possible: the apps of one body are one trust domain. The bus starts the registry when the first app asks.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bodyd.config import Config
from bodyd.errors import IsolationUnavailable

from .layout import Layout
from .spec import INNER_UID, OURS, Bind

SOCKET_INSIDE = f"{OURS}/a11y.sock"
_RULES_INSIDE = f"{OURS}/a11y.conf"
_SERVICES = "/usr/share/dbus-1/accessibility-services"
PROGRAMS = ("/usr/bin/dbus-daemon", "/usr/libexec/at-spi2-registryd")

# The socket arrives as descriptor 3, which is named by the pid that only the program itself knows.
COMMAND = (
    "/bin/sh",
    "-c",
    f"LISTEN_PID=$$ LISTEN_FDS=1 exec {PROGRAMS[0]} --config-file={_RULES_INSIDE} --nofork --nopidfile",
)

_ENVIRONMENT = {
    "AT_SPI_BUS_ADDRESS": f"unix:path={SOCKET_INSIDE}",
    "GNOME_ACCESSIBILITY": "1",
    "ACCESSIBILITY_ENABLED": "1",
    "QT_ACCESSIBILITY": "1",
    "QT_LINUX_ACCESSIBILITY_ALWAYS_ON": "1",
}
BROWSER_FLAG = "--force-renderer-accessibility"


class BusSocket:
    """The bound socket of one apps' sandbox, and its path on the host."""

    def __init__(self, layout: Layout) -> None:
        """
        Raises:
            OSError: it can't be bound.
        """
        self.path = layout.a11y_dir() / secrets.token_hex(4)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.listener.bind(str(self.path))
            os.chmod(self.path, 0o600)
            if layout.uids.drop:
                os.chown(self.path, layout.uids.apps, layout.uids.apps)
            self.listener.listen(64)
        except BaseException:
            self.close()
            raise

    @property
    def bind(self) -> Bind:
        return Bind(str(self.path), SOCKET_INSIDE)

    def close(self) -> None:
        """Nobody connects any more."""
        self.listener.close()
        self.path.unlink(missing_ok=True)


@contextmanager
def bus_socket(config: Config, layout: Layout) -> Iterator[BusSocket | None]:
    """The socket for a new sandbox; None where accessibility is off.

    Raises:
        IsolationUnavailable: a program is missing; with the packages.
    """
    if not config.accessibility.enabled:
        yield None
        return
    if missing():
        raise IsolationUnavailable(
            f"accessibility.enabled needs {', '.join(missing())}: install at-spi2-core and dbus-daemon"
        )
    bus = BusSocket(layout)
    try:
        yield bus
    finally:
        bus.close()


def environment(apps: Mapping[str, str]) -> dict[str, str]:
    """The apps' environment, so that their toolkits join the bus."""
    return {name: value for name, value in apps.items() if name != "NO_AT_BRIDGE"} | _ENVIRONMENT


def files(*, separate: bool) -> dict[str, bytes]:
    """The bus's rules; *separate*: the daemon is another user than the apps, seen from inside as nobody."""
    fence = f'<policy user="{INNER_UID}">{_FENCE}</policy>' if separate else ""
    return {_RULES_INSIDE: f"{_HEAD}{_OPEN}{fence}{_LIMITS}</busconfig>\n".encode()}


def missing() -> list[str]:
    """The programs that are not there (packages at-spi2-core and dbus-daemon)."""
    return [path for path in (*PROGRAMS, _SERVICES) if not Path(path).exists()]


_HEAD = (
    '<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" '
    '"http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">\n'
    f"<busconfig><type>accessibility</type><listen>systemd:</listen><auth>EXTERNAL</auth>"
    f"<servicedir>{_SERVICES}</servicedir>"
)
_OPEN = (
    '<policy context="default"><allow user="*"/><allow send_destination="*" eavesdrop="false"/>'
    '<allow receive_sender="*" eavesdrop="false"/><allow own="*"/></policy>'
)
_EVENTS = 'receive_type="signal" receive_interface="org.a11y.atspi.Event.Object"'
_FENCE = "".join(
    f"<deny {what}/>"
    for what in (
        'send_interface="org.a11y.atspi.Action"',
        'send_interface="org.a11y.atspi.EditableText"',
        'send_interface="org.a11y.atspi.Value"',
        'send_interface="org.a11y.atspi.DeviceEventController"',
        'send_interface="org.freedesktop.DBus.Properties" send_member="Set"',
        'send_interface="org.freedesktop.DBus.Monitoring"',
        _EVENTS,
    )
)
_LIMITS = "".join(
    f'<limit name="{name}">{value}</limit>'
    for name, value in {
        "max_incoming_bytes": 8 * 1024 * 1024,
        "max_outgoing_bytes": 16 * 1024 * 1024,
        "max_message_size": 4 * 1024 * 1024,
        "max_completed_connections": 256,
        "max_incomplete_connections": 32,
        "max_match_rules_per_connection": 64,
        "max_replies_per_connection": 8192,
    }.items()
)
