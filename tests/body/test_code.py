"""exec_py on a real body: what code can do, what it can't, and when its process dies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from bodyd.client import BodyClient, ClientLease
from bodyd.contract.code import MAX_ITEMS, MAX_TEXT_BYTES, MAX_UI_CALLS
from bodyd.errors import BodydError, InvalidRequest, LeaseRequired, StaleLease
from tests.display.world import until

from .outsider import input_state, x_server
from .world import World

ATTACKS = Path(__file__).parent / "code_attacks"
DEAD_AREA = (350, 180)


def text(answer: dict[str, Any]) -> str:
    return "".join(item["text"] for item in answer["output"] if item["type"] == "input_text")


@pytest.fixture
async def lease(world: World, client: BodyClient) -> ClientLease:
    assert await world.page.until(lambda page: page.origin is not None, within=20)
    lease = await client.acquire("coder")
    await lease.screenshot()
    await lease.exec_py("", reset=True)
    world.page.clear()
    return lease


async def test_state_lives_on_between_calls(lease: ClientLease):
    """Names, and the value of a last expression; an exception loses nothing but itself."""
    assert (await lease.exec_py("x = 20\nx + 1"))["output"] == [{"type": "input_text", "text": "21\n"}]
    failed = await lease.exec_py("print('before')\nx / 0")
    assert text(failed) == "before\n"
    assert failed["error"]["type"] == "exception"
    assert failed["error"]["message"].endswith("ZeroDivisionError: division by zero")
    assert "/bodyd/" not in failed["error"]["message"]
    assert text(await lease.exec_py("x")) == "20\n"
    assert (await lease.exec_py("x", reset=True))["error"]["message"].endswith("name 'x' is not defined")


async def test_code_clicks_and_types_through_the_door(world: World, client: BodyClient, lease: ClientLease):
    """The page sees it, each call has its journalled receipt, and the picture is of afterwards."""
    x, y = world.page.at(60, 60)
    code = f"ui.click({x}, {y})\nui.type('penguin')\nimage = ui.screenshot()\ndisplay(image)\nimage.size"
    answer = await lease.exec_py(code)
    assert answer["error"] is None, answer
    assert await world.page.until(lambda page: any(e["value"] == "penguin" for e in page.entries("value")))
    assert [item["type"] for item in answer["output"]] == ["input_image", "input_text"]
    assert text(answer) == "(1280, 800)\n"
    for number, kind in ((1, "click"), (2, "type")):
        receipt = await client.receipt(f"{answer['call_id']}.{number}")
        assert [item.type for item in receipt.inputs] == [kind]
    assert answer["ui_calls"] == 3


async def test_pyautogui_as_models_write_it(world: World, lease: ClientLease):
    """The shim's calls arrive; what is held is held for one gesture; looking for pictures is refused."""
    (fx, fy), (bx, by) = world.page.at(60, 60), world.page.at(60, 140)
    code = f"""
import pyautogui
pyautogui.click({fx}, {fy})
pyautogui.write('cold', interval=0.01)
pyautogui.hotkey('ctrl', 'a')
pyautogui.keyDown('shift'); pyautogui.press('left'); pyautogui.keyUp('shift')
pyautogui.moveTo({bx}, {by}); pyautogui.dragTo({bx + 50}, {by + 20}, duration=0.01)
pyautogui.mouseDown({bx}, {by}); pyautogui.moveTo({bx + 9}, {by}); pyautogui.mouseUp()
pyautogui.size(), pyautogui.position(), pyautogui.screenshot().size
"""
    answer = await lease.exec_py(code)
    assert answer["error"] is None, answer
    assert text(answer) == f"(Size(width=1280, height=800), Point(x={bx + 9}, y={by}), (1280, 800))\n"
    assert await world.page.until(lambda page: len(page.entries("mouseup")) == 3)
    keys = [(e["key"], e["ctrl"], e["shift"]) for e in world.page.entries("keydown")]
    assert ("a", True, False) in keys
    assert ("ArrowLeft", False, True) in keys
    assert world.page.entries("drag")
    refused = await lease.exec_py("pyautogui.locateOnScreen('button.png')")
    assert "look at a screenshot instead" in refused["error"]["message"]


