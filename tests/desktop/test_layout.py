"""The directories of a body: made right, refused clearly, owned by one daemon."""

from __future__ import annotations

import os

import pytest

from bodyd.desktop.layout import open_layout
from bodyd.errors import ConfigError

from .conftest import BASE_UID, ROOT


def test_the_directories_are_made(configure):
    """Home is the apps' and closed; private is the daemon's and closed; a second start keeps both."""
    for _ in range(2):
        with open_layout(configure()) as layout:
            assert layout.home.stat().st_mode & 0o777 == 0o700
            assert layout.home.stat().st_uid == layout.uids.apps
            assert layout.private.stat().st_mode & 0o777 == 0o700
            assert layout.private.stat().st_uid == os.geteuid()
            assert layout.x_dir(1).parent.stat().st_uid == layout.uids.x
        assert not (layout.run / "x").exists()


def test_two_daemons_can_not_own_one_body(configure, place):
    """The second is refused, by run directory or by state directory, with the pid of the first."""
    config = configure()
    with open_layout(config):
        for other in (config, config.model_copy(update={"run_dir": place / "run2"})):
            with pytest.raises(ConfigError, match=f"pid {os.getpid()}"), open_layout(other):
                pass
    with open_layout(config):
        pass


def test_a_directory_of_something_else_is_refused(configure, place):
    """A directory with foreign content is not taken over, nor its mode changed."""
    (place / "state").mkdir(mode=0o755)
    (place / "state" / "thesis.tex").touch()
    with pytest.raises(ConfigError, match="in use for something else"), open_layout(configure()):
        pass
    assert (place / "state").stat().st_mode & 0o777 == 0o755


def test_a_home_that_is_no_directory_is_refused(configure, place):
    """A symlink in the place of home is not followed."""
    (place / "state" / "private").mkdir(parents=True)
    (place / "state" / "home").symlink_to("/tmp")
    with pytest.raises(ConfigError, match="must be a directory"), open_layout(configure()):
        pass


def test_a_parent_that_others_can_write_is_refused(configure, place):
    """Where anyone could swap the directory, the start is refused."""
    (place / "open").mkdir()
    (place / "open").chmod(0o777)
    config = configure().model_copy(update={"state_dir": place / "open" / "state"})
    with pytest.raises(ConfigError, match="others can replace"), open_layout(config):
        pass


@pytest.mark.skipif(not ROOT, reason="uids are dropped only by root")
def test_a_parent_that_the_apps_can_not_pass_is_refused(configure, place):
    """The error names the directory and the fix."""
    (place / "closed").mkdir(mode=0o700)
    config = configure().model_copy(update={"state_dir": place / "closed" / "state"})
    with pytest.raises(ConfigError, match=f"chmod o\\+x {place}/closed"), open_layout(config):
        pass


@pytest.mark.skipif(not ROOT, reason="uids are dropped only by root")
def test_a_home_of_another_uid_is_refused(configure):
    """A changed base_uid is not repaired by a recursive chown of hostile content: it is said."""
    with open_layout(configure()):
        pass
    with (
        pytest.raises(ConfigError, match=f"chown -R -h {BASE_UID + 8}"),
        open_layout(configure(desktop={"base_uid": BASE_UID + 8})),
    ):
        pass
