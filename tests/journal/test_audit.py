"""Reading the audit from another process, as `bodyd audit` does."""

from __future__ import annotations

import sqlite3

import pytest

from bodyd.errors import JournalUnavailable
from bodyd.journal import audit
from bodyd.journal.audit import read_audit


async def test_the_audit_is_read_while_the_daemon_writes(journal, directory):
    """What is committed is seen, and nobody waits for anybody."""
    await journal.audit("lease.granted", {"epoch": 1})
    with read_audit(directory) as reader:
        assert reader.tail(1)[0].kind == "lease.granted"
        head = await journal.checkpoint()
        await journal.audit("lease.released", {"epoch": 1})
        assert reader.tail(1)[0].kind == "lease.released"
        verdict = reader.verify([head])
        assert (verdict.sound, verdict.rows, verdict.proven) == (True, head.seq + 1, head.seq)


async def test_the_audit_is_read_after_the_daemon_has_ended(reopen, directory):
    """Nothing that reading leaves behind keeps it from starting again."""
    async with reopen() as journal:
        await journal.audit("lease.granted", {"epoch": 1})
    with read_audit(directory) as reader:
        assert reader.verify().sound
        assert reader.tail(1)[0].kind == "lease.granted"
    async with reopen() as journal:
        assert [e.kind for e in await journal.tail(2)] == ["lease.granted", "journal.opened"]


async def test_a_reader_can_not_write(journal, directory):
    """By its connection, not by its manners."""
    await journal.audit("lease.granted", {"epoch": 1})
    with pytest.raises(JournalUnavailable, match="can't be written"), read_audit(directory) as reader:
        reader._connection.execute("DELETE FROM requests")


def test_where_there_is_no_journal_it_says_so(directory):
    """And makes none."""
    directory.mkdir()
    with pytest.raises(JournalUnavailable, match=r"journal\.db"), read_audit(directory):
        pass
    assert list(directory.iterdir()) == []


def test_a_database_of_another_program_has_no_audit(directory):
    """Said as the daemon says it."""
    directory.mkdir()
    connection = sqlite3.connect(directory / "journal.db")
    connection.execute("CREATE TABLE audit (n)")
    connection.close()
    with pytest.raises(JournalUnavailable, match="not one of bodyd's"), read_audit(directory):
        pass


def test_a_database_that_no_start_has_made_yet_has_no_audit(directory):
    """A reader migrates nothing."""
    directory.mkdir()
    (directory / "journal.db").touch()
    with pytest.raises(JournalUnavailable, match="start bodyd on it once"), read_audit(directory):
        pass


async def test_the_command_prints_rows_and_the_verdict(journal, directory, capsys):
    """One line a row; exit 0 for a sound chain, 1 for a broken one."""
    await journal.audit("lease.granted", {"epoch": 1})
    head = await journal.checkpoint()
    assert audit.main(directory, what="tail", count=1) == 0
    assert capsys.readouterr().out.split()[2:] == ["lease.granted", '{"epoch":1}']
    assert audit.main(directory, what="verify", checkpoints=[str(head)]) == 0
    assert "proven to row" in capsys.readouterr().out
    other = f"{head.seq}:{'0' * 64}"
    assert audit.main(directory, what="verify", checkpoints=[other]) == 1
    assert "BROKEN" in capsys.readouterr().out


async def test_a_forged_row_is_found(reopen, directory, capsys):
    """By one who dropped the trigger and put it back."""
    async with reopen() as journal:
        await journal.audit("lease.granted", {"epoch": 1})
        await journal.audit("lease.released", {"epoch": 1})
    connection = sqlite3.connect(directory / "journal.db", isolation_level=None)
    name = "audit_rows_keep_their_words"
    [trigger] = connection.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (name,)).fetchone()
    connection.execute(f"DROP TRIGGER {name}")
    connection.execute("UPDATE audit SET data = '{\"epoch\":2}' WHERE kind = 'lease.granted'")
    connection.execute(trigger)
    connection.close()
    assert audit.main(directory, what="verify") == 1
    assert "is not what was written" in capsys.readouterr().out
