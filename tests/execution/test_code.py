"""The code tool without a desktop: what a worker may say, how a call ends, and what is too much for it."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import trio

from bodyd.contract.code import CodeRequest
from bodyd.contract.inventory import Inventory
from bodyd.errors import EndNotRecorded, JournalUnavailable, LeaseError, PersonDriving, Unavailable
from bodyd.execution.code import Code, open_code
from bodyd.execution.code_output import Outcome
from bodyd.execution.code_ui import Desk
from tests.desktop.conftest import descendants

from .test_lease import FENCES
from .world import OWNER, SOON, World, left_once_written, revoked_once_written, until, world


class EmptyDesk:
    """A desktop without windows; `looked` is set at the first look at it."""

    def __init__(self) -> None:
        self.looked = trio.Event()

    async def inventory(self, **_: object) -> Inventory:
        self.looked.set()
        await trio.lowlevel.checkpoint()
        return Inventory.model_construct(windows=[])

    async def activate(self, *_: object, **__: object) -> None:
        raise AssertionError("nothing here may be activated")


class Coder:
    """A driver that sends code."""

    def __init__(self, w: World, tool: Code, desk: EmptyDesk) -> None:
        self.w, self.tool, self.desk = w, tool, desk

    async def __call__(self, code: str, **more: Any) -> Outcome:
        request = CodeRequest(code=code, **more)
        with trio.fail_after(SOON):
            return await self.tool.run(request, caller=OWNER, lease_token=self.w.token)

    def stream(self, code: str) -> Any:
        return self.tool.stream(CodeRequest(code=code), caller=OWNER, lease_token=self.w.token)

    async def text(self, code: str) -> str:
        outcome = await self(code)
        assert outcome.error is None, outcome.error
        return "".join(item["text"] for item in outcome.output)


@asynccontextmanager
async def coder() -> AsyncIterator[Coder]:
    desk = EmptyDesk()
    async with (
        world() as w,
        open_code(
            w.config,
            layout=w.layout,
            machine_id="0" * 32,
            desk=cast(Desk, desk),
            leases=w.leases,
            journal=w.journal,
        ) as tool,
    ):
        yield Coder(w, tool, desk)


FRAMES = {
    "an ask that is nested": "{'op': 'windows', 'args': {}, 'ask': nested}",
    "an ask that is no number": "{'op': 'windows', 'args': {}, 'ask': float('nan')}",
    "an ask beyond all numbers": "{'op': 'windows', 'args': {}, 'ask': 10 ** 4000}",
    "an ask that is missing": "{'op': 'windows', 'args': {}}",
    "a text that is nested": "{'op': 'text', 'text': nested}",
    "an error that is nested": "{'op': 'done', 'error': nested}",
    "an op that is nested": "{'op': nested, 'args': {}, 'ask': 1}",
}

FORGE = """
nested = []
for _ in range(900): nested = [nested]
ui._line.send({frame})
ui.windows()
"""


async def test_frames_of_the_wrong_types_end_the_worker():
    """None is echoed, printed or made a text: the worker dies, and the tool goes on."""
    async with coder() as run:
        for name, frame in FRAMES.items():
            outcome = await run(FORGE.replace("{frame}", frame))
            assert outcome.error is not None, name
            assert outcome.error["type"] == "worker", (name, outcome.error)
        assert await run.text("1 + 1") == "2\n"


async def test_arguments_nested_without_end_are_an_answer():
    """Refused as malformed, as deep as JSON can be read; the worker lives on."""
    code = """
said, deep = set(), []
for depth in range(900):
    deep = [deep]
    if depth % 60 == 0 or depth > 870:
        for op, name in zip(('inputs', 'launch', 'activate'), ('inputs', 'name', 'window_id')):
            try: ui._line.ask(op, **{name: [deep] if op == 'inputs' else deep})
            except UIError as exc: said.add(exc.code)
sorted(said)
"""
    async with coder() as run:
        assert await run.text(code) == "['invalid_request']\n"


async def test_half_a_frame_holds_up_nothing_but_its_call():
    """The call ends at its time, and the process with it."""
    async with coder() as run:
        outcome = await run("ui._line._wire.sendall(b'\\0\\0')\nimport time\ntime.sleep(60)", timeout_ms=300)
        assert outcome.error is not None
        assert outcome.error["type"] == "timeout"
        assert (await run("1")).state_lost


HOGS = {
    "files": "f = open('/tmp/f', 'wb')\nwhile True: f.write(bytes(1 << 20))",
    "threads": "import threading\nwhile True: threading.Thread(target=threading.Event().wait).start()",
    "descriptors": "import os\nheld = []\nwhile True: held.append(os.open('/tmp', 0))",
    "children": "import os, time\nwhile True:\n    if os.fork() == 0: time.sleep(600)",
}


@pytest.mark.parametrize("name", HOGS)
async def test_what_is_used_up_is_used_up_inside(name: str):
    """An exception in the code at most: the tool answers, and a fresh process has all of it again."""
    async with coder() as run:
        outcome = await run(HOGS[name], timeout_ms=5000)
        assert outcome.error is not None
        assert outcome.error["type"] in ("exception", "timeout", "worker")
        assert (await run("print(1 + 1)", reset=True)).output == [{"type": "input_text", "text": "2\n"}]
        assert await run.text("open('/tmp/g', 'wb').write(bytes(1 << 20))") == "1048576\n"


@pytest.mark.parametrize("fence", FENCES)
async def test_code_that_swallows_every_exception_ends_with_the_lease(fence: str):
    """It is not asked: the process is dead a moment after the lease, and the outcome says revoked."""
    code = """
