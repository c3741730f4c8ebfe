"""`bodyd stop-key`: a key pressed on another X server, the owner's desktop, stops a real body."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trio
from Xlib import XK, X, display
from Xlib.ext import xtest

from bodyd.cli_stop_key import notation
from bodyd.client import BodyClient
from bodyd.contract.lease import LeaseState
from bodyd.errors import ConfigError
from bodyd.http.tokens import read_token

from .world import World, bare_world, folder

WITHIN = 20


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with folder() as root, bare_world(root) as running:
        yield running


@pytest.fixture(scope="module")
def desktop() -> Iterator[str]:
    with own_desktop() as (name, _):
        yield name


@contextmanager
def own_desktop() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """An X server that is no body's: the display's name, and the process."""
    reader, writer = os.pipe()
    command = ["Xvfb", "-displayfd", str(writer), "-screen", "0", "320x200x24", "-nolisten", "tcp"]
    with subprocess.Popen(command, pass_fds=[writer], stderr=subprocess.DEVNULL) as server:
        os.close(writer)
        with os.fdopen(reader) as told:
            name = ":" + told.readline().strip()
        try:
            yield name, server
        finally:
            server.terminate()


@contextmanager
def stop_key(world: World, display_name: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = [
        sys.executable,
        "-m",
        "bodyd",
        "--config",
        str(world.root / "bodyd.toml"),
        "stop-key",
        *options,
    ]
    environment = {**os.environ, "DISPLAY": display_name}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def press(display_name: str, *names: str) -> None:
    """Press the keys in order, and let them go, as a keyboard would."""
    connection = display.Display(display_name)
    try:
        codes = [connection.keysym_to_keycode(XK.string_to_keysym(name)) for name in names]
        for code in codes:
            xtest.fake_input(connection, X.KeyPress, code)
        for code in reversed(codes):
            xtest.fake_input(connection, X.KeyRelease, code)
        connection.sync()
    finally:
        connection.close()


async def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    with trio.fail_after(WITHIN):
        return await trio.to_thread.run_sync(process.stdout.readline, abandon_on_cancel=True)


async def test_the_key_stops_the_body_whoever_drives(world: World, client: BodyClient, desktop: str):
    """A chord without the last key does nothing; the whole one stops the driver, and again after a resume."""
    with stop_key(world, desktop) as process:
        assert await line_of(process) == "listening for ctrl+alt+esc; Ctrl-C ends it\n"
        await client.acquire("an-agent")
        press(desktop, "Control_L", "Escape")
        press(desktop, "Control_L", "Alt_L", "Escape")
        assert (await line_of(process)).startswith("lease stopped")
        lease = (await client.status())["lease"]
        assert (lease["state"], lease["reason"]) == (LeaseState.STOPPED, "stopped: stop key ctrl+alt+esc")
        await client.resume()
        press(desktop, "Control_R", "Alt_L", "Escape")
        assert (await line_of(process)).startswith("lease stopped")


async def test_a_daemon_elsewhere_is_stopped_by_its_url(world: World, client: BodyClient, desktop: str):
    """With a URL and a driver's token, another key stops the body just so."""
    token = world.root / "driver.token"
    token.write_text(read_token(world.root / "state" / "private", "driver") + "\n")
    options = ("--key", "ctrl+F9", "--body", world.url, "--token-file", str(token))
    with stop_key(world, desktop, *options) as process:
        assert (await line_of(process)).startswith("listening for ctrl+F9")
        press(desktop, "Control_L", "F9")
        assert (await line_of(process)).startswith("lease stopped")


@pytest.mark.parametrize(
    ("shown", "options", "status", "said"),
    [
        ("", (), 1, "DISPLAY is not set"),
        (":987", (), 1, "the X display :987 can't be reached"),
        (None, ("--key", "ctrl+nonsense"), 2, "no key"),
        (None, ("--key", "ctrl++"), 2, "joined by +"),
        (None, ("--body", "http://127.0.0.1:1"), 2, "go together"),
    ],
)
async def test_what_is_missing_is_said(
    world: World, desktop: str, shown: str | None, options: tuple[str, ...], status: int, said: str
):
    """Without a display, or with a key that is none, it ends at once and says why."""
    with stop_key(world, desktop if shown is None else shown, *options) as process:
        assert said in await line_of(process)
        with trio.fail_after(WITHIN):
            assert await trio.to_thread.run_sync(process.wait, abandon_on_cancel=True) == status


async def test_a_display_that_goes_away_ends_it(world: World):
    """Its own X server killed, it says that the key is not heard any more, and ends with status 1."""
    with own_desktop() as (name, server), stop_key(world, name) as process:
        assert (await line_of(process)).startswith("listening")
        server.kill()
        while "not heard any more" not in (line := await line_of(process)):
            assert line != ""
        with trio.fail_after(WITHIN):
            assert await trio.to_thread.run_sync(process.wait, abandon_on_cancel=True) == 1


def test_names_are_put_in_brackets():
    """Characters stand for themselves, names are bracketed, and an empty part is refused."""
    assert notation("Ctrl+Alt+q") == "<ctrl>+<alt>+q"
    with pytest.raises(ConfigError):
        notation("ctrl+")
