"""The allowlists of one body's sandboxes, read again while it runs: all of them or none.

A file that is wrong in any part changes nothing: the rules of before go on holding, and the fault is kept for
status. Counterparts: egress.py asks the rules, daemon.py says what to read and who is told.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import structlog

from bodyd.config import Config
from bodyd.errors import BodydError, ConfigError

from .egress import EgressProxy
from .egress_rules import EgressRules

Audit = Callable[[str, Mapping[str, object]], Awaitable[object]]

log = structlog.get_logger("bodyd.egress")


def apps_rules(config: Config) -> EgressRules:
    """The apps' list.

    Raises:
        ConfigError: an entry that is no rule.
    """
    egress = config.egress
    return EgressRules.parse(egress.allow, egress.local, egress.quiet)


def shell_rules(config: Config) -> EgressRules:
    """The shell's list, as `apps_rules`; with the shell off, nothing."""
    egress = config.shell.egress
    rules = EgressRules.parse(egress.allow, egress.local, section="shell.egress")
    return rules if config.shell.enabled else EgressRules()


@dataclass
class EgressLists:
    """The proxies by the sandbox they serve.

    Args:
        load: Reads the configuration as the start did; None: there is nothing to read again.
        audit: Records each reload, done or refused.
    """

    load: Callable[[], Config] | None
    audit: Audit
    _served: dict[str, tuple[EgressProxy, Callable[[Config], EgressRules]]] = field(default_factory=dict)
    _reloads: int = 0
    _refused: str = ""

    def add(self, name: str, proxy: EgressProxy, rules: Callable[[Config], EgressRules]) -> None:
        """Have *proxy* judge by *rules* of the configuration from the next reload on."""
        self._served[name] = (proxy, rules)

    def snapshot(self, *, hosts: bool) -> dict[str, object]:
        """Counts by sandbox, with the hosts' names or without, and how the last reload went."""
        lists = {name: proxy.snapshot(hosts=hosts) for name, (proxy, _) in self._served.items()}
        return {**lists, "reloads": self._reloads, "last_reload_refused": self._refused or None}

    async def reload(self) -> dict[str, int]:
        """Read the lists again and go by them; returns the number of rules by sandbox.

        Raises:
            ConfigError: the file is wrong, or there is none to read; everything goes on as it was.
            JournalUnavailable: the reload could not be recorded, and was not done.
        """
        fresh = self._read()
        if isinstance(fresh, BodydError):
            self._refused = fresh.message
            log.error("egress_reload_refused", error=fresh.message)
            await self.audit("egress.reload", {"done": False, "param": fresh.param})
            raise fresh
        counts = {name: len(rules) for name, rules in fresh.items()}
        await self.audit("egress.reload", {"done": True, "rules": counts})
        for name, (proxy, _) in self._served.items():
            proxy.replace(fresh[name])
        self._refused = ""
        self._reloads += 1
        log.info("egress_reloaded", **counts)
        return counts

    def _read(self) -> dict[str, EgressRules] | BodydError:
        """All the lists as the file has them now, or what is wrong with it."""
        if self.load is None:
            return ConfigError("this daemon was started without a configuration that could be read again")
        try:
            config = self.load()
            return {name: rules(config) for name, (_, rules) in self._served.items()}
        except BodydError as exc:
            return exc
