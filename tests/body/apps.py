"""A body with apps to launch: a terminal that writes down what is typed into it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from bodyd.client import BodyClient, ClientLease
from bodyd.contract.inventory import Window

from .world import World, folder, running_world

_TERMINAL = "/usr/bin/xterm -u8 -geometry 60x8+700+480 -title terminal -e /usr/bin/sh -c".split()
APPS = {
    "terminal": [*_TERMINAL, "cat > /home/user/typed"],
    "nothing": ["/usr/bin/true"],
}


@contextmanager
def world_with_apps(**sections: dict[str, object]) -> Iterator[World]:
    desktop = {"apps": APPS, **sections.pop("desktop", {})}
    with folder() as root, running_world(root, desktop=desktop, **sections) as world:
        yield world


async def ready(world: World, client: BodyClient, name: str = "conversation") -> ClientLease:
    """A lease, once the page has reported; its log is empty and a screenshot was seen."""
    assert await world.page.until(lambda page: page.origin is not None, within=30)
    lease = await client.acquire(name)
    await lease.screenshot()
    world.page.clear()
    return lease


async def windows(client: BodyClient, title: str) -> list[Window]:
    return [w for w in (await client.inventory()).windows if w.title == title]


async def window(client: BodyClient, title: str) -> Window:
    """The window of that title; waits for it, bounded."""
    for _ in range(500):
        found = await windows(client, title)
        if found:
            return found[0]
        await trio.sleep(0.02)
    raise AssertionError(f"no window is called {title!r}")


async def typed(world: World, length: int) -> bytes:
    """What the terminal has written down, once it is *length* bytes; waits for it, bounded."""
    path = trio.Path(world.config.state / "home" / "typed")
    for _ in range(500):
        if await path.exists() and (await path.stat()).st_size >= length:
            break
        await trio.sleep(0.02)
    return await path.read_bytes()
