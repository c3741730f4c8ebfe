"""The pure core: items and tools in, the upstream copy out, and public shapes back again."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import pytest
from bodyd_adapters.responses import dumping, lowering, memory, pairs, pictures, registry, restoring, wire
from bodyd_adapters.responses.registry import Handlers, Owner, Registry
from bodyd_adapters.responses.restoring import Malformed

from bodyd.errors import BodydError, CallMismatch, InvalidRequest, UnknownType, UnsupportedTool

Json = dict[str, Any]
NONE: frozenset[str] = frozenset()
BOTH = Handlers(computer=True, shell=True)

ACTIONS: list[Json] = [
    {"type": "click", "button": "left", "x": 10, "y": 20, "keys": ["CTRL"]},
    {"keys": None, "type": "double_click", "x": 1, "y": 2},
    {"type": "move", "x": 3, "y": 4},
    {"path": [{"x": 1, "y": 1}, {"x": 9, "y": 9}], "type": "drag", "keys": ["SHIFT"]},
    {"scroll_x": 0, "scroll_y": 300, "type": "scroll", "x": 5, "y": 6},
    {"keys": ["CTRL", "L"], "type": "keypress"},
    {"text": "héllo\n", "type": "type"},
    {"type": "wait"},
    {"type": "screenshot"},
    {"type": "pinch", "scale": 1.5, "future": {"a": [1]}},
]
CALL: Json = {
    "id": "cu_1",
    "call_id": "c1",
    "pending_safety_checks": [{"id": "sc", "code": None, "message": "m"}],
    "status": "completed",
    "type": "computer_call",
    "actions": ACTIONS,
    "unknown_field": {"kept": True},
}
SHELL: Json = {
    "type": "shell_call",
    "id": "sh_1",
    "call_id": "s1",
    "action": {"commands": ["ls", "id"], "timeout_ms": 5, "max_output_length": None, "new": 1},
    "status": "completed",
}


def made(*tools: Json, native: frozenset[str] = NONE, handlers: Handlers | None = None) -> Registry:
    return registry.build(wire.tools(list(tools)), native=native, handlers=handlers or Handlers())


def test_every_action_keeps_its_fields_and_place():
    """A computer_call passes the wire unchanged, future actions and unknown fields included."""
    assert wire.item(copy.deepcopy(CALL), param="x") == CALL
    assert list(wire.item(CALL, param="x")["actions"][0]) == list(ACTIONS[0])


def test_what_clients_replay_is_normalised():
    """JS sends the first action beside the list, and drops empty checks; the preview form has one action."""
    replayed = {**CALL, "action": ACTIONS[0]}
    assert "action" not in wire.item(replayed, param="x")
    preview = {"type": "computer_call", "call_id": "c", "action": ACTIONS[0], "actions": None}
    checked = wire.item(preview, param="x")
    assert "actions" not in checked
    assert checked["pending_safety_checks"] == []
    aliased = {
        "type": "computer_call_output",
        "call_id": "c",
        "output": {"type": "input_image", "image_url": "u"},
    }
    assert wire.item(aliased, param="x")["output"]["type"] == "computer_screenshot"
    empty = {
        "type": "computer_call_output",
        "call_id": "c",
        "output": {"type": "computer_screenshot", "image_url": ""},
    }
    assert wire.item(empty, param="x")["output"]["image_url"] == ""
    assert wire.item({"role": "user", "content": "hi"}, param="x")["content"] == [
        {"type": "input_text", "text": "hi"}
    ]
    assert wire.item({"id": "msg_1"}, param="x")["type"] == "item_reference"


OUT = {"type": "shell_call_output", "call_id": "s"}
CHUNK = {"stdout": "", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}


@pytest.mark.parametrize(
    ("raw", "param"),
    [
        ("text", "x"),
        ({}, "x.type"),
        ({"type": 3}, "x.type"),
        ({"type": "quantum_call"}, "x.type"),
        ({"type": "local_shell_call", "call_id": "c"}, "x.type"),
        ({"type": "message", "role": "wizard", "content": ""}, "x.role"),
        ({"type": "message", "role": "user", "content": 3}, "x.content"),
        ({"type": "message", "role": "user", "content": ["x"]}, "x.content[0].type"),
        ({"type": "computer_call", "actions": []}, "x.call_id"),
        ({"type": "computer_call", "call_id": "c"}, "x.actions"),
        ({"type": "computer_call", "call_id": "c", "actions": "all"}, "x.actions"),
        ({"type": "computer_call", "call_id": "c", "actions": [{}]}, "x.actions[0].type"),
        (
            {"type": "computer_call", "call_id": "c", "actions": [], "pending_safety_checks": 1},
            "x.pending_safety_checks",
        ),
        ({"type": "computer_call_output", "call_id": "c"}, "x.output"),
        ({"type": "computer_call_output", "call_id": "c", "output": {"type": "text"}}, "x.output.type"),
        (
            {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot"}},
            "x.output.image_url",
        ),
        ({"type": "shell_call", "call_id": "s"}, "x.action"),
        ({"type": "shell_call", "call_id": "s", "action": {"commands": []}}, "x.action.commands"),
        ({"type": "shell_call", "call_id": "s", "action": {"commands": ["a", 1]}}, "x.action.commands"),
        (
            {"type": "shell_call", "call_id": "s", "action": {"commands": ["a"], "timeout_ms": "1"}},
            "x.action.timeout_ms",
        ),
        (OUT, "x.output"),
        ({**OUT, "output": ["x"]}, "x.output[0]"),
        ({**OUT, "output": [{**CHUNK, "stdout": None}]}, "x.output[0].stdout"),
        ({**OUT, "output": [{**CHUNK, "outcome": "ok"}]}, "x.output[0].outcome"),
        (
            {**OUT, "output": [{**CHUNK, "outcome": {"type": "exit", "exit_code": "0"}}]},
            "x.output[0].outcome.exit_code",
        ),
        ({"type": "function_call", "call_id": "c", "name": "", "arguments": ""}, "x.name"),
        ({"type": "function_call_output", "call_id": "c", "output": 3}, "x.output"),
        ({"type": "item_reference"}, "x.id"),
        ({"type": "apply_patch_call", "call_id": "c"}, "x.operation"),
    ],
    ids=str,
)
def test_malformed_items_are_refused_by_name(raw: Any, param: str):
    """A 400 names the field at fault."""
    with pytest.raises(InvalidRequest) as caught:
        wire.item(raw, param="x")
    assert caught.value.param == param


@pytest.mark.parametrize(
    "outcome",
    [{"type": "timeout"}, {"type": "exit", "exit_code": None}, {"type": "killed", "by": "us"}],
    ids=str,
)
def test_outcomes_are_kept(outcome: Json):
    """Timeouts, exits without a code (agents sends them), and outcomes yet to come."""
    item = {**OUT, "output": [{**CHUNK, "outcome": outcome, "created_by": "x"}], "max_output_length": 7}
    assert wire.item(item, param="x") == item


def test_unknown_types_pass_only_where_configured():
    """Refused by name, unless passthrough."""
    with pytest.raises(UnknownType, match="quantum"):
        wire.tools([{"type": "quantum"}])
    assert wire.tools([{"type": "quantum", "x": 1}], passthrough=True) == [{"type": "quantum", "x": 1}]
    assert wire.item({"type": "quantum_call", "x": 1}, param="x", passthrough=True)["x"] == 1


@pytest.mark.parametrize(
    "tool", [{"type": "local_shell"}, {"type": "mcp", "server_label": "x"}, {"type": "file_search"}]
)
def test_tools_that_cant_be_offered(tool: Json):
    """The legacy shell names the current one; hosted tools that the server lacks are refused."""
    with pytest.raises(UnsupportedTool):
        made(tool)


def test_tools_that_are_left_out_or_native():
    """web_search is left out where the server lacks it, and sent where it has it, dated or not."""
    found = made({"type": "web_search_2025_08_26"}, {"type": "tool_search"})
    assert found.left_out == ("web_search_2025_08_26", "tool_search")
    assert found.upstream_tools == []
    tool = {"type": "web_search_2025_08_26", "filters": {}}
    assert made(tool, native=frozenset({"web_search"})).upstream_tools == [tool]


@pytest.mark.parametrize("tool", ["computer", "shell"])
def test_declared_twice(tool: str):
    """One built-in tool of a kind."""
    with pytest.raises(InvalidRequest):
        made({"type": tool}, {"type": tool})


def test_ownership():
    """The client's, unless configured and plainly local."""
    tools = [{"type": "computer"}, {"type": "shell", "environment": {"type": "local"}}]
    assert made(*tools).owner("computer_call") is Owner.CLIENT
    both = made(*tools, handlers=BOTH)
    assert (both.owner("computer_call"), both.owner("shell_call")) == (Owner.GATEWAY, Owner.GATEWAY)
    assert made(handlers=BOTH).owner("computer_call") is Owner.CLIENT, "undeclared"
    skilled = {"type": "shell", "environment": {"type": "local", "skills": [{"name": "x"}]}}
    assert made(skilled, handlers=BOTH).owner("shell_call") is Owner.CLIENT


