"""Kept screenshots: once by content, within a budget, for a time, and none of a blanked epoch."""

from __future__ import annotations

import os
import sqlite3
from functools import partial
from pathlib import Path

import pytest

from bodyd.config import JournalConfig
from bodyd.errors import JournalUnavailable
from bodyd.journal.journal import Journal, open_journal

from .batches import KEY, NOW, capture, fixed_clock, receipt, request

BUDGET = 16 * 1024 * 1024
MIB = 1024 * 1024


@pytest.fixture
def small(directory):
    """A journal that keeps 16 MiB of images, the least that may be configured."""
    settings = JournalConfig(image_bytes=BUDGET)
    return partial(open_journal, directory, clock=fixed_clock(), settings=settings, key=KEY)


async def kept(journal: Journal, upto: int) -> list[int]:
    return [n for n in range(upto) if await journal.screenshot(f"shot-{n}") is not None]


def size(directory: Path) -> int:
    return sum((directory / name).stat().st_size for name in ("images.db", "images.db-wal"))


async def test_a_kept_screenshot_is_given_back_as_it_was(reopen):
    """Facts by id, pixels by hash, also after a restart."""
    shot, png = capture(1)
    async with reopen() as journal:
        assert await journal.put_screenshot(shot, png)
        assert await journal.screenshot("shot-1") == shot
    async with reopen() as journal:
        assert await journal.screenshot("shot-1") == shot
        assert await journal.image(shot.sha256) == png
        assert await journal.screenshot("shot-2") is None
        assert await journal.image("0" * 64) is None


async def test_the_same_pixels_are_kept_once(journal, directory):
    """A screen that stands still costs a row of facts a look."""
    png = os.urandom(MIB)
    for number in range(20):
        await journal.put_screenshot(*capture(number, png))
    assert size(directory) < 3 * MIB
    assert await kept(journal, 20) == list(range(20))


async def test_the_oldest_leave_when_the_budget_is_reached(small, directory):
    """Facts and pixels together; the newest is always kept, and the file stops growing."""
    async with small() as journal:
        for number in range(24):
            shot, png = capture(number, os.urandom(MIB))
            await journal.put_screenshot(shot, png)
            assert await journal.image(shot.sha256) == png
        assert await kept(journal, 24) == list(range(9, 24))
    assert (directory / "images.db").stat().st_size < BUDGET + 4 * MIB


async def test_pixels_live_as_long_as_any_screenshot_names_them(small):
    """The picture of the first look is also that of a later one."""
    standing = os.urandom(MIB)
    first, _ = capture(0, standing)
    async with small() as journal:
        await journal.put_screenshot(first, standing)
        for number in range(1, 20):
            await journal.put_screenshot(*capture(number, standing if number == 10 else os.urandom(MIB)))
        assert 0 not in await kept(journal, 20)
        assert await journal.image(first.sha256) == standing
        for number in range(20, 32):
            await journal.put_screenshot(*capture(number, os.urandom(MIB)))
        assert await journal.image(first.sha256) is None


async def test_facts_count_for_the_budget_too(small):
    """A still screen watched for a month must not fill the disk with rows."""
    async with small() as journal:
        await journal.put_screenshot(*capture(0))
        await journal._pictures.write(lambda c: c.execute("UPDATE usage SET bytes = ?", (BUDGET - 1,)))
        await journal.put_screenshot(*capture(1))
        assert await kept(journal, 2) == [1]


async def test_what_alone_is_over_the_budget_is_refused(small):
    """And nothing that was kept left for it."""
    async with small() as journal:
        await journal.put_screenshot(*capture(0))
        with pytest.raises(JournalUnavailable, match="image_bytes"):
            await journal.put_screenshot(*capture(1, bytes(BUDGET + 1)))
        assert await kept(journal, 2) == [0]


async def test_screenshots_older_than_the_retention_go(journal):
    """With their pixels, unless a younger one shows the same."""
    old = NOW - 31 * 86_400_000
    await journal.put_screenshot(*capture(0, b"gone", at=old))
    await journal.put_screenshot(*capture(1, b"same", at=old))
    await journal.put_screenshot(*capture(2, b"same"))
    await journal.prune()
    assert await kept(journal, 3) == [2]
    assert await journal.image(capture(0, b"gone")[0].sha256) is None
    assert await journal.image(capture(1, b"same")[0].sha256) == b"same"


