"""The timeline: newest first, page by page, and no word of what was typed."""

from __future__ import annotations

import json
from pathlib import Path

from bodyd.clock import Clock
from bodyd.config import JournalConfig
from bodyd.contract.actions import Click, Expect, InputRequest, Keypress, Type
from bodyd.contract.receipts import Outcome, Receipt
from bodyd.journal.journal import open_journal


def batch(number: int) -> InputRequest:
    inputs = (
        Click(x=number, y=2, expect=Expect(field="window_title", contains="hunter2")),
        Type(text="hunter2"),
        Keypress(keys=("h",)),
        Keypress(keys=("CTRL", "s")),
    )
    return InputRequest(request_id=f"r{number}", epoch=1, screenshot_id="shot_1", inputs=inputs)


async def test_what_was_done_is_told_newest_first_without_typed_text(tmp_path: Path):
    """A text is its length, a typed key is a key; a running request has no receipt yet."""
    key = b"k" * 32
    async with open_journal(tmp_path, clock=Clock(), settings=JournalConfig(), key=key) as journal:
        for number in (1, 2, 3):
            await journal.begin(journal.intent(batch(number), conversation_id="talk", lease_id="l"))
        done = Receipt(
            request_id="r1",
            epoch=1,
            screenshot_id="shot_1",
            started_at=1,
            completed_at=2,
            outcome=Outcome.CONFIRMED,
            inputs=(),
            settled=True,
        )
        await journal.finish("r1", done)
        found = await journal.history(before=None, limit=2)
        assert [one["request_id"] for one in found] == ["r3", "r2"]
        (first,) = await journal.history(before=found[-1]["sequence"], limit=9)
    click, text, typed, chord = first["inputs"]
    assert (click["x"], click["y"], click["button"]) == (1, 2, "left")
    assert text["text"] == {"length": 7}
    assert typed["keys"] == ["a key"]
    assert chord["keys"][-1] == "s"
    assert (first["conversation_id"], first["epoch"], first["screenshot_id"]) == ("talk", 1, "shot_1")
    assert (first["receipt"]["outcome"], found[0]["receipt"]) == ("confirmed", None)
    told = json.dumps([first, *found])
    assert "hunter2" not in told
    assert "digest" not in told