def test_a_clients_function_of_the_same_name_is_renamed_on_the_way():
    """The stand-in keeps its name; the client's comes back under its own."""
    mine = {"type": "function", "name": "computer", "parameters": {}}
    found = made(mine, {"type": "computer"})
    names = [tool["name"] for tool in found.upstream_tools]
    assert names == ["computer_2", "computer"]
    call = {"type": "function_call", "id": "f", "call_id": "c", "name": "computer_2", "arguments": "{}"}
    assert restoring.item(call, found)["name"] == "computer"
    assert lowering.items([{**call, "name": "computer"}], found, native=NONE)[0]["name"] == "computer_2"
    restored = restoring.item({**call, "name": "computer", "arguments": '{"actions": []}'}, found)
    assert restored["type"] == "computer_call"
    assert lowering.tool_choice({"type": "function", "name": "computer"}, found)["name"] == "computer_2"


def test_namespaces():
    """Their functions are flattened on the way and come back with their namespace."""
    space = {"type": "namespace", "name": "crm", "tools": [{"type": "function", "name": "find"}]}
    found = made(space)
    assert [tool["name"] for tool in found.upstream_tools] == ["crm__find"]
    call = {"type": "function_call", "id": "f", "call_id": "c", "name": "crm__find", "arguments": "{}"}
    restored = restoring.item(call, found)
    assert (restored["name"], restored["namespace"]) == ("find", "crm")
    assert lowering.items([restored], found, native=NONE)[0] == call


