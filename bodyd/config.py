"""The configuration: one TOML file, every setting with a default that is safe.

Documented setting by setting in docs/reference/configuration.md (a test holds the two together).
Unknown settings refuse the start: a misspelt allowlist must not be an open one.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from bodyd.contract.actions import plainly
from bodyd.contract.code import CodeSettings
from bodyd.contract.gateway import GatewaySettings
from bodyd.contract.lease import DEFAULT_TTL_MS, MAX_TTL_MS, QUEUE_LENGTH
from bodyd.contract.shell import ShellSettings
from bodyd.errors import ConfigError

Port = Annotated[int, Field(ge=0, le=65535)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class HttpConfig(_Section):
    """Where the API listens. `port` 0 takes a free one; `unix` is always there too."""

    host: Literal["127.0.0.1", "::1"] = "127.0.0.1"
    port: Port = 7310
    public_url: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    max_body_bytes: Annotated[int, Field(ge=1024)] = 32 * 1024 * 1024


class DisplayConfig(_Section):
    width: Annotated[int, Field(ge=320, le=7680)] = 1280
    height: Annotated[int, Field(ge=240, le=4320)] = 800


class DesktopConfig(_Section):
    """What runs inside. `browser` is the path of a Chromium-family browser; "" runs none.

    `apps` are programs that drivers may launch by name: {name = ["/usr/bin/mousepad"]}.
    """

    browser: str = "/usr/bin/chromium"
    start_url: str = "about:blank"
    window_manager: str = "/usr/bin/openbox"
    timezone: str = "UTC"
    locale: str = "C.UTF-8"
    apps: dict[str, tuple[str, ...]] = {}
    base_uid: Annotated[int, Field(ge=1000, le=2**31)] = 61000
    tmp_bytes: int = 512 * 1024 * 1024
    shm_bytes: int = 1024 * 1024 * 1024


class AccessibilityConfig(_Section):
    """Whether apps tell of their structure, over a bus of their own inside the body."""

    enabled: bool = False


class EgressConfig(_Section):
    """What the body's apps may reach: nothing, unless it is named here.

    `allow` has hostnames ("example.org", "*.example.org"), optionally with ":port" (80 and 443
    otherwise). `local` maps one exact name:port to a unix socket of the host. `quiet` names are
    denied without a log line.
    """

    allow: tuple[str, ...] = ()
    local: dict[str, str] = {}
    quiet: tuple[str, ...] = (
        "update.googleapis.com",
        "clients2.google.com",
        "android.clients.google.com",
        "www.google.com",
        "*.gvt1.com",
    )


class LimitsConfig(_Section):
    """Of all apps together. `memory_bytes`, `cpus` and `home_bytes` 0 is no limit."""

    memory_bytes: Annotated[int, Field(ge=0)] = 4 * 1024**3
    processes: Annotated[int, Field(ge=64, le=32768)] = 4096
    cpus: Annotated[float, Field(ge=0, le=1024, allow_inf_nan=False)] = 0.0
    home_bytes: Annotated[int, Field(ge=0)] = 10 * 1024**3

    @field_validator("memory_bytes")
    @classmethod
    def _enough(cls, value: int) -> int:
        if 0 < value < 256 * 1024**2:
            raise ValueError("a desktop needs 268435456 bytes at the least; 0 is no limit")
        return value


class LeaseConfig(_Section):
    ttl_ms: Annotated[int, Field(ge=1, le=MAX_TTL_MS)] = DEFAULT_TTL_MS
    queue: Annotated[int, Field(ge=0, le=64)] = QUEUE_LENGTH


class JournalConfig(_Section):
    """`image_bytes` is the budget for kept screenshots; the oldest leave first."""

    image_bytes: Annotated[int, Field(ge=16 * 1024 * 1024)] = 256 * 1024 * 1024
    retention_days: Annotated[int, Field(ge=1)] = 30


class PolicyConfig(_Section):
    """`approve` and `deny` name action types or "*".

    `approvals` says who answers for commands that need an approval; no hook answers for input yet: what
    needs one is refused.
    """

    approve: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    approvals: Literal["none", "console"] = "none"


class Config(_Section):
    """Everything. `name` tells bodies of one host apart."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")] = "default"
    state_dir: Path | None = None
    run_dir: Path | None = None
    http: HttpConfig = HttpConfig()
    display: DisplayConfig = DisplayConfig()
    desktop: DesktopConfig = DesktopConfig()
    accessibility: AccessibilityConfig = AccessibilityConfig()
    egress: EgressConfig = EgressConfig()
    limits: LimitsConfig = LimitsConfig()
    lease: LeaseConfig = LeaseConfig()
    journal: JournalConfig = JournalConfig()
    policy: PolicyConfig = PolicyConfig()
    gateway: GatewaySettings = GatewaySettings()
    shell: ShellSettings = ShellSettings()
    code: CodeSettings = CodeSettings()

    @field_validator("state_dir", "run_dir")
    @classmethod
    def _absolute(cls, value: Path | None) -> Path | None:
        if value is not None and not value.is_absolute():
            raise ValueError("must be an absolute path")
        return value

    @property
    def state(self) -> Path:
        """What persists: home/, the journal, tokens."""
        return self.state_dir or _state_root() / self.name

    @property
    def run(self) -> Path:
        """What a boot forgets: sockets, cookies, synthetic /etc."""
        return self.run_dir or _run_root() / self.name

    @property
    def api_socket(self) -> Path:
        """The API's unix socket (0600)."""
        return self.run / "api.sock"


def load(path: Path | None) -> Config:
    """Read *path*, or the default place if it exists, or the defaults.

    Raises:
        ConfigError: unreadable, not TOML, an unknown setting or a bad value, each named.
    """
    chosen = path or (DEFAULT_PATH if DEFAULT_PATH.exists() else None)
    if chosen is None:
        return Config()
    try:
        raw = tomllib.loads(chosen.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
        raise ConfigError(f"{chosen}: {exc}") from exc
    return parse(raw, source=str(chosen))


def parse(raw: dict[str, object], *, source: str = "configuration") -> Config:
    """Validate an already read configuration.

    Raises:
        ConfigError: the first fault, by its dotted name.
    """
    try:
        return Config.model_validate(raw)
    except ValidationError as exc:
        fault = exc.errors(include_url=False)[0]
        where = ".".join(str(part) for part in fault["loc"])
        raise ConfigError(f"{source}: {where}: {plainly(fault)}{_meant(fault['loc'])}", param=where) from None


def _meant(loc: tuple[int | str, ...]) -> str:
    """A guess at a misspelt setting, or nothing."""
    section: type[BaseModel] = Config
    for part in loc[:-1]:
        field = section.model_fields.get(str(part))
        kind = field.annotation if field else None
        if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
            return ""
        section = kind
    if not loc or str(loc[-1]) in section.model_fields:
        return ""
    close = difflib.get_close_matches(str(loc[-1]), section.model_fields, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; there are: {', '.join(section.model_fields)}"


DEFAULT_PATH = Path("/etc/bodyd/bodyd.toml")


def _state_root() -> Path:
    if os.geteuid() == 0:
        return Path("/var/lib/bodyd")
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "bodyd"


def _run_root() -> Path:
    if os.geteuid() == 0:
        return Path("/run/bodyd")
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return Path(runtime) / "bodyd" if runtime else Path(f"/tmp/bodyd-{os.geteuid()}")
