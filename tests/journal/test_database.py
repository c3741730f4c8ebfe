"""Files that can't be used: a clear refusal that says what to do, and nothing recreated in silence."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import trio

from bodyd.config import JournalConfig
from bodyd.errors import JournalUnavailable
from bodyd.journal import schema
from bodyd.journal.database import BUSY_SECONDS, open_database
from bodyd.journal.journal import New, open_journal

from .batches import CLICK, KEY, capture, fixed_clock, receipt, request
from .conftest import Opener


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a journal that was used and closed, made once."""
    directory = tmp_path_factory.mktemp("template") / "private"

    async def use() -> None:
        settings = JournalConfig()
        async with open_journal(directory, clock=fixed_clock(), settings=settings, key=KEY) as journal:
            for number in range(50):
                asked = request(f"req-{number}", *[{**CLICK, "x": n} for n in range(10)])
                await journal.begin(journal.intent(asked, conversation_id="conv", lease_id="lease"))
                await journal.finish(asked.request_id, receipt(asked))
                await journal.put_screenshot(*capture(number, os.urandom(40_000)))

    trio.run(use)
    return directory


@pytest.fixture
def used(template: Path, directory: Path) -> Path:
    """This test's own copy of it."""
    shutil.copytree(template, directory)
    return directory


async def refused(reopen: Opener, match: str) -> None:
    with pytest.raises(JournalUnavailable, match=match):
        async with reopen():
            pass


def overwrite(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


# -- damage --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["journal.db", "images.db"])
async def test_what_is_not_a_database_is_refused_and_left_alone(used, reopen, name):
    """The message names the file, the fix and what the fix costs."""
    overwrite(used / name, 0, b"this was a database" * 10)
    before = (used / name).read_bytes()
    await refused(
        reopen, rf"{name} is damaged .*restore a backup, or move .* away to start anew, which loses"
    )
    assert (used / name).read_bytes() == before


@pytest.mark.parametrize("name", ["journal.db", "images.db"])
async def test_flipped_bytes_in_the_pages_are_found_at_the_start(used, reopen, name):
    """Every page is checked before the first request, for an index that lies lets an act happen twice."""
    page = 4096 if name == "journal.db" else 16384
    overwrite(
        used / name, 3 * page, bytes(b ^ 0xFF for b in (used / name).read_bytes()[3 * page : 3 * page + 64])
    )
    await refused(reopen, f"{name} is damaged")


async def test_a_file_that_was_cut_is_refused(used, reopen):
    """Half a journal is none."""
    os.truncate(used / "journal.db", (used / "journal.db").stat().st_size // 8192 * 4096)
    await refused(reopen, r"journal\.db is damaged")


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TRIGGER audit_rows_stay",
        "DROP INDEX requests_unfinished",
        "ALTER TABLE requests ADD COLUMN more",
        "CREATE TABLE more (n)",
        "CREATE TRIGGER more AFTER INSERT ON audit BEGIN DELETE FROM requests; END",
    ],
)
async def test_other_tables_than_those_of_its_version_are_refused(used, reopen, statement):
    """Someone else has been here: a dropped trigger makes the audit less than it says it is."""
    connection = sqlite3.connect(used / "journal.db", isolation_level=None)
    connection.execute(statement)
    connection.close()
    await refused(reopen, "its tables are not those of its version")


async def test_a_text_that_is_no_text_is_damage(used, reopen):
    """Turned bits in a stored text come as JournalUnavailable, not as a bug."""
    async with reopen() as journal:
        await journal._database.write(
            lambda c: c.execute("UPDATE requests SET receipt = CAST(X'FF' AS TEXT)")
        )
        with pytest.raises(JournalUnavailable, match="damaged"):
            await journal.receipt("req-1")


# -- gaps ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("empty", [True, False])
async def test_a_journal_that_vanished_is_not_begun_anew(used, reopen, empty):
    """Epochs and request ids would repeat: what lies beside it shows that there was one."""
    (used / "journal.db").unlink()
    if empty:
        (used / "journal.db").touch()
    await refused(reopen, r"journal\.db is missing or empty, but images\.db, progress beside it")


async def test_a_first_start_that_was_cut_off_is_no_gap(directory, reopen):
    """An empty file alone is one that a crash kept from its tables."""
    directory.mkdir()
    (directory / "journal.db").touch()
    async with reopen() as journal:
        assert await journal.highest_epoch() == 0