PICTURE = {"type": "computer_screenshot", "image_url": "data:image/png;base64,AAAA", "detail": "original"}
SCREEN = {"type": "computer_call_output", "call_id": "c1", "output": PICTURE}


def test_a_round_trip_through_functions_loses_nothing():
    """computer, shell, apply_patch and custom calls: lowered, answered by a model, restored."""
    tools = [
        {"type": "computer"},
        {"type": "shell"},
        {"type": "apply_patch"},
        {"type": "custom", "name": "sql"},
    ]
    found = made(*tools)
    calls = [
        CALL,
        SHELL,
        {
            "type": "apply_patch_call",
            "id": "a",
            "call_id": "p1",
            "status": "completed",
            "operation": {"type": "update_file", "path": "x", "diff": "@@"},
        },
        {"type": "custom_tool_call", "id": "b", "call_id": "q1", "name": "sql", "input": "select 1"},
    ]
    for call in calls:
        (sent,) = lowering.items([call], found, native=NONE)
        assert sent["type"] == "function_call"
        back = restoring.item({**sent, "status": "completed"}, found)
        assert not isinstance(back, Malformed)
        for name in ("type", "call_id", "actions", "operation", "input", "name"):
            assert back.get(name) == call.get(name)
        if call is SHELL:
            assert back["action"] == SHELL["action"]
            assert back["environment"] == {"type": "local"}


def test_native_servers_get_public_shapes():
    """What the server has itself passes as it is; notes follow as a developer's message."""
    found = made({"type": "computer"}, native=frozenset({"computer"}))
    noted = {**SCREEN, "bodyd_note": "watch out"}
    sent = lowering.items([CALL, noted], found, native=frozenset({"computer"}))
    assert sent[:2] == [CALL, SCREEN]
    assert sent[2]["content"][0]["text"] == "watch out"


def test_screenshots_in_the_tool_message_or_after_the_outputs():
    """Both lowerings; a user message never stands between two outputs of a round."""
    found = made({"type": "computer"}, {"type": "shell"})
    answers = [CALL, SHELL, SCREEN, {**OUT, "call_id": "s1", "output": [CHUNK]}]
    inside = lowering.items(answers, found, native=NONE)
    assert inside[2]["output"][0] == {
        "type": "input_image",
        "image_url": PICTURE["image_url"],
        "detail": "high",
    }
    after = lowering.items(answers, found, native=NONE, images="user")
    assert [item["type"] for item in after] == [
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
        "message",
    ]
    assert isinstance(after[2]["output"], str)
    assert after[4]["content"][1]["image_url"] == PICTURE["image_url"]


