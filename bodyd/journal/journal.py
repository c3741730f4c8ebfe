"""The journal as the rest of bodyd sees it: durable before the effect, truthful after a crash.

Counterparts: the door (requests, screenshots), the lease (its record), the daemon (audit, prune).
Files: journal.db (a commit outlives the machine), images.db (it outlives the process), progress.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import trio

from bodyd.clock import Clock
from bodyd.config import JournalConfig
from bodyd.contract.actions import InputRequest
from bodyd.contract.receipts import Receipt
from bodyd.contract.screenshots import Screenshot
from bodyd.errors import JournalUnavailable, RequestConflict

from . import chain, history, images, intents, leases, requests, schema, screenshots
from .chain import Checkpoint, Entry, Verdict, Verifier
from .database import Database, open_database
from .directory import IMAGES_FILE, JOURNAL_FILE, PROGRESS_FILE, claimed
from .intents import Intent
from .progress import Marks, Progress, open_progress
from .recovery import recover
from .requests import Conflict, Found, Running, Stored

T = TypeVar("T")

FINISH_SECONDS = 5.0
HOUSE_SECONDS = 3600.0
PRUNE_ROWS = 200
PRUNE_PAGES = 512
VERIFY_ROWS = 1000
DAY_MS = 86_400_000
MINIMUM_KEY = 16


@dataclass(frozen=True, slots=True)
class New:
    """The intent is durable and nothing has been sent.

    Call `dispatching` right before the first atom, and note what was acknowledged in the marks it
    returns: without that call, a restart will say that nothing was ever sent.
    """

    sequence: int
    _progress: Progress

    def dispatching(self) -> Marks:
        return self._progress.marks(self.sequence)


@dataclass(frozen=True, slots=True)
class Replay:
    """This id was done, with this body; the receipt says `replayed`."""

    receipt: Receipt


@dataclass(frozen=True, slots=True)
class Unfinished:
    """This id was begun, with this body, and is running: wait for its receipt."""


Begun = New | Replay | Conflict | Unfinished


class Journal:
    """Made by `open_journal`. Every method may raise JournalUnavailable.

    Attributes:
        recovered: The receipts that this start made for batches which a crash left unfinished.
    """

    def __init__(
        self,
        database: Database,
        pictures: Database,
        progress: Progress,
        *,
        clock: Clock,
        settings: JournalConfig,
        key: bytes,
    ) -> None:
        self._database = database
        self._pictures = pictures
        self._progress = progress
        self._clock = clock
        self._settings = settings
        self._key = key
        self._owed: dict[str, Receipt] = {}
        self.recovered: tuple[Receipt, ...] = ()

    # -- requests --------------------------------------------------------------------------------

    def intent(self, request: InputRequest, *, conversation_id: str, lease_id: str) -> Intent:
        """The intent of *request*: its fingerprint and its facts, texts as length and digest."""
        return intents.make_intent(
            request,
            conversation_id=conversation_id,
            lease_id=lease_id,
            created_at=self._clock.wall_ms(),
            key=self._key,
        )

    async def lookup(self, request_id: str, fingerprint: str) -> Receipt | None:
        """The receipt that this request has already, before anything else is checked; None: it is new.

        Raises:
            RequestConflict: the id was used with another body.
            JournalUnavailable: it was begun, and its receipt is not written yet.
        """
        match await self._read(lambda c: requests.find(c, request_id, fingerprint)):
            case None:
                return None
            case Stored(receipt=receipt):
                return await self._with_screenshot(receipt)
            case Conflict():
                raise RequestConflict(
                    f"request id {request_id!r} was already used with another body; use a new id",
                    param="request_id",
                )
            case Running():
                raise JournalUnavailable(f"request {request_id!r} has no receipt yet; ask again in a moment")

    async def begin(self, intent: Intent) -> Begun:
        """Make *intent* durable, if its id is new. Ids are unique per body, whoever asks.

        Raises:
            JournalUnavailable: nothing is durable; send nothing.
        Cancellation:
            Atomic: begun, and New is returned, or nothing happened.
        """

        def work(connection: sqlite3.Connection) -> Found | int:
            found = requests.find(connection, intent.request_id, intent.fingerprint)
            return requests.begin(connection, intent) if found is None else found

        match await self._write(work):
            case int() as sequence:
                return New(sequence, self._progress)
            case Stored(receipt=receipt):
                return Replay(await self._with_screenshot(receipt))
            case Running():
                return Unfinished()
            case Conflict() as conflict:
                return conflict

    async def finish(self, request_id: str, receipt: Receipt) -> None:
        """Make the one receipt of *request_id* durable.

        Raises:
            JournalUnavailable: it is not. It is kept in memory, and no new request begins before it
                is written.
            LookupError: the request was never begun, or has another receipt.
        Cancellation:
            Shielded, bounded by FINISH_SECONDS: a receipt must not be lost with its reader.
        """
        if receipt.request_id != request_id:
            raise LookupError(f"the receipt of {receipt.request_id!r} can't finish {request_id!r}")
        try:
            with trio.fail_after(FINISH_SECONDS, shield=True):
                await self._write(lambda c: requests.finish(c, receipt))
        except (JournalUnavailable, trio.TooSlowError) as exc:
            self._owed[request_id] = receipt
            raise JournalUnavailable(f"the receipt of {request_id!r} is not durable yet: {exc}") from exc
        if receipt.screenshot is not None:
            with suppress(JournalUnavailable):  # the receipt is safe; only its replay will lack the picture
                await self.attach_screenshot(receipt.screenshot.screenshot_id, request_id)

    async def receipt(self, request_id: str) -> Receipt | None:
        """The durable receipt, marked `replayed`; None while there is none."""
        found = await self._read(lambda c: requests.receipt(c, request_id))
        return None if found is None else await self._with_screenshot(found)

    async def history(self, *, before: int | None, limit: int) -> list[dict[str, Any]]:
        """What was done, newest first, below the sequence *before*: see history.py."""
        return await self._read(lambda c: history.recent(c, before=before, limit=limit))

    async def unfinished(self) -> list[Intent]:
        """What was begun and has no receipt; none right after a start."""
        return [item.intent for item in await self._read(requests.unfinished)]

    async def _with_screenshot(self, receipt: Receipt) -> Receipt:
        shot = await self._pictures.read(lambda c: screenshots.of_request(c, receipt.request_id))
        return receipt if shot is None else receipt.model_copy(update={"screenshot": shot})

    # -- the lease's record ----------------------------------------------------------------------

    async def load_lease(self) -> dict[str, Any] | None:
        """The record saved last; None before the first.

        Raises:
            CorruptLease: it is not what was saved: fail closed.
        """
        return await self._read(leases.load)

    async def save_lease(self, record: Mapping[str, Any]) -> None:
        """Make *record* durable; its `epoch` may only grow.

        Cancellation:
            Atomic.
        """
        await self._write(lambda c: leases.save(c, record))

    async def highest_epoch(self) -> int:
        """The highest epoch of any record or request so far; 0 for none."""
        return await self._read(leases.highest_epoch)

    # -- screenshots -----------------------------------------------------------------------------

    async def put_screenshot(self, shot: Screenshot, png: bytes, *, request_id: str | None = None) -> bool:
        """Keep a capture, its pixels once by hash, the oldest leaving for it.

        Args:
            request_id: The request whose answer carries it, so that its replay does, too.
        Returns:
            False if the epoch is blanked: nothing was kept.
        """
        budget = self._settings.image_bytes
        return await self._pictures.write(
            lambda c: screenshots.put(c, shot, png, request_id=request_id, budget=budget)
        )

    async def attach_screenshot(self, screenshot_id: str, request_id: str) -> None:
        """Let the replay of a request carry a screenshot that is kept already."""
        await self._pictures.write(lambda c: screenshots.attach(c, screenshot_id, request_id))

    async def screenshot(self, screenshot_id: str) -> Screenshot | None:
        """The facts; None if they are not (or no longer) kept."""
        return await self._pictures.read(lambda c: screenshots.get(c, screenshot_id))

    async def image(self, sha256: str) -> bytes | None:
        """The PNG; None if it is not (or no longer) kept."""
        return await self._pictures.read(lambda c: images.get(c, sha256))

    async def forget_epoch(self, epoch: int) -> int:
        """Blank an epoch: erase its screenshots from the disk, and keep none of it from now on.

        Call it when a person takes the body, before their first frame.

        Returns:
            How many screenshots went.
        """
        count = await self._pictures.write(lambda c: screenshots.blank(c, epoch), erase=True)
        await self.audit("screenshots.blanked", {"epoch": epoch, "screenshots": count})
        return count

    # -- the audit -------------------------------------------------------------------------------

    async def audit(self, kind: str, data: Mapping[str, Any]) -> int:
        """Append a durable row; returns its place. *data* holds no secret, typed text or output."""
        at = self._clock.wall_ms()
        return (await self._write(lambda c: chain.append(c, kind, data, at=at))).seq

    def sealed(self, text: str, salt: str) -> dict[str, Any]:
        """Length and keyed digest of *text*, as rows of the audit may have them; *salt* is used once."""
        return intents.sealed(text, self._key, salt)

    async def checkpoint(self) -> Checkpoint:
        """The chain's head, to be sent off the machine."""
        return await self._read(chain.head)

    async def tail(self, count: int) -> tuple[Entry, ...]:
        """The last *count* rows, oldest first."""
        return await self._read(lambda c: chain.tail(c, count))

    async def verify(self, checkpoints: Sequence[Checkpoint] = ()) -> Verdict:
        """Walk the whole chain, a bite at a time: requests go on in between.

        Cancellation:
            At every bite; nothing is changed in any case.
        """
        verifier = Verifier(checkpoints)
        while rows := await self._database.read(lambda c: chain.chunk(c, verifier.position, VERIFY_ROWS)):
            if not verifier.feed(rows):
                break
        return verifier.verdict()

    # -- keeping house ---------------------------------------------------------------------------

    async def prune(self, now: int | None = None) -> None:
        """Let go what is older than the retention, a bite at a time. The audit stays whole.

        Args:
            now: Unix milliseconds; the clock's by default.
        """
        before = (self._clock.wall_ms() if now is None else now) - self._settings.retention_days * DAY_MS
        while await self._write(lambda c: requests.prune(c, before=before, limit=PRUNE_ROWS)):
            pass
        while await self._pictures.write(lambda c: screenshots.prune(c, before=before, limit=PRUNE_ROWS)):
            pass
        budget = self._settings.image_bytes
        while await self._pictures.read(lambda c: images.shrink(c, budget=budget, pages=PRUNE_PAGES)):
            pass

    async def keep_house(self, tell: Callable[[Checkpoint], None]) -> None:
        """Now and once an hour: prune, and tell the audit's head, to be kept off the machine.

        A journal that can't be written is no reason to end: `check` says so to whoever asks.
        """
        while True:
            with suppress(JournalUnavailable):
                await self.prune()
                tell(await self.checkpoint())
            await trio.sleep(HOUSE_SECONDS)

    async def check(self) -> None:
        """Prove that both files can be written now, and that no receipt is owed.

        Raises:
            JournalUnavailable: which one can't, and why.
        """
        await self._write(lambda c: None)
        await self._pictures.write(lambda c: None)
        await self._database.check_room()

    # -- the two ways in -------------------------------------------------------------------------

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Read, after receipts that are still owed were written."""
        return await (self._write(work) if self._owed else self._database.read(work))

    async def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Write, and with it every receipt that is still owed."""
        owed = tuple(self._owed.values())

        def paying(connection: sqlite3.Connection) -> T:
            for receipt in owed:
                requests.finish(connection, receipt)
            return work(connection)

        value = await self._database.write(paying)
        for receipt in owed:
            self._owed.pop(receipt.request_id, None)
        return value

    async def _recover(self) -> None:
        """Give every batch that a crash left behind its one receipt, and trust the progress file anew."""
        words, trusted, now = self._progress.words(), self._progress.trusted, self._clock.wall_ms()

        def work(connection: sqlite3.Connection) -> tuple[Receipt, ...]:
            if chain.head(connection).seq == 0:
                chain.append(connection, "journal.created", {"nonce": secrets.token_hex(16)}, at=now)
            recovered = recover(requests.unfinished(connection), words, trusted=trusted, now=now)
            requests.finish_recovered(connection, recovered)
            chain.append(connection, "journal.opened", {"recovered": len(recovered)}, at=now)
            return tuple(item.receipt for item in recovered)

        self.recovered = await self._database.write(work)
        self._progress.begin_anew()


