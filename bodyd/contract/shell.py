"""The shell on the wire and in the configuration: what may be asked for, and what the owner allows.

The settings are `[shell]`, documented in docs/reference/configuration.md. Counterparts: execution/ runs,
http/routes_tools.py serves.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from .actions import invalid

MAX_COMMANDS = 32
MAX_COMMAND_BYTES = 64 * 1024
MAX_TIMEOUT_MS = 3_600_000
MAX_JOB_MS = 86_400_000
WORKSPACE = "/workspace"
"""The working root, as commands see it."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEPT = frozenset("PATH HOME USER LOGNAME TMPDIR http_proxy https_proxy HTTP_PROXY HTTPS_PROXY".split())
_LOADERS = (
    "LD_",
    "BASH_",
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONSTARTUP",
    "ENV",
    "SHELLOPTS",
    "BASHOPTS",
    "IFS",
)
# What a list of paths must not cover: the sandbox's own, and what leads to the host's services.
_RESERVED = ("/bin /boot /bodyd /dev /etc /lib /lib64 /proc /root /run /sbin /sys /tmp /usr /var/run").split()
_RESERVED.append(WORKSPACE)

Verb = Literal["allow", "approve", "deny"]
Rules = tuple[Annotated[str, Field(min_length=1, max_length=200)], ...]
Bytes = Annotated[int, Field(ge=4096)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ShellPolicy(_Section):
    """Verdicts on commands. A rule is a command's first words: "git push", "rm", "*" in place of a word.

    `deny` beats `approve` beats `allow`; `default` is for what no rule names, `unparsed` for what can't be
    read with certainty (eval, a command name made at run time, a syntax that is not known).
    """

    default: Literal["none", "allow", "approve", "deny"] = "none"
    allow: Rules = ()
    approve: Rules = ()
    deny: Rules = ()
    unparsed: Verb = "deny"

    @property
    def configured(self) -> bool:
        return bool(self.default != "none" or self.allow or self.approve or self.deny)


class ShellLimits(_Section):
    """Limits of each command: `cpu_ms`, `memory_bytes` and `file_bytes` of each of its processes."""

    timeout_ms: Annotated[int, Field(ge=1, le=MAX_TIMEOUT_MS)] = 120_000
    cpu_ms: Annotated[int, Field(ge=1000)] = 120_000
    memory_bytes: Annotated[int, Field(ge=16 * 1024 * 1024)] = 2 * 1024**3
    processes: Annotated[int, Field(ge=8, le=4096)] = 128
    open_files: Annotated[int, Field(ge=64)] = 4096
    file_bytes: Bytes = 256 * 1024 * 1024
    folder_bytes: Bytes = 1024**3
    output_length: Annotated[int, Field(ge=256, le=4 * 1024 * 1024)] = 64 * 1024
    output_bytes: Bytes = 1024**3
    concurrent: Annotated[int, Field(ge=1, le=64)] = 8
    jobs: Annotated[int, Field(ge=0, le=32)] = 4
    job_timeout_ms: Annotated[int, Field(ge=1, le=MAX_JOB_MS)] = 3_600_000


class ShellEgress(_Section):
    """What commands may reach; the same forms as `[egress]`, and as there, nothing by default."""

    allow: tuple[str, ...] = ()
    local: dict[str, str] = {}


class ShellSettings(_Section):
    """Off unless `enabled` and a policy are both there; one without the other refuses the start."""

    enabled: bool = False
    environment: dict[str, str] = {}
    read_only: tuple[str, ...] = ()
    read_write: tuple[str, ...] = ()
    on_takeover: Literal["kill", "freeze"] = "kill"
    folders: Annotated[int, Field(ge=1)] = 64
    policy: ShellPolicy = ShellPolicy()
    limits: ShellLimits = ShellLimits()
    egress: ShellEgress = ShellEgress()

    @field_validator("environment")
    @classmethod
    def _plain(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if not _NAME.fullmatch(name) or "\0" in text:
                raise ValueError(f"{name!r} is not the name of a variable, or its value has a NUL")
            if name in _KEPT or name.startswith(_LOADERS):
                raise ValueError(f"{name} is set by bodyd, or decides what is executed: it can't be set here")
        return value

    @field_validator("read_only", "read_write")
    @classmethod
    def _paths(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for path in value:
            pure = PurePosixPath(path)
            if not pure.is_absolute() or ".." in pure.parts or str(pure) != path or path == "/":
                raise ValueError(f"{path!r} is not a plain absolute path")
            if any(path == kept or path.startswith(kept + "/") for kept in _RESERVED):
                raise ValueError(f"{path!r} is the sandbox's own, or leads to services of the host")
        return value

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.enabled and self.policy.default == "none":
            raise ValueError(
                "enabled without a policy: say what commands may run, at the least [shell.policy] "
                'default = "deny" with an allow list'
            )
        if self.policy.configured and not self.enabled:
            raise ValueError("a policy without `enabled = true`: say both, or neither")
        both = sorted({*self.read_only, *self.read_write})
        if len(both) < len(self.read_only) + len(self.read_write):
            raise ValueError("a path is named twice in read_only and read_write")
        for path in both:
            if any(path.startswith(other + "/") for other in both):
                raise ValueError(f"{path!r} lies below another path of read_only or read_write")
        return self


class ShellRequest(_Section):
    """Body of `POST /v1/tools/shell`: OpenAI's shell action, and what only this route has."""

    commands: Annotated[tuple[str, ...], Field(min_length=1, max_length=MAX_COMMANDS)]
    timeout_ms: Annotated[int, Field(strict=True, ge=1)] | None = None
    max_output_length: Annotated[int, Field(strict=True, ge=0)] | None = None
    concurrent: Annotated[bool, Field(strict=True)] = False
    working_directory: Annotated[str, Field(max_length=4096)] | None = None
    epoch: Annotated[int, Field(strict=True, ge=0)] | None = None
    stream: Annotated[bool, Field(strict=True)] = False
    background: Annotated[bool, Field(strict=True)] = False

    @field_validator("commands")
    @classmethod
    def _commands(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for command in value:
            if "\0" in command or not command.strip():
                raise ValueError("a command is empty, or has a NUL in it")
            if len(command.encode()) > MAX_COMMAND_BYTES:
                raise ValueError(f"a command is over {MAX_COMMAND_BYTES} bytes; write a script, and run that")
        return value

    @model_validator(mode="after")
    def _one_job(self) -> Self:
        if self.background and (len(self.commands) > 1 or self.stream or self.concurrent):
            raise ValueError(
                "background: takes one command, without stream or concurrent; start a job for each"
            )
        return self


def checked(**fields: Any) -> ShellRequest:  # noqa: ANN401 (that is what is checked)
    """The request of these fields.

    Raises:
        InvalidRequest: with the field at fault.
    """
    try:
        return ShellRequest.model_validate(fields)
    except ValidationError as exc:
        raise invalid(exc) from None