async def test_the_151st_call_is_refused(world: World, lease: ClientLease):
    """With what to do, and nothing of it was sent."""
    x, y = world.page.at(*DEAD_AREA)
    answer = await lease.exec_py(f"for _ in range({MAX_UI_CALLS + 1}): ui.click({x}, {y})")
    assert answer["ui_calls"] == MAX_UI_CALLS + 1
    assert "go on in another call" in answer["error"]["message"]
    seen = len(
        await until(
            lambda: world.page.entries("mousedown")[MAX_UI_CALLS - 1 :] and world.page.entries("mousedown")
        )
    )
    assert seen == MAX_UI_CALLS
    assert (await lease.exec_py(f"ui.click({x}, {y})"))["error"] is None


async def test_there_is_no_way_out(lease: ClientLease, monkeypatch):
    """No program, network, screen, file of the body's, namespace or secret."""
    answer = await lease.exec_py((ATTACKS / "ways_out.py").read_text())
    assert answer["error"] is None, answer
    found = eval(text(answer), {})
    assert found.pop("environment") == []
    assert found.pop("descriptors") <= 5
    assert found.pop("processes") <= 3
    assert "done" not in {found[name] for name in found if name != "init"}, found
    assert (await lease.exec_py("1 + 1"))["state_lost"] is False


@pytest.mark.parametrize("mode", ["garbage", "huge", "another call", "no object", "deep", "flood"])
async def test_forged_frames_end_the_worker(world: World, lease: ClientLease, mode: str):
    """Nothing is done for them, and the next call says that state was lost."""
    attack = f"MODE = {mode!r}\n" + (ATTACKS / "forger.py").read_text() + "\nui.settle()"
    answer = await lease.exec_py(attack)
    assert answer["error"]["type"] == "worker", answer
    again = await lease.exec_py("MODE")
    assert again["state_lost"] is True
    assert world.page.entries("mousedown") == []


async def test_a_socket_kept_past_its_call_gets_nothing(world: World, lease: ClientLease):
    """A thread that speaks between two calls costs the worker its life, and clicks nothing."""
    answer = await lease.exec_py("MODE = 'late'\n" + (ATTACKS / "forger.py").read_text())
    assert answer["error"] is None
    await trio.sleep(0.6)  # the thread's time, and some: nothing tells of what does not happen
    again = await lease.exec_py("MODE")
    assert again["state_lost"] is True
    assert again["error"]["message"].endswith("name 'MODE' is not defined")
    assert world.page.entries("mousedown") == []


async def test_a_timeout_kills_and_says_so_twice(world: World, client: BodyClient, lease: ClientLease):
    """The call says timeout; the next one that state was lost; nothing is held."""
    other = (await x_server(world, client)).connect()
    answer = await lease.exec_py("x = 1\nwhile True: pass", timeout_ms=300)
    assert answer["error"]["type"] == "timeout"
    again = await lease.exec_py("x")
    assert (again["state_lost"], again["error"]["type"]) == (True, "exception")
    assert (await lease.exec_py("1"))["state_lost"] is False
    assert input_state(other).clear
    other.close()


async def test_output_is_bounded(lease: ClientLease):
    """Text, pictures and their number; what is no picture is none."""
    long = await lease.exec_py("print('x' * 100_000)")
    assert len(text(long)) == MAX_TEXT_BYTES
    assert long["omitted_bytes"] == 100_001 - MAX_TEXT_BYTES
    junk = await lease.exec_py("display(b'no picture at all, but long enough for a header')")
    assert (junk["output"], junk["omitted_images"]) == ([], 1)
    many = await lease.exec_py(
        "from PIL import Image\ndot = Image.new('RGB', (1, 1))\nfor n in range(300): display(dot); log(n)"
    )
    assert len(many["output"]) == MAX_ITEMS
    assert many["omitted_images"] > 0
    with pytest.raises(InvalidRequest):
        await lease.exec_py("#" * 70_000)


