"""exec_py on a real body: what is too much, what is left running, and what is told while code runs."""

from __future__ import annotations

import http.client
import json
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import trio

from bodyd.client import BodyClient, ClientLease
from bodyd.client_streams import Lines
from bodyd.contract.code import MAX_TEXT_BYTES
from bodyd.contract.lease import Scope
from bodyd.desktop.ledger import descendants
from bodyd.errors import LeaseRequired
from bodyd.http.tokens import read_token
from bodyd.journal.audit import read_audit
from tests.display.world import until

from .test_code import ATTACKS, lease, text  # noqa: F401 (lease is a fixture)
from .world import World

PATH = "/v1/tools/exec_py"


@pytest.fixture(autouse=True)
def _same_lease(lease: ClientLease) -> None:  # noqa: F811
    """Every test here has a worker of its own."""


async def kept(lease: ClientLease) -> bool:  # noqa: F811
    """Whether the worker is the one that set `mark`."""
    answer = await lease.exec_py("mark")
    return answer["error"] is None and not answer["state_lost"]


@pytest.mark.parametrize(
    ("code", "omitted"),
    [
        ("for n in range(40_000): print(n)", "omitted_bytes"),
        ("print('x' * 50_000_000)", "omitted_bytes"),
        ("import numpy; display(numpy.random.randint(0, 256, (2000, 2000, 3), 'uint8'))", "omitted_images"),
        ("for n in range(5_000): display(dot)", "omitted_images"),
    ],
)
async def test_too_much_is_left_out_and_costs_no_state(lease: ClientLease, code: str, omitted: str):  # noqa: F811
    """A loop that prints or shows without end is a mistake, not an attack."""
    await lease.exec_py("from PIL import Image\nmark, dot = 1, Image.new('CMYK', (1, 1))")
    answer = await lease.exec_py(code)
    assert answer["error"] is None, answer["error"]
    assert answer[omitted] > 0
    assert len(text(answer).encode()) <= MAX_TEXT_BYTES
    assert await kept(lease)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise ValueError('y' * 10_000_000 + 'the end')", "the end"),
        ("def f(): f()\nf()", "RecursionError"),
        ("hoard = bytearray(3 * 1024**3)", "MemoryError"),
        ("1 +", "SyntaxError"),
        ("class E(Exception):\n    def __str__(self): raise self\nraise E", "E: <exception str() failed>"),
        ("raise SystemExit('tired')", "SystemExit: tired"),
        ("ui.click(1)", "TypeError"),
        ("ui.click(99999, 1)", "UIError"),
        ("ui._line.ask('launch_missiles')", "`ui` has no"),
    ],
)
async def test_what_fails_says_so_and_costs_no_state(lease: ClientLease, code: str, said: str):  # noqa: F811
    """The end of the traceback, in bounds."""
    await lease.exec_py("mark = 1")
    answer = await lease.exec_py(code)
    assert answer["error"]["type"] == "exception"
    assert said in answer["error"]["message"]
    assert len(answer["error"]["message"]) < 10_000
    assert await kept(lease)


async def test_threads_and_children_keep_out_of_the_way(lease: ClientLease):  # noqa: F811
    """An alarm in the middle of a wait, a child that runs to the end, a thread that goes on asking."""
    await lease.exec_py("mark = 1")
    code = """
import os, signal, threading
def late(*_): raise TimeoutError
signal.signal(signal.SIGALRM, late)
signal.setitimer(signal.ITIMER_REAL, 0.2)
try:
    ui.wait(1)
except TimeoutError:
    log('too long')
log(ui.size())
def watch():
    while True: ui.windows()
threading.Thread(target=watch).start()
child = os.fork()
log('parent' if child else 'child')
"""
    answer = await lease.exec_py(code)
    assert (text(answer), answer["error"]) == ("too long\n(1280, 800)\nparent\n", None)
    assert await kept(lease)


async def test_a_timeout_leaves_nothing_of_a_fork_bomb(world: World, lease: ClientLease):  # noqa: F811
    """Dead with all that it started, before the answer."""
    answer = await lease.exec_py((ATTACKS / "bomb.py").read_text(), timeout_ms=700)
    assert answer["error"]["type"] == "timeout"
    assert workers(world) == []
    assert (await lease.exec_py("1 + 1"))["state_lost"] is True
    assert len(workers(world)) == 1


def workers(world: World) -> list[int]:
    """Those of the daemon's processes that run the program of a worker."""
    assert world.process is not None
    found = []
    for pid in descendants(world.process.pid):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0] == b"/usr/bin/python3" and any(b"inside.main" in word for word in words):
            found.append(pid)
    return found


async def events(lines: Lines) -> list[tuple[str, dict[str, Any]]]:
    """All that come; the last is the end."""
    found: list[tuple[str, dict[str, Any]]] = []
    while not found or found[-1][0] not in ("done", "error"):
        name, data = await lines.data()
        found.append((name, json.loads(data)))
    await lines.drain()
    return found


async def test_output_is_told_as_it_comes(client: BodyClient, lease: ClientLease):  # noqa: F811
    """Text while the code still runs, pictures, and the outcome last, without what was told."""
    code = "log('begun')\nui.wait(1)\ndisplay(ui.screenshot())\n'over'"
    body = {"code": code, "stream": True}
    async with client._streamed("POST", PATH, body, lease.token) as lines:
        first = await lines.data()
        assert (first[0], json.loads(first[1])) == ("text", {"text": "begun\n"})
        image, last, done = await events(lines)
    assert image[1]["image_url"].startswith("data:image/png;base64,")
    assert last == ("text", {"text": "'over'\n"})
    assert done[0] == "done"
    assert (done[1]["ui_calls"], done[1]["error"], "output" in done[1]) == (2, None, False)


async def test_a_stream_is_refused_with_a_status(client: BodyClient, lease: ClientLease):  # noqa: F811
    """As the blocking call is; an exception in code is an outcome."""
    with pytest.raises(LeaseRequired):
        async with client._streamed("POST", PATH, {"code": "1", "stream": True}, "") as lines:
            await lines.data()
    async with client._streamed("POST", PATH, {"code": "1 / 0", "stream": True}, lease.token) as lines:
        ((name, told),) = await events(lines)
    assert (name, told["error"]["type"]) == ("done", "exception")


async def test_leaving_a_stream_ends_its_code(world: World, lease: ClientLease):  # noqa: F811
    """The process dies, and the audit has how the call ended."""
    where = urlsplit(world.url)
    headers = {
        "authorization": f"Bearer {read_token(world.config.state / 'private', Scope.OWNER)}",
        "content-type": "application/json",
        "bodyd-lease": lease.token,
    }
    body = json.dumps({"code": "print('begun')\nwhile True: pass", "stream": True})

    def begin_and_leave() -> None:
        with closing(http.client.HTTPConnection(str(where.hostname), where.port, timeout=20)) as connection:
            connection.request("POST", PATH, body, headers)
            with connection.getresponse() as response:
                assert response.readline() == b"event: text\n"
                assert len(workers(world)) == 1

    await trio.to_thread.run_sync(begin_and_leave)
    await until(lambda: workers(world) == [])
    assert (await lease.exec_py("1"))["state_lost"] is True
    with read_audit(world.config.state / "private") as audit:
        ends = [entry.data["end"] for entry in audit.tail(100) if entry.kind == "code.ended"]
    assert ends[-2:] == ["cancelled", "ended"]
