"""A person at the view: takes over, acts, hands back; and what they do stays theirs."""

from __future__ import annotations

from functools import partial

import pytest
import trio
import trio.lowlevel
from Xlib import XK, X

from bodyd import errors
from bodyd.contract.lease import Scope
from bodyd.contract.screenshots import ScreenshotRequest
from bodyd.journal.audit import read_audit
from tests.display.recorder import Recorder
from tests.display.world import XServer, until

from .conftest import World
from .painter import Paint
from .test_stream import GENEROUS, same


@pytest.fixture
def recorder(server: XServer):
    recorder = Recorder(server.connect())
    try:
        yield recorder
    finally:
        recorder.close()


def typed(recorder: Recorder, seen) -> str:
    """The characters that the key presses make, as an app would read them."""
    out = []
    for event in seen:
        if event.kind == "key down":
            row = recorder.x.display.get_keyboard_mapping(event.detail, 1)[0]
            keysym = row[1 if event.state & X.ShiftMask else 0]
            out.append(chr(keysym & 0xFFFFFF) if keysym >= 0x01000000 else XK.keysym_to_string(keysym) or "")
    return "".join(out)


async def events(recorder: Recorder, enough) -> list:
    """What the recorder has seen, once there is *enough* of it."""
    seen: list = []
    with trio.fail_after(GENEROUS):
        while not enough(seen):
            seen += recorder.seen()
            await trio.sleep(0.01)
    return seen


async def test_a_person_takes_over_acts_and_hands_back(world: World, recorder: Recorder) -> None:
    """The agent is suspended, clicks and keys arrive, and the agent comes back in a new epoch."""
    async with world.client() as client, client.stream() as view:
        lease = await client.acquire("agent")
        await view.take_over("to sign in")
        assert view.state["yours"]  # told before the grant, every time
        assert view.state["driver"] == "person"
        with pytest.raises(errors.PersonDriving):
            await lease.input([{"type": "move", "x": 1, "y": 1}], binding="none")
        await view.click(200, 100)
        await view.type("aé漢")
        seen = await events(recorder, lambda s: sum(e.kind == "key up" for e in s) >= 3)
        assert [(e.kind, e.x, e.y) for e in seen if e.kind in ("press", "release")] == [
            ("press", 200, 100),
            ("release", 200, 100),
        ]
        assert typed(recorder, seen) == "aé漢"
        await view.hand_back()
        with pytest.raises(errors.StaleEpoch) as stale:
            await lease.input([{"type": "move", "x": 1, "y": 1}], binding="none")
        assert stale.value.details["epoch"] == lease.epoch + 2


async def test_chords_wheel_and_buttons(world: World, recorder: Recorder) -> None:
    """Control is down while the key is tapped, and up again; notches and the other buttons arrive."""
    async with world.client() as client, client.stream() as view:
        await view.take_over()
        await view.press("Control", "c")
        await view.wheel(50, 60, dy=2)
        await view.click(50, 60, button="right")
        seen = await events(recorder, lambda s: sum(e.kind == "release" for e in s) >= 3)
        downs = [e for e in seen if e.kind == "key down"]
        assert [bool(e.state & X.ControlMask) for e in downs] == [False, True]
        assert [e.detail for e in seen if e.kind == "press"] == [5, 5, 3]
        await view.hand_back()


async def test_modifiers_and_buttons_go_up_when_the_page_loses_the_focus(
    world: World, recorder: Recorder
) -> None:
    """A held Control and a held button are up after `let_go`, and after the connection breaks."""
    display = world.body.live.current
    async with world.client() as client:
        async with client.stream() as view:
            token = await view.take_over()
            await view.key("Control", down=True)
            await view.button(10, 10, down=True)
            await events(recorder, lambda s: any(e.kind == "press" for e in s))
            assert not (await display.prove_quiescent()).quiet
            await view.let_go()
            await events(recorder, lambda s: any(e.kind == "release" for e in s))
            assert (await display.prove_quiescent()).quiet
            await view.button(20, 20, down=True)
            await events(recorder, lambda s: any(e.kind == "press" for e in s))
        await events(recorder, lambda s: any(e.kind == "release" for e in s))
        assert (await display.prove_quiescent()).quiet
        async with client.stream() as again:
            await again.drive(token)
            assert again.lease_token == token
            await again.hand_back()


async def test_after_a_blip_the_same_person_goes_on(world: World, recorder: Recorder) -> None:
    """A lost connection keeps the claim; another one drives on with its token, in the same epoch."""
    async with world.client() as client:
        async with client.stream() as view:
            token = await view.take_over()
            epoch = world.body.lease().epoch
        assert world.body.person_driving
        async with client.stream() as view:
            await view.drive(token)
            assert world.body.lease().epoch == epoch
            await view.click(5, 5)
            await events(recorder, lambda s: any(e.kind == "release" for e in s))
            await view.hand_back()
        assert not world.body.person_driving


async def test_a_viewer_can_do_nothing_and_the_audit_says_that_it_tried(
    world: World, recorder: Recorder
) -> None:
    """A viewer's input and take-over are dropped; nothing reaches the body."""
    async with world.client(Scope.VIEWER) as client, client.stream() as view:
        with trio.fail_after(GENEROUS):
            await view.click(10, 10)
            await view.type("secret")
            with pytest.raises(errors.Forbidden):
                await view.take_over()
    assert not recorder.seen()
    assert not world.body.person_driving
    kinds = [entry for entry in await audited(world) if entry[0] == "stream.input_dropped"]
    assert len(kinds) == 1
    assert "secret" not in str(kinds)


