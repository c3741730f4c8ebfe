"""The desktop as a whole, with its real browser: started, kept alive, stopped, and nothing left of it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import trio

import bodyd
from bodyd.desktop import browser
from bodyd.desktop.desktop import open_desktop
from bodyd.errors import ConfigError, DisplayUnavailable, IsolationUnavailable, NotFound

from .conftest import BASE_UID, ROOT, descendants, of_uids, readable_python
from .site import URL, open_site

PAINT_S = 40  # the bar is 5 s; this bound only has to end a test on a busy machine
REPO = Path(bodyd.__file__).parent.parent
CHILD = """
import json, os, sys, trio
from bodyd.config import parse
from bodyd.desktop.desktop import open_desktop
async def main():
    async with open_desktop(parse(json.loads(sys.argv[1])), report=lambda text: None) as desktop:
        while not all(part["pid"] for part in desktop.components().values()):
            await trio.sleep(0.02)
        print(json.dumps([desktop.isolation, desktop.components(), desktop.x.uid]), flush=True)
        await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)
trio.run(main)
"""


def browsing(site, **desktop):
    return {"egress": site.config, "desktop": {"browser": "/usr/bin/chromium", "start_url": URL, **desktop}}


async def pid_of(desktop, part, other_than=None):
    """The host pid of a running component; bounded retry, as no one tells when a program was started."""
    with trio.fail_after(20):
        while True:
            pid = desktop.components()[part]["pid"]
            if pid is not None and pid != other_than:
                return pid
            await trio.sleep(0.02)


async def test_the_second_start_keeps_cookie_and_storage(configure, place):
    """After a stop, the next start restores the session with its cookie and localStorage; nothing is left."""
    async with open_site(place) as site:
        for visit in (1, 2):
            async with open_desktop(configure(**browsing(site)), report=lambda text: None):
                with trio.fail_after(PAINT_S):
                    assert await site.paint(visit) == visit
            assert descendants() == []
        pages = [head for head in site.heads if head.startswith(b"GET / ")]
    assert b"seen=yes" not in pages[0]
    assert all(b"Cookie: seen=yes" in page for page in pages[1:])


async def test_a_killed_browser_comes_back_with_its_page(configure, place):
    """SIGKILL to the browser: a new one restores the session by itself, and the restart is counted."""
    async with open_site(place) as site, open_desktop(configure(**browsing(site)), report=print) as desktop:
        with trio.fail_after(PAINT_S):
            await site.paint(1)
        sessions = place / "state/home/chromium/Default/Sessions"
        # The session file is written some time after a page has loaded; what was open is restored from it.
        with trio.fail_after(PAINT_S):
            while not list(sessions.glob("Session_*")):  # noqa: ASYNC110
                await trio.sleep(0.1)
        os.kill(await pid_of(desktop, "browser"), signal.SIGKILL)
        with trio.fail_after(PAINT_S):
            await site.paint(2)
        assert desktop.components()["browser"]["restarts"] == 1
        assert desktop.generation == 1


async def test_a_dead_browsers_profile_lock_is_no_obstacle(configure, place):
    """A lock left by a browser on another host does not keep the browser from starting (openclaw#22997)."""
    async with open_site(place) as site:
        config = configure(**browsing(site))
        async with open_desktop(config, report=lambda text: None):
            with trio.fail_after(PAINT_S):
                await site.paint(1)
        profile = place / "state" / "home" / "chromium"
        for name in ("SingletonLock", "SingletonSocket", "SingletonCookie"):
            (profile / name).unlink(missing_ok=True)
        (profile / "SingletonLock").symlink_to("another-host-4242")
        async with open_desktop(config, report=lambda text: None):
            with trio.fail_after(PAINT_S):
                await site.paint(2)


async def test_no_page_comes_from_the_file_system(configure, place):
    """A file in home that would tell on itself is not loaded (managed policy), while a site's page is."""
    async with open_site(place) as site:
        settings = browsing(site, start_url="file:///home/user/page.html")
        async with open_desktop(configure(), report=lambda text: None):
            pass
        home = place / "state" / "home"
        (home / "page.html").write_text(f'<script>new Image().src = "{URL}painted?13"</script>')
        (home / "page.html").chmod(0o644)
        async with open_desktop(configure(**settings), report=lambda text: None) as desktop:
            await pid_of(desktop, "browser")
            argv = browser.command("/usr/bin/chromium", size=(800, 600), url=URL)
            async with trio.open_nursery() as nursery:
                for attempt in range(8):  # a browser that is just starting may lose a hand-over
                    nursery.start_soon(desktop._session.run, f"app:tab{attempt}", argv)
                    with trio.move_on_after(5):
                        await site.paint(1)
                        break
                nursery.cancel_scope.cancel()
    assert site.painted
    assert 13 not in site.painted


async def test_browser_cycles_leave_no_zombies(configure, place, times):
    """Started and killed again and again, the browser leaves nothing behind in its sandbox."""
    argv = browser.command("/usr/bin/chromium", size=(800, 600), url=None)
    async with open_desktop(configure(desktop={"apps": {}}), report=lambda text: None) as desktop:
        session = desktop._session
        await pid_of(desktop, "window_manager")
        quiet = len(descendants(session.box.init_pid))
        for _ in range(times(50)):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(session.run, "app:cycle", argv, unlink=browser.LOCKS))
                with trio.fail_after(20):
                    while not session.host_pid("app:cycle"):  # noqa: ASYNC110
                        await trio.sleep(0.02)
                    while len(descendants(session.host_pid("app:cycle"))) < 5:  # noqa: ASYNC110
                        await trio.sleep(0.02)
                os.kill(session.host_pid("app:cycle"), signal.SIGKILL)
        with trio.fail_after(20):
            while len(descendants(session.box.init_pid)) > quiet:  # noqa: ASYNC110
                await trio.sleep(0.02)


