"""The owner's console in a real browser: the body live, taken over, driven by hand, handed back, stopped.

Beside it what was done, what runs, what waits for a word; and what it keeps from whom.
"""

from __future__ import annotations

import socket
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trio

from bodyd.client import BodyClient, ClientLease
from bodyd.contract.actions import Click, Type
from bodyd.contract.lease import Scope
from bodyd.contract.ports import ProcessChunk, ProcessResult
from bodyd.contract.shell import ShellRequest
from bodyd.errors import PolicyRefused

from .world import World, folder, running_world

pytest.importorskip("playwright", reason="Playwright is not installed")
from playwright.sync_api import sync_playwright

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # Playwright's own loop and pipes
PATIENCE_MS = 30_000
SHELL = {"enabled": True, "policy": {"default": "allow", "approve": ["touch"]}}
HOSTILE = "<img src=x onerror='window.hacked = 1'>"


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """With a shell, approvals, and a port that it keeps when it is started again."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    sections: dict[str, dict[str, object]] = {"policy": {"approvals": "console"}, "shell": SHELL}
    with folder() as root, running_world(root, http={"port": port}, **sections) as running:
        yield running


async def browse(link: str, scenario: Callable[[Any], None], **options: Any) -> None:
    """Run *scenario* on the page behind *link*, in a thread of its own."""

    def run() -> None:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
            )
            try:
                page = browser.new_page(viewport={"width": 1500, "height": 950}, **options)
                page.set_default_timeout(PATIENCE_MS)
                errors: list[str] = []
                page.on("pageerror", lambda error: errors.append(str(error)))
                page.goto(link)
                scenario(page)
                assert errors == []
            finally:
                browser.close()

    await trio.to_thread.run_sync(run)


async def link_of(client: BodyClient, world: World, scope: Scope = Scope.OWNER) -> str:
    ticket = (await client._json("POST", "/v1/tickets", {"scope": scope.value}))["ticket"]
    return f"{world.url}/#ticket={ticket}"


async def test_an_owner_watches_takes_over_types_and_hands_back(world: World, client: BodyClient):
    """What is typed into the canvas reaches the page in the body; an agent waits meanwhile, and goes on."""
    assert await world.page.until(lambda page: page.origin is not None, within=20)
    agent = await client.acquire("an-agent")
    await agent.screenshot()
    world.page.clear()
    x, y = world.page.at(200, 60)

    def scenario(page: Any) -> None:
        page.wait_for_selector("#live:visible")
        assert page.inner_text("#state") == "being driven"
        page.click("#takeover")
        page.wait_for_selector("#handback:visible")
        box = page.locator("#live").bounding_box()
        scale = box["width"] / 1280
        page.mouse.click(box["x"] + x * scale, box["y"] + y * scale)
        page.keyboard.type("by hand")
        page.fill("#text", " größer 漢")
        page.click("#typing button")
        assert trio.from_thread.run(_arrives, world, "by hand größer 漢"), world.page.entries("value")[-1:]
        page.click("#handback")
        page.wait_for_selector("#takeover:visible")
        page.wait_for_selector("#handback", state="hidden")

    await browse(await link_of(client, world), scenario)
    status = await client.status()
    assert (status["lease"]["state"], status["lease"]["claim"]["conversation_id"]) == ("held", "an-agent")


async def _arrives(world: World, text: str) -> bool:
    return await world.page.until(lambda page: any(e["value"] == text for e in page.entries("value")))


async def test_escape_twice_stops(world: World, client: BodyClient):
    """From anywhere on the page; then the owner lets drivers in again."""
    await client.acquire("an-agent")

    def scenario(page: Any) -> None:
        page.wait_for_selector("#live:visible")
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")
        page.wait_for_selector("#resume:visible")
        assert page.inner_text("#state") == "stopped"
        page.click("#resume")
        page.wait_for_selector("#takeover:visible")

    await browse(await link_of(client, world), scenario)
    assert (await client.status())["lease"]["state"] == "vacant"


async def test_a_phone_has_everything_within_its_width(world: World, client: BodyClient):
    """Nothing is cut off at 390 pixels."""

    def scenario(page: Any) -> None:
        page.set_viewport_size({"width": 390, "height": 844})
        page.wait_for_selector("#live:visible")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.is_visible("#stop")

    await browse(await link_of(client, world), scenario)


async def run(client: BodyClient, lease: ClientLease, *commands: str) -> list[ProcessChunk | ProcessResult]:
    """The shell's answer to a call."""
    request = ShellRequest(commands=commands)
    async with client.shell(request, lease_token=lease.token) as happenings:
        return [one async for one in happenings]


