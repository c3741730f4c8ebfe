"""The clipboard, both ways, against a real other client."""

from __future__ import annotations

import subprocess

import pytest
import trio

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