while True:
    try:
        while True: ui.windows()
    except BaseException:
        pass
"""
    outcomes: list[Outcome] = []
    async with coder() as run, trio.open_nursery() as nursery:

        async def drive() -> None:
            outcomes.append(await run(code))

        nursery.start_soon(drive)
        await run.desk.looked.wait()
        with trio.fail_after(SOON):
            await FENCES[fence](run.w)
            assert await run.tool.quiesce()
        assert descendants() == []
        await until(lambda: bool(outcomes))
        assert outcomes[0].error is not None
        assert outcomes[0].error["type"] in ("revoked", "worker")
        with pytest.raises((LeaseError, PersonDriving)):
            await run("1")


async def test_a_reader_that_never_reads_holds_up_nothing():
    """Its code runs into its bounds and its end, and the body is given back as ever."""
    shown = "import numpy\nmark = numpy.zeros((99, 99, 3), 'uint8')\nfor n in range(400): display(mark)"
    async with coder() as run, run.stream(shown):
        assert await run.text("mark.shape") == "(99, 99, 3)\n"
        async with run.stream("while True: print('x' * 10_000)"):
            with trio.fail_after(SOON):
                await run.w.release()
                assert await run.tool.quiesce()
            assert descendants() == []


# What raises sooner or later: code that has ended leaves its process for the next call, and rightly so.
LEFT = tuple(
    f"import os\nwhile True:\n    try: {what}\n    except Exception: pass"
    for what in ("pass", "os.fork()", "ui.windows()", "print('x' * 10_000)")
)


async def test_left_at_any_moment_no_process_is_left(times):
    """A call that is left 0 to 300 ms after it was made: nothing runs, and the next one is answered."""
    chance = random.Random(4)
    async with coder() as run:
        for turn in range(times(150, 20)):
            with trio.move_on_after(chance.uniform(0, 0.3)):
                await run(LEFT[turn % len(LEFT)])
            await until(lambda: descendants() == [])
        assert await run.text("1 + 1") == "2\n"


async def test_two_calls_of_one_conversation_have_turns():
    """Never both at once in one process, and both are answered."""
    code = "import time\nbusy = globals().get('busy', 0) + 1\ntime.sleep(0.05)\nprint(busy)\nbusy -= 1"
    said: list[str] = []
    async with coder() as run:

        async def one() -> None:
            said.append(await run.text(code))

        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(one)
    assert said == ["1\n"] * 4


async def test_an_end_that_can_not_be_written_down_is_no_reason_to_ask_again(
    monkeypatch: pytest.MonkeyPatch,
):
    """The code has run: the error says so and is not retryable; a cancelled call is cancelled."""

    async with coder() as run:
        _forget_ends(run, monkeypatch)
        with pytest.raises(EndNotRecorded) as caught:
            await run("mark = 1")
        assert not caught.value.retryable
        assert await _text_of_unrecorded(run) == "1\n"
        with trio.move_on_after(0.3) as patience:
            await run("while True: pass")
        assert patience.cancelled_caught


async def _text_of_unrecorded(run: Coder) -> str:
    """What a stream tells before its error."""
    async with run.stream("mark") as happenings:
        told = await anext(happenings)
        with pytest.raises(EndNotRecorded):
            await anext(happenings)
    return cast(str, told.value)


def _forget_ends(run: Coder, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = run.w.journal.audit

    async def full(kind: str, data: Any) -> int:
        if kind == "code.ended":
            raise JournalUnavailable("the disk is full")
        return await kept(kind, data)

    monkeypatch.setattr(run.w.journal, "audit", full)


async def test_every_call_on_record_has_its_end_there(monkeypatch: pytest.MonkeyPatch):
    """Also one whose lease ends, or whose client leaves, while it is being written down."""
    async with coder() as run:
        with revoked_once_written(run.w, "code.call", monkeypatch), pytest.raises(LeaseError):
            await run("1 + 1")
        await run.w.acquire()
        with trio.CancelScope() as client, left_once_written(run.w, "code.call", client, monkeypatch):
            await run("1 + 1")
        assert await run.text("1 + 1") == "2\n"
        calls, ends = await run.w.audited("code.call"), await run.w.audited("code.ended")
    assert [one["call_id"] for one in ends] == [one["call_id"] for one in calls]
    assert [one["end"] for one in ends] == ["stale_lease", "cancelled", "ended"]


async def test_what_can_not_be_shown_is_named():
    """A path is no picture: the error says what would be, and not what the library missed in it."""
    async with coder() as run:
        outcome = await run("display('shot.png')")
    assert outcome.error is not None
    assert "display() takes a PIL image, an array or a PNG's bytes, not str" in outcome.error["message"]


async def test_a_stream_of_a_tool_that_closes_is_refused(monkeypatch: pytest.MonkeyPatch):
    """Closed before the call was admitted, it says so, and is no stream without an end."""
    async with coder() as run:
        asked = trio.Event()

        async def never(kind: str, data: Any) -> int:
            asked.set()
            await trio.sleep_forever()
            raise AssertionError

        monkeypatch.setattr(run.w.journal, "audit", never)

        async def close() -> None:
            await asked.wait()
            assert run.tool._nursery is not None
            run.tool._nursery.cancel_scope.cancel(reason="the daemon stops")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(close)
            with pytest.raises(Unavailable, match="closing"), trio.fail_after(SOON):
                async with run.stream("1"):
                    pass
