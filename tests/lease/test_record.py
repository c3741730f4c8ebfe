"""The lease's record: there and back, and closed to all that is not exactly what was written."""

from __future__ import annotations

import copy
import json
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from bodyd.contract.lease import HolderKind, LeaseState
from bodyd.lease.record import damaged, durable, from_record, to_record, to_view

from .playbook import Play, held, taken_over


def to_ms(seconds: float) -> int:
    return round(seconds * 1000)


def written(play: Play) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(json.dumps(to_record(play.state, "body", to_ms)))
    return record


def read(record: Any, *, floor: int = 0):
    return from_record(record, body_id="body", floor=floor, to_monotonic=lambda ms: ms / 1000)


STATES = {
    "vacant": Play(),
    "held": held(),
    "paused": held().pause(),
    "lapsed": held().wait(60),
    "draining": held().release("a"),
    "being taken": held().wait(60).acquire("b"),
    "taken over": taken_over(),
    "being taken over": held().take_over(),
    "being handed back": taken_over().hand_back(),
    "being stopped": held().stop(),
    "stopped": Play().stop(),
}


@pytest.mark.parametrize("play", STATES.values(), ids=STATES.keys())
def test_what_is_written_is_read_back(play):
    """Everything that must survive the daemon does, through JSON."""
    state = read(written(play))
    assert durable(state) == durable(play.state)
    assert [claim.token_hash for claim in state.claims()] == [
        claim.token_hash for claim in play.state.claims()
    ]


def test_no_record_is_a_new_body():
    """Vacant, epoch 0."""
    state = read(None)
    assert (state.status, state.epoch, state.stopped) == (LeaseState.VACANT, 0, False)


def test_a_missing_record_of_a_known_body_fails_closed():
    """The journal has epochs, so there was a record: somebody may have the body."""
    state = read(None, floor=7)
    assert (state.status, state.epoch, state.stopped) == (LeaseState.RECOVERY_REQUIRED, 8, True)


def test_the_journal_may_know_a_higher_epoch():
    """No epoch under which something was ever written is used again."""
    assert read(written(Play()), floor=7).epoch == 7
    assert read(written(held()), floor=0).epoch == 1


@pytest.mark.parametrize("name", sorted(written(taken_over())))
@pytest.mark.parametrize("value", ["?", -1, 3.5, [], {}, True])
def test_a_field_that_is_wrong_fails_closed(name, value):
    """No field is guessed: recovery is required, under an epoch above all known ones."""
    record = written(taken_over())
    record[name] = value
    state = read(record, floor=5)
    if (name, value) in (("reason", "?"), ("person", True)):
        assert state.status is LeaseState.HELD
    else:
        assert (state.status, state.epoch) == (LeaseState.RECOVERY_REQUIRED, 6)


@pytest.mark.parametrize("name", sorted(written(held())["claim"]))
@pytest.mark.parametrize("value", ["?", 3.5, None, []])
def test_a_claim_that_is_wrong_fails_closed(name, value):
    """A claim is taken whole or not at all."""
    record = written(held())
    record["claim"][name] = value
    state = read(record)
    free_text = name in ("lease_id", "conversation_id") and value == "?"
    assert state.status is (LeaseState.HELD if free_text else LeaseState.RECOVERY_REQUIRED)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"body_id": "another"},
        {"status": "sleeping"},
        {"status": "held", "claim": None},
        {"status": "lapsed", "claim": None},
        {"status": "vacant"},
        {"status": "stopped", "stopped": True},
        {"stopped": True},
        {"status": "stopped", "claim": None},
        {"claim": {**written(held())["claim"], "token_sha256": "00ff"}},
    ],
)
def test_a_record_that_contradicts_itself_fails_closed(change):
    """What can't be together was not written by this machine."""
    assert read({**written(held()), **change}).status is LeaseState.RECOVERY_REQUIRED


def test_what_is_missing_fails_closed():
    """Each field must be there."""
    for name in written(held()):
        record = written(held())
        del record[name]
        assert read(record).status is LeaseState.RECOVERY_REQUIRED


def test_a_damaged_record_counts_as_stopped_unless_it_says_otherwise():
    """The owner's stop must not be undone by a damaged disk; nor need it be invented."""
    assert damaged(None, 3, "").stopped
    assert damaged({"stopped": "maybe"}, 3, "").stopped
    assert not damaged({"stopped": False}, 3, "").stopped
    assert damaged({"person": 1}, 3, "").person
    assert not damaged({"person": False}, 3, "").person


def test_a_damaged_record_may_still_know_an_epoch():
    """The greater of both counts."""
    assert damaged({"epoch": 9}, 3, "").epoch == 10
    assert damaged({"epoch": True}, 3, "").epoch == 4
    assert damaged({"epoch": 2}, 3, "").epoch == 4


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(st.data())
def test_no_record_breaks_the_reader(data):
    """Whatever JSON is in the record: a state that lets nobody act, or the very record."""
    record = copy.deepcopy(data.draw(st.sampled_from([written(play) for play in STATES.values()])))
    for name in data.draw(st.lists(st.sampled_from(sorted(record)), max_size=3)):
        record[name] = data.draw(JSON)
    state = read(record, floor=4)
    assert state.epoch >= 4
    if state.status is not LeaseState.RECOVERY_REQUIRED:
        assert to_record(state, "body", to_ms) == {**record, "epoch": max(record["epoch"], 4)}


@given(JSON.filter(lambda value: value is not None))
def test_anything_else_is_damaged(value):
    """A record that is no record at all."""
    assert read(value).status is LeaseState.RECOVERY_REQUIRED


def test_the_view_shows_claims_and_no_tokens():
    """Times are Unix milliseconds, the queue is a number."""
    play = taken_over().acquire("b", wait=10)
    view = to_view(play.state, "body", to_ms)
    assert view.claim is not None
    assert view.suspended is not None
    assert (view.state, view.epoch, view.queue) == (LeaseState.HELD, 2, 1)
    assert (view.claim.kind, view.claim.expires_at) == (HolderKind.PERSON, 1_060_000)
    assert view.suspended.conversation_id == "conv-a"
    assert "token" not in view.model_dump_json()