async def test_what_was_done_is_shown_where_it_was_done(world: World, client: BodyClient):
    """A thumbnail with the point clicked; of what was typed, the length. Pressed, it is shown large."""
    assert await world.page.until(lambda page: page.origin is not None, within=20)
    lease = await client.acquire("bookkeeper")
    await lease.screenshot()
    x, y = world.page.at(200, 60)
    await lease.input([Click(x=x, y=y), Type(text="hunter2")])

    def scenario(page: Any) -> None:
        page.wait_for_selector(".batch .mark")
        newest = page.locator(".batch").first
        assert f"Click at {x}, {y}" in newest.inner_text()
        assert "Type 7 characters" in newest.inner_text()
        assert "bookkeeper" in newest.inner_text()
        assert newest.locator(".badge").inner_text() == "sent"
        image, mark = newest.locator("img").bounding_box(), newest.locator(".mark").bounding_box()
        left = (mark["x"] + mark["width"] / 2 - image["x"]) / image["width"]
        assert abs(left - (x + 0.5) / 1280) < 0.01
        assert "hunter2" not in page.content()
        newest.locator("button").press("Enter")
        page.wait_for_selector("#zoom[open] .frame .mark")
        page.keyboard.press("Escape")
        page.wait_for_selector("#zoom", state="hidden")
        assert page.inner_text("#state") == "being driven"

    await browse(await link_of(client, world), scenario)


async def test_hostile_titles_and_output_are_read_and_do_nothing(world: World, client: BodyClient):
    """Markup is text, terminal sequences are left out, turned writing is named; while it runs and after."""
    assert await world.page.until(lambda page: page.origin is not None, within=20)
    lease = await client.acquire("<b>talk</b>")
    await lease.screenshot()
    await lease.input([Click(x=world.page.at(200, 60)[0], y=world.page.at(200, 60)[1])])
    await lease.input([{"type": "keypress", "keys": ["CTRL", "a"]}, Type(text=f"title:{HOSTILE}")])
    assert await world.page.until(lambda page: any(HOSTILE in e["value"] for e in page.entries("value")))
    escapes = r"\033[31mred\033[0m\033]0;title\007\342\200\256x\n"
    command = f"""printf '%s' "{HOSTILE}"; printf '{escapes}'; sleep 60"""

    def scenario(page: Any) -> None:
        page.wait_for_selector("#live:visible")
        page.wait_for_function(
            "text => document.querySelector('#caption').textContent.includes(text)", arg=HOSTILE
        )
        page.wait_for_selector(".call .output:has-text('red')")
        output = page.inner_text(".call .output")
        assert output.strip() == f"{HOSTILE}red‹202E›x"
        assert page.inner_text(".call .badge") == "running"
        page.click("#stop")
        page.wait_for_selector(".call .badge.bad")
        assert page.inner_text(".call .badge") == "cancelled"
        assert page.locator("#calls img, #caption img, aside b").count() == 0
        assert page.evaluate("window.hacked") is None

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, client, lease, command)
        await browse(await link_of(client, world), scenario)


async def test_code_is_shown_while_it_runs(world: World, client: BodyClient):
    """What it printed so far, before it has ended."""
    lease = await client.acquire("coder")

    def scenario(page: Any) -> None:
        page.wait_for_selector(".call:has-text('so far') .badge.warn")
        assert "import time" in page.locator(".call").first.inner_text()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(lease.exec_py, "import time\nprint('so far', flush=True)\ntime.sleep(50)")
        await browse(await link_of(client, world), scenario)
        await client.stop(reason="seen")


async def test_a_command_waits_for_its_owners_word(world: World, client: BodyClient):
    """Who asks, and what will happen; denied it is refused, approved it runs, this once."""
    lease = await client.acquire("asker")
    answers: list[object] = []

    async def ask(answered: trio.Event) -> None:
        try:
            told = await run(client, lease, "touch ran && echo yes")
            answers.append([one.stdout for one in told if isinstance(one, ProcessResult)])
        except PolicyRefused as exc:
            answers.append(exc.code)
        answered.set()

    def scenario(page: Any) -> None:
        for answer in ("Deny", "Approve once"):
            answered = trio.Event()
            trio.from_thread.run_sync(nursery.start_soon, ask, answered)
            page.wait_for_selector(".question")
            assert "asker asks" in page.inner_text(".question")
            assert "touch ran && echo yes" in page.inner_text(".question")
            assert page.title() == "(1) bodyd"
            page.get_by_role("button", name=answer).press("Enter")
            page.wait_for_selector(".question", state="detached")
            page.wait_for_selector("#nothing-asked:visible")
            trio.from_thread.run(answered.wait)

    async with trio.open_nursery() as nursery:
        await browse(await link_of(client, world), scenario)
    assert answers == ["policy_refused", ["yes\n"]]


