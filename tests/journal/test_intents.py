"""What is kept of a request before it acts: all of it but its texts."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bodyd.contract.actions import parse_input_request
from bodyd.journal.intents import Intent, canonical, fingerprint, make_intent

from .batches import CLICK, KEY, NOW, request

SECRET = "correct-horse-ÜÅ-美国-🍑"


def intent_of(*inputs: dict[str, object], request_id: str = "req-1", key: bytes = KEY) -> Intent:
    return make_intent(
        request(request_id, *inputs), conversation_id="conv", lease_id="lease", created_at=NOW, key=key
    )


@pytest.mark.parametrize(
    "action",
    [
        {"type": "type", "text": SECRET},
        {"type": "paste", "text": SECRET},
        {**CLICK, "expect": {"field": "clipboard", "equals": SECRET}},
        {**CLICK, "expect": {"field": "window_title", "contains": SECRET}},
    ],
)
def test_a_text_is_kept_as_its_length_and_a_keyed_digest(action):
    """Neither the text nor anything that can be computed from it without the key is in the intent."""
    kept = canonical(intent_of(action).to_json())
    assert SECRET not in str(json.loads(kept))
    assert f'"length":{len(SECRET)}' in kept
    assert kept != canonical(intent_of(action, key=b"another key, just as long as it.").to_json())


def test_equal_texts_of_two_inputs_or_requests_have_different_digests():
    """One digest per letter would be a substitution cipher, and those are solved for fun."""
    letter = {"type": "type", "text": "e"}
    digests = {
        item.facts["text"]["digest"]
        for intent in (intent_of(letter, letter), intent_of(letter, letter, request_id="req-2"))
        for item in intent.inputs
    }
    assert len(digests) == 4


def test_a_key_that_writes_a_character_is_text_and_others_keep_their_names():
    """A model that presses p, a, s, s leaves no more behind than one that types it."""
    one, two, three, four = intent_of(
        {"type": "keypress", "keys": ["p"]},
        {"type": "keypress", "keys": ["SHIFT", "digit4"]},
        {"type": "keypress", "keys": ["KP_7"]},
        {"type": "keypress", "keys": ["ENTER"]},
    ).inputs
    assert one.facts["keys"][0].keys() == two.facts["keys"][1].keys() == {"length", "digest"}
    assert two.facts["keys"][0] == "Shift_L"
    assert three.facts["keys"][0].keys() == {"length", "digest"}
    assert four.facts["keys"] == ["Return"]


def test_a_shortcut_keeps_its_letter():
    """Control and C write nothing."""
    assert intent_of({"type": "keypress", "keys": ["CTRL", "C"]}).inputs[0].facts["keys"] == [
        "Control_L",
        "c",
    ]


def test_a_drag_is_kept_as_its_ends_and_the_number_of_points():
    """A thousand points are no thousand rows of audit."""
    path = [{"x": n, "y": 2 * n} for n in range(1000)]
    facts = intent_of({"type": "drag", "path": path}).inputs[0].facts
    assert facts == {"points": 1000, "from": [0, 0], "to": [999, 1998]}


def test_the_fingerprint_is_of_the_parsed_body_with_its_defaults():
    """Saying a default aloud is the same request; another value is another one."""
    plain = request()
    spelled = parse_input_request(
        {
            "request_id": "req-1",
            "epoch": 1,
            "screenshot_id": "shot-1",
            "inputs": [{**CLICK, "button": "left"}],
            "binding": "window",
            "screenshot": False,
        }
    )
    assert fingerprint(plain, KEY) == fingerprint(spelled, KEY)
    others = [request(epoch=2), request("req-1", {**CLICK, "x": 4}), request("req-1", CLICK, CLICK)]
    assert fingerprint(plain, KEY) not in {fingerprint(other, KEY) for other in others}


def test_the_fingerprint_is_keyed():
    """Six typed digits must not be found by trying a million bodies against the database."""
    assert fingerprint(request(), KEY) != fingerprint(request(), b"another key, just as long as it.")


@given(st.text(max_size=20), st.integers(0, 2**31 - 1))
def test_an_intent_survives_its_json(text, x):
    """What recovery reads is what the door wrote."""
    intent = intent_of({"type": "type", "text": text}, {**CLICK, "x": x})
    assert Intent.from_json(json.loads(canonical(intent.to_json()))) == intent
