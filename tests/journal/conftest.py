"""A journal in a fresh directory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import pytest

from bodyd.config import JournalConfig
from bodyd.journal.journal import Journal, open_journal

from .batches import KEY, fixed_clock

Opener = Callable[[], AbstractAsyncContextManager[Journal]]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "private"


@pytest.fixture
def reopen(directory: Path) -> Opener:
    """Opens the journal of this test's directory, as often as it takes."""
    return partial(open_journal, directory, clock=fixed_clock(), settings=JournalConfig(), key=KEY)


@pytest.fixture
async def journal(reopen: Opener) -> AsyncIterator[Journal]:
    async with reopen() as opened:
        yield opened