async def test_while_a_person_drives_agents_and_viewers_see_nothing(world: World, paint: Paint) -> None:
    """Pictures, windows, clipboard and events are refused or blank; the owner sees, and nothing is stored."""
    async with (
        world.client() as owner,
        world.client(Scope.DRIVER) as agent,
        world.client(Scope.VIEWER) as viewer,
        owner.stream(video=False) as view,
        viewer.stream(video=False) as watching,
    ):
        with trio.fail_after(GENEROUS):
            await same(world, watching)
            lease = await agent.acquire("agent")
            await view.take_over()
            await watching.until(lambda v: v.state.get("hidden"))
            frames = watching.frames
            paint.rectangle(0, 0, 100, 100, 0x5EC2E7)
            await view.until(lambda v: tuple(v.screen[5, 5]) == (0x5E, 0xC2, 0xE7))
            assert watching.frames == frames
            assert not watching.screen.any()
            for refused in (agent.screenshot, agent.inventory, viewer.screenshot, viewer.inventory):
                with pytest.raises(errors.PersonDriving):
                    await refused()
            with pytest.raises(errors.PersonDriving):
                await lease.clipboard()
            shot = await owner.screenshot(ScreenshotRequest())
            assert await owner.image(shot.screenshot_id)
            assert await world.journal.screenshot(shot.screenshot_id) is None
            await view.write_clipboard("a password")
            assert await view.read_clipboard() == "a password"
            await view.hand_back()
            with pytest.raises(errors.NotFound):
                await owner.image(shot.screenshot_id)
            assert await owner.clipboard() == ""
            await watching.until(lambda v: not v.state.get("hidden"))
            await same(world, watching)


async def test_after_a_person_who_gives_it_back_to_nobody_pictures_are_to_be_had(world: World) -> None:
    """In memory: their epoch, which lasts until somebody takes the body, keeps nothing on the disk."""
    async with world.client() as owner, owner.stream(video=False) as view:
        with trio.fail_after(GENEROUS):
            await view.take_over()
            await view.hand_back()
            shot = await owner.screenshot()
            assert await owner.image(shot.screenshot_id)
            assert await world.journal.screenshot(shot.screenshot_id) is None


async def test_events_of_a_persons_turn_are_the_owners_alone(world: World, recorder: Recorder) -> None:
    """An agent hears that the lease moved, and nothing of what is done meanwhile."""
    async with (
        world.body.events.subscribe() as heard,
        world.body.events.subscribe(owner=True) as all_of_them,
        world.client() as owner,
        owner.stream() as view,
    ):
        await view.take_over()
        await view.write_clipboard("x")
        await view.hand_back()
        with trio.fail_after(GENEROUS):
            kinds = [event.type async for event in until_vacant(heard)]
            assert "act.done" not in kinds
            assert "act.done" in [event.type async for event in until_vacant(all_of_them)]


async def until_vacant(heard):  # noqa: ASYNC900  (read to its end)
    """Events up to the one that says that nobody has the body."""
    async for event in heard:
        yield event
        if event.type == "lease.vacant":
            return


async def test_what_a_person_types_is_in_no_file(world: World, recorder: Recorder) -> None:
    """Neither text nor clipboard is found in anything that the daemon has written."""
    secret = "correct-horse-battery"
    async with world.client() as client, client.stream() as view:
        await view.take_over()
        await view.type(secret)
        await events(recorder, lambda s: sum(e.kind == "key up" for e in s) >= len(secret))
        await view.write_clipboard(secret)
        await view.hand_back()
    for path in world.place.rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path


async def test_input_comes_through_while_the_screen_floods(world: World, paint: Paint) -> None:
    """While noise fills the screen as fast as it is taken, the pointer still arrives at once."""
    display = world.body.live.current
    async with world.client() as client, client.stream() as view, trio.open_nursery() as nursery:
        await view.take_over()

        async def flood() -> None:
            while True:
                paint.noise(0, 0, 1280, 800)
                await trio.lowlevel.checkpoint()

        nursery.start_soon(flood)
        with trio.fail_after(GENEROUS):
            for index in range(5):
                await view.move(100 + index, 200)
                await until(partial(pointer_is_at, display, 100 + index))
        nursery.cancel_scope.cancel()


async def pointer_is_at(display, x: int) -> bool:
    return (await display.pointer()).x == x


async def test_stop_ends_a_persons_turn(world: World, recorder: Recorder) -> None:
    """The owner's stop takes the body from a person too, and the view says so."""
    async with world.client() as client, client.stream() as view:
        await view.take_over()
        await client.stop(reason="enough")
        with trio.fail_after(GENEROUS):
            await view.until(lambda v: v.state["lease"]["state"] == "stopped")
            await view.click(1, 1)
            await view.until(lambda v: bool(v.refused))
        assert not [e for e in recorder.seen() if e.kind == "press"]
        await client.resume()


async def audited(world: World) -> list[tuple[str, str]]:
    """The audit's rows: kind, and all of its facts."""
    with read_audit(world.place / "private") as audit:
        return [(entry.kind, str(entry.data)) for entry in audit.tail(50)]
