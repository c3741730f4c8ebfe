"""The journal as the door, the lease and the daemon use it."""

from __future__ import annotations

import hashlib
import json
import stat
from pathlib import Path

import pytest
import trio

from bodyd.contract.receipts import Outcome
from bodyd.errors import JournalUnavailable, RequestConflict
from bodyd.journal import database
from bodyd.journal.chain import Checkpoint, Entry
from bodyd.journal.intents import Intent
from bodyd.journal.journal import Conflict, Journal, New, Replay, Unfinished, open_journal

from .batches import CLICK, NOW, capture, fixed_clock, receipt, request

SECRET = "correct-horse-battery"


def intent(journal: Journal, of) -> Intent:
    return journal.intent(of, conversation_id="conv", lease_id="lease")


async def begin(journal: Journal, of) -> New:
    begun = await journal.begin(intent(journal, of))
    assert isinstance(begun, New)
    return begun


async def fill(journal: Journal) -> None:
    """Leave no page for anything new, as a full disk does."""
    await journal._database.read(lambda c: c.execute("PRAGMA max_page_count = 1"))


async def make_room(journal: Journal) -> None:
    await journal._database.read(lambda c: c.execute("PRAGMA max_page_count = 1000000"))


def long_request(request_id: str):
    """One whose intent needs pages of its own."""
    return request(request_id, *[{**CLICK, "x": n} for n in range(64)])


# -- one id is one act ---------------------------------------------------------------------------


async def test_a_new_id_begins_and_its_receipt_is_replayed_from_then_on(journal):
    """The same id and body again: the stored answer, marked as such, and nothing to dispatch."""
    asked = request()
    begun = await begin(journal, asked)
    begun.dispatching().reached(1)
    await journal.finish("req-1", receipt(asked))
    again = await journal.begin(intent(journal, asked))
    assert again == Replay(receipt(asked).model_copy(update={"replayed": True}))
    assert await journal.receipt("req-1") == again.receipt
    assert await journal.lookup("req-1", intent(journal, asked).fingerprint) == again.receipt


async def test_the_same_id_with_another_body_is_refused(journal):
    """Before and after it has a receipt, whoever asks."""
    await begin(journal, request())
    other = intent(journal, request("req-1", {**CLICK, "x": 5}))
    assert await journal.begin(other) == Conflict()
    await journal.finish("req-1", receipt(request()))
    assert await journal.begin(other) == Conflict()
    with pytest.raises(RequestConflict, match="another body"):
        await journal.lookup("req-1", other.fingerprint)


async def test_an_id_that_runs_is_unfinished(journal):
    """It is begun once; the second asker waits for the receipt."""
    asked = request()
    await begin(journal, asked)
    assert await journal.begin(intent(journal, asked)) == Unfinished()
    assert await journal.unfinished() == [intent(journal, asked)]
    assert await journal.receipt("req-1") is None
    with pytest.raises(JournalUnavailable, match="no receipt yet"):
        await journal.lookup("req-1", intent(journal, asked).fingerprint)


async def test_what_was_never_asked_is_not_known(journal):
    """Neither a receipt nor an error."""
    assert await journal.lookup("req-1", intent(journal, request()).fingerprint) is None
    assert await journal.receipt("req-1") is None
    assert await journal.unfinished() == []


async def test_a_second_receipt_is_a_bug_and_the_first_one_stays(journal):
    """Exactly one truth for each id; the same truth twice is no harm."""
    asked = request()
    await begin(journal, asked)
    await journal.finish("req-1", receipt(asked))
    await journal.finish("req-1", receipt(asked))
    with pytest.raises(LookupError, match="another receipt"):
        await journal.finish("req-1", receipt(asked, Outcome.FAILED))
    with pytest.raises(LookupError, match="never begun"):
        await journal.finish("req-2", receipt(request("req-2")))
    with pytest.raises(LookupError, match="can't finish"):
        await journal.finish("req-2", receipt(asked))
    found = await journal.receipt("req-1")
    assert found is not None
    assert found.outcome is Outcome.CONFIRMED
    await begin(journal, request("req-3"))


