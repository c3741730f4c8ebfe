"""The demo's parts: found by name, put where the daemon lets the body reach them."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
import trio

from bodyd.config import Config
from bodyd.demo import Site, load_upstream
from bodyd.errors import ConfigError


def test_the_scripted_model_and_the_site_are_found_by_name() -> None:
    """Both come from entry points; an unknown name is answered with the known ones."""
    assert hasattr(load_upstream("scripted"), "respond")
    assert "penguin" in Site.load(seed=1).task
    with pytest.raises(ConfigError, match=r"'nobody'; installed: .*scripted"):
        load_upstream("nobody")
    with pytest.raises(ConfigError, match=r"'nowhere'; installed: .*filters"):
        Site.load("nowhere", seed=1)


def test_the_configuration_gains_the_site_and_loses_nothing() -> None:
    """Only the start page and one local mapping are added."""
    config = Config.model_validate({"egress": {"allow": ["example.org"], "local": {"a.test:80": "/a"}}})
    changed = Site.load(seed=1).configure(config)
    assert changed.desktop.start_url == "http://site.bodyd.test/"
    assert changed.egress.allow == ("example.org",)
    assert set(changed.egress.local) == {"a.test:80", "site.bodyd.test:80"}
    kept = changed.model_copy(update={"egress": config.egress, "desktop": config.desktop})
    assert kept == config


def kind(path: Path) -> int:
    return stat.S_IFMT(path.stat().st_mode)


async def test_the_site_is_served_where_it_was_configured(nursery: trio.Nursery) -> None:
    """In a folder that only its owner can enter, which goes with it."""
    site = Site.load(seed=1)
    path = Path(site.configure(Config()).egress.local["site.bodyd.test:80"])
    assert not path.parent.exists()
    async with trio.open_nursery() as serving:
        await serving.start(site.serve)
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert kind(path) == stat.S_IFSOCK
        serving.cancel_scope.cancel()
    assert not path.parent.exists()


async def test_a_site_that_is_not_served_has_no_verdict() -> None:
    """Asking for one is a mistake of the program."""
    with pytest.raises(RuntimeError, match="not being served"):
        await Site.load(seed=1).grade()


async def test_the_verdict_waits_for_the_page_but_not_for_ever(autojump_clock: trio.abc.Clock) -> None:
    """A page that never reports leaves the grader's no."""
    site = Site.load(seed=1)
    async with trio.open_nursery() as serving:
        await serving.start(site.serve)
        verdict = await site.grade()
        serving.cancel_scope.cancel()
    assert not verdict.success
    assert len(verdict.reasons) == 3
