"""The lease's record: read back as it was saved, or not at all."""

from __future__ import annotations

import pytest

from bodyd.journal.leases import CorruptLease

from .batches import request


async def test_before_the_first_record_there_is_none(journal):
    """A new body: no claim, epoch 0."""
    assert await journal.load_lease() is None
    assert await journal.highest_epoch() == 0


async def test_the_last_record_is_the_one_that_is_loaded(journal):
    """Replaced as a whole."""
    await journal.save_lease({"epoch": 1, "state": "held", "claim": {"token_sha256": "ab"}})
    await journal.save_lease({"epoch": 2, "state": "vacant"})
    assert await journal.load_lease() == {"epoch": 2, "state": "vacant"}
    assert await journal.highest_epoch() == 2


async def test_an_epoch_never_goes_back(journal):
    """A record with a lower one is a bug, and what was saved stays."""
    await journal.save_lease({"epoch": 5})
    for epoch in (4, -1, "6"):
        with pytest.raises(ValueError, match="epochs only grow"):
            await journal.save_lease({"epoch": epoch})
    assert await journal.load_lease() == {"epoch": 5}


async def test_a_damaged_record_is_an_error_and_the_epoch_outlives_it(journal):
    """Fail closed, under a higher epoch than any that was granted."""
    await journal.save_lease({"epoch": 7, "state": "vacant"})
    await journal._database.write(lambda c: c.execute("UPDATE lease SET record = '{\"epoch\":1}'"))
    with pytest.raises(CorruptLease, match="damaged"):
        await journal.load_lease()
    assert await journal.highest_epoch() == 7


async def test_a_journalled_request_counts_for_the_highest_epoch(journal):
    """Even if the lease's own record never said so."""
    await journal.begin(journal.intent(request(epoch=9), conversation_id="conv", lease_id="lease"))
    assert await journal.highest_epoch() == 9
