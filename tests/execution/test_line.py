"""The worker's end of the wire, over a real socket pair: what goes out, and in which frames."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from bodyd.contract import code as bounds
from bodyd.execution.inside import line as inside
from bodyd.execution.inside.line import HEAD, Line, Revoked, UIError


class Daemon:
    """The other end, by hand."""

    def __init__(self, wire: socket.socket) -> None:
        self.wire = wire
        wire.settimeout(20)

    def send(self, head: dict[str, Any], tail: bytes = b"") -> None:
        text = json.dumps(head).encode()
        self.wire.sendall(HEAD.pack(len(text), len(tail)) + text + tail)

    def read(self) -> tuple[dict[str, Any], bytes]:
        size, tail = HEAD.unpack(self._exactly(HEAD.size))
        head: dict[str, Any] = json.loads(self._exactly(size))
        return head, self._exactly(tail)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += self.wire.recv(size - len(data))
        return data


@pytest.fixture
def ends() -> Iterator[tuple[Line, Daemon]]:
    theirs, ours = socket.socketpair()
    with theirs, ours:
        daemon = Daemon(ours)
        line = Line(theirs)
        daemon.send({"call": 7, "code": "1"})
        assert line.next() == "1"
        yield line, daemon


def test_its_bounds_are_the_bodys() -> None:
    """The program inside can't import them."""
    assert inside.MAX_TEXT == bounds.MAX_TEXT_BYTES
    assert inside.MAX_IMAGES == bounds.MAX_IMAGE_BYTES
    assert inside.MAX_ITEMS == bounds.MAX_ITEMS


def test_many_prints_are_one_frame(ends: tuple[Line, Daemon]) -> None:
    """And it comes by itself, though nothing else is sent."""
    line, daemon = ends
    for n in range(100):
        line.text(f"{n}\n")
    text = ""
    frames = 0
    while not text.endswith("99\n"):
        text += daemon.read()[0]["text"]
        frames += 1
    assert text.split() == [str(n) for n in range(100)]
    assert frames < 20


def test_text_goes_before_what_comes_after_it(ends: tuple[Line, Daemon]) -> None:
    """A picture, and the end; what is too much is counted and not sent."""
    line, daemon = ends
    line.text("first")
    line.send({"op": "image"}, b"picture")
    line.text("x" * (2 * inside.MAX_TEXT))
    line.text("nothing of this")
    line.omit_image()
    line.end(None)
    assert daemon.read()[0]["text"] == "first"
    assert daemon.read() == ({"call": 7, "op": "image"}, b"picture")
    sent, left_out, images = "", 0, 0
    while (head := daemon.read()[0])["op"] != "done":
        sent, left_out = sent + head["text"], left_out + head["omitted"]
        images += head["omitted_images"]
    assert len("first" + sent) == inside.MAX_TEXT
    assert (left_out, images) == (5 + inside.MAX_TEXT + len("nothing of this"), 1)


def test_nothing_is_said_or_asked_between_calls(ends: tuple[Line, Daemon]) -> None:
    """By whatever a call has left running."""
    line, daemon = ends
    line.end("why")
    assert daemon.read()[0] == {"call": 7, "op": "done", "error": "why"}
    line.text("late")
    line.send({"op": "image"}, b"late")
    with pytest.raises(Revoked):
        line.ask("settle")
    daemon.wire.setblocking(False)
    with pytest.raises(BlockingIOError):
        daemon.wire.recv(1)


def test_an_answer_that_nobody_waits_for_is_passed_over(ends: tuple[Line, Daemon]) -> None:
    """An alarm ended the wait for it; neither the next question nor the next call takes it for its own."""
    line, daemon = ends
    daemon.send({"ask": 0, "value": "of an earlier one"})
    daemon.send({"ask": 1, "value": "mine"}, b"tail")
    assert line.ask("windows") == ("mine", b"tail")
    daemon.send({"ask": 2, "error": {"message": "no", "code": "busy", "over": False}})
    with pytest.raises(UIError, match="no"):
        line.ask("windows")
    line.end(None)
    daemon.send({"ask": 9, "value": "too late"})
    daemon.send({"call": 8, "code": "2"})
    assert line.next() == "2"


def test_a_call_ends_after_what_its_threads_asked(ends: tuple[Line, Daemon]) -> None:
    """Else their answer would be taken for the next call."""
    line, daemon = ends
    answers: list[Any] = []
    asking = threading.Thread(target=lambda: answers.append(line.ask("settle")))
    asking.start()
    assert daemon.read()[0]["op"] == "settle"
    ending = threading.Thread(target=lambda: line.end(None))
    ending.start()
    daemon.send({"ask": 1, "value": "done"})
    asking.join(20)
    ending.join(20)
    assert answers == [("done", b"")]
    assert daemon.read()[0]["op"] == "done"


def test_a_forked_child_has_no_say(ends: tuple[Line, Daemon]) -> None:
    """It has no socket; the end of its code is its own end."""
    line, daemon = ends
    line.text("waiting in the buffer")
    child = os.fork()
    if child == 0:
        try:
            line.text("said by a child")
            line.send({"op": "image"}, b"shown by a child")
            line.end(None)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    line.end(None)
    assert daemon.read()[0]["text"] == "waiting in the buffer"
    assert daemon.read()[0]["op"] == "done"
