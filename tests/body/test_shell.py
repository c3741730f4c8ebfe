"""The shell of a whole daemon: over HTTP, under the lease, and gone with the daemon."""

from __future__ import annotations

import http.client
import json
import os
import time
from collections.abc import Callable, Iterator
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest

from bodyd.contract.lease import Scope
from bodyd.errors import ConfigError
from bodyd.http.tokens import read_token

from .world import World, bare_world, configure, folder

POLICY = {"default": "allow", "deny": ["curl"]}
MARK = "86399.25"
SOON = 20.0
CODE_MARK = "bodyd-stubborn"
STUBBORN = f"""
import ctypes, os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
ctypes.CDLL(None).prctl(15, b"{CODE_MARK}")
os.fork()
os.setsid() if os.getpid() != os.getpgrp() else None
while True: time.sleep(1)
"""


class Api:
    """The daemon's API over one connection."""

    opened: ClassVar[list[http.client.HTTPConnection]] = []

    def __init__(self, world: World, *, acquire: bool = True) -> None:
        self._world = world
        where = urlsplit(world.url)
        self._connection = http.client.HTTPConnection(str(where.hostname), where.port, timeout=SOON)
        self.opened.append(self._connection)
        token = read_token(world.config.state / "private", Scope.OWNER)
        self._headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        if acquire:
            grant = self.post("/v1/lease/acquire", {"conversation_id": "talk", "wait_ms": 10_000})
            self._headers["bodyd-lease"] = grant["lease_token"]

    def post(self, path: str, body: dict[str, Any], *, wait: bool = True) -> Any:
        self._connection.request("POST", path, json.dumps(body), self._headers)
        return json.loads(self._connection.getresponse().read()) if wait else None

    def beside(self) -> Api:
        """Another connection, under the same lease."""
        other = Api(self._world, acquire=False)
        other._headers = self._headers
        return other

    def jobs(self) -> Any:
        self._connection.request("GET", "/v1/tools/shell/jobs", headers=self._headers)
        return json.loads(self._connection.getresponse().read())["jobs"]

    def shell(self, *commands: str, **more: Any) -> Any:
        return self.post("/v1/tools/shell", {"commands": commands, **more})

    def answer(self) -> Any:
        return json.loads(self._connection.getresponse().read())

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def world() -> Iterator[World]:
    with folder() as root, bare_world(root, shell={"enabled": True, "policy": POLICY}) as running:
        yield running
        while Api.opened:
            Api.opened.pop().close()


def sleeping() -> bool:
    """Whether a command of these tests runs somewhere on this machine."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if file.read().split(b"\0")[:2] == [b"sleep", MARK.encode()]:
                    return True
        except OSError:
            continue
    return False


def coding() -> bool:
    """Whether code of these tests runs somewhere on this machine."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm") as file:
                if file.read().strip() == CODE_MARK:
                    return True
        except OSError:
            continue
    return False


def until_code(met: bool) -> None:
    until(met, coding)


def until(met: bool, looked: Callable[[], bool] = sleeping) -> None:
    end = time.monotonic() + SOON
    while looked() is not met:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_command_over_http(world: World) -> None:
    """Results come back, refusals too; the schema is listed; a take-over kills what runs, and says so."""
    api = Api(world)
    (result,) = api.shell("id -u; pwd")["output"]
    assert result["stdout"] == "1000\n/workspace\n"
    assert result["outcome"] == {"type": "exit", "exit_code": 0}
    assert api.shell("curl x")["error"]["code"] == "policy_refused"
    api.post("/v1/tools/shell", {"commands": [f"sleep {MARK}"]}, wait=False)
    until(True)
    Api(world, acquire=False).post("/v1/lease/takeover", {})
    assert not sleeping()
    (cut,) = api.answer()["output"]
    assert cut["outcome"] == {"type": "exit", "exit_code": 137}
    assert "a person takes over" in cut["stderr"]


def test_a_client_that_hangs_up_ends_its_command(world: World) -> None:
    """A closed connection kills the tree, and the body can be used at once."""
    api = Api(world)
    api.post("/v1/tools/shell", {"commands": [f"setsid sleep {MARK} & sleep {MARK}"]}, wait=False)
    until(True)
    api.close()
    until(False)
    Api(world, acquire=False).post("/v1/lease/revoke", {})
    assert Api(world).shell("true")["output"][0]["outcome"]["exit_code"] == 0


def test_a_killed_daemon_leaves_no_command(world: World) -> None:
    """kill -9 ends commands and code with the daemon; the next one starts, and the folder is still there."""
    api = Api(world)
    api.shell("echo kept > file")
    api.post("/v1/tools/shell", {"commands": [f"setsid sleep {MARK} & sleep {MARK}"]}, wait=False)
    until(True)
    api.beside().post("/v1/tools/exec_py", {"code": STUBBORN}, wait=False)
    until_code(True)
    world.kill()
    until(False)
    until_code(False)
    world.start()
    Api(world, acquire=False).post("/v1/lease/recover", {})
    assert Api(world).shell("cat file")["output"][0]["stdout"] == "kept\n"


def test_a_job_outlives_its_request_and_not_its_lease(world: World) -> None:
    """A command in the background is listed, runs on when the client hangs up, and ends with the release."""
    api = Api(world)
    job = api.shell(f"setsid sleep {MARK} & sleep {MARK}", background=True)["job"]
    until(True)
    api.close()
    owner = Api(world, acquire=False)
    assert [(one["job_id"], one["state"]) for one in owner.jobs()] == [(job["job_id"], "running")]
    assert sleeping()
    owner.post("/v1/lease/revoke", {})
    assert not sleeping()
    assert [one["state"] for one in owner.jobs()] == ["ended"]


@pytest.mark.parametrize("shell", [{"enabled": True}, {"policy": POLICY}])
def test_half_a_configuration_refuses_the_start(shell: dict[str, object]) -> None:
    """`enabled` without a policy, or a policy without `enabled`: the daemon says so and does not start."""
    with folder() as root, pytest.raises(ConfigError, match="shell"):
        configure(root, shell=shell)
