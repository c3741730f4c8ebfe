"""One word says how far a batch came."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bodyd.journal.traces import (
    MAX_INDEX,
    MAX_SEQUENCE,
    MAX_UNITS,
    SLOTS,
    Reached,
    Unknown,
    encode,
    trace,
)


@given(st.integers(1, MAX_SEQUENCE), st.integers(0, MAX_INDEX), st.integers(0, 2 * MAX_UNITS), st.booleans())
def test_a_word_says_what_was_put_into_it(sequence, index, units, exact):
    """Units beyond the room are clamped: a lower bound stays one."""
    words = [0] * SLOTS
    words[sequence % SLOTS] = encode(sequence, index, units, exact=exact)
    assert words[sequence % SLOTS] < 1 << 64
    assert trace(words, sequence) == Reached(index, min(units, MAX_UNITS), exact)


def test_an_older_batch_in_the_slot_proves_that_the_younger_never_started():
    """Sequences only grow, and the first mark comes before the first atom."""
    words = [0] * SLOTS
    words[5] = encode(5, 0, 1, exact=False)
    assert trace(words, 5 + SLOTS) is Unknown.NEVER_STARTED
    assert trace(words, 6) is Unknown.NEVER_STARTED


def test_a_younger_batch_in_the_slot_leaves_nothing_known_of_the_older():
    """Its trace is gone, which is not the same as never having been."""
    words = [0] * SLOTS
    words[5] = encode(5 + SLOTS, 0, 0, exact=True)
    assert trace(words, 5) is Unknown.OVERWRITTEN


@pytest.mark.parametrize(
    ("sequence", "index", "units"),
    [(0, 0, 0), (MAX_SEQUENCE + 1, 0, 0), (1, MAX_INDEX + 1, 0), (1, -1, 0), (1, 0, -1)],
)
def test_what_has_no_room_is_refused(sequence, index, units):
    """A word that said something else would be a lie."""
    with pytest.raises(ValueError, match="no trace"):
        encode(sequence, index, units, exact=True)