async def test_a_lowered_budget_gives_the_space_back(reopen, small, directory):
    """At the next capture the oldest go, at the next house-keeping the file shrinks."""
    async with reopen() as journal:
        for number in range(24):
            await journal.put_screenshot(*capture(number, os.urandom(MIB)))
    async with small() as journal:
        await journal.put_screenshot(*capture(24))
        await journal.prune()
    assert (directory / "images.db").stat().st_size < BUDGET * 1.3


async def test_a_blanked_epoch_is_erased_and_nothing_of_it_is_kept(reopen, directory):
    """Not in the tables, not in the free pages, not in the WAL, and not after a restart."""
    secret = b"what a person saw: " + os.urandom(MIB)
    async with reopen() as journal:
        await journal.put_screenshot(*capture(0, epoch=1))
        await journal.put_screenshot(*capture(1, secret, epoch=2))
        assert await journal.forget_epoch(2) == 1
        assert await kept(journal, 2) == [0]
        assert not await journal.put_screenshot(*capture(2, secret, epoch=2))
        assert await kept(journal, 3) == [0]
        for name in ("images.db", "images.db-wal"):
            assert secret[:200] not in (directory / name).read_bytes()
        [row] = await journal.tail(1)
        assert (row.kind, row.data) == ("screenshots.blanked", {"epoch": 2, "screenshots": 1})
    async with reopen() as journal:
        assert not await journal.put_screenshot(*capture(3, epoch=2))


async def test_erasing_is_not_claimed_while_a_reader_keeps_the_old_pages(journal, directory):
    """The rows are gone; that their bytes are, too, is said only when it is so."""
    await journal.put_screenshot(*capture(1, epoch=2))
    reader = sqlite3.connect(directory / "images.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM images").fetchall()
    with pytest.raises(JournalUnavailable, match="keeps erased pages"):
        await journal.forget_epoch(2)
    assert await journal.screenshot("shot-1") is None
    reader.close()
    await journal.forget_epoch(2)
    assert (directory / "images.db-wal").stat().st_size == 0


async def test_the_replay_of_a_request_carries_its_screenshot(journal):
    """However the door said which one it was."""
    for number in (1, 2, 3):
        asked = request(f"req-{number}")
        await journal.begin(journal.intent(asked, conversation_id="conv", lease_id="lease"))
        shot, png = capture(number)
        done = receipt(asked)
        if number == 1:
            await journal.put_screenshot(shot, png, request_id=asked.request_id)
        else:
            await journal.put_screenshot(shot, png)
        if number == 2:
            done = done.model_copy(update={"screenshot": shot})
        await journal.finish(asked.request_id, done)
        if number == 3:
            await journal.attach_screenshot(shot.screenshot_id, asked.request_id)
        replay = await journal.receipt(asked.request_id)
        assert replay is not None
        assert replay.screenshot == shot


async def test_pixels_whose_bits_have_turned_are_not_given_out(journal):
    """A picture that is not what was captured is no picture."""
    shot, png = capture(1)
    await journal.put_screenshot(shot, png)
    await journal._pictures.write(lambda c: c.execute("UPDATE images SET png = X'00'"))
    await journal._pictures.write(lambda c: c.execute("UPDATE screenshots SET facts = '{}'"))
    with pytest.raises(JournalUnavailable, match="damaged"):
        await journal.image(shot.sha256)
    with pytest.raises(JournalUnavailable, match="damaged"):
        await journal.screenshot("shot-1")


async def test_a_full_image_store_does_not_stop_the_requests(journal):
    """Two files: what fails in one is told there, and there alone."""
    await journal._pictures.read(lambda c: c.execute("PRAGMA max_page_count = 1"))
    with pytest.raises(JournalUnavailable, match=r"images\.db: no space is left"):
        await journal.put_screenshot(*capture(1, os.urandom(MIB)))
    asked = request()
    await journal.begin(journal.intent(asked, conversation_id="conv", lease_id="lease"))
    await journal.finish("req-1", receipt(asked).model_copy(update={"screenshot": capture(1)[0]}))
    assert await journal.receipt("req-1") is not None
