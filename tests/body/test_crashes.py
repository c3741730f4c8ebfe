"""kill -9 the whole daemon at chosen moments: each request has one receipt, and it says what the app saw.

The app is an X client of the test's: a browser reports its events through the daemon that is killed.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
import trio
from Xlib import X

from bodyd.client import BodyClient, ClientLease
from bodyd.contract import actions as a
from bodyd.contract import atoms as at
from bodyd.contract.geometry import Point
from bodyd.contract.keys import character_keysym
from bodyd.contract.receipts import InputReceipt, Outcome, Receipt
from bodyd.errors import BodydError, NotFound, RecoveryRequired, RequestConflict, StaleEpoch, StaleLease
from bodyd.journal import schema
from bodyd.journal.database import open_read_only
from bodyd.journal.directory import JOURNAL_FILE
from tests.display.recorder import Recorder, Seen

from .hunter import Hunter, Moment, hunting
from .outsider import recording
from .world import World, bare_world, folder

WORDS = "the quick brown fox jumps over the lazy dog äöü漢字 "
SHIFT = 0xFFE1
MODIFIERS = range(0xFFE1, 0xFFEF)
Event = tuple[str, object]


def make_inputs(chance: random.Random) -> list[dict[str, object]]:
    """A batch that takes some tenths of a second, of every kind of input; the pointer always moves."""

    def place() -> dict[str, int]:
        return {"x": chance.randrange(1280), "y": chance.randrange(800)}

    kinds = [
        lambda: {"type": "click", **place()},
        lambda: {"type": "double_click", "keys": ["CTRL"], **place()},
        lambda: {"type": "scroll", "scroll_y": chance.choice([300, -500]), **place()},
        lambda: {"type": "drag", "path": [place() for _ in range(chance.randrange(2, 12))]},
        lambda: {"type": "hold", "keys": ["CTRL", "SHIFT"], "duration_ms": chance.randrange(10, 80)},
        lambda: {"type": "keypress", "keys": ["CTRL", "x"]},
        lambda: {"type": "type", "text": WORDS * chance.randrange(1, 4)},
        lambda: {"type": "wait", "ms": chance.randrange(10, 60)},
    ]
    return [chance.choice(kinds)() for _ in range(chance.randrange(2, 9))]


def units(action: a.Action) -> list[at.Atom]:
    """What of *action* an app sees, unit by unit. A wait's are not to be seen."""
    atoms = at.plan(action, lambda x, y: Point(x=x, y=y))
    return [atom for atom in atoms if not isinstance(atom, at.Pause)]


def expected(atom: at.Atom, *, shifted: bool) -> list[Event]:
    """What an app sees of one unit; *shifted*: the character lies on the shifted half of its key."""
    match atom:
        case at.MoveTo(x=x, y=y):
            return [("motion", (x, y))]
        case at.ButtonDown(button=button):
            return [("press", button)]
        case at.ButtonUp(button=button):
            return [("release", button)]
        case at.KeyDown(keysym=keysym):
            return [("key down", keysym)]
        case at.KeyUp(keysym=keysym):
            return [("key up", keysym)]
        case at.Char(character=character):
            keysym = character_keysym(character)
            stroke: list[Event] = [("key down", keysym), ("key up", keysym)]
            return [("key down", SHIFT), *stroke, ("key up", SHIFT)] if shifted else stroke
    raise AssertionError(atom)


def as_events(seen: Sequence[Seen], keymap: dict[int, list[int]]) -> list[Event]:
    return [(event.kind, _detail(event, keymap)) for event in seen]


def _detail(event: Seen, keymap: dict[int, list[int]]) -> object:
    """Where the pointer is, which button, or the keysym that the key stands for with Shift as it is."""
    if event.kind == "motion":
        return (event.x, event.y)
    if event.kind in ("press", "release"):
        return event.detail
    plain, shifted = keymap[event.detail][:2]
    return shifted if event.state & X.ShiftMask and plain not in MODIFIERS else plain


