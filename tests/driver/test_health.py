"""Looking and mending, over a body in memory and a clock that jumps."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio

from bodyd.contract.geometry import Bounds, Size
from bodyd.contract.inventory import Window
from bodyd.driver.health import Health
from bodyd.errors import DisplayUnavailable, Unavailable

WINDOW = Window(
    id=1, app="a", title="t", bounds=Bounds(x=0, y=0, width=9, height=9),
    active=True, minimised=False, stacking=0,
)  # fmt: skip


class FakeBody:
    """A display and a desktop; `wrong` says what is."""

    def __init__(self) -> None:
        self.wrong: set[str] = set()
        self.size = Size(width=8, height=200)
        self.generation = 1
        self.state = "running"
        self.restarted: list[tuple[str, float]] = []
        self.told: list[tuple[str, str]] = []
        self.used = False
        self.sticky = False

    @property
    def current(self) -> FakeBody:
        return self

    async def ping(self) -> float:
        if "x" in self.wrong:
            await trio.sleep(2)
            raise DisplayUnavailable("silent")
        return 0.001

    async def window_manager_answers(self) -> bool:
        await trio.sleep(1 if "manager" in self.wrong else 0.01)
        return "manager" not in self.wrong

    async def pixels(self, bounds: Bounds) -> bytes:
        await trio.lowlevel.checkpoint()
        if "capture" in self.wrong:
            raise DisplayUnavailable("no picture")
        picture = bytes([0, 0, 0] * (bounds.width * bounds.height))
        return picture if "screen" in self.wrong else b"\1" + picture[1:]

    async def windows(self) -> tuple[Window, ...]:
        return (WINDOW,)

    @property
    def screen(self) -> tuple[int, int]:
        return (self.generation, 1)

    @property
    def x_runs(self) -> bool:
        return self.state == "running"

    async def restart_window_manager(self) -> None:
        self._restart("window_manager", "manager")

    async def restart_apps(self) -> None:
        self._restart("apps", "manager", "screen")

    async def restart_display(self, screen: tuple[int, int] | None = None) -> None:
        self.generation += 1
        self._restart("display", "x", "capture")

    async def reconnect(self) -> None:
        self._restart("connections", "capture")

    async def opened_after(self, generation: int) -> None:
        assert self.generation > generation

    def _restart(self, what: str, *mended: str) -> None:
        self.restarted.append((what, trio.current_time()))
        if not self.sticky:
            self.wrong -= set(mended)

    async def tell(self, wrong: str, restart: str) -> None:
        self.told.append((wrong, restart))


@pytest.fixture
async def body(nursery) -> FakeBody:
    body = FakeBody()
    body.health = Health(body, body, in_use=lambda: body.used, tell=body.tell)
    nursery.start_soon(body.health.run)
    await trio.sleep(12)  # two looks: all was well
    return body


async def within(seconds: float, met: Callable[[], bool]) -> float:
    """How long it takes until *met*; fails after *seconds*."""
    start = trio.current_time()
    with trio.fail_after(seconds):
        while True:
            if met():
                return trio.current_time() - start
            await trio.sleep(0.1)


async def test_all_is_well(autojump_clock, body):
    """Nothing is mended, and nothing is said."""
    await trio.sleep(600)
    assert body.restarted == []
    assert body.health.vitals().trouble() is None


@pytest.mark.parametrize(
    ("wrong", "told", "restart", "least", "most"),
    [
        ("x", "x frozen", "display", 8, 25),
        ("manager", "window_manager hung", "window_manager", 5, 20),
        ("capture", "capture dead", "connections", 5, 20),
        ("screen", "screen blank", "apps", 30, 50),
    ],
)
async def test_each_trouble_has_its_remedy(autojump_clock, body, wrong, told, restart, least, most):
    """Told apart at once when asked; mended after a while, once; then all is well."""
    body.wrong.add(wrong)
    assert (await body.health.fresh()).trouble() == told
    took = await within(most, lambda: body.restarted != [])
    assert took >= least
    assert [what for what, _ in body.restarted] == [restart]
    assert body.told == [(told, restart)]
    await trio.sleep(60)
    assert len(body.restarted) == 1
    assert body.health.vitals().trouble() is None


async def test_a_moment_of_slowness_mends_nothing(autojump_clock, body):
    """Two missed looks, and then an answer."""
    for _ in range(5):
        body.wrong |= {"x", "manager"}
        await trio.sleep(6)
        body.wrong.clear()
        await trio.sleep(8)
    assert body.restarted == []


async def test_what_the_gentle_remedy_leaves_wrong_gets_the_strong_one(autojump_clock, body):
    """A window manager that hangs again takes its apps along; a dead capture the display."""
    body.sticky = True
    body.wrong.add("manager")
    await within(60, lambda: len(body.restarted) == 2)
    body.wrong = {"capture"}
    await within(60, lambda: len(body.restarted) == 4)
    assert [what for what, _ in body.restarted] == ["window_manager", "apps", "connections", "display"]


async def test_a_blank_screen_in_use_is_its_drivers_to_judge(autojump_clock, body):
    """A film may be black; it is told, and nobody's work is ended."""
    body.used = True
    body.wrong.add("screen")
    await trio.sleep(300)
    assert body.health.vitals().trouble() == "screen blank"
    assert body.restarted == []


async def test_a_window_manager_that_never_answers_is_not_judged(nursery, autojump_clock):
    """Some don't take part in the protocol."""
    body = FakeBody()
    body.wrong.add("manager")
    health = Health(body, body, in_use=lambda: False, tell=body.tell)
    nursery.start_soon(health.run)
    await trio.sleep(100)
    assert health.vitals().trouble() is None
    assert body.restarted == []


async def test_a_server_that_is_being_restarted_is_not_frozen(autojump_clock, body):
    """desktop/ is at it; its state says so."""
    body.state = "restarting"
    body.wrong.add("x")
    await trio.sleep(100)
    assert body.restarted == []


async def test_a_mend_that_fails_is_tried_again(autojump_clock, body):
    """The desktop may be busy with a restart of its own."""

    async def busy() -> None:
        raise Unavailable("the desktop is being restarted")

    mend, body.restart_window_manager = body.restart_window_manager, busy
    body.wrong.add("manager")
    await within(20, lambda: body.told != [])
    body.restart_window_manager = mend
    await within(60, lambda: body.restarted != [])


async def test_who_asks_waits_no_longer_than_a_second(autojump_clock, body):
    """What has not answered by then counts as it stands."""
    body.wrong.add("x")
    start = trio.current_time()
    assert (await body.health.fresh()).states()["x"] == "frozen"
    assert trio.current_time() - start <= 1.01


async def test_a_look_at_the_server_before_this_one_answers_for_nothing(autojump_clock, body):
    """However short ago it was: the new one's connections are looked at."""
    assert (await body.health.fresh()).trouble() is None
    body.wrong.add("x")
    assert (await body.health.fresh()).trouble() is None  # a moment ago all was well
    body.generation += 1
    assert (await body.health.fresh()).trouble() == "x frozen"
