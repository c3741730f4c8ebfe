"""The sandboxes that an attack is tried in, each as its own part of bodyd makes it: apps, X server, shell."""

from __future__ import annotations

import json
import os
import shlex
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import trio

from bodyd.config import Config
from bodyd.desktop.desktop import Desktop, open_desktop
from bodyd.desktop.layout import open_layout
from bodyd.desktop.process import run
from bodyd.desktop.xserver import x_spec
from tests.execution import world as shells

ATTACKS = Path(__file__).parent / "attacks"
NETWORKED = ("apps", "shell with a list")
ROOMS = ("apps", "x", "shell", "shell with a list")
_PYTHON = "/usr/bin/python3"

Attack = Callable[..., Any]


def source(name: str, mark: str = "") -> str:
    """The program of an attack, which prints its result between two marks."""
    attempt, attack = ((ATTACKS / f"{part}.py").read_text() for part in ("attempt", name))
    halves = f"{mark[:4]!r} {mark[4:]!r}"  # its own command line must not look like its result
    return (
        "import sys, types\nsys.modules['attempt'] = types.ModuleType('attempt')\n"
        f"exec({attempt!r}, vars(sys.modules['attempt']))\n{attack}\n"
        f"import json\nprint({halves} + json.dumps(result) + {halves}, flush=True)\n"
    )


@asynccontextmanager
async def room(name: str, configure: Callable[..., Config], **sections: Any) -> AsyncIterator[Attack]:
    """A callable that runs an attack, with arguments, in the room, and returns its result."""
    opened = {"apps": _apps, "x": _x_server}.get(name, _shell)
    local = {"site.test:80": "/nonexistent/site.sock"} if name in NETWORKED else {}
    async with opened(configure, local, **sections) as attack:
        yield attack


@asynccontextmanager
async def _apps(configure: Callable[..., Config], local: Any, **sections: Any) -> AsyncIterator[Attack]:
    async with open_desktop(configure(egress={"local": local}, **sections), report=lambda _: None) as desktop:
        yield lambda name, *args: as_app(desktop, name, *args)


async def as_app(desktop: Desktop, name: str, *args: str) -> Any:
    """Run an attack as an app of a desktop; its result."""
    mark = uuid.uuid4().hex
    session = desktop._session
    assert session is not None
    status = await session.run(f"app:attack#{mark}", [_PYTHON, "-I", "-B", "-c", source(name, mark), *args])
    with trio.fail_after(10):
        while session.box.tail().count(mark) < 2 and status == 0:
            await session.box._news.wait()
    assert status == 0, session.box.tail()[-2000:]
    return json.loads(session.box.tail().split(mark)[1])


@asynccontextmanager
async def _x_server(configure: Callable[..., Config], _local: Any, **sections: Any) -> AsyncIterator[Attack]:
    """The X server's sandbox, the attack in the place of Xvfb: what a server that was broken could do."""
    with open_layout(configure(**sections)) as layout:

        async def attack(name: str, *args: str) -> Any:
            ready, tell = os.pipe2(os.O_CLOEXEC)
            try:
                spec = x_spec(layout, layout.x_dir(1), b"c" * 16, (640, 480), tell)
                limits = spec.argv[: spec.argv.index("--") + 1]
                mark = uuid.uuid4().hex
                argv = (*limits, _PYTHON, "-I", "-B", "-c", source(name, mark), *args)
                finished = await run(replace(spec, argv=argv, pass_fds=()))
            finally:
                os.close(ready)
                os.close(tell)
            assert finished.status == 0, finished.output
            return json.loads(finished.output.split(mark)[1])

        yield attack


@asynccontextmanager
async def _shell(_configure: Callable[..., Config], local: Any, **sections: Any) -> AsyncIterator[Attack]:
    async with shells.world(egress={"local": local}, **sections) as world:

        async def attack(name: str, *args: str) -> Any:
            return json.loads(await world.out(as_command(name, *args)))

        yield attack


def as_command(name: str, *args: str) -> str:
    """An attack as one command of the shell."""
    return f"python3 -I -B - {shlex.join(args)} <<'ATTACK'\n{source(name)}ATTACK\n"