def test_reasoning_is_sent_back_only_where_it_is_read():
    """Encrypted reasoning leaves the copy unless the server takes it; readable text stays."""
    item = {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "x"}
    assert lowering.items([item], made(), native=NONE) == []
    assert lowering.items([item], made(), native=NONE, encrypted_reasoning=True) == [item]
    told = {**item, "summary": [{"type": "summary_text", "text": "hm"}]}
    assert "encrypted_content" not in lowering.items([told], made(), native=NONE)[0]


@pytest.mark.parametrize(
    ("choice", "lowered"),
    [
        ("required", "required"),
        ({"type": "computer"}, {"type": "function", "name": "computer"}),
        ({"type": "computer_use_preview"}, {"type": "function", "name": "computer"}),
        ({"type": "shell"}, {"type": "function", "name": "shell"}),
        ({"type": "custom", "name": "sql"}, {"type": "function", "name": "sql"}),
        ({"type": "web_search"}, "auto"),
        (
            {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "computer"}, {"type": "web_search"}],
            },
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "computer"}]},
        ),
    ],
    ids=str,
)
def test_tool_choice_is_lowered(choice: Any, lowered: Any):
    """A choice names what the server knows."""
    tools = [
        {"type": "computer"},
        {"type": "shell"},
        {"type": "custom", "name": "sql"},
        {"type": "web_search"},
    ]
    assert lowering.tool_choice(choice, made(*tools)) == lowered


@pytest.mark.parametrize("arguments", ["", "{", "[]", '{"actions": 3}', '{"actions": [{"x": 1}]}'])
def test_arguments_that_make_no_sense(arguments: str):
    """They are malformed, with a reason, and never half of a call."""
    call = {"type": "function_call", "id": "f", "call_id": "c", "name": "computer", "arguments": arguments}
    assert isinstance(restoring.item(call, made({"type": "computer"})), Malformed)


def test_small_models_are_understood():
    """One bare action, or one command as a string, is what it plainly means."""
    found = made({"type": "computer"}, {"type": "shell"})
    call = {"type": "function_call", "id": "f", "call_id": "c"}
    bare = restoring.item({**call, "name": "computer", "arguments": '{"type": "wait"}'}, found)
    assert bare["actions"] == [{"type": "wait"}]
    command = restoring.item({**call, "name": "shell", "arguments": '{"commands": "ls"}'}, found)
    assert command["action"] == {"commands": ["ls"], "timeout_ms": None, "max_output_length": None}


# -- pairs --------------------------------------------------------------------------------------------

ANSWER = {"type": "function_call_output", "call_id": "f", "output": "1"}
ASKED = {"type": "function_call", "call_id": "f", "name": "x", "arguments": ""}


@pytest.mark.parametrize(
    ("items", "told"),
    [
        ([SCREEN], "computer_call_output"),
        ([CALL], "computer_call 'c1'"),
        ([CALL, {**ANSWER, "call_id": "c1"}], "computer_call is answered by a computer_call_output"),
        ([ASKED, ANSWER, ANSWER], "has an output already"),
        ([ASKED, ANSWER, ASKED], "used before"),
        ([SCREEN, CALL], "No tool call found"),
    ],
    ids=["orphan", "unanswered", "other kind", "twice", "id reused", "order"],
)
def test_calls_and_outputs_pair(items: list[Json], told: str):
    """The refusal names the public type and the call_id."""
    with pytest.raises(CallMismatch, match=told):
        pairs.check([(item, f"input[{index}]") for index, item in enumerate(items)])


def test_outputs_may_come_in_any_order():
    """They match by call_id."""
    pairs.check([(item, "") for item in (CALL, ASKED, ANSWER, SCREEN)])


# -- pictures -----------------------------------------------------------------------------------------


def url(size: int, fill: int = 0) -> str:
    return "data:image/png;base64," + base64.b64encode(bytes([fill]) * size).decode()


def screen(size: int, fill: int) -> Json:
    return {
        "type": "computer_call_output",
        "call_id": f"c{fill}",
        "output": {"type": "computer_screenshot", "image_url": url(size, fill), "detail": "original"},
    }