@dataclass
class Posted:
    """One request, and what is known of it from outside the daemon."""

    body: dict[str, object]
    token: str
    seen: list[Event] = field(default_factory=list)
    answered: Receipt | None = None
    moment: Moment = Moment.RECEIPT

    @property
    def request_id(self) -> str:
        return str(self.body["request_id"])

    @property
    def actions(self) -> tuple[a.Action, ...]:
        return a.parse_input_request(self.body).inputs

    def units_seen(self) -> list[int | None]:
        """How many units of each input the app saw in full (None: it can't see them), all in order.

        Nothing else may be in its log: nothing twice, nothing out of order, nothing of another.
        """
        left, counts = list(self.seen), []
        for action in self.actions:
            whole = 0
            for atom in units(action):
                events = expected(atom, shifted=left[:1] == [("key down", SHIFT)])
                here, left = left[: len(events)], left[len(events) :]
                assert here == events[: len(here)], (self.body, self.seen)
                whole += here == events
            counts.append(whole if units(action) else None)
        assert left == []
        return counts

    def check(self, receipt: Receipt) -> None:
        """The receipt is true of the log."""
        assert receipt.request_id == self.request_id
        assert len(receipt.inputs) == len(self.actions)
        gone_on = True
        for item, seen in zip(receipt.inputs, self.units_seen(), strict=True):
            assert agrees(item, seen), (item, seen, receipt, self.seen)
            assert gone_on or item.delivery.reason == "not_attempted", receipt
            gone_on = item.delivery.outcome is Outcome.CONFIRMED
        if self.answered is not None:
            assert receipt.inputs == self.answered.inputs
        if self.moment is Moment.INTENT:
            assert {i.delivery.reason for i in receipt.inputs} == {"not_attempted"}


def agrees(item: InputReceipt, seen: int | None) -> bool:
    """Whether what a receipt says of an input is true of an app that saw *seen* of its units."""
    sent = item.delivery.sent
    if seen is None:
        return sent.units <= sent.of
    match item.delivery.outcome:
        case Outcome.CONFIRMED:
            return seen == sent.of == sent.units
        case Outcome.FAILED:
            return seen == sent.units < sent.of
        case Outcome.UNCERTAIN:
            return sent.units <= seen <= sent.of
    raise AssertionError(item)


class Lives:
    """One body with many lives, and everything that was ever asked of it."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self.world = world
        self.chance = chance
        self.posted: list[Posted] = []
        self.moments: Counter[Moment] = Counter()

    async def live(self, aim: Moment) -> None:
        """Recover, see that the last life's request is told truly, act, and die at *aim*."""
        async with self.world.client() as client, recording(self.world, client) as recorder:
            if self.posted:
                await self._settle_the_last(client, recorder)
            lease = await client.acquire(f"life-{len(self.posted)}")
            await lease.screenshot()
            if self.chance.random() < 0.3:
                await self._finish_one(lease, recorder)
            with hunting(self.world) as hunter:
                await self._die(lease, recorder, hunter, aim)

    async def _settle_the_last(self, client: BodyClient, recorder: Recorder) -> None:
        last = self.posted[-1]
        status = await client.status()
        assert status["lease"]["state"] == "recovery_required"
        dead = claim(client, last)
        with pytest.raises(RecoveryRequired):
            await dead.send(a.parse_input_request(last.body))
        if last.moment is Moment.UNKNOWN:
            assert last.seen == []
            last.moment = await self._looked_at_again(client, last)
        if last.moment is not Moment.UNKNOWN:
            last.check(await client.receipt(last.request_id))
        assert (await client.recover(step=1)).state == "vacant"
        with pytest.raises(StaleLease):
            await dead.send(a.parse_input_request(last.body))
        if last.moment is not Moment.UNKNOWN:
            await self._ask_again(client, last)
        assert recorder.seen() == []

    async def _looked_at_again(self, client: BodyClient, last: Posted) -> Moment:
        """Whether its intent was durable after all: in the log, and not yet in the index that readers use."""
        with suppress(NotFound):
            await client.receipt(last.request_id)
            return Moment.INTENT
        return Moment.UNKNOWN

    async def _ask_again(self, client: BodyClient, last: Posted) -> None:
        """The same id under a new lease: never an act."""
        lease = await client.acquire("asks-again")
        await lease.screenshot()
        with pytest.raises(StaleEpoch):
            await lease.send(a.parse_input_request(last.body))
        with pytest.raises(RequestConflict):
            await lease.send(a.parse_input_request({**last.body, "epoch": lease.epoch}))
        await lease.release()

    def _post(self, lease: ClientLease) -> Posted:
        body = {
            "request_id": f"req-{len(self.posted)}",
            "epoch": lease.epoch,
            "inputs": make_inputs(self.chance),
        }
        self.posted.append(Posted(body, lease.token))
        return self.posted[-1]

    async def _finish_one(self, lease: ClientLease, recorder: Recorder) -> None:
        posted = self._post(lease)
        posted.answered = await lease.send(a.parse_input_request(posted.body))
        posted.seen = as_events(recorder.seen(), keymap(recorder))
        posted.check(posted.answered)

    async def _die(self, lease: ClientLease, recorder: Recorder, hunter: Hunter, aim: Moment) -> None:
        posted, chance = self._post(lease), self.chance
        stop = {
            Moment.INTENT: lambda: hunter.stop_between_intent_and_dispatch(posted.request_id),
            Moment.DISPATCH: lambda: hunter.stop_during_dispatch(posted.request_id, chance.uniform(0, 0.3)),
        }.get(aim, lambda: hunter.stop_after(posted.request_id, chance.uniform(0, 0.3)))

        async def send() -> None:
            with suppress(BodydError):  # the connection breaks
                posted.answered = await lease.send(a.parse_input_request(posted.body))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            posted.moment = await trio.to_thread.run_sync(stop)
            seen = [event for _ in range(3) for event in recorder.seen()]  # the X server catches up
            keys = keymap(recorder)
            self.world.kill()
            seen += await trio.to_thread.run_sync(recorder.rest)
        posted.seen = as_events(seen, keys)
        self.moments[posted.moment] += 1


