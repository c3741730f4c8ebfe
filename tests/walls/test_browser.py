"""Attempts from the desktop itself, with the real browser, through the body's own door: none works."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from bodyd.client import BodyClient, ClientLease
from bodyd.desktop.ledger import descendants
from tests.body.world import World, bare_world, folder, running_world

from . import crx
from .hall import NAME, URL, Hall, open_hall

SOON = 20.0
TURNS = 5
TERMINALS = ("CTRL ALT t", "ALT F2", "ALT F1", "SUPER t", "SUPER r", "CTRL ALT F2", "CTRL ESC", "SUPER e")


class Seat:
    """A driver before the browser, and what its pages told."""

    def __init__(self, world: World, hall: Hall, client: BodyClient, lease: ClientLease) -> None:
        self.world = world
        self.hall = hall
        self.client = client
        self.lease = lease
        self._turn = 0

    @property
    def home(self) -> Path:
        return self.world.config.state / "home"

    async def press(self, *chords: str) -> None:
        await self.lease.screenshot()
        inputs = [{"type": "keypress", "keys": chord.split()} for chord in chords]
        await self.lease.input(inputs, binding="none")

    async def visit(self, url: str) -> None:
        """Type it into the address bar, once that has the focus, and Return."""
        await self.press("CTRL l")
        await self.lease.screenshot()
        typed = [{"type": "type", "text": url}, {"type": "keypress", "keys": ["ENTER"]}]
        await self.lease.input(typed, binding="none")

    async def return_to_hall(self) -> None:
        """What was tried has had its time by now: a page that was asked for later has loaded.

        Again if need be: a page that comes up takes what is being typed out of the address bar.
        """
        self._turn += 1
        path = f"/turn{self._turn}"
        self.hall.files[path] = self.hall.files["/"]
        for _ in range(TURNS):
            await self.visit(f"{URL}{path[1:]}")
            with trio.move_on_after(SOON / TURNS):
                while {"what": "ready", "path": path} not in self.hall.told:  # noqa: ASYNC110
                    await trio.sleep(0.02)
                return
        raise AssertionError(f"the page {path} never came: {await self.titles()}")

    async def titles(self) -> list[str]:
        return [window.title for window in (await self.client.inventory()).windows]

    async def windows(self, count: int) -> None:
        """Wait, bounded, until there are as many."""
        with trio.fail_after(SOON):
            while len(await self.titles()) != count:  # noqa: ASYNC110
                await trio.sleep(0.02)

    async def titled(self, title: str) -> None:
        """Wait, bounded, until the one window is called so."""
        shown = []
        with trio.move_on_after(SOON):
            while (shown := await self.titles()) != [f"{title} - Chromium"]:  # noqa: ASYNC110
                await trio.sleep(0.02)
        assert shown == [f"{title} - Chromium"]


@asynccontextmanager
async def driving(client: BodyClient) -> AsyncIterator[ClientLease]:
    lease = await client.acquire("attempts")
    try:
        yield lease
    finally:
        with trio.move_on_after(SOON, shield=True):
            await client.revoke(reason="the attempt is over")


@pytest.fixture(scope="module")
def world() -> Iterator[tuple[World, Hall]]:
    with folder() as root, open_hall(root / "hall.sock") as hall:
        sections = {
            "desktop": {"start_url": URL, "apps": {"tool": ["/home/user/Downloads/tool"]}},
            "egress": {"local": {f"{NAME}:80": str(root / "hall.sock")}},
        }
        with running_world(root, **sections) as running:
            assert trio.run(hall.until, "ready")
            yield running, hall


@pytest.fixture
async def seat(world):
    running, hall = world
    async with running.client() as client, driving(client) as lease:
        seat = Seat(running, hall, client, lease)
        await seat.return_to_hall()
        hall.clear()
        yield seat


def own(path: Path, seat: Seat) -> None:
    """Give a planted file to the apps, as if they had made it."""
    owner = seat.home.stat()
    os.chown(path, owner.st_uid, owner.st_gid)


def programs(seat: Seat) -> set[str]:
    """What runs in the daemon's sandboxes, by name, but for the browser's own processes."""
    found = set()
    for pid in descendants(seat.world.process.pid):
        try:
            found.add(Path(f"/proc/{pid}/comm").read_text().strip())
        except OSError:
            continue
    return {name for name in found if not name.startswith(("chrom", "ThreadPool"))}


async def test_the_browser_runs_what_a_site_sends(seat):
    """The ground of all that follows: a page's script tells on itself, here."""
    await seat.return_to_hall()
    assert seat.hall.heard("size")


async def test_no_developer_tools(seat):
    """No key opens them, docked (the page would shrink) or in a window; nor the source of a page."""
    before = await seat.titles()
    for chord in ("F12", "CTRL SHIFT i", "CTRL SHIFT j", "CTRL SHIFT c", "CTRL u"):
        await seat.press(chord)
        await seat.return_to_hall()
    await seat.return_to_hall()
    assert await seat.titles() == before
    assert len({(one["width"], one["height"]) for one in seat.hall.heard("size")}) == 1


