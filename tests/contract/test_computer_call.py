"""Translation of OpenAI's computer_call items: contract/computer_call.py."""

from __future__ import annotations

import pytest

from bodyd import errors
from bodyd.contract import actions as a
from bodyd.contract import computer_call as cc
from bodyd.contract.receipts import Outcome


def item(*actions, **more):
    return {"type": "computer_call", "id": "cu_1", "call_id": "call_1", "actions": list(actions), **more}


def request(raw, request_id="r1", epoch=3):
    return cc.ComputerCallRequest(request_id=request_id, epoch=epoch, item=raw)


CLICK = {"type": "click", "button": "left", "x": 1, "y": 2}


def test_every_action_of_the_current_tool_is_read():
    """All nine types, with the fields that OpenAI documents, become actions in order."""
    call = cc.parse_item(
        item(
            CLICK,
            {"type": "double_click", "x": 0, "y": 0, "keys": None},
            {"type": "drag", "path": [{"x": 1, "y": 1}, {"x": 2, "y": 2}], "keys": ["SHIFT"]},
            {"type": "keypress", "keys": ["CTRL", "C"]},
            {"type": "move", "x": 5, "y": 6},
            {"type": "screenshot"},
            {"type": "scroll", "x": 1, "y": 1, "scroll_x": 0, "scroll_y": -300},
            {"type": "type", "text": "$(touch /tmp/x)"},
            {"type": "wait"},
        )
    )
    assert [action.type for action in call.actions] == [
        "click", "double_click", "drag", "keypress", "move", "screenshot", "scroll", "type", "wait",
    ]  # fmt: skip
    assert call.actions[7] == a.Type(text="$(touch /tmp/x)")


def test_a_wait_without_a_time_is_two_seconds():
    """OpenAI's `wait` has no fields; a null one counts as absent."""
    assert cc.parse_item(item({"type": "wait"})).actions == (a.Wait(ms=2000),)
    assert cc.parse_item(item({"type": "wait", "ms": None})).actions == (a.Wait(ms=2000),)


def test_the_preview_form_has_one_action():
    """The legacy single `action` is a batch of one; `actions: null` beside it is no second form."""
    raw = {"type": "computer_call", "id": "i", "call_id": "c", "action": CLICK, "actions": None}
    assert cc.parse_item(raw).actions == (a.Click(x=1, y=2),)


def test_no_actions_is_a_look():
    """An empty list asks for the picture alone."""
    assert cc.parse_item(item()).actions == (a.TakeScreenshot(),)


def test_unknown_fields_are_ignored():
    """The protocol grows: unknown fields on the item, an action and a path point change nothing."""
    call = cc.parse_item(
        item(
            {**CLICK, "confidence": 0.5},
            {"type": "drag", "path": [{"x": 1, "y": 1, "t": 0}, {"x": 2, "y": 2, "t": 9}]},
            created_by="model",
        )
    )
    assert call.actions == (
        a.Click(x=1, y=2),
        a.Drag(path=(a.PathPoint(x=1, y=1), a.PathPoint(x=2, y=2))),
    )


@pytest.mark.parametrize(
    ("raw", "error", "param"),
    [
        ({**item(CLICK), "type": "function_call"}, errors.InvalidRequest, "item.type"),
        ({**item(CLICK), "id": None}, errors.InvalidRequest, "item.id"),
        ({**item(CLICK), "call_id": ""}, errors.InvalidRequest, "item.call_id"),
        ({**item(CLICK), "call_id": 7}, errors.InvalidRequest, "item.call_id"),
        ({**item(CLICK), "call_id": "x" * 201}, errors.InvalidRequest, "item.call_id"),
        (item(CLICK, action=CLICK), errors.InvalidRequest, "item.actions"),
        (
            {"type": "computer_call", "id": "i", "call_id": "c"},
            errors.InvalidRequest,
            "item.actions",
        ),
        ({**item(), "actions": {"0": CLICK}}, errors.InvalidRequest, "item.actions"),
        ({**item(), "actions": [CLICK] * 257}, errors.InvalidRequest, "item.actions"),
        (item(CLICK, status="incomplete"), errors.InvalidRequest, "item.status"),
        (item(CLICK, status=["completed"]), errors.InvalidRequest, "item.status"),
        (item(CLICK, "click"), errors.InvalidRequest, "item.actions[1]"),
        (item(CLICK, {"type": "teleport"}), errors.UnknownAction, "item.actions[1].type"),
        (item(CLICK, {}), errors.UnknownAction, "item.actions[1].type"),
        (item({"type": ["click"]}), errors.UnknownAction, "item.actions[0].type"),
        (item(CLICK, CLICK, {"type": "click", "y": 2}), errors.InvalidRequest, "item.actions[2].x"),
        (item({**CLICK, "x": 1.0}), errors.InvalidRequest, "item.actions[0].x"),
        (item({**CLICK, "x": True}), errors.InvalidRequest, "item.actions[0].x"),
        (item({**CLICK, "x": "1"}), errors.InvalidRequest, "item.actions[0].x"),
        (item({**CLICK, "y": None}), errors.InvalidRequest, "item.actions[0].y"),
        (item({**CLICK, "button": "thumb"}), errors.InvalidRequest, "item.actions[0].button"),
        (
            item({"type": "drag", "path": [{"x": 1, "y": 1}]}),
            errors.InvalidRequest,
            "item.actions[0].path",
        ),
        (
            item({"type": "drag", "path": [{"x": 1, "y": 1}, [2, 2]]}),
            errors.InvalidRequest,
            "item.actions[0].path[1]",
        ),
        (
            item({"type": "keypress", "keys": ["CTRL", "NOSUCHKEY"]}),
            errors.UnknownKey,
            "item.actions[0].keys",
        ),
        (item({**CLICK, "keys": ["A"]}), errors.UnknownKey, "item.actions[0].keys"),
        (item({"type": "keypress"}), errors.InvalidRequest, "item.actions[0].keys"),
        (item({"type": "type"}), errors.InvalidRequest, "item.actions[0].text"),
        (item(CLICK, pending_safety_checks="x"), errors.InvalidRequest, "item.pending_safety_checks"),
        (
            item(CLICK, pending_safety_checks=[{}]),
            errors.InvalidRequest,
            "item.pending_safety_checks[0].id",
        ),
    ],
)
def test_a_malformed_item_names_its_fault(raw, error, param):
    """Each misfit is refused with its own code and the field at fault."""
    with pytest.raises(error) as caught:
        cc.parse_item(raw)
    assert type(caught.value) is error
    assert caught.value.param == param


