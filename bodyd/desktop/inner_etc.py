"""The sandbox's /etc: written here, never the host's (design: isolation). Pure but for zone lookup."""

from __future__ import annotations

import os
import re

from bodyd.errors import ConfigError

from .spec import HOSTNAME, INNER_UID

_ZONE = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+)*")
_LOCALE = re.compile(r"[A-Za-z0-9_.@-]{1,64}")
_ZONES = "/usr/share/zoneinfo"


def files(machine_id: str, timezone: str) -> dict[str, bytes]:
    """Contents by path: one user, no name service but files, no resolver."""
    text = {
        "/etc/passwd": f"root:x:0:0:root:/root:/usr/sbin/nologin\n"
        f"user:x:{INNER_UID}:{INNER_UID}:user:/home/user:/bin/sh\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
        "/etc/group": f"root:x:0:\nuser:x:{INNER_UID}:\nnogroup:x:65534:\n",
        "/etc/machine-id": f"{machine_id}\n",
        "/etc/hostname": f"{HOSTNAME}\n",
        "/etc/hosts": f"127.0.0.1 localhost {HOSTNAME}\n::1 localhost\n",
        "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
        "/etc/resolv.conf": "# names are resolved by the proxy, outside\n",
        "/etc/timezone": f"{timezone}\n",
    }
    return {path: content.encode() for path, content in text.items()}


def links(timezone: str) -> dict[str, str]:
    """Links by path.

    Raises:
        ConfigError: there is no such zone.
    """
    zone = f"{_ZONES}/{timezone}"
    if not _ZONE.fullmatch(timezone) or not (os.path.isfile(zone) or timezone == "UTC"):
        raise ConfigError(
            f'desktop.timezone: no zone {timezone!r} in {_ZONES}; use a name such as "Europe/Berlin" '
            "(the package tzdata has them)",
            param="desktop.timezone",
        )
    return {"/etc/localtime": zone}


def environment(timezone: str, locale: str) -> dict[str, str]:
    """The whole environment of the apps.

    Raises:
        ConfigError: the locale can't be one.
    """
    if not _LOCALE.fullmatch(locale):
        raise ConfigError(f"desktop.locale: {locale!r} is not a locale name", param="desktop.locale")
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": "/home/user",
        "USER": "user",
        "LOGNAME": "user",
        "SHELL": "/bin/sh",
        "LANG": locale,
        "TZ": timezone,
        "XDG_RUNTIME_DIR": f"/run/user/{INNER_UID}",
        "DBUS_SESSION_BUS_ADDRESS": "disabled:",
        "NO_AT_BRIDGE": "1",
    }