# -- what a restart finds ------------------------------------------------------------------------


async def test_receipts_lease_and_audit_are_there_after_a_restart(reopen):
    """What was durable is durable; nothing is left to recover."""
    asked = request()
    async with reopen() as journal:
        await begin(journal, asked)
        await journal.finish("req-1", receipt(asked))
        await journal.save_lease({"epoch": 4, "state": "held"})
        head = await journal.checkpoint()
    async with reopen() as journal:
        assert journal.recovered == ()
        assert await journal.receipt("req-1") == receipt(asked).model_copy(update={"replayed": True})
        assert await journal.load_lease() == {"epoch": 4, "state": "held"}
        verdict = await journal.verify([head])
        assert (verdict.sound, verdict.proven) == (True, head.seq)


async def test_an_unfinished_request_gets_its_one_receipt_at_the_next_start(reopen):
    """Before anything else may begin, and only once."""
    typed = request("req-1", CLICK, {"type": "type", "text": SECRET})
    async with reopen() as journal:
        marks = (await begin(journal, typed)).dispatching()
        marks.reached(1)
        marks.note(1, 9)
        await begin(journal, request("req-2"))
    async with reopen() as journal:
        assert [r.request_id for r in journal.recovered] == ["req-1", "req-2"]
        first, second = journal.recovered
        assert [i.delivery.outcome for i in first.inputs] == [Outcome.CONFIRMED, Outcome.UNCERTAIN]
        assert first.inputs[1].delivery.sent.units == 9
        assert second.inputs[0].delivery.reason == "not_attempted"
        assert await journal.receipt("req-1") == first.model_copy(update={"replayed": True})
        assert [e.kind for e in await journal.tail(3)] == [
            "action.recovered",
            "action.recovered",
            "journal.opened",
        ]
    async with reopen() as journal:
        assert journal.recovered == ()


