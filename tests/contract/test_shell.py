"""The shell's settings and requests: what is taken, and what refuses the start."""

from __future__ import annotations

import pytest

from bodyd.config import parse
from bodyd.contract.shell import MAX_COMMAND_BYTES, MAX_COMMANDS, ShellPolicy, checked
from bodyd.errors import ConfigError, InvalidRequest

ON = {"enabled": True, "policy": {"default": "deny", "allow": ["ls"]}}


def refused(**shell: object) -> str:
    with pytest.raises(ConfigError) as caught:
        parse({"shell": shell})
    return caught.value.message


def test_the_shell_is_off_by_default() -> None:
    """No configuration means no shell, and no policy."""
    shell = parse({}).shell
    assert not shell.enabled
    assert not shell.policy.configured


def test_enabled_and_a_policy_come_together_or_not_at_all() -> None:
    """`enabled` without a policy refuses the start; so does a policy without `enabled`."""
    assert parse({"shell": ON}).shell.enabled
    assert "enabled without a policy" in refused(enabled=True)
    assert "enabled without a policy" in refused(enabled=True, policy={"allow": ["ls"]})
    for policy in ({"default": "deny"}, {"allow": ["ls"]}, {"approve": ["ls"]}, {"deny": ["ls"]}):
        assert "a policy without" in refused(policy=policy)
    assert not ShellPolicy(unparsed="allow").configured


@pytest.mark.parametrize("name", ["PATH", "LD_PRELOAD", "BASH_ENV", "ENV", "http_proxy", "not a name", "1"])
def test_variables_that_steer_execution_are_not_configurable(name: str) -> None:
    """What decides which program runs, or that bodyd sets itself, can't be set in the environment."""
    assert "shell.environment" in refused(**ON, environment={name: "x"})


def test_an_environment_is_plain_text() -> None:
    """Other variables are kept as they are; a NUL is refused."""
    assert parse({"shell": {**ON, "environment": {"CI": "1"}}}).shell.environment == {"CI": "1"}
    assert "NUL" in refused(**ON, environment={"CI": "a\0b"})


@pytest.mark.parametrize(
    "path",
    ["relative", "/", "/srv/../etc", "/srv/", "/etc", "/usr/share", "/proc/1", "/run/docker.sock", "/tmp/x"],
)
def test_lists_of_paths_can_not_cover_what_is_the_sandboxes(path: str) -> None:
    """Only plain absolute paths that are neither the sandbox's own nor lead to services of the host."""
    assert "shell.read_only" in refused(**ON, read_only=[path])
    assert "shell.read_write" in refused(**ON, read_write=[path])


def test_paths_do_not_lie_in_one_another() -> None:
    """One path below another would be a mount below what commands can write."""
    assert "below another" in refused(**ON, read_only=["/srv/a/b"], read_write=["/srv/a"])
    assert "twice" in refused(**ON, read_only=["/srv/a"], read_write=["/srv/a"])
    assert parse({"shell": {**ON, "read_only": ["/srv/a"], "read_write": ["/srv/ab"]}}).shell.read_write


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"commands": ()}, "commands"),
        ({"commands": ("true",) * (MAX_COMMANDS + 1)}, "commands"),
        ({"commands": ("true", " \n")}, "commands"),
        ({"commands": ("a\0b",)}, "commands"),
        ({"commands": ("x" * (MAX_COMMAND_BYTES + 1),)}, "commands"),
        ({"commands": ("true",), "timeout_ms": 0}, "timeout_ms"),
        ({"commands": ("true",), "max_output_length": -1}, "max_output_length"),
        ({"commands": ("true",), "epoch": True}, "epoch"),
        ({"commands": ("true",), "user": "root"}, "user"),
    ],
)
def test_malformed_requests_name_their_fault(fields: dict[str, object], param: str) -> None:
    """A request that can't be run as it is says which field is at fault, and echoes no command."""
    with pytest.raises(InvalidRequest) as caught:
        checked(**fields)
    assert caught.value.param == param


def test_a_request_has_openais_fields() -> None:
    """The action of a shell_call is a request as it stands."""
    request = checked(commands=("ls", "pwd"), timeout_ms=120000, max_output_length=4096)
    assert request.commands == ("ls", "pwd")
    assert (request.concurrent, request.working_directory, request.stream) == (False, None, False)


@pytest.mark.parametrize(
    "more",
    [{"commands": ("a", "b")}, {"stream": True}, {"concurrent": True}],
    ids=["two", "stream", "at once"],
)
def test_a_job_is_one_command(more: dict[str, object]) -> None:
    """Nobody waits for a job: it has one command, and nothing that only makes sense for one who listens."""
    assert checked(commands=("a",), background=True).background
    with pytest.raises(InvalidRequest, match="background"):
        checked(**{"commands": ("a",), "background": True, **more})