async def test_a_revoked_lease_ends_the_code(world: World, client: BodyClient, lease: ClientLease):
    """Its next `ui` call raises, keys are up, and nothing comes after the revocation's answer."""
    other = (await x_server(world, client)).connect()
    x, y = world.page.at(*DEAD_AREA)
    answers: list[dict[str, Any]] = []
    code = f"""
seen = []
try:
    while True:
        ui.hold(['CTRL'], 0.05); ui.click({x}, {y})
except Revoked as exc:
    log('raised', exc.code)
    raise
"""

    async def run() -> None:
        answers.append(await lease.exec_py(code))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        assert await world.page.until(lambda page: len(page.entries("click")) >= 2)
        assert (await client.revoke()).state == "vacant"
        assert input_state(other).clear
        after = len(world.page.entries("keydown", "mousedown"))
    other.close()
    (answer,) = answers
    assert "Revoked" in answer["error"]["message"] or answer["error"]["type"] == "revoked"
    with pytest.raises((StaleLease, LeaseRequired)):
        await lease.exec_py("1")
    assert len(world.page.entries("keydown", "mousedown")) - after <= 1  # the page's own lateness


async def _again(client: BodyClient) -> bool:
    """Whether `marker` still lives for the conversation, under a new lease."""
    lease = await client.acquire("coder")
    answer = await lease.exec_py("marker")
    await lease.release()
    assert (answer["error"] is None) is not answer["state_lost"], answer
    return answer["error"] is None


async def test_a_worker_outlives_a_release(client: BodyClient, lease: ClientLease):
    """The same conversation, and nobody in between."""
    await lease.exec_py("marker = 1")
    await lease.release()
    assert await _again(client)


@pytest.mark.parametrize("way", ["another's grant", "take-over", "revoke", "stop"])
async def test_a_worker_dies_with_any_other_hand_over(client: BodyClient, lease: ClientLease, way: str):
    """Nothing that it knew is there for whoever comes after."""
    await lease.exec_py("marker = 1")
    match way:
        case "another's grant":
            await lease.release()
            await (await client.acquire("someone-else")).release()
        case "take-over":
            person = await client.takeover()
            await person.hand_back()
            await client.revoke()
        case "revoke":
            await client.revoke()
        case "stop":
            await lease.release()
            await client.stop()
            await client.resume()
    assert not await _again(client)


async def test_code_needs_a_lease_and_is_in_the_audit(world: World, client: BodyClient, lease: ClientLease):
    """Length and digest of it, never the text; without a lease nothing runs."""
    with pytest.raises(LeaseRequired):
        await client._json("POST", "/v1/tools/exec_py", {"code": "1"})
    secret = "a-very-secret-word"
    await lease.exec_py(f"word = {secret!r}")
    journal = (world.root / "state" / "private").glob("*")
    assert not any(secret.encode() in path.read_bytes() for path in journal if path.is_file())


async def test_the_schema_is_offered(client: BodyClient):
    """As a function tool, ready to paste."""
    tools = (await client._json("GET", "/v1/tools"))["tools"]
    assert "exec_py" in [tool["name"] for tool in tools]


async def test_a_client_that_leaves_ends_its_code(world: World, client: BodyClient, lease: ClientLease):
    """The process dies, and the next call says so."""
    await lease.exec_py("marker = 1")
    with trio.move_on_after(0.3), pytest.raises(BodydError):
        await lease.exec_py("while True: pass")
    lost = await until(lambda: _answered(lease))
    assert lost["state_lost"] is True


async def _answered(lease: ClientLease) -> dict[str, Any] | None:
    return await lease.exec_py("1")
