"""What the body's apps may reach: the rules, and the judgement of one request. Pure.

Default deny. A name is judged as the raw bytes that the client sent, by one strict expression, so
that no two parsers can disagree about it; addresses are judged one by one after the daemon resolved
the name, for a name may resolve to anything (rebinding). Its counterpart is egress.py.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from bodyd.errors import ConfigError

DEFAULT_PORTS = (80, 443)

_LABEL = rb"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
# At least two labels, and a last one that is not a number in any base: no form of an IP address fits.
_NAME = re.compile(rb"(?:" + _LABEL + rb"\.)+(?!(?:[0-9]+|0x[0-9a-f]*)\Z)" + _LABEL)
_PORT = re.compile(rb"[1-9][0-9]{0,4}")

# ipaddress.is_global alone passes NAT64, 6to4 and multicast (seen on 3.11), so the list is our own.
_REFUSED = tuple(
    ipaddress.ip_network(n)
    for n in """
    0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24
    192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15
    198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4
    ::/3 4000::/2 8000::/1
    2001::/23 2001:db8::/32 2002::/16 2620:4f:8000::/48 3fff::/20
    """.split()
)


@dataclass(frozen=True, slots=True)
class Remote:
    """Allowed: resolve *host*, check every address, dial one that passed."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Local:
    """Allowed: dial this unix socket of the host, and nothing else."""

    host: str
    port: int
    path: str


@dataclass(frozen=True, slots=True)
class Denied:
    """Refused. `host` is safe to show: a name that passed the strict expression, or ""."""

    reason: str
    host: str = ""
    quiet: bool = False


Judgement = Remote | Local | Denied


@dataclass(frozen=True, slots=True)
class Pattern:
    """One entry of a list: a name, or everything below it; `ports` None means any."""

    name: str
    below: bool
    ports: tuple[int, ...] | None

    def covers(self, host: str, port: int) -> bool:
        if self.ports is not None and port not in self.ports:
            return False
        return host.endswith("." + self.name) if self.below else host == self.name


@dataclass(frozen=True, slots=True)
class EgressRules:
    """An allowlist, exact local mappings, and the names whose denial is not worth a line."""

    allow: tuple[Pattern, ...] = ()
    local: Mapping[tuple[str, int], str] | None = None
    quiet: tuple[Pattern, ...] = ()

    @classmethod
    def parse(
        cls,
        allow: Iterable[str] = (),
        local: Mapping[str, str] | None = None,
        quiet: Iterable[str] = (),
        *,
        section: str = "egress",
    ) -> EgressRules:
        """Rules from *section* of the configuration.

        Raises:
            ConfigError: an entry that is not exactly a rule; the start is refused rather than a rule guessed.
        """
        return cls(
            tuple(_pattern(e, f"{section}.allow", DEFAULT_PORTS) for e in allow),
            dict(_mapping(name, path, f"{section}.local") for name, path in (local or {}).items()),
            tuple(_pattern(e, f"{section}.quiet", None) for e in quiet),
        )

    def judge(self, host: bytes, port: bytes) -> Judgement:
        """Judge the authority of one request, as its raw bytes; an absent port is the caller's to fill."""
        name = host.lower()
        if len(name) > 253 or not _NAME.fullmatch(name):
            return Denied("not a host name")
        text = name.decode("ascii")
        if not _PORT.fullmatch(port) or int(port) > 65535:
            return Denied("not a port", text)
        number = int(port)
        path = (self.local or {}).get((text, number))
        if path is not None:
            return Local(text, number, path)
        if any(p.covers(text, number) for p in self.allow):
            return Remote(text, number)
        return Denied("not on the list", text, any(p.covers(text, number) for p in self.quiet))

    def again(self, verdict: Remote | Local) -> Judgement:
        """What these rules make of what others allowed."""
        return self.judge(verdict.host.encode("ascii"), str(verdict.port).encode("ascii"))

    def __len__(self) -> int:
        """How many ways out there are; with none, nothing can be reached."""
        return len(self.allow) + len(self.local or {})


def address_allowed(address: str) -> bool:
    """Whether *address*, a result of name resolution, may be dialled: public unicast only."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address) and ip.scope_id is not None:
        return False
    return ip.is_global and not any(ip in net for net in _REFUSED if net.version == ip.version)


def _pattern(entry: str, where: str, ports: tuple[int, ...] | None) -> Pattern:
    name, colon, port = entry.partition(":")
    if colon:
        ports = (_port(port, entry, where),)
    below = name.startswith("*.")
    return Pattern(_name(name.removeprefix("*."), entry, where), below, ports)


def _mapping(entry: str, path: str, where: str) -> tuple[tuple[str, int], str]:
    name, colon, port = entry.partition(":")
    if not colon:
        raise ConfigError(f'{where}: {entry!r} needs a port, as in "site.bodyd.test:80"', param=where)
    if not PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
        raise ConfigError(f"{where}: {path!r} is not the absolute path of a unix socket", param=where)
    return (_name(name, entry, where), _port(port, entry, where)), path


def _name(name: str, entry: str, where: str) -> str:
    raw = name.encode("ascii", "replace").lower()
    if len(raw) > 253 or not _NAME.fullmatch(raw):
        raise ConfigError(
            f'{where}: {entry!r} is not a host name of two or more labels ("example.org", "*.example.org"), '
            "and addresses are never allowed",
            param=where,
        )
    return raw.decode("ascii")


def _port(port: str, entry: str, where: str) -> int:
    if not _PORT.fullmatch(port.encode("ascii", "replace")) or int(port) > 65535:
        raise ConfigError(f"{where}: {entry!r} has no port between 1 and 65535", param=where)
    return int(port)