@pytest.mark.soak
async def test_a_hung_browser_does_not_hold_up_a_stop(configure, place):
    """A stopped (SIGSTOP) browser is killed after its time; nothing is left."""
    async with open_site(place) as site, open_desktop(configure(**browsing(site)), report=print) as desktop:
        with trio.fail_after(PAINT_S):
            await site.paint(1)
        os.kill(await pid_of(desktop, "browser"), signal.SIGSTOP)
        began = trio.current_time()
        with trio.fail_after(30):
            await desktop.restart_display()
        assert trio.current_time() - began < 15


async def test_a_dead_x_server_begins_a_new_generation(configure):
    """SIGKILL to the X server: a new one comes with the apps, another cookie, and is told once."""
    prepared = []

    async def prepare(endpoint):
        prepared.append(endpoint.cookie)
        await trio.lowlevel.checkpoint()

    async with open_desktop(configure(), report=lambda text: None, prepare=prepare) as desktop:
        before = desktop.x
        os.kill(desktop.components()["x"]["pid"], signal.SIGKILL)
        with trio.fail_after(20):
            assert await desktop.wait_generation(1) == 2
        assert prepared == [before.cookie, desktop.x.cookie]
        assert before.cookie != desktop.x.cookie
        assert desktop.components()["x"]["restarts"] == 1
        assert await pid_of(desktop, "window_manager")


async def test_restarts_on_demand(configure):
    """restart_apps keeps the X server, restart_display begins a generation; neither counts as a failure."""
    async with open_desktop(configure(), report=lambda text: None) as desktop:
        x, manager = desktop.components()["x"]["pid"], await pid_of(desktop, "window_manager")
        with trio.fail_after(20):
            await desktop.restart_apps()
            assert await pid_of(desktop, "window_manager", manager)
            assert desktop.components()["x"]["pid"] == x
            await desktop.restart_display((800, 600))
        assert desktop.generation == 2
        assert desktop.components()["x"]["restarts"] == 0


async def test_the_window_manager_is_restarted(configure):
    """A dead window manager is replaced; the X server and its generation stay."""
    async with open_desktop(configure(), report=lambda text: None) as desktop:
        first = await pid_of(desktop, "window_manager")
        os.kill(first, signal.SIGKILL)
        assert await pid_of(desktop, "window_manager", first)
        assert desktop.components()["window_manager"]["restarts"] == 1
        assert desktop.generation == 1


async def test_a_killed_agent_costs_the_session_only(configure):
    """Whatever in the sandbox is killed, the apps come back; the X server stays."""
    async with open_desktop(configure(), report=lambda text: None) as desktop:
        session, manager = desktop._session, await pid_of(desktop, "window_manager")
        os.kill(session.box.init_pid, signal.SIGKILL)
        assert await pid_of(desktop, "window_manager", manager)
        assert desktop.generation == 1


async def test_apps_are_launched_by_name(configure):
    """A configured app runs beside the others; an unknown name is refused; its end is noticed."""
    apps = {"sleeper": ["/usr/bin/sleep", "600"], "brief": ["/usr/bin/true"], "broken": ["/nonexistent"]}
    async with open_desktop(configure(desktop={"apps": apps}), report=lambda text: None) as desktop:
        with pytest.raises(NotFound):
            await desktop.launch("sh")
        for name in apps:
            await desktop.launch(name)
        with trio.fail_after(10):
            while not desktop.apps_running("sleeper") or desktop.apps_running("brief"):  # noqa: ASYNC110
                await trio.sleep(0.02)
        assert not desktop.apps_running("broken")
        assert desktop.components()["window_manager"]["restarts"] == 0


async def test_without_bwrap_the_start_is_refused_with_the_fix(configure, monkeypatch, place):
    """No bwrap, no desktop: the message has the command to run, and nothing was made."""
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(IsolationUnavailable, match=r"bwrap is not installed.*fix: .* install bubblewrap"):
        async with open_desktop(configure(), report=lambda text: None):
            pass
    assert not (place / "state").exists()