@asynccontextmanager
async def open_journal(
    directory: Path, *, clock: Clock, settings: JournalConfig, key: bytes
) -> AsyncIterator[Journal]:
    """Open or make the journal in *directory* (0700), and end what a crash left unfinished.

    Args:
        key: A secret of at least 16 bytes, kept for the body's life: fingerprints and the digests of
            typed texts are keyed with it.
    Raises:
        JournalUnavailable: the directory or a file can't be used; the message says what to do.
            Nothing damaged is ever recreated in silence.
    Cancellation:
        On the way out the files are closed under a shield, within seconds.
    """
    if len(key) < MINIMUM_KEY:
        raise ValueError(f"the journal's key has {len(key)} bytes; {MINIMUM_KEY} at least")
    async with AsyncExitStack() as stack:
        stack.enter_context(claimed(directory))
        database = await stack.enter_async_context(
            open_database(directory / JOURNAL_FILE, schema.JOURNAL, synchronous="FULL")
        )
        pictures = await stack.enter_async_context(
            open_database(directory / IMAGES_FILE, schema.IMAGES, synchronous="NORMAL")
        )
        progress = stack.enter_context(open_progress(directory / PROGRESS_FILE))
        journal = Journal(database, pictures, progress, clock=clock, settings=settings, key=key)
        await journal._recover()
        yield journal