def claim(client: BodyClient, posted: Posted) -> ClientLease:
    """The dead daemon's claim, as its client still has it."""
    lease = object.__new__(ClientLease)
    lease._client, lease.token = client, posted.token
    return lease


def keymap(recorder: Recorder) -> dict[int, list[int]]:
    """The keysyms of each key, as the map is now: while texts are typed it only grows."""
    columns = recorder.x.display.get_keyboard_mapping(8, 248)
    return {code: list(column) for code, column in enumerate(columns, start=8)}


async def test_kills_at_chosen_moments_leave_one_true_receipt_each(times):
    """Whatever the moment: one receipt, true of the app's log; nothing twice; recovery, then vacant."""
    chance = random.Random(3)
    enough = {Moment.INTENT: times(50, 25), Moment.DISPATCH: times(50, 25)}
    with folder() as root, bare_world(root) as world:
        lives = Lives(world, chance)
        most = 3 * times(200, 25)
        while (total := lives.moments.total()) < most:
            wanting = [m for m, n in enough.items() if lives.moments[m] < n]
            if total >= times(200, 25) and not wanting:
                break
            await lives.live(chance.choice([*wanting, *wanting, *Moment]))
            world.start()
        async with world.client() as client:
            for posted in lives.posted:
                if posted.moment is not Moment.UNKNOWN:
                    posted.check(await client.receipt(posted.request_id))
        print("kills:", {moment.value: lives.moments[moment] for moment in Moment})
        assert all(lives.moments[moment] >= n for moment, n in enough.items()), lives.moments
        world.stop()
        check_the_books(world, lives)


def check_the_books(world: World, lives: Lives) -> None:
    """The audit has each request begun once and ended once, and its chain is whole."""
    with_intent = Counter(p.request_id for p in lives.posted if p.moment is not Moment.UNKNOWN)
    journal = open_read_only(world.config.state / "private" / JOURNAL_FILE, schema.JOURNAL)
    rows = journal.execute("SELECT kind, data FROM audit WHERE kind LIKE 'action.%'").fetchall()
    journal.close()
    requested = Counter(json.loads(d)["request_id"] for kind, d in rows if kind == "action.requested")
    ended = Counter(
        json.loads(d)["request_id"] for kind, d in rows if kind in ("action.completed", "action.recovered")
    )
    assert requested == ended == with_intent
    subprocess.run(
        [sys.executable, "-m", "bodyd", "--config", str(world.root / "bodyd.toml"), "audit", "verify"],
        check=True,
        capture_output=True,
    )
