"""Bearer tokens on disk: made at the first start, one a scope, readable by the daemon's user alone.

They are stored as they are, not hashed: the command line must show and use them, and whoever can
read this file (0600 in a 0700 directory) is that user already and could as well replace the daemon.
Comparison is by digest, so that its time says nothing. Knows no quart: the CLI imports this.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bodyd.contract.lease import Scope
from bodyd.contract.ports import Caller
from bodyd.errors import ConfigError

FILE = "tokens.json"
_BYTES = 32


def digest(token: str) -> str:
    """SHA-256 in hex: what tokens are compared, kept and named by."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def caller_of(token_digest: str, scope: Scope) -> Caller:
    """Who the bearer of that token is; the id never leads back to the token."""
    return Caller(id=f"tok_{token_digest[:32]}", scope=scope)


def mint(kind: str) -> str:
    """A new secret, 32 random bytes in URL-safe letters, recognisable by its prefix: bodyd_owner_…"""
    return f"bodyd_{kind}_{secrets.token_urlsafe(_BYTES)}"


@dataclass(frozen=True)
class Tokens:
    """The bearer token of each scope."""

    by_scope: Mapping[Scope, str] = field(repr=False)

    @classmethod
    def fresh(cls) -> Tokens:
        return cls({scope: mint(scope.value) for scope in Scope})

    @classmethod
    def load_or_create(cls, private: Path) -> Tokens:
        """The tokens in the daemon's *private* directory; made there if there are none yet.

        Raises:
            ConfigError: the file can't be read or written, is malformed, or others could read it.
        """
        path = private / FILE
        try:
            if not path.exists():
                _write(path, cls.fresh())
            return _read(path)
        except OSError as exc:
            raise ConfigError(f"{path}: {exc.strerror or exc}") from exc

    def token(self, scope: Scope) -> str:
        return self.by_scope[scope]


def read_token(private: Path, scope: Scope | str) -> str:
    """One token, for programs that use the daemon and must not make any.

    Raises:
        ConfigError: there are none yet (start the daemon once), or they are not readable.
    """
    path = private / FILE
    try:
        return _read(path).token(Scope(scope))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no tokens yet; `bodyd up` makes them at its first start") from None
    except OSError as exc:
        raise ConfigError(f"{path}: {exc.strerror or exc}; run this as the daemon's user") from exc


def _read(path: Path) -> Tokens:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(fd, encoding="utf-8") as file:
        mode = os.fstat(fd).st_mode
        if not stat.S_ISREG(mode) or mode & 0o077:
            raise ConfigError(
                f"{path} can be read by others (mode {stat.filemode(mode)}): delete it, so that new "
                "tokens are made at the next start"
            )
        try:
            raw = json.load(file)
            by_scope = {scope: raw[scope.value] for scope in Scope}
        except (ValueError, KeyError, TypeError) as exc:
            raise ConfigError(
                f"{path} is damaged; delete it, so that new tokens are made at the next start"
            ) from exc
    if not all(isinstance(t, str) and len(t) >= _BYTES for t in by_scope.values()):
        raise ConfigError(f"{path} is damaged; delete it, so that new tokens are made at the next start")
    return Tokens(by_scope)


def _write(path: Path, tokens: Tokens) -> None:
    """Write whole or not at all; of two daemons that start at once, the first one's stay."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            json.dump({scope.value: token for scope, token in tokens.by_scope.items()}, file)
            file.flush()
            os.fsync(fd)
        with contextlib.suppress(FileExistsError):
            os.link(part, path)
    finally:
        part.unlink()