async def test_a_crash_before_recovery_is_over_leaves_the_traces_for_the_next_start(reopen, monkeypatch):
    """The progress file is begun anew only after the receipts are durable."""
    async with reopen() as journal:
        (await begin(journal, request())).dispatching().reached(1)
    with monkeypatch.context() as patched:
        patched.setattr("bodyd.journal.journal.recover", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            async with reopen():
                pass
    async with reopen() as journal:
        assert journal.recovered[0].delivery is Outcome.CONFIRMED


async def test_a_lost_progress_file_makes_the_unfinished_uncertain(reopen, directory):
    """It is an aid: without it nothing is claimed."""
    async with reopen() as journal:
        await begin(journal, request())
    (directory / "progress").unlink()
    async with reopen() as journal:
        assert journal.recovered[0].delivery is Outcome.UNCERTAIN


# -- the audit goes with it ----------------------------------------------------------------------


async def test_every_step_of_a_request_is_in_the_audit(journal):
    """Requested with its facts, completed with its outcomes and the digest of its receipt."""
    asked = request()
    await begin(journal, asked)
    await journal.finish("req-1", receipt(asked))
    requested, completed = await journal.tail(2)
    assert (requested.kind, completed.kind) == ("action.requested", "action.completed")
    assert requested.data["inputs"] == [
        {"type": "click", "units": 3, "facts": {"x": 3, "y": 4, "button": "left"}}
    ]
    assert completed.data["inputs"] == [["click", "confirmed", 3, 3, None, "confirmed"]]
    assert len(completed.data["receipt_sha256"]) == 64


async def test_a_request_that_was_refused_or_failed_to_begin_leaves_no_row(journal):
    """The row and what it tells of are one transaction."""
    await begin(journal, request())
    head = await journal.checkpoint()
    await journal.begin(intent(journal, request("req-1", CLICK, CLICK)))
    await fill(journal)
    with pytest.raises(JournalUnavailable):
        await journal.begin(intent(journal, long_request("req-2")))
    await make_room(journal)
    assert await journal.checkpoint() == head


async def test_any_room_can_append_to_the_audit(journal):
    """It gets the row's place back."""
    seq = await journal.audit("lease.granted", {"epoch": 3})
    [entry] = await journal.tail(1)
    assert entry == Entry(seq, NOW, "lease.granted", {"epoch": 3}, entry.hash)
    assert (await journal.checkpoint()).seq == seq


# -- nothing that was typed ----------------------------------------------------------------------


async def test_no_typed_text_is_in_any_file(reopen, directory):
    """Typed, pasted, pressed or expected; as it is, as UTF-16, or as a digest that could be guessed."""
    asked = request(
        "req-1",
        {"type": "type", "text": SECRET},
        {"type": "paste", "text": SECRET},
        {**CLICK, "expect": {"field": "clipboard", "equals": SECRET}},
        *[{"type": "keypress", "keys": [letter]} for letter in SECRET],
    )
    async with reopen() as journal:
        marks = (await begin(journal, asked)).dispatching()
        marks.note(0, 3)
        await journal.finish("req-1", receipt(asked))
        await journal.put_screenshot(*capture(1), request_id="req-1")
        await begin(journal, request("req-2", {"type": "type", "text": SECRET}))
        while_open = _bytes_of(directory)
    after = _bytes_of(directory)
    async with reopen():
        recovered = _bytes_of(directory)
    digest = hashlib.sha256(SECRET.encode())
    body = hashlib.sha256(json.dumps(asked.model_dump(mode="json"), sort_keys=True).encode())
    forms = [SECRET.encode(), SECRET.encode("utf-16-le"), SECRET[::-1].encode()]
    forms += [f for d in (digest, body) for f in (d.digest(), d.hexdigest().encode())]
    pressed = json.dumps(list(SECRET), separators=(",", ":")).encode()
    for held in (while_open, after, recovered):
        assert b"req-1" in held
        for form in [*forms, pressed]:
            assert form not in held


def _bytes_of(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(directory.iterdir()))


# -- a journal that can't be written -------------------------------------------------------------


async def test_a_full_disk_refuses_the_intent(journal):
    """Nothing durable, nothing to dispatch; with room again, the same id begins."""
    await fill(journal)
    with pytest.raises(JournalUnavailable, match="no space is left"):
        await journal.begin(intent(journal, long_request("req-1")))
    await make_room(journal)
    await begin(journal, long_request("req-1"))


async def test_a_receipt_that_found_no_room_is_owed_before_anything_else_begins(journal):
    """The door can't go on over an act whose receipt is not durable."""
    asked = long_request("req-1")
    await begin(journal, asked)
    await fill(journal)
    with pytest.raises(JournalUnavailable, match="not durable yet"):
        await journal.finish("req-1", receipt(asked))
    with pytest.raises(JournalUnavailable, match="no space is left"):
        await journal.begin(intent(journal, request("req-2")))
    with pytest.raises(JournalUnavailable, match="no space is left"):
        await journal.check()
    await make_room(journal)
    await begin(journal, request("req-2"))
    assert await journal.receipt("req-1") == receipt(asked).model_copy(update={"replayed": True})
    await journal.check()


async def test_a_disk_without_room_for_a_commit_is_no_healthy_journal(journal, monkeypatch):
    """Health says so before the first request is refused: an empty transaction alone finds no room, too."""
    await journal.check()
    monkeypatch.setattr(database, "SPARE_BYTES", 1 << 62)
    with pytest.raises(JournalUnavailable, match="no space is left"):
        await journal.check()


async def test_an_owed_receipt_is_written_when_it_is_asked_for(journal):
    """The caller that repeats its request gets the answer as soon as there is room."""
    asked = long_request("req-1")
    await begin(journal, asked)
    await fill(journal)
    with pytest.raises(JournalUnavailable):
        await journal.finish("req-1", receipt(asked))
    await make_room(journal)
    found = await journal.lookup("req-1", intent(journal, asked).fingerprint)
    assert found == receipt(asked).model_copy(update={"replayed": True})


async def test_a_receipt_whose_bits_have_turned_is_not_told(journal):
    """What the journal can't vouch for is an error, never an answer."""
    asked = request()
    await begin(journal, asked)
    await journal.finish("req-1", receipt(asked))
    await journal._database.write(
        lambda c: c.execute("UPDATE requests SET receipt = replace(receipt, 'confirmed', 'confirned')")
    )
    with pytest.raises(JournalUnavailable, match="'req-1' is damaged"):
        await journal.receipt("req-1")


# -- cancellation --------------------------------------------------------------------------------


async def test_a_cancelled_begin_is_not_begun(journal):
    """Cancelled before its start: nothing happened."""
    with trio.CancelScope() as scope:
        scope.cancel(reason="the caller has gone")
        await journal.begin(intent(journal, request()))
    assert scope.cancelled_caught
    assert await journal.unfinished() == []


async def test_a_finish_outlives_its_caller(journal):
    """A hung-up client must not cost the receipt."""
    asked = request()
    await begin(journal, asked)
    with trio.CancelScope() as scope:
        scope.cancel(reason="the caller has gone")
        await journal.finish("req-1", receipt(asked))
    assert await journal.receipt("req-1") is not None


# -- the directory -------------------------------------------------------------------------------


async def test_the_directory_and_every_file_are_private(journal, directory):
    """0700 and 0600, the WALs too, whatever the umask."""
    await journal.put_screenshot(*capture(1))
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}
    assert set(modes) >= {"journal.db", "journal.db-wal", "images.db", "images.db-wal", "progress"}
    assert set(modes.values()) == {0o600}


