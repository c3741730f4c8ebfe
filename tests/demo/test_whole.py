"""The demo for real: a whole body, the site in its browser, and the scripted model that looks at it."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import trio

from bodyd.client import BodyClient
from bodyd.config import Config, parse
from bodyd.contract.ends import End
from bodyd.daemon import serve
from bodyd.demo import Site, run
from tests.body.world import folder

FRESH = ((31_337, False), (2_024, True), (555_555, False), (86, False), (2**33 + 1, True))
PNG = b"\x89PNG\r\n\x1a\n"


def config(root: Path) -> Config:
    places = {"state_dir": f"{root}/state", "run_dir": f"{root}/run"}
    return parse({"name": "demo", **places, "http": {"port": 0}})


async def reload(client: BodyClient, name: str) -> None:
    """Press F5, as anyone would whose page is out of date."""
    lease = await client.acquire(name)
    shot = await lease.screenshot()
    await lease.input([{"type": "keypress", "keys": ["F5"]}], screenshot_id=shot.screenshot_id)
    await lease.release()


async def test_the_demo_succeeds_on_seeds_that_it_was_not_made_on(tmp_path: Path) -> None:
    """Five fresh seeds, two of them with the panel open: the grader agrees each time."""
    said: list[str] = []
    with folder() as root:
        site = Site.load(seed=FRESH[0][0], panel_open=FRESH[0][1])
        async with trio.open_nursery() as nursery:
            await nursery.start(site.serve)
            running = await nursery.start(partial(serve, site.configure(config(root)), report=said.append))
            async with running.client() as client:
                for number, (seed, panel_open) in enumerate(FRESH):
                    if number:
                        site.reset(seed=seed, panel_open=panel_open)
                        await reload(client, f"reload-{number}")
                    end = await run(client, site, out=tmp_path / str(number), report=said.append)
                    assert end is End.COMPLETED, "\n".join(said)
            nursery.cancel_scope.cancel()
    assert sum(line == "grader   the task is done" for line in said) == 5


def test_the_command_ends_with_the_graders_verdict(tmp_path: Path) -> None:
    """`bodyd demo` prints each action with its receipt, saves both pictures, and exits 0."""
    with folder() as root:
        settings = root / "bodyd.toml"
        settings.write_text(
            f'name = "demo"\nstate_dir = "{root}/state"\nrun_dir = "{root}/run"\n[http]\nport = 0\n'
        )
        command = [sys.executable, "-m", "bodyd", "--config", str(settings), "demo", "--seed", "4711"]
        done = subprocess.run(
            [*command, "--out", str(tmp_path / "out")],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout
    assert "delivery confirmed 7/7" in next(line for line in done.stdout.splitlines() if 'type "' in line)
    assert "grader   the task is done" in done.stdout
    before, after = ((tmp_path / "out" / name).read_bytes() for name in ("before.png", "after.png"))
    assert before.startswith(PNG)
    assert after.startswith(PNG)
    assert before != after
