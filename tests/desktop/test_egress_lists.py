"""Reading the allowlists again: all of them or none, and never more open than what a file says."""

from __future__ import annotations

import pytest

from bodyd.config import Config, load, parse
from bodyd.desktop.egress import EgressProxy
from bodyd.desktop.egress_lists import EgressLists, apps_rules, shell_rules
from bodyd.errors import ConfigError, JournalUnavailable

BEFORE = """
[egress]
allow = ["example.org"]
[shell]
enabled = true
policy = {default = "allow"}
egress = {allow = ["pypi.org"]}
"""


class World:
    def __init__(self, path):
        self.path = path
        self.path.write_text(BEFORE)
        config = load(path)
        self.apps, self.shell = EgressProxy(apps_rules(config)), EgressProxy(shell_rules(config))
        self.audited = []
        self.lists = EgressLists(lambda: load(path), self.audit)
        self.lists.add("apps", self.apps, apps_rules)
        self.lists.add("shell", self.shell, shell_rules)
        self.before = (self.apps.rules, self.shell.rules)

    async def audit(self, kind, data):
        self.audited.append((kind, data))

    @property
    def rules(self):
        return (self.apps.rules, self.shell.rules)


@pytest.fixture
def world(tmp_path):
    return World(tmp_path / "bodyd.toml")


async def test_a_reload_replaces_every_list(world):
    """Each sandbox goes by its own part of the file; the counts are told and audited."""
    world.path.write_text(BEFORE.replace('"example.org"', '"example.net", "*.example.net"'))
    assert await world.lists.reload() == {"apps": 2, "shell": 1}
    assert [p.name for p in world.apps.rules.allow] == ["example.net", "example.net"]
    assert world.shell.rules == world.before[1]
    assert world.audited == [("egress.reload", {"done": True, "rules": {"apps": 2, "shell": 1}})]
    seen = world.lists.snapshot(hosts=False)
    assert (seen["reloads"], seen["last_reload_refused"], seen["apps"]["rules"]) == (1, None, 2)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[egress\n", "bodyd.toml"),
        ('[egress]\nallow = ["*"]\n', "egress.allow"),
        ('[egress]\nallow = ["example.org", "127.0.0.1"]\n', "127.0.0.1"),
        ('[egress]\nalow = ["example.org"]\n', "did you mean 'allow'"),
        ('[egress]\nallow = "example.org"\n', "egress.allow"),
        (BEFORE.replace("example.org", "other.test").replace("pypi.org", "*.org"), "shell.egress.allow"),
        (b"[egress]\nallow = ['\xff']\n", "bodyd.toml"),
        (None, "bodyd.toml"),
    ],
)
async def test_a_faulty_file_changes_nothing(world, content, said):
    """Whatever is wrong, wherever it is, even away: the error names it, and the lists of before hold on."""
    if content is None:
        world.path.unlink()
    elif isinstance(content, bytes):
        world.path.write_bytes(content)
    else:
        world.path.write_text(content)
    with pytest.raises(ConfigError, match=said.replace("*", r"\*")):
        await world.lists.reload()
    assert world.rules == world.before
    assert said in world.lists.snapshot(hosts=False)["last_reload_refused"]
    assert world.audited[0][1]["done"] is False
    world.path.write_text(BEFORE)
    await world.lists.reload()
    assert world.lists.snapshot(hosts=False)["last_reload_refused"] is None


async def test_an_empty_list_means_none(world):
    """A file that no longer names anything closes everything."""
    world.path.write_text("")
    assert await world.lists.reload() == {"apps": 0, "shell": 0}
    assert len(world.apps.rules) == len(world.shell.rules) == 0


async def test_what_can_not_be_recorded_is_not_done(world):
    """No audit, no new rules."""

    async def full(kind, data):
        raise JournalUnavailable("no space left")

    world.lists.audit = full
    world.path.write_text("")
    with pytest.raises(JournalUnavailable):
        await world.lists.reload()
    assert world.rules == world.before


async def test_without_a_file_there_is_nothing_to_read(world):
    """A daemon that was configured by a program says so."""
    world.lists.load = None
    with pytest.raises(ConfigError, match="could be read again"):
        await world.lists.reload()


def test_a_shell_that_is_off_reaches_nothing():
    """Its list is checked all the same."""
    assert len(shell_rules(parse({"shell": {"egress": {"allow": ["pypi.org"]}}}))) == 0
    with pytest.raises(ConfigError, match=r"shell\.egress\.allow"):
        shell_rules(parse({"shell": {"egress": {"allow": ["1.1.1.1"]}}}))
    assert len(apps_rules(Config())) == 0