async def test_no_script_from_the_address_bar(seat):
    """`javascript:` typed before a page that would tell is not run."""
    for url in ("javascript:fetch('/told?what=leak')", "javascript:tell('leak')", " javascript:tell('leak')"):
        await seat.visit(url)
    await seat.return_to_hall()
    assert seat.hall.heard("leak") == []


@pytest.mark.parametrize("way", ["typed", "view-source", "dialog"])
async def test_no_page_of_a_file(seat, way):
    """A file that would tell is not loaded, by its address, its source, or the dialog for opening files."""
    leak = seat.home / "leak.html"
    leak.write_text(f"<title>leak</title><script>fetch('{URL}told?what=leak')</script>")
    own(leak, seat)
    if way == "dialog":
        await seat.press("CTRL o")
        await seat.windows(2)
        await seat.lease.screenshot()
        typed = [{"type": "type", "text": "/home/user/leak.html"}, {"type": "keypress", "keys": ["ENTER"]}]
        await seat.lease.input(typed, binding="none")
        await seat.windows(1)
    else:
        await seat.visit(f"{'view-source:' * (way == 'view-source')}file:///home/user/leak.html")
        await seat.titled("file:///home/user/leak.html")  # the address, for it has no title of its own
    await seat.return_to_hall()
    assert seat.hall.heard("leak") == []


@pytest.mark.parametrize(
    "url",
    """chrome://settings/ chrome://extensions/ chrome://flags/ chrome://version/ chrome://policy/ chrome://inspect/
    chrome://downloads/ chrome://net-export/ chrome-untrusted://terminal/ devtools://devtools/bundled/inspector.html
    """.split(),
)
async def test_no_page_of_the_browsers_own(seat, url):
    """Settings, extensions, flags and the like are blocked: what is shown is the address, as title."""
    await seat.visit(url)
    await seat.titled(url)


@pytest.mark.parametrize("url", ["about:flags", "about:inspect"])
async def test_no_other_name_for_them(seat, url):
    """`about:` is another way to write `chrome:`."""
    await seat.visit(url)
    await seat.titled(url.replace("about:", "chrome://") + "/")


async def test_no_source_of_a_page(seat):
    """`view-source:` is blocked; the page's text is not shown."""
    await seat.visit(f"view-source:{URL}")
    await seat.titled(NAME)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl signs the extension")
async def test_no_extension_is_installed(seat, tmp_path):
    """A whole, signed extension that a site offers is not installed, whatever is clicked."""
    identity, packed = crx.pack(tmp_path, {"manifest_version": 3, "name": "leak", "version": "1"})
    seat.hall.files["/leak.crx"] = ("application/x-chrome-extension", packed)
    await seat.visit(f"{URL}leak.crx")
    await seat.press("ENTER")
    await seat.return_to_hall()
    profile = seat.home / "chromium" / "Default"
    assert not (profile / "Extensions" / identity).exists()
    for name in ("Preferences", "Secure Preferences"):
        if (profile / name).exists():
            known = json.loads((profile / name).read_text()).get("extensions", {}).get("settings", {})
            assert identity not in known


async def test_a_downloaded_program_does_not_run(seat):
    """It lands in Downloads; even marked executable, and started by name, the kernel refuses it."""
    script = b"#!/bin/sh\ntouch /home/user/ran\n"
    seat.hall.files["/tool"] = ("application/octet-stream", script)
    await seat.visit(f"{URL}tool")
    downloads = seat.home / "Downloads"
    with trio.fail_after(SOON):
        while script not in [path.read_bytes() for path in downloads.glob("*")]:  # noqa: ASYNC110
            await trio.sleep(0.02)
    (arrived,) = (path for path in downloads.iterdir() if path.read_bytes() == script)
    tool = arrived.rename(downloads / "tool")  # the browser itself asks first: "Keep"
    tool.chmod(0o755)
    reports = len(seat.world.reports)
    await seat.lease.launch("tool")
    with trio.fail_after(SOON):
        while not any("program_not_started" in line for line in seat.world.reports[reports:]):  # noqa: ASYNC110
            await trio.sleep(0.02)
    assert not (seat.home / "ran").exists()


async def test_no_key_opens_a_terminal(seat):
    """The usual chords start nothing, and open no window."""
    before, shown = programs(seat), await seat.titles()
    await seat.press(*TERMINALS)
    await seat.return_to_hall()
    assert programs(seat) <= before
    assert await seat.titles() == shown


async def test_the_root_window_offers_nothing():
    """Beside all windows no button opens a menu, and no key a terminal: the screen stays as it was."""
    with folder() as root, bare_world(root) as world:
        async with world.client() as client, driving(client) as lease:
            seat = Seat(world, None, client, lease)
            before, shot = programs(seat), await lease.screenshot()
            for button in ("left", "right", "wheel", "back"):
                await lease.screenshot()
                await lease.input(
                    [{"type": "click", "button": button, "x": 640, "y": 400}, {"type": "wait", "ms": 100}],
                    binding="none",
                )
            await seat.press(*TERMINALS)
            after = await lease.screenshot()
            assert await seat.titles() == []
            assert programs(seat) <= before
            assert after.sha256 == shot.sha256
