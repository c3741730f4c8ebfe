"""Bearer tokens on disk: http/tokens.py."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from bodyd.contract.lease import Scope
from bodyd.errors import ConfigError
from bodyd.http.tokens import FILE, Tokens, caller_of, digest, mint, read_token


def test_the_first_start_makes_them_and_the_next_keeps_them(tmp_path: Path):
    """One token a scope, recognisable, all different; the same ones after a restart."""
    private = tmp_path / "state" / "private"
    first = Tokens.load_or_create(private)
    assert all(first.token(scope).startswith(f"bodyd_{scope.value}_") for scope in Scope)
    assert len(set(first.by_scope.values())) == 3
    assert Tokens.load_or_create(private) == first
    assert read_token(private, "driver") == first.token(Scope.DRIVER)


def test_only_the_daemons_user_can_read_them(tmp_path: Path):
    """The file is 0600 in a 0700 directory whatever the umask, with nothing left beside it."""
    private = tmp_path / "private"
    before = os.umask(0)
    try:
        Tokens.load_or_create(private)
    finally:
        os.umask(before)
    assert stat.S_IMODE((private / FILE).stat().st_mode) == 0o600
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert [p.name for p in private.iterdir()] == [FILE]


def test_a_token_has_256_bits(tmp_path: Path):
    """32 random bytes in URL-safe letters."""
    assert len(mint("owner").removeprefix("bodyd_owner_")) == 43


def test_tokens_that_others_can_read_are_refused(tmp_path: Path):
    """A file that was made readable is not trusted; the message says the fix."""
    Tokens.load_or_create(tmp_path)
    (tmp_path / FILE).chmod(0o640)
    with pytest.raises(ConfigError, match="can be read by others"):
        Tokens.load_or_create(tmp_path)


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", '{"owner": "short", "driver": "short", "viewer": "short"}', '{"owner": 1}'],
)
def test_a_damaged_file_is_refused(tmp_path: Path, content: str):
    """Nothing is guessed from half a file."""
    (tmp_path / FILE).write_text(content)
    (tmp_path / FILE).chmod(0o600)
    with pytest.raises(ConfigError, match="damaged"):
        Tokens.load_or_create(tmp_path)


def test_a_symlink_in_its_place_is_refused(tmp_path: Path):
    """Tokens are not read through a link that someone put there."""
    (tmp_path / "elsewhere").write_text(json.dumps({}))
    (tmp_path / FILE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError):
        Tokens.load_or_create(tmp_path)


def test_reading_makes_none(tmp_path: Path):
    """A program that only uses the daemon is told to start it."""
    with pytest.raises(ConfigError, match="bodyd up"):
        read_token(tmp_path, Scope.OWNER)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_none_is_said(tmp_path: Path):
    """What the system says against it is passed on."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError):
        Tokens.load_or_create(tmp_path / "file" / "private")


def test_tokens_do_not_show_in_a_traceback():
    """Neither the object's repr nor a caller's id has a token in it."""
    tokens = Tokens.fresh()
    secret = tokens.token(Scope.OWNER)
    assert secret not in repr(tokens)
    assert secret not in caller_of(digest(secret), Scope.OWNER).id