async def test_a_sandbox_that_can_not_be_built_refuses_the_start(configure, monkeypatch, place):
    """What bwrap says is explained, with the fix; there is no second try without a wall."""
    fake = place / "bin"
    fake.mkdir()
    (fake / "bwrap").write_text(
        "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n"
    )
    (fake / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake}:{os.environ['PATH']}")
    with pytest.raises(IsolationUnavailable, match="fix: "):
        async with open_desktop(configure(), report=lambda text: None):
            pass


@pytest.mark.parametrize(
    ("section", "value", "message"),
    [
        ("desktop", {"timezone": "Mars/Olympus"}, "timezone"),
        ("desktop", {"timezone": "../../etc/passwd"}, "timezone"),
        ("desktop", {"locale": "a b"}, "locale"),
        ("egress", {"allow": ["*"]}, "egress.allow"),
        ("egress", {"local": {"a.test": "/x"}}, "egress.local"),
    ],
)
async def test_a_wrong_setting_refuses_the_start(configure, section, value, message):
    """A zone, a locale or a rule that can't be meant is named, and nothing starts."""
    with pytest.raises(ConfigError, match=message):
        async with open_desktop(configure(**{section: value}), report=lambda text: None):
            pass


async def test_the_bodys_own_error_passes_ungrouped(configure):
    """What the caller raises inside comes out as it is; there is no endpoint without a server."""
    with pytest.raises(LookupError, match="mine"):  # noqa: PT012
        async with open_desktop(configure(), report=lambda text: None) as desktop:
            desktop._endpoint = None
            with pytest.raises(DisplayUnavailable):
                _ = desktop.x
            raise LookupError("mine")


async def test_a_cancelled_desktop_leaves_nothing(configure, times):
    """Cancelled at any moment of its start, it leaves no process and frees both locks."""
    for index in range(times(60)):
        with trio.move_on_after(0.01 + 0.03 * (index % 10)):
            async with open_desktop(configure(), report=lambda text: None):
                await trio.sleep_forever()
        assert descendants() == []


def test_a_killed_daemon_leaves_nothing_and_its_successor_starts(configure, place):
    """SIGKILL to the daemon takes every process of the body with it; the next start finds no obstacle."""
    config = configure(desktop={"browser": "/usr/bin/chromium"})
    for _ in range(2):
        daemon = subprocess.Popen(
            [sys.executable, "-c", CHILD, config.model_dump_json(exclude_none=True)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=REPO,
        )
        with daemon:
            daemon.stdout.readline()
            parts = descendants(daemon.pid)
            assert len(parts) >= 8
            daemon.kill()
        _wait_for_none(parts)
        if ROOT:
            _wait_for_none(of_uids(BASE_UID, BASE_UID + 1))


def _wait_for_none(pids):
    """Bounded: the kernel ends the tree after its parent; a pid that stays is a leak.

    This process is a subreaper: the orphans come to it, and have to be waited for.
    """
    for pid in pids:
        with suppress(ProcessLookupError, ChildProcessError):
            fd = os.pidfd_open(pid)
            ended, _, _ = select.select([fd], [], [], 10)
            os.close(fd)
            assert ended, f"{pid} is still there"
            os.waitpid(pid, os.WNOHANG)


@pytest.mark.skipif(not ROOT, reason="only root can become a plain user")
@pytest.mark.skipif(readable_python() is None, reason="no interpreter that a plain user can run")
def test_a_plain_user_has_the_same_desktop(place):
    """Unprivileged: the same walls under one uid, said so in the report; a stop leaves nothing."""
    user = BASE_UID + 3
    (place / "own").mkdir()
    os.chown(place / "own", user, user)
    config = {
        "state_dir": f"{place}/own/state",
        "run_dir": f"{place}/own/run",
        "desktop": {"browser": "/usr/bin/chromium"},
    }
    packages = Path(trio.__file__).parent.parent
    if any(not p.stat().st_mode & 0o001 for p in (*packages.parents, *REPO.parents)):
        pytest.skip("a plain user can't read this checkout")
    drop = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--"]
    daemon = subprocess.Popen(
        [*drop, readable_python(), "-c", CHILD, json.dumps(config)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=REPO,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{REPO}:{packages}", "PYTHONDONTWRITEBYTECODE": "1"},
    )
    with daemon:
        isolation, components, x_uid = json.loads(daemon.stdout.readline())
        parts = of_uids(user)
        daemon.stdin.close()
        assert daemon.wait() == 0
    assert isolation["enforced"] is True
    assert (isolation["uids"]["apps"], isolation["uids"]["separate"]) == (user, False)
    assert x_uid == user
    assert all(part["state"] == "running" for part in components.values())
    assert len(parts) > 8
    assert of_uids(user) == []
