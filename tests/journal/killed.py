"""A door in small, to be killed: begins, sends to an app that keeps its own log, finishes, tells.

Run as `python -m tests.journal.killed`. Each line of stdin, `DIRECTORY LOG FIRST POINT`, starts one;
on stdout, unbuffered, come `pid PID`, then one line for each thing that has become durable, `begun
ID` or `finished ID`, then `died STATUS`. POINT names a moment at which it kills itself in its first
batch; "-" leaves that to others.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trio

from bodyd.clock import Clock
from bodyd.config import JournalConfig
from bodyd.contract.actions import InputRequest
from bodyd.contract.atoms import units
from bodyd.journal import requests
from bodyd.journal.journal import Journal, New, open_journal
from bodyd.journal.progress import Marks

from .batches import CLICK, KEY, receipt, request

POINTS = ("begun", "marked", "first_atom", "between", "last_input", "sent", "in_finish", "finished")


class Door:
    def __init__(self, journal: Journal, log: int, point: str) -> None:
        self._journal = journal
        self._log = log
        self._point = point

    async def batch(self, request_id: str) -> None:
        asked = request(request_id, CLICK, {"type": "type", "text": "abc"}, CLICK)
        intent = self._journal.intent(asked, conversation_id="conv", lease_id="lease")
        begun = await self._journal.begin(intent)
        assert isinstance(begun, New)
        tell("begun", request_id)
        self._die_at("begun")
        marks = begun.dispatching()
        self._die_at("marked")
        self._dispatch(asked, marks)
        self._die_at("sent")
        with self._dying_in_the_transaction():
            await self._journal.finish(request_id, receipt(asked))
        self._die_at("finished")
        tell("finished", request_id)

    def _dispatch(self, asked: InputRequest, marks: Marks) -> None:
        for index, action in enumerate(asked.inputs):
            for unit in range(units(action)):
                marks.note(index, unit)
                os.write(self._log, f"{asked.request_id} {index}\n".encode())
                if index == unit == 0:
                    self._die_at("first_atom")
            marks.reached(index + 1)
            self._die_at("between" if index == 0 else "last_input" if index == 2 else "")

    @contextmanager
    def _dying_in_the_transaction(self) -> Iterator[None]:
        """After the rows of the receipt are written and before they are committed."""
        append = requests.chain.append

        def dying(*args, **kwargs):
            append(*args, **kwargs)
            self._die_at("in_finish")

        requests.chain.append = dying
        try:
            yield
        finally:
            requests.chain.append = append

    def _die_at(self, point: str) -> None:
        if point == self._point:
            os.kill(os.getpid(), signal.SIGKILL)


def tell(what: str, request_id: str) -> None:
    os.write(1, f"{what} {request_id}\n".encode())


async def main(directory: str, log: str, first: str, point: str) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    async with open_journal(Path(directory), clock=Clock(), settings=JournalConfig(), key=KEY) as journal:
        door = Door(journal, descriptor, point)
        for number in range(int(first), 1 << 30):
            await door.batch(f"req-{number}")


def serve() -> None:
    """Fork a door for each line of stdin, and tell its pid and how it died: one import for many deaths."""
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            trio.run(main, *line.split())
            os._exit(0)
        tell("pid", str(pid))
        _, status = os.waitpid(pid, 0)
        tell("died", str(os.waitstatus_to_exitcode(status)))


if __name__ == "__main__":
    serve()