async def test_a_second_daemon_is_kept_out(journal, reopen):
    """Two writers would both hold epoch n + 1."""
    with pytest.raises(JournalUnavailable, match="another bodyd"):
        async with reopen():
            pass


async def test_a_short_key_is_a_bug(directory):
    """Digests of typed texts are worth what their key is."""
    from bodyd.config import JournalConfig

    with pytest.raises(ValueError, match="key has 3 bytes"):
        async with open_journal(directory, clock=fixed_clock(), settings=JournalConfig(), key=b"abc"):
            pass
    assert not directory.exists()


# -- retention -----------------------------------------------------------------------------------


async def test_receipts_older_than_the_retention_go_and_the_audit_stays(reopen):
    """Those of the newest epoch stay, too: its lease may still be held, and the id be asked for again."""
    old = NOW - 31 * 86_400_000
    async with reopen() as journal:
        for number, epoch, at in ((1, 1, old), (2, 1, NOW), (3, 2, old)):
            asked = request(f"req-{number}", epoch=epoch)
            await begin(journal, asked)
            await journal.finish(asked.request_id, receipt(asked, at=at))
        rows = (await journal.checkpoint()).seq
        await journal.prune()
        kept = [n for n in (1, 2, 3) if await journal.receipt(f"req-{n}") is not None]
        assert kept == [2, 3]
        assert (await journal.verify()).rows == rows
        await journal.prune(NOW + 31 * 86_400_000)
        assert [n for n in (1, 2, 3) if await journal.receipt(f"req-{n}") is not None] == [3]


async def test_the_house_is_kept_from_the_start_on_and_its_head_told(journal, nursery):
    """What is old goes at once, not after the first hour."""
    old = request(epoch=1)
    await begin(journal, old)
    await journal.finish("req-1", receipt(old, at=0))
    await begin(journal, request("req-2", epoch=2))
    told: list[Checkpoint] = []
    seen = trio.Event()

    def tell(head: Checkpoint) -> None:
        told.append(head)
        seen.set()

    nursery.start_soon(journal.keep_house, tell)
    await seen.wait()
    assert told == [await journal.checkpoint()]
    assert await journal.receipt("req-1") is None
