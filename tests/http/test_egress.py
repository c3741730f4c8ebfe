"""The routes of the ways out: whose counts are whose, and a reload."""

from __future__ import annotations

import pytest

from bodyd.client import BodyClient
from bodyd.contract.lease import Scope
from bodyd.errors import BodydError, ConfigError
from bodyd.http.listener import Bound
from bodyd.http.services import Services


class Lists:
    def __init__(self) -> None:
        self.faulty = False

    def snapshot(self, *, hosts: bool) -> dict[str, object]:
        return {"apps": {"denied_total": 1, **({"denied": {"a.test": 1}} if hosts else {})}}

    async def reload(self) -> dict[str, int]:
        if self.faulty:
            raise ConfigError("egress.allow: '*' is not a host name", param="egress.allow")
        return {"apps": 3}


@pytest.fixture
def lists(services: Services) -> Lists:
    services.egress = Lists()
    return services.egress


async def test_the_owner_reads_hosts_and_everyone_counts(lists, services: Services, bound: Bound, client):
    """Status has the counts for every scope, the route has the hosts for the owner alone."""
    assert (await client.egress())["apps"]["denied"] == {"a.test": 1}
    viewer = BodyClient(socket_path=bound.unix_path, token=services.tokens.token(Scope.VIEWER))
    async with viewer:
        assert (await viewer.status())["egress"] == {"apps": {"denied_total": 1}}
        for call in (viewer.egress, viewer.reload_egress):
            with pytest.raises(BodydError) as refused:
                await call()
            assert refused.value.code == "forbidden"


async def test_a_reload_says_what_it_found(lists, client: BodyClient):
    """The number of rules, or the fault with its setting."""
    assert await client.reload_egress() == {"rules": {"apps": 3}}
    lists.faulty = True
    with pytest.raises(BodydError, match="not a host name") as refused:
        await client.reload_egress()
    assert (refused.value.code, refused.value.param) == ("config_error", "egress.allow")


async def test_without_sandboxes_there_is_nothing_to_say(client: BodyClient):
    """A daemon that has no way out of its own, says so, and status leaves it out."""
    assert "egress" not in await client.status()
    with pytest.raises(BodydError) as refused:
        await client.egress()
    assert refused.value.code == "unavailable"
