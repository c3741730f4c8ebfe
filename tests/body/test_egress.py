"""The allowlists of a running daemon, read again by route, by command and by signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
import trio

from bodyd.errors import ConfigError

from .world import bare_world, folder


def command(world, *words):
    done = subprocess.run(
        [sys.executable, "-m", "bodyd", "--config", str(world.root / "bodyd.toml"), *words],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


async def rules(client):
    return (await client.status())["egress"]["apps"]["rules"]


async def test_the_lists_are_read_again_and_never_fail_open():
    """By route, command and SIGHUP; a faulty file changes nothing, ends nothing, and is told."""
    with folder() as root, bare_world(root) as world:
        path = root / "bodyd.toml"
        good = path.read_text()
        async with world.client() as client:
            assert await rules(client) == 1
            path.write_text(good.replace("[egress]", '[egress]\nallow = ["example.org"]'))
            assert (await client.reload_egress())["rules"] == {"apps": 2}
            path.write_text(good.replace("[egress]", '[egress]\nallow = ["*"]'))
            with pytest.raises(ConfigError, match=r"egress\.allow"):
                await client.reload_egress()
            status, said = command(world, "egress", "reload")
            assert (status, "egress.allow" in said) == (2, True)
            os.kill(world.process.pid, signal.SIGHUP)
            with trio.fail_after(20):
                while not any("egress_reload_refused" in line for line in world.reports[-1:]):  # noqa: ASYNC110
                    await trio.sleep(0.02)
            assert await rules(client) == 2
            path.write_text(good)
            os.kill(world.process.pid, signal.SIGHUP)
            with trio.fail_after(20):
                while await rules(client) != 1:  # noqa: ASYNC110
                    await trio.sleep(0.02)
            assert command(world, "egress", "show")[1].startswith("apps: 1 rules, 0 connections open")


def test_a_faulty_list_refuses_the_start():
    """The daemon ends with the status of a wrong configuration, and names the setting."""
    with folder() as root:
        path = root / "bodyd.toml"
        path.write_text(f'state_dir = "{root}/state"\nrun_dir = "{root}/run"\n[egress]\nallow = ["*.org"]\n')
        done = subprocess.run(
            [sys.executable, "-m", "bodyd", "--config", str(path), "up"],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert "egress.allow: '*.org'" in done.stderr