async def test_a_viewer_looks_and_can_do_nothing(world: World, client: BodyClient):
    """No buttons, no timeline, no output; and the session behind the page is refused by every such route."""
    await client.acquire("an-agent")
    reach = """async ([method, path]) => (await fetch(path, {
        method, body: method === 'POST' ? '{}' : undefined,
        headers: {authorization: `Bearer ${sessionStorage.getItem('bodyd.session')}`}})).status"""

    def scenario(page: Any) -> None:
        page.wait_for_selector("#live:visible")
        assert page.locator("#controls button:visible").count() == 0
        assert page.locator("[data-owner]:visible").count() == 0
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")
        for path in ("stop", "pause", "takeover", "handback", "revoke", "recover", "acquire"):
            assert page.evaluate(reach, ["POST", f"/v1/lease/{path}"]) == 403, path
        for path in ("receipts", "receipts/x", "calls", "calls/x", "approvals", "tools/shell/jobs"):
            assert page.evaluate(reach, ["GET", f"/v1/{path}"]) == 403, path
        for path in ("approvals/x", "input", "tools/shell", "tools/exec_py", "tickets"):
            assert page.evaluate(reach, ["POST", f"/v1/{path}"]) == 403, path

    await browse(await link_of(client, world, Scope.VIEWER), scenario)
    assert (await client.status())["lease"]["state"] == "held"


async def test_what_a_person_types_is_kept_from_everybody(world: World, client: BodyClient):
    """A viewer's page is veiled meanwhile; no picture, log, journal, timeline or event has it afterwards."""
    secret = "correct-horse-battery"
    agent = await client.acquire("an-agent")
    await agent.screenshot()
    viewer_link = await link_of(client, world, Scope.VIEWER)
    world.page.clear()
    x, y = world.page.at(200, 60)

    def scenario(page: Any) -> None:
        page.wait_for_selector("#live:visible")
        watcher = page.context.browser.new_page()
        watcher.goto(viewer_link)
        watcher.wait_for_selector("#live:visible")
        page.click("#takeover")
        page.wait_for_selector("#handback:visible")
        box = page.locator("#live").bounding_box()
        scale = box["width"] / 1280
        page.mouse.click(box["x"] + x * scale, box["y"] + y * scale)
        page.keyboard.press("Control+a")
        page.keyboard.type(secret)
        assert trio.from_thread.run(_arrives, world, secret)
        watcher.wait_for_selector("#veil:visible")
        pixels = """() => { const live = document.querySelector('#live');
            return new Set(live.getContext('2d').getImageData(0, 0, live.width, live.height).data).size }"""
        watcher.wait_for_function(f"({pixels})() <= 2")
        page.keyboard.press("Control+a")
        page.keyboard.press("Delete")
        assert trio.from_thread.run(_arrives, world, "")
        page.click("#text")
        page.keyboard.press("Control+Alt+k")
        page.click("#handback")
        page.wait_for_selector("#handback", state="hidden")
        watcher.wait_for_selector("#veil", state="hidden")
        assert secret not in page.content() + watcher.content()

    await browse(await link_of(client, world), scenario)
    epoch = (await client.status())["lease"]["epoch"] - 1
    with sqlite3.connect(f"file:{world.config.state}/private/images.db?mode=ro", uri=True) as pictures:
        assert pictures.execute("SELECT COUNT(*) FROM screenshots WHERE epoch = ?", (epoch,)).fetchone() == (
            0,
        )
        assert pictures.execute("SELECT COUNT(*) FROM blanked WHERE epoch = ?", (epoch,)).fetchone() == (1,)
    pictures.close()
    for path in (world.config.state / "private").rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path
    assert secret not in "\n".join(world.reports)
    for path in ("/v1/receipts?limit=100", "/v1/calls"):
        assert secret not in str(await client._json("GET", path))


@pytest.mark.soak
async def test_the_page_says_so_when_the_daemon_is_gone_and_goes_on_with_a_fresh_link(world: World):
    """Sessions end with the daemon; the tab is as good as new with the next link."""
    async with world.client() as client:
        link = await link_of(client, world)

    def scenario(page: Any) -> None:
        page.wait_for_selector("#live:visible")
        world.kill()
        page.wait_for_selector("#state:has-text('unreachable')")
        assert page.is_disabled("#stop")
        world.start()
        page.wait_for_selector("#state:has-text('signed out')")
        assert "bodyd token link" in page.inner_text("#notice")
        page.goto(trio.from_thread.run(_fresh_link, world))
        page.wait_for_selector("#state.good")
        page.wait_for_selector("#live:visible")
        page.wait_for_selector("#notice", state="hidden")

    await browse(link, scenario)


async def _fresh_link(world: World) -> str:
    async with world.client() as client:
        return await link_of(client, world)