def test_a_single_action_is_named_by_its_own_field():
    """The preview form's faults point at item.action."""
    with pytest.raises(errors.InvalidRequest) as caught:
        cc.parse_item(
            {"type": "computer_call", "id": "i", "call_id": "c", "action": {"type": "move", "x": 1}}
        )
    assert caught.value.param == "item.action.y"


def test_no_message_repeats_typed_text():
    """A refusal never has the text that was to be typed."""
    with pytest.raises(errors.InvalidRequest) as caught:
        cc.parse_item(item({"type": "type", "text": ["my secret"]}))
    assert "secret" not in str(caught.value)


def test_open_safety_checks_are_refused():
    """Checks that nobody answered for stop the call and are named."""
    call = cc.parse_item(item(CLICK, pending_safety_checks=[{"id": "sc_1", "code": "malicious"}]))
    with pytest.raises(errors.ApprovalRequired) as caught:
        cc.require_acknowledged(call)
    assert caught.value.details["pending_safety_checks"] == [{"id": "sc_1", "code": "malicious"}]


def test_acknowledged_safety_checks_pass_and_are_returned():
    """Acknowledged by id, the call runs; the output carries the acknowledgement as it came."""
    checks = [{"id": "sc_1", "code": "malicious", "message": "m"}]
    call = cc.parse_item(item(CLICK, pending_safety_checks=checks, acknowledged_safety_checks=checks))
    cc.require_acknowledged(call)
    assert cc.output_item(call, b"")["acknowledged_safety_checks"] == checks


def test_acknowledging_one_check_leaves_the_other_open():
    """Each pending check needs its own acknowledgement."""
    raw = item(
        CLICK,
        pending_safety_checks=[{"id": "a"}, {"id": "b"}],
        acknowledged_safety_checks=[{"id": "a"}],
    )
    assert [check["id"] for check in cc.parse_item(raw).unacknowledged] == ["b"]


def test_up_to_64_actions_are_one_batch():
    """The batch has the caller's own request id and asks for the screenshot."""
    raw = item(*[CLICK] * 64)
    (only,) = cc.batches(request(raw), cc.parse_item(raw))
    assert only.request_id == "r1"
    assert only.epoch == 3
    assert only.screenshot
    assert only.screenshot_id is None


def test_more_are_chunked_in_order():
    """130 actions are three batches; only the last takes a screenshot."""
    raw = item(*({**CLICK, "x": n} for n in range(130)))
    chunks = cc.batches(request(raw), cc.parse_item(raw))
    assert [c.request_id for c in chunks] == ["r1/0", "r1/1", "r1/2"]
    assert [len(c.inputs) for c in chunks] == [64, 64, 2]
    assert [c.screenshot for c in chunks] == [False, False, True]
    assert [x.x for c in chunks for x in c.inputs] == list(range(130))


def test_the_output_item_has_the_documented_shape():
    """computer_screenshot, a data URL, detail original, and nothing that was not there before."""
    assert cc.output_item(cc.parse_item(item(CLICK)), b"png") == {
        "type": "computer_call_output",
        "call_id": "call_1",
        "output": {
            "type": "computer_screenshot",
            "image_url": "data:image/png;base64,cG5n",
            "detail": "original",
        },
    }


def test_an_unsent_batch_says_so_input_by_input():
    """Nothing of it was sent: every input failed with the reason, waits without an effect."""
    raw = item(CLICK, {"type": "wait"})
    (batch,) = cc.batches(request(raw), cc.parse_item(raw))
    receipt = cc.unsent(batch, reason="screenshot_first", at=5)
    assert receipt.outcome is Outcome.FAILED
    assert [i.delivery.reason for i in receipt.inputs] == ["screenshot_first"] * 2
    assert [i.delivery.sent.units for i in receipt.inputs] == [0, 0]
    assert receipt.inputs[1].effect.outcome is None


@pytest.mark.parametrize(
    ("raw", "param"),
    [
        ([], None),
        ({"request_id": "r", "epoch": 1}, "item"),
        ({"request_id": "r", "epoch": 1, "item": []}, "item"),
        ({"request_id": "", "epoch": 1, "item": {}}, "request_id"),
        ({"request_id": "r" * 197, "epoch": 1, "item": {}}, "request_id"),
        ({"request_id": "a b", "epoch": 1, "item": {}}, "request_id"),
        ({"request_id": "r", "epoch": True, "item": {}}, "epoch"),
        ({"request_id": "r", "epoch": 1.0, "item": {}}, "epoch"),
        ({"request_id": "r", "epoch": 1, "item": {}, "extra": 1}, "extra"),
    ],
)
def test_a_malformed_envelope_names_its_fault(raw, param):
    """request_id, epoch and item are checked before the item is looked into."""
    with pytest.raises(errors.InvalidRequest) as caught:
        cc.parse_request(raw)
    assert caught.value.param == param
