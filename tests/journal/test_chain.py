"""The audit's chain: what it shows, and what it says it can't."""

from __future__ import annotations

import sqlite3

import pytest

from bodyd.journal import chain, schema
from bodyd.journal.chain import Checkpoint, Verdict, Verifier


@pytest.fixture
def rows():
    """A database with ten audit rows, whose triggers a forger has dropped."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for statement in schema.JOURNAL.migrations[0]:
        connection.execute(statement)
    for n in range(10):
        chain.append(connection, "test.happened", {"n": n}, at=1000 + n)
    connection.execute("DROP TRIGGER audit_rows_stay")
    connection.execute("DROP TRIGGER audit_rows_keep_their_words")
    yield connection
    connection.close()


def verify(connection: sqlite3.Connection, *checkpoints: Checkpoint) -> Verdict:
    verifier = Verifier(checkpoints)
    while found := chain.chunk(connection, verifier.position, 3):
        if not verifier.feed(found):
            break
    return verifier.verdict()


def rewrite(connection: sqlite3.Connection, start: int) -> None:
    """What a forger with the whole file does: every digest from *start* on made anew."""
    previous = connection.execute("SELECT hash FROM audit WHERE seq = ?", (start - 1,)).fetchone()[0]
    for seq, at, kind, data, _ in chain.chunk(connection, start - 1, 100):
        previous = chain.link(previous, seq, at, kind, data)
        connection.execute("UPDATE audit SET hash = ? WHERE seq = ?", (previous, seq))


def test_an_untouched_chain_is_sound_and_says_what_it_can_not_prove(rows):
    """Ten rows hang together; without a checkpoint, none is proved against a rewrite."""
    verdict = verify(rows)
    assert (verdict.sound, verdict.rows, verdict.proven) == (True, 10, 0)
    assert "no checkpoint was given" in str(verdict)
    assert "the last 10 rows were not rewritten" in str(verdict)


def test_an_empty_chain_is_sound():
    """There is nothing to break."""
    assert Verifier().verdict() == Verdict(0, Checkpoint(0, chain.GENESIS), None, 0)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit SET data = '{\"n\":99}' WHERE seq = 5",
        "UPDATE audit SET at = at + 1 WHERE seq = 5",
        "UPDATE audit SET kind = 'test.forged' WHERE seq = 5",
        "UPDATE audit SET hash = (SELECT hash FROM audit WHERE seq = 4) WHERE seq = 5",
    ],
)
def test_a_changed_row_is_found_at_its_place(rows, statement):
    """Any column, any value."""
    rows.execute(statement)
    verdict = verify(rows)
    assert (verdict.sound, verdict.rows) == (False, 4)
    assert "row 5 is not what was written" in str(verdict)


def test_a_removed_row_is_found(rows):
    """With or without closing the gap that it leaves."""
    rows.execute("DELETE FROM audit WHERE seq = 5")
    assert verify(rows).fault == "row 5 is missing (the next one is 6)"
    rows.execute("UPDATE audit SET seq = seq - 1 WHERE seq > 5")
    assert verify(rows).fault == "row 5 is not what was written, or not in its place"


def test_a_removed_beginning_is_found(rows):
    """The chain starts at row 1, behind a digest that nothing has."""
    rows.execute("DELETE FROM audit WHERE seq < 4")
    assert verify(rows).fault == "row 1 is missing (the next one is 4)"


def test_two_rows_that_changed_places_are_found(rows):
    """Order is part of what is digested."""
    rows.execute("UPDATE audit SET seq = 100 WHERE seq = 5")
    rows.execute("UPDATE audit SET seq = 5 WHERE seq = 6")
    rows.execute("UPDATE audit SET seq = 6 WHERE seq = 100")
    assert verify(rows).fault == "row 5 is not what was written, or not in its place"


def test_a_tail_that_was_cut_off_shows_against_a_checkpoint_alone(rows):
    """Said in the verdict: what came since the last checkpoint can't be proved."""
    head = chain.head(rows)
    rows.execute("DELETE FROM audit WHERE seq > 7")
    assert verify(rows).sound
    assert "none was cut off" in str(verify(rows))
    assert (
        verify(rows, head).fault == "the chain ends here, but a checkpoint names row 10: the tail was cut off"
    )


def test_a_chain_that_was_rewritten_shows_against_a_checkpoint_alone(rows):
    """A digest without a key is no proof against one who can write the whole file."""
    head = chain.head(rows)
    rows.execute("UPDATE audit SET data = '{}' WHERE seq = 5")
    rewrite(rows, 5)
    assert verify(rows).sound
    assert verify(rows, head).fault == (
        "row 10 is not the one that its checkpoint names: the chain was rewritten"
    )


def test_a_checkpoint_proves_the_rows_up_to_it(rows):
    """What follows is the undetectable tail, and the verdict counts it."""
    middle = Checkpoint(4, rows.execute("SELECT hash FROM audit WHERE seq = 4").fetchone()[0])
    verdict = verify(rows, middle)
    assert (verdict.sound, verdict.proven) == (True, 4)
    assert "proven to row 4 by a checkpoint" in str(verdict)
    assert "the last 6 rows" in str(verdict)


def test_rows_after_a_fault_are_not_looked_at(rows):
    """The first fault is the one that is told."""
    rows.execute("UPDATE audit SET at = 0 WHERE seq IN (2, 3)")
    assert "row 2" in str(verify(rows))


def test_a_checkpoint_is_read_as_it_was_written(rows):
    """And what is none is refused with what one looks like."""
    head = chain.head(rows)
    assert Checkpoint.parse(f" {head}\n") == head
    for text in ("", "7", "x:y", f"-1:{'0' * 64}", f"7:{'G' * 64}", f"7:{'0' * 63}"):
        with pytest.raises(ValueError, match="SEQ:HASH"):
            Checkpoint.parse(text)


def test_the_database_itself_refuses_to_change_or_drop_a_row():
    """A bug in bodyd can't rewrite the audit."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for statement in schema.JOURNAL.migrations[0]:
        connection.execute(statement)
    chain.append(connection, "test.happened", {}, at=1)
    for statement in ("DELETE FROM audit", "UPDATE audit SET at = 2"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(statement)
    connection.close()


def test_the_tail_is_the_last_rows_oldest_first(rows):
    """As `bodyd audit tail` prints them."""
    assert [(e.seq, e.at, e.data) for e in chain.tail(rows, 2)] == [(9, 1008, {"n": 8}), (10, 1009, {"n": 9})]