async def test_lost_images_cost_the_screenshots_alone(used, reopen):
    """Moving the damaged file away, as the message says, is all that it takes."""
    for name in ("images.db", "images.db-wal", "images.db-shm"):
        (used / name).unlink(missing_ok=True)
    async with reopen() as journal:
        assert await journal.receipt("req-1") is not None
        assert await journal.screenshot("shot-1") is None


# -- versions ------------------------------------------------------------------------------------


async def test_a_newer_version_is_refused_with_the_way_out(used, reopen):
    """An older bodyd can't know what it would break."""
    connection = sqlite3.connect(used / "journal.db")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    await refused(reopen, r"newer bodyd \(version 99, this one knows 1\): install that bodyd again")


async def test_a_database_of_another_program_is_refused(directory, reopen):
    """Its tables are not to be mixed with ours."""
    directory.mkdir()
    connection = sqlite3.connect(directory / "journal.db")
    connection.execute("CREATE TABLE theirs (n)")
    connection.close()
    await refused(reopen, "not one of bodyd's")


async def test_an_older_version_is_migrated_step_by_step(tmp_path):
    """Each step whole or not at all; the rows stay."""
    first = schema.Schema((("CREATE TABLE a (n)", "INSERT INTO a VALUES (1)"),), 4096, False, "a")
    second = schema.Schema((*first.migrations, ("ALTER TABLE a ADD COLUMN m",)), 4096, False, "a")
    broken = schema.Schema((*second.migrations, ("CREATE TABLE b (n)", "no statement")), 4096, False, "a")
    path = tmp_path / "a.db"
    async with open_database(path, first, synchronous="NORMAL"):
        pass
    async with open_database(path, second, synchronous="NORMAL") as database:
        assert await database.read(lambda c: c.execute("SELECT n, m FROM a").fetchall()) == [(1, None)]
    with pytest.raises(sqlite3.OperationalError, match="syntax error"):
        async with open_database(path, broken, synchronous="NORMAL"):
            pass
    async with open_database(path, second, synchronous="NORMAL") as database:
        assert await database.read(lambda c: c.execute("PRAGMA user_version").fetchone()) == (2,)


# -- locks ---------------------------------------------------------------------------------------


