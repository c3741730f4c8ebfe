"""The clipboard, both ways, against a real other client."""

from __future__ import annotations

import subprocess
from contextlib import closing
from functools import partial

import pytest
import trio
from Xlib import X, Xatom
from Xlib.protocol import event

from bodyd.display import clipboard as clipboard_module
from bodyd.display.display import Display
from bodyd.errors import TooLarge, Unavailable

from .world import XServer, until

TEXTS = {
    "short": "Привет 美国降息 🍑🍆𝕥𝕖𝕤𝕥💦 ÀàÆØÅ€\nsecond line\t.",
    "64 KiB": "漢字かな🍑é" * 3600,
    "1 MiB": "0123456789abcde漢" * 64_000,
}


async def take(server: XServer) -> str:
    """What another client gets from the clipboard."""
    app = server.run("xclip", "-selection", "clipboard", "-o", stdout=subprocess.PIPE)
    output, _ = await trio.to_thread.run_sync(lambda: app.communicate(timeout=30))
    return output.decode()


async def give(server: XServer, text: str) -> None:
    """Another client owns the clipboard."""
    app = server.run("xclip", "-selection", "clipboard", "-i", "-quiet", stdin=subprocess.PIPE)
    assert app.stdin is not None
    app.stdin.write(text.encode())
    app.stdin.close()
    x = server.connect()

    await until(lambda: x.display.get_selection_owner(x.atom("CLIPBOARD")))
    x.close()


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
async def test_what_is_written_can_be_pasted(server: XServer, display: Display, text: str) -> None:
    """Another client reads it whole, more than once, and so do we."""
    await display.write_clipboard(text)
    assert await take(server) == text
    assert await take(server) == text
    assert await display.read_clipboard() == text


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
async def test_what_is_copied_can_be_read(server: XServer, display: Display, text: str) -> None:
    """Another client's text, in one piece or in many."""
    await give(server, text)
    assert await display.read_clipboard() == text


async def test_an_empty_clipboard_is_empty(display: Display) -> None:
    """No owner, no text."""
    assert await display.read_clipboard() == ""


async def test_the_last_writer_wins(server: XServer, display: Display) -> None:
    """Ours, then theirs, then ours."""
    await display.write_clipboard("ours")
    await give(server, "theirs")

    async def theirs() -> bool:
        return await display.read_clipboard() == "theirs"

    await until(theirs)
    await display.write_clipboard("ours again")
    assert await take(server) == "ours again"


async def test_an_owner_that_hangs_is_reported(server: XServer, display: Display) -> None:
    """The reader is told within a moment; the next clipboard works."""
    silent = server.connect()
    window = silent.root.create_window(0, 0, 1, 1, 0, 0)
    window.set_selection_owner(silent.atom("CLIPBOARD"), 0)
    silent.display.sync()
    with pytest.raises(Unavailable, match="does not answer"):
        await display.read_clipboard()
    await display.write_clipboard("fresh")
    assert await display.read_clipboard() == "fresh"
    silent.close()


class Owner:
    """Another client that owns the clipboard, and answers in its own way."""

    def __init__(self, server: XServer, content: dict[str, bytes]) -> None:
        self.x = server.connect()
        self.content = content
        self.asked = 0
        self._window = self.x.root.create_window(0, 0, 1, 1, 0, 0)
        self._window.set_selection_owner(self.x.atom("CLIPBOARD"), 0)
        self.x.display.sync()

    async def answer(self, *, after: float, answers: int = 1000, pieces: bytes = b"") -> None:
        """Answer each question *after* seconds, *answers* of them; then hang up.

        With *pieces*, what is asked for comes bit by bit, and without end.
        """
        with closing(self.x):
            await self._answer(after, answers, pieces)

    async def _answer(self, after: float, answers: int, pieces: bytes) -> None:
        trickling: tuple[object, int] | None = None
        while self.asked < answers:
            await trio.sleep(0.005)
            for _ in range(self.x.display.pending_events()):
                happened = self.x.display.next_event()
                if happened.type == X.SelectionRequest:
                    self.asked += 1
                    await trio.sleep(after)
                    trickling = self._serve(happened, bool(pieces)) or trickling
            if trickling:
                await trio.sleep(after)
                trickling[0].change_property(trickling[1], self.x.atom("UTF8_STRING"), 8, pieces)
                self.x.display.sync()

    def _serve(self, wish: object, in_pieces: bool) -> tuple[object, int] | None:
        name = self.x.atom_name(wish.target)
        given = wish.property
        if name == "TARGETS":
            offered = [self.x.atom(target) for target in ("TARGETS", *self.content)]
            wish.requestor.change_property(given, Xatom.ATOM, 32, offered)
        elif in_pieces:
            wish.requestor.change_property(given, self.x.atom("INCR"), 32, [1 << 20])
        elif name in self.content:
            wish.requestor.change_property(given, wish.target, 8, self.content[name])
        else:
            given = X.NONE
        notice = event.SelectionNotify(
            time=wish.time,
            requestor=wish.requestor,
            selection=wish.selection,
            target=wish.target,
            property=given,
        )
        wish.requestor.send_event(notice)
        self.x.display.sync()
        return (wish.requestor, given) if in_pieces and name != "TARGETS" else None


KEPT = {"text/html": b"<b>kept</b>", "UTF8_STRING": "kept 漢".encode()}


async def test_an_answer_that_comes_late_is_no_answer_to_the_next_question(
    server: XServer, display: Display, nursery: trio.Nursery
) -> None:
    """What was asked for first, and given up, does not pass for what is asked for then."""
    owner = Owner(server, KEPT)
    clipboard = display._clipboard
    with pytest.raises(Unavailable):
        await clipboard._fetch("CLIPBOARD", "text/html")
    nursery.start_soon(partial(owner.answer, after=0.05))
    assert await clipboard._fetch("CLIPBOARD", "UTF8_STRING") == KEPT["UTF8_STRING"]
    assert await display.read_clipboard() == "kept 漢"
    assert owner.asked == 3
    nursery.cancel_scope.cancel()


async def test_an_owner_that_never_ends_is_given_up(
    server: XServer, display: Display, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It makes progress all the while: piece by piece."""
    monkeypatch.setattr(clipboard_module, "READ_SECONDS", 1.0)
    owner = Owner(server, KEPT)
    nursery.start_soon(partial(owner.answer, after=0.1, pieces=b"more"))
    with pytest.raises(Unavailable), trio.fail_after(30):
        await display.read_clipboard()
    nursery.cancel_scope.cancel()


async def test_a_text_beyond_the_limit_is_refused(display: Display) -> None:
    """16 MiB is the most."""
    with pytest.raises(TooLarge):
        await display.write_clipboard("x" * (16 * 1024 * 1024 + 1))


async def test_writing_survives_a_freeze(server: XServer, display: Display) -> None:
    """A new connection owns the clipboard when it is written again."""
    await display.write_clipboard("before")
    with server.frozen(), trio.move_on_after(0.05):
        await display.write_clipboard("during")
    await display.write_clipboard("after")
    assert await take(server) == "after"
