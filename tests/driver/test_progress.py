"""What a kill -9 would leave of a batch, at every moment that it is dispatched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio

from bodyd.contract.actions import parse_input_request
from bodyd.contract.atoms import Atom, count, plan
from bodyd.contract.geometry import Point
from bodyd.display.display import Scene
from bodyd.display.input import SendReport
from bodyd.driver.dispatcher import Batch, dispatch
from bodyd.journal.progress import Progress, open_progress
from bodyd.journal.traces import Reached, Trace, trace

SEQUENCE = 3


class Always:
    valid = True


class TracedDisplay:
    """Takes atoms, and writes down what the trace says while each may be on the wire."""

    def __init__(self, progress: Progress, stop_at: tuple[int, int] | None = None) -> None:
        self._progress = progress
        self._stop_at = stop_at
        self._inputs = 0
        self.while_sending: list[Trace] = []

    async def send(
        self, atoms: Sequence[Atom], permit: object, note: Callable[[int], None], focus: int | None
    ) -> SendReport:
        of = count(tuple(atoms))
        for unit in range(of):
            if (self._inputs, unit) == self._stop_at:
                return SendReport(sent=unit, of=of, failure="interrupted")
            self.while_sending.append(self.trace())
            note(unit + 1)
        self._inputs += 1
        return SendReport(sent=of, of=of)

    async def paste(self, text: str, permit: object) -> SendReport:
        self.while_sending.append(self.trace())
        return SendReport(sent=1, of=1)

    async def scene(self) -> Scene:
        return Scene()

    async def release_all(self) -> None:
        pass

    def trace(self) -> Trace:
        return trace(self._progress.words(), SEQUENCE)


@pytest.fixture
def progress(tmp_path: Path) -> Iterator[Progress]:
    with open_progress(tmp_path / "progress") as progress:
        yield progress


async def run(progress: Progress, display: TracedDisplay, *inputs: dict[str, Any]) -> None:
    raw = {"request_id": "r", "epoch": 1, "inputs": list(inputs), "binding": "none"}
    request = parse_input_request(raw)
    marks = progress.marks(SEQUENCE)
    batch = Batch(
        request=request,
        atoms=tuple(plan(action, lambda x, y: Point(x=x, y=y)) for action in request.inputs),
        sight=None,
        permit=Always(),
        interrupted=trio.Event(),
        scene=Scene(),
        same_pixels=lambda *_: pytest.fail("nothing is bound"),
        note=marks.note,
        reached=marks.reached,
    )
    await dispatch(batch, display)


async def test_while_an_atom_may_be_on_the_wire_the_trace_never_says_that_it_was_not_sent(progress):
    """Of each input, from its first atom to its last: at least so many, and never exactly."""
    display = TracedDisplay(progress)
    await run(
        progress,
        display,
        {"type": "type", "text": "ab"},
        {"type": "paste", "text": "c"},
        {"type": "move", "x": 1, "y": 1},
    )
    assert display.while_sending == [
        Reached(0, 0, exact=False),
        Reached(0, 1, exact=False),
        Reached(1, 0, exact=False),
        Reached(2, 0, exact=False),
    ]
    assert display.trace() == Reached(3, 0, exact=True)


async def test_an_input_that_stopped_leaves_its_exact_count(progress):
    """Nothing more is on its way: a kill now is told as a failure, not as a doubt."""
    display = TracedDisplay(progress, stop_at=(1, 2))
    await run(progress, display, {"type": "type", "text": "ab"}, {"type": "type", "text": "abc"})
    assert display.trace() == Reached(1, 2, exact=True)