async def test_a_locked_database_refuses_in_bounded_time_and_heals(used, reopen):
    """Another program's transaction: no request begins over it, and the next one after it does."""
    asked = request("req-new")
    async with reopen() as journal:
        other = sqlite3.connect(used / "journal.db", isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        intent = journal.intent(asked, conversation_id="conv", lease_id="lease")
        with trio.fail_after(20 * BUSY_SECONDS):
            with pytest.raises(JournalUnavailable, match="another program holds its lock"):
                await journal.begin(intent)
        other.execute("ROLLBACK")
        other.close()
        assert isinstance(await journal.begin(intent), New)


async def test_a_database_that_is_locked_at_the_start_is_refused(used, reopen):
    """Someone has the journal open exclusively: say so."""
    other = sqlite3.connect(used / "journal.db", isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN IMMEDIATE")
    await refused(reopen, "another program holds its lock")
    other.close()


# -- disks ---------------------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Mounts a small disk of its own, as only root can."""
    mounted: list[Path] = []

    def mount(*options: str) -> Path:
        target = tmp_path / "disk"
        target.mkdir(exist_ok=True)
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", ",".join(("mode=0700", *options)), "tmpfs", str(target)],
            capture_output=True,
        )
        if done.returncode:
            pytest.skip(f"no disk can be mounted here: {done.stderr.decode().strip()}")
        mounted.append(target)
        return target

    yield mount
    for target in mounted:
        subprocess.run(["umount", str(target)], check=True)


async def test_a_disk_that_fills_up_refuses_intents_and_loses_no_receipt(disk):
    """Everything that was acknowledged is there when there is room again, and nothing else is."""
    target = disk("size=2m")
    opened = partial(open_journal, target / "private", clock=fixed_clock(), settings=JournalConfig(), key=KEY)
    begun: list[str] = []
    finished: list[str] = []
    async with opened() as journal:
        with pytest.raises(JournalUnavailable, match="no space is left"):
            await _fill(journal, begun, finished)
    assert len(begun) > 20
    assert len(begun) - len(finished) <= 1
    await trio.run_process(["mount", "-o", "remount,size=8m", str(target)])
    async with opened() as journal:
        for request_id in begun:
            assert await journal.receipt(request_id) is not None
        lost = {r.request_id for r in journal.recovered}
        assert lost == set(begun) - set(finished)
        assert (await journal.verify()).sound
        await journal.check()


async def _fill(journal, begun: list[str], finished: list[str]) -> None:
    for number in range(10_000):
        asked = request(f"req-{number}", *[{**CLICK, "x": n} for n in range(64)])
        begun_now = await journal.begin(journal.intent(asked, conversation_id="conv", lease_id="lease"))
        begun.append(asked.request_id)
        begun_now.dispatching().reached(64)
        await journal.finish(asked.request_id, receipt(asked))
        finished.append(asked.request_id)


async def test_a_full_disk_at_the_start_is_refused(disk):
    """Before anything is begun: the progress file gets its blocks at once."""
    target = disk("size=64k")
    (target / "ballast").write_bytes(bytes(60 * 1024))
    with pytest.raises(JournalUnavailable, match="private"):
        async with open_journal(target / "private", clock=fixed_clock(), settings=JournalConfig(), key=KEY):
            pass


async def test_a_read_only_disk_is_refused(disk):
    """With what to look at."""
    target = disk("size=2m")
    opened = partial(open_journal, target / "private", clock=fixed_clock(), settings=JournalConfig(), key=KEY)
    async with opened():
        pass
    await trio.run_process(["mount", "-o", "remount,ro", str(target)])
    with pytest.raises(JournalUnavailable, match=r"journal\.db: .*[Rr]ead-only|can't be (opened|written)"):
        async with opened():
            pass


# -- the directory -------------------------------------------------------------------------------


async def test_a_directory_of_another_user_is_refused(directory, reopen):
    """Whoever owns it could change the journal at will."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory away")
    directory.mkdir()
    os.chown(directory, 12345, 12345)
    await refused(reopen, "belongs to uid 12345")


async def test_a_link_in_the_directory_s_place_is_refused(directory, reopen, tmp_path):
    """Not followed."""
    (tmp_path / "elsewhere").mkdir()
    directory.symlink_to(tmp_path / "elsewhere")
    await refused(reopen, "can't be used as the journal's directory")


async def test_a_link_in_a_file_s_place_is_refused(directory, reopen, tmp_path):
    """Nor there."""
    directory.mkdir()
    (directory / "journal.db").symlink_to(tmp_path / "elsewhere")
    await refused(reopen, r"journal\.db")
    assert not (tmp_path / "elsewhere").exists()


async def test_an_open_directory_is_made_private(directory, reopen):
    """It is ours: closing it is all that is needed."""
    directory.mkdir(mode=0o755)
    async with reopen():
        assert directory.stat().st_mode & 0o777 == 0o700


# -- the one thread ------------------------------------------------------------------------------


async def test_work_on_one_file_never_overlaps(tmp_path):
    """A connection is not made for two threads at once."""
    one = schema.Schema((("CREATE TABLE a (n)",),), 4096, False, "a")
    inside: list[int] = []

    def work(connection: sqlite3.Connection) -> None:
        inside.append(len(inside))
        connection.execute("INSERT INTO a VALUES (?)", (inside.pop(),))

    async with open_database(tmp_path / "a.db", one, synchronous="NORMAL") as database:
        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(database.write, work)
        assert await database.read(lambda c: c.execute("SELECT sum(n), count(*) FROM a").fetchone()) == (
            0,
            50,
        )


async def test_an_intent_is_synced_and_a_picture_is_not(reopen):
    """FULL: a commit outlives the machine. NORMAL: it outlives the process, at a tenth of the price."""

    def mode(connection: sqlite3.Connection) -> tuple[object, ...]:
        return tuple(connection.execute(f"PRAGMA {n}").fetchone()[0] for n in ("journal_mode", "synchronous"))

    async with reopen() as journal:
        assert await journal._database.read(mode) == ("wal", 2)
        assert await journal._pictures.read(mode) == ("wal", 1)


async def test_work_that_fails_leaves_nothing_behind(tmp_path):
    """Bugs stay what they are, and their transaction is undone."""
    one = schema.Schema((("CREATE TABLE a (n)",),), 4096, False, "a")

    def work(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO a VALUES (1)")
        raise KeyError("a bug")

    async with open_database(tmp_path / "a.db", one, synchronous="NORMAL") as database:
        with pytest.raises(KeyError):
            await database.write(work)
        with pytest.raises(sqlite3.OperationalError, match="no such table"):
            await database.read(lambda c: c.execute("SELECT * FROM b"))
        assert await database.read(lambda c: c.execute("SELECT count(*) FROM a").fetchone()) == (0,)