def test_pictures_leave_and_come_back():
    """The item keeps a reference alone; put back, it is what it was; http URLs are untouched."""
    images: dict[str, bytes] = {}
    shot = screen(30, 1)
    said = {
        "type": "message",
        "role": "user",
        "content": [
            {"type": "input_image", "image_url": url(30, 1)},
            {"type": "input_image", "image_url": "https://x/y.png"},
        ],
    }
    stored = [pictures.take(item, images) for item in (shot, said)]
    assert len(images) == 1
    assert "base64" not in json.dumps(stored)
    assert [pictures.put_back(item, images) for item in stored] == [shot, said]
    referred = pictures.by_reference(stored[0])["output"]
    assert referred["file_id"] == f"img_{next(iter(images))}"
    again = pictures.take({**shot, "output": referred}, {})
    assert pictures.hashes(again) == pictures.hashes(stored[0])


@pytest.mark.parametrize("bad", ["data:image/png;base64,%%%", "data:image/png,abc", "data:;base64,A"])
def test_pictures_that_are_none(bad: str):
    """A data URL that can't be read is refused by name."""
    with pytest.raises(BodydError) as caught:
        pictures.take({**SCREEN, "output": {**PICTURE, "image_url": bad}}, {}, param="input[0]")
    assert caught.value.param == "input[0]"


def test_the_oldest_pictures_leave_first():
    """Within the budget the newest stay; a note stands for each that left, and the history is untouched."""
    images: dict[str, bytes] = {}
    stored = [pictures.take(screen(300, fill), images) for fill in range(5)]
    before = copy.deepcopy(stored)
    sizes = {digest: len(data) for digest, data in images.items()}
    kept, stay = pictures.within(stored, sizes, 900)
    assert stored == before
    assert len(stay) == 2
    assert [bool(pictures.hashes(item)) for item in kept] == [False, False, False, True, True]
    assert "left out" in kept[0]["bodyd_note"]
    assert pictures.within(stored, sizes, 0)[1] == [pictures.hashes(item)[0] for item in reversed(stored)]


def test_a_picture_that_is_gone_is_a_note():
    """One past its retention doesn't stop the conversation, nor the others."""
    images: dict[str, bytes] = {}
    stored = [pictures.take(screen(300, fill), images) for fill in range(2)]
    first = pictures.hashes(stored[0])[0]
    kept, stay = pictures.within(stored, {first: 300}, 10_000)
    assert stay == [first]
    assert "left out" in kept[1]["bodyd_note"]


def test_pictures_are_spliced_into_what_is_sent():
    """The bytes are those of the whole made to JSON; media types that JSON would escape are no exception."""
    images: dict[str, bytes] = {}
    kinds = ("image/png", 'image/"odd"', "image/svg+xml")
    shown = [{**SCREEN, "output": {**PICTURE, "image_url": f"data:{kind};base64,AAAA"}} for kind in kinds]
    stored = [pictures.take(item, images) for item in (*shown, SCREEN)]
    gone = {**SCREEN, "output": {**PICTURE, "image_url": "bodyd-image:0000;image/png"}}
    body = {"input": [*stored, gone], "n": float("nan")}
    spliced = [pictures.put_back(item, images, spliced=True) for item in body["input"]]
    sent = json.loads(dumping.dump({**body, "input": spliced}, "mark"))
    whole = [pictures.put_back(item, images) for item in body["input"]]
    assert sent == json.loads(json.dumps({"input": whole, "n": None}))
    assert sent["input"][:3] == shown
    assert sent["input"][4]["output"]["file_id"] == "img_0000"
    assert json.loads(dumping.dump({"no": "pictures"}, "mark")) == {"no": "pictures"}


def test_pictures_are_read_once():
    """What was sound lately is not read again; a bad one is refused each time."""
    recent = pictures.Recent()
    recent.MOST = 2
    for _ in range(2):
        pictures.take(SCREEN, {}, recent=recent)
        with pytest.raises(InvalidRequest):
            pictures.take(
                {**SCREEN, "output": {**PICTURE, "image_url": "data:image/png;base64,%%%%"}},
                {},
                recent=recent,
            )
    (digest,) = pictures.hashes(pictures.take(SCREEN, {}, recent=recent))
    assert digest in recent
    recent.add("1")
    recent.add("2")
    assert digest not in recent


def test_freed_memory_is_kept(monkeypatch: pytest.MonkeyPatch):
    """Where the C library can; elsewhere it says that it can't."""
    assert memory.keep_freed()
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    assert not memory.keep_freed()
